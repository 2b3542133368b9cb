"""TREC's files: qrels and runs.

Runs are ordered as by trec_eval: by score as 64-bit float, then by document id, both descending.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from llama_index_rag_metrics.files.lines import Place, each, raw_lines, read_lines
from llama_index_rag_metrics.files.records import Judgements, format_grade
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.atomic_files import is_broken
from llama_index_rag_metrics.runtime.errors import InvalidInput

COMMENT, BEGINS_COMMENT = "#", b"#"

_SPACE = re.compile(r"[ \t\v\f\r]+")
_SPACES = re.compile(r"[ \t\v\f\r\n]")


def read_qrels(path: Path) -> dict[str, Relevance]:
    """Read judgements, four columns of which the second says nothing."""
    judgements = Judgements()
    expected = "4 columns: query id, 0, document id, grade"

    def read(line: str, place: Place) -> None:
        columns = split_columns(line)
        if columns[0].startswith(COMMENT):
            return
        place.check(len(columns) == 4, expected, line)
        query_id, _, document_id, grade = columns
        judgements.add(query_id, document_id, grade, place)

    each(read_lines(path), read)
    return judgements.relevance()


def qrels_rows(relevance: Mapping[str, Relevance]) -> list[str]:
    rows = []
    for query_id, judgements in relevance.items():
        for document_id, grade in judgements.grades.items():
            ids = fitting_query_id(query_id), fitting_id(document_id)
            if grade != int(grade):
                raise _unfit("grade", grade, "a whole number, since trec_eval cuts off the rest")
            rows.append(f"{ids[0]} 0 {ids[1]} {format_grade(grade)}")
    return rows


def split_columns(line: str) -> list[str]:
    """The columns of a line, with white space between them as C defines it."""
    return _SPACE.split(line.strip(" \t\v\f\r"))


def fitting_query_id(query_id: str) -> str:
    if query_id.startswith(COMMENT):
        raise _unfit("query_id", query_id, "an id that doesn't begin a comment")
    return fitting_id(query_id)


def fitting_id(document_id: str) -> str:
    is_odd = not document_id or _SPACES.search(document_id) or document_id[0] == "\ufeff"
    if is_odd or is_broken(document_id):
        raise _unfit("id", document_id, "an id without white space")
    return document_id


def _unfit(argument: str, value: object, expected: str) -> InvalidInput:
    remedy = "TREC's format can't hold it; JSONL and Parquet hold everything."
    return InvalidInput(argument, value, expected, remedy)


_UNNAMED = "run"
ONCE = "every document once a question"


def by_score(scores: Mapping[str, float]) -> Ranking:
    pairs = sorted(((score, item) for item, score in scores.items()), reverse=True)
    return Ranking([item for _, item in pairs], [score for score, _ in pairs])


def ordering_scores(ranking: Ranking) -> list[float]:
    """The ranking's scores where they give its order, and else n, n - 1, …, 1."""
    numbers = [math.nan if score is None else float(score) for score in ranking.scores or ()]
    if len(numbers) == len(ranking.ids) and all(map(math.isfinite, numbers)):
        pairs = zip(numbers, ranking.ids, strict=True)
        if all(above > below for above, below in pairwise(pairs)):
            return numbers
    return [float(left) for left in range(len(ranking.ids), 0, -1)]


def read_trec_run(path: Path) -> tuple[dict[str, Ranking], str]:
    scores: dict[str, dict[str, float]] = {}
    tag = b""
    for number, query_id, item, score, its_tag in run_lines(raw_lines(path), path):
        tag = its_tag
        by_document = scores.setdefault(query_id, {})
        if item in by_document:
            raise Place(str(path), number).wrong(ONCE, f"{query_id} {item}")
        by_document[item] = score
    rankings = {query_id: by_score(by_document) for query_id, by_document in scores.items()}
    return rankings, tag.decode(errors="replace")


def run_lines(
    lines: Iterable[tuple[int, bytes]], path: Path
) -> Iterator[tuple[int, str, str, float, bytes]]:
    for number, raw in lines:
        columns = raw.split()  # of bytes: at the white space that C knows
        if not columns or columns[0].startswith(BEGINS_COMMENT):
            continue
        query_id, item, score = _run_columns(raw, columns, path, number)
        yield number, query_id, item, score, columns[5]


def _run_columns(
    raw: bytes, columns: Sequence[bytes], path: Path, number: int
) -> tuple[str, str, float]:
    # what follows the tag doesn't count; but an id with a space in it also makes a column more
    if len(columns) < 6 or (len(columns) > 6 and math.isnan(_number(columns[3]))):
        expected = "6 columns: query id, Q0, document id, rank, score, tag"
        raise Place(str(path), number).wrong(expected, raw.decode(errors="replace").strip())
    try:
        query_id, item = columns[0].decode(), columns[2].decode()
    except UnicodeDecodeError as error:
        raise Place(str(path), number).wrong("UTF-8 text", str(error)) from error
    score = _number(columns[4])
    if score != score:  # noqa: PLR0124
        text = columns[4].decode(errors="replace")
        raise Place(str(path), number).wrong("a score, a number", text)
    return query_id, item, score


def _number(text: bytes) -> float:
    """The number, infinite ones included, or NaN where it is none."""
    try:
        return math.nan if b"_" in text else float(text)
    except ValueError:
        return math.nan


def trec_run_rows(rankings: Mapping[str, Ranking], name: str) -> Iterator[str]:
    tag = re.sub(r"\s+", "-", name.strip()) or _UNNAMED
    for query_id, ranking in rankings.items():
        scores = ordering_scores(ranking)
        for rank, (item, score) in enumerate(zip(ranking.ids, scores, strict=True), 1):
            ids = fitting_query_id(query_id), fitting_id(item)
            yield f"{ids[0]} Q0 {ids[1]} {rank} {score!r} {tag}"
