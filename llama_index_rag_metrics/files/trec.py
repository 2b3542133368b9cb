"""TREC's files: qrels, and topics in the classic <top> form or as two columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from llama_index_rag_metrics.files.dataset_content import DatasetContent, check_fits
from llama_index_rag_metrics.files.judgements import Judgements, format_grade
from llama_index_rag_metrics.files.lines import Faults, Place, read_lines, read_text, write_lines
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.atomic_files import is_broken
from llama_index_rag_metrics.runtime.errors import FormatTooNarrow

COMMENT = "#"

_NAME = "TREC's qrels and topics"
_SPACE = re.compile(r"[ \t\v\f\r]+")
_SPACES = re.compile(r"[ \t\v\f\r\n]")
_TOPIC = re.compile(r"<top>(.*?)(?:</top>|(?=<top>)|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number\s*:)?(.*?)(?=</?[a-z]|\Z)", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic\s*:)?(.*?)(?=</?[a-z]|\Z)", re.DOTALL | re.IGNORECASE)
_ID_HEADINGS = {"qid", "query_id", "query-id", "topic_id", "_id", "id"}
_QUERY_HEADINGS = {"query", "text", "title", "question"}


def read_qrels(
    path: Path,
    faults: Faults | None = None,
    known: Collection[str] | None = None,
    *,
    subtopics: bool = False,
) -> dict[str, Relevance]:
    """Read judgements, four columns; the second may be a subtopic, a facet as ndeval reads it."""
    faults, judgements = faults or Faults(), Judgements(known, "the id of a topic")
    expected = f"4 columns: {'topic, subtopic' if subtopics else 'query id, 0'}, document id, grade"

    def read(line: str, place: Place) -> None:
        columns = split_columns(line)
        if columns[0].startswith(COMMENT):
            return
        place.check(len(columns) == 4, expected, line)
        query_id, subtopic, document_id, grade = columns
        judgements.add(query_id, document_id, grade, place, subtopic if subtopics else None)

    faults.each(read_lines(path, faults), read)
    return judgements.relevance()


def qrels_rows(relevance: Mapping[str, Relevance]) -> list[str]:
    rows = []
    for query_id, judgements in relevance.items():
        for document_id, grade in judgements.grades.items():
            ids = fitting_query_id(query_id), fitting_id(document_id)
            if grade != int(grade):
                raise _narrow(f"the grade {grade}, since trec_eval cuts it off")
            rows.append(f"{ids[0]} 0 {ids[1]} {format_grade(grade)}")
    return rows


def split_columns(line: str) -> list[str]:
    """The columns of a line, with white space between them as C defines it."""
    return _SPACE.split(line.strip(" \t\v\f\r"))


def fitting_query_id(query_id: str) -> str:
    if query_id.startswith(COMMENT):
        raise _narrow(f"the id {query_id!r}, which begins a comment")
    return fitting_id(query_id)


def fitting_id(document_id: str) -> str:
    is_odd = not document_id or _SPACES.search(document_id) or document_id[0] == "\ufeff"
    if is_odd or is_broken(document_id):
        raise _narrow(f"the id {document_id!r}")
    return document_id


def read_topics(path: Path, faults: Faults | None = None) -> dict[str, str]:
    queries: dict[str, str] = {}
    faults = faults or Faults()

    def read(topic: tuple[str, str], place: Place) -> None:
        query_id, query = topic
        is_id = query_id and not _SPACE.search(query_id)
        place.check(is_id, "a topic id without spaces", query_id)
        place.check(query_id not in queries, "every topic id once", query_id)
        queries[query_id] = query

    first = next(read_lines(path, faults.apart()), None)
    are_blocks = first is not None and first[1].lstrip().startswith("<")
    faults.each((_blocks if are_blocks else _columns)(path, faults), read)
    return queries


def read_trec(
    qrels: Path, topics: Path, faults: Faults, *, subtopics: bool = False
) -> DatasetContent:
    queries = read_topics(topics, faults)
    judged = read_qrels(qrels, faults, queries, subtopics=subtopics)
    return DatasetContent(queries, judged, name=qrels.stem)


def write_trec(content: DatasetContent, qrels: Path, topics: Path, *, lossy: bool = False) -> None:
    check_fits(content, _NAME, ["grades", "document metadata"], lossy=lossy)
    topic_rows = []
    for query_id, query in content.queries.items():
        topic_rows.append(f"{fitting_id(query_id)}\t{query}")
        if re.search(r"[\t\r\n]", query) or is_broken(query):
            raise _narrow(f"the question {query!r}, which isn't one line")
    rows = qrels_rows(content.relevance)
    write_lines(topics, topic_rows)
    write_lines(qrels, rows)


def _blocks(path: Path, faults: Faults) -> Iterator[tuple[Place, tuple[str, str]]]:
    text = read_text(path)
    line, end = 1, 0
    for block in _TOPIC.finditer(text):
        line += text.count("\n", end, block.start())
        end = block.end()
        place = Place(str(path), line)
        line += text.count("\n", block.start(), end)
        number, title = _NUMBER.search(block[1]), _TITLE.search(block[1])
        if number is None or title is None:
            faults.take(place.wrong("a topic with <num> and <title>", " ".join(block[1].split())))
            continue
        yield place, (number[1].strip(), " ".join(title[1].split()))
    if not end:
        raise Place(str(path), 1).wrong("<top> … <num> … <title> … </top>", text[:80])


def _columns(path: Path, faults: Faults) -> Iterator[tuple[Place, tuple[str, str]]]:
    for place, line in read_lines(path, faults):
        query_id, tab, query = line.partition("\t")
        if not tab:
            faults.take(place.wrong("a topic id, a tab and a question", line))
            continue
        headings = query_id.strip().lower(), query.strip().lower()
        if place.line == 1 and headings[0] in _ID_HEADINGS and headings[1] in _QUERY_HEADINGS:
            continue
        yield place, (query_id, query)


def _narrow(loss: str) -> FormatTooNarrow:
    return FormatTooNarrow(_NAME, [loss], lossy=False)
