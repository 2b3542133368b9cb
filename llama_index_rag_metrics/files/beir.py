"""BEIR folders: corpus.jsonl, queries.jsonl and qrels/<split>.tsv, each of them gzipped or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.dataset_content import DatasetContent, check_fits
from llama_index_rag_metrics.files.fields import QUERY_ID
from llama_index_rag_metrics.files.judgements import Judgements, format_grade
from llama_index_rag_metrics.files.lines import (
    Faults,
    Place,
    from_json,
    read_lines,
    to_json,
    write_lines,
)
from llama_index_rag_metrics.files.records import (
    document_record,
    read_document,
    read_id,
    take,
    take_metadata,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.atomic_files import is_broken
from llama_index_rag_metrics.runtime.errors import FormatTooNarrow, InvalidInput

HEADER = ("query-id", "corpus-id", "score")
_SCORE_HEADINGS = {"score", "relevance", "rel", "grade", "label"}
_NAME = "a BEIR folder"


def is_beir(folder: Path) -> bool:
    return _find(folder, "queries.jsonl") is not None


def read_beir(folder: Path, split: str | None, faults: Faults) -> DatasetContent:
    """Read a BEIR folder, without the questions that only another split judges."""
    content = DatasetContent(name=folder.name)
    queries = _find(folder, "queries.jsonl") or folder / "queries.jsonl"
    _each_object(queries, faults, partial(read_query, content))
    if corpus := _find(folder, "corpus.jsonl"):
        content = read_corpus(corpus, content, faults)
    splits = {
        path.name.removesuffix(".gz").removesuffix(".tsv"): path
        for path in sorted((folder / "qrels").glob("*.tsv*"))
        if path.name.endswith((".tsv", ".tsv.gz"))
    }
    chosen = _choose(split, list(splits))
    if chosen is None:
        return content
    elsewhere = {
        query_id
        for other, path in splits.items()
        if other != chosen
        for query_id in read_judgements(path, faults.apart())
    }
    relevance = read_judgements(splits[chosen], faults, known=content.queries)
    for query_id in elsewhere - set(relevance):
        content.queries.pop(query_id, None)
        content.metadata.pop(query_id, None)
    content.relevance = relevance
    return content


def read_judgements(
    path: Path, faults: Faults, known: Collection[str] | None = None
) -> dict[str, Relevance]:
    """Read a file of qrels/: query id, document id and grade, with tabs between them."""
    grades = Judgements(known, "a query id of queries.jsonl")

    def read(line: str, place: Place) -> None:
        columns = line.split("\t")
        if len(columns) != len(HEADER):
            raise place.wrong("query-id, corpus-id and score, with tabs between them", line)
        query_id, document_id, grade = columns
        if place.line != 1 or grade.strip().lower() not in _SCORE_HEADINGS:
            grades.add(query_id, document_id, grade, place)

    faults.each(read_lines(path, faults), read)
    return grades.relevance()


def write_beir(
    content: DatasetContent, folder: Path, split: str = "test", *, lossy: bool = False
) -> None:
    check_fits(content, _NAME, ["grades", "metadata", "document metadata"], lossy=lossy)
    rows = list(judgement_rows(content.relevance))
    queries = (_query_line(content, query_id) for query_id in content.queries)
    write_lines(folder / "queries.jsonl", queries)
    write_corpus(content, folder / "corpus.jsonl")
    write_lines(folder / "qrels" / f"{split}.tsv", rows)


def read_corpus(
    path: Path, content: DatasetContent, faults: Faults | None = None
) -> DatasetContent:
    _each_object(path, faults or Faults(), partial(read_document, content))
    return content


def _each_object(path: Path, faults: Faults, read: Callable[[Any, Place], None]) -> None:
    lines = read_lines(path, faults)
    faults.each(lines, lambda line, place: read(from_json(line, place), place))


def read_query(content: DatasetContent, record: object, place: Place) -> None:
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise place.wrong('a question, {"_id": …, "text": …}', record)
    fields = {key: value for key, value in record.items() if value is not None}
    query_id = read_id(take(fields, QUERY_ID), place)
    if query_id in content.queries:
        raise place.wrong("every query id once", query_id)
    content.queries[query_id] = fields.pop("text")
    if metadata := take_metadata(fields):
        content.metadata[query_id] = metadata


def write_corpus(content: DatasetContent, path: Path) -> None:
    records = (document_record(content, document_id, "_id") for document_id in content.corpus)
    write_lines(path, map(to_json, records))


def _query_line(content: DatasetContent, query_id: str) -> str:
    record: dict[str, object] = {"_id": query_id, "text": content.queries[query_id]}
    if query_id in content.metadata:
        record["metadata"] = content.metadata[query_id]
    return to_json(record)


def judgement_rows(relevance: Mapping[str, Relevance]) -> Iterator[str]:
    """The lines of a file of qrels/, the headings first."""
    yield "\t".join(HEADER)
    for query_id, judgements in relevance.items():
        for document_id, grade in judgements.grades.items():
            for name in (query_id, document_id):
                if re.search(r"[\t\r\n]", name) or is_broken(name):
                    raise FormatTooNarrow(_NAME, [f"the id {name!r}"], lossy=False)
            yield f"{query_id}\t{document_id}\t{format_grade(grade)}"


def _choose(split: str | None, splits: list[str]) -> str | None:
    if split is None and "test" in splits:
        return "test"
    if split is None and len(splits) <= 1:
        return next(iter(splits), None)
    if split not in splits:
        raise InvalidInput("split", split, f"one of {sorted(splits)}")
    return split


def _find(folder: Path, name: str) -> Path | None:
    paths = (folder / name, folder / f"{name}.gz")
    return next((path for path in paths if path.is_file()), None)
