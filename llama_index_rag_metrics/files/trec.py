"""TREC's files: qrels and runs.

Runs are ordered as by trec_eval: by score as 64-bit float, then by document id, both descending.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.atomic_files import is_broken
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .lines import Location, decoded, raw_lines, read_lines
from .records import Judgements, format_grade, read_grade

ONCE = "every document once a question"
_QRELS = "4 columns: query id, 0, document id, grade"
_RISING = (
    "in {rising:,} of {several:,} rankings of the file scores rise with the rank, as distances do: "
    "a TREC run is ordered by score, so they are turned round; negate distances"
)
_RUN = "6 columns: query id, Q0, document id, rank, score, tag"
_REMEDY = "TREC's format can't hold it; JSONL and Parquet hold everything."
_UNNAMED = "run"
_SPACE = re.compile(r"[ \t\v\f\r]+")
_SPACES = re.compile(r"[ \t\v\f\r\n]")


def read_trec_qrels(path: Path) -> dict[str, Relevance]:
    """Read judgements, four columns of which the second says nothing, or BEIR's three by tabs."""
    judgements = Judgements()
    for location, line in read_lines(path):
        columns = _SPACE.split(line.strip(" \t\v\f\r"))
        if columns[0].startswith("#"):
            continue
        if len(columns) == 3 and line.count("\t") == 2:
            columns.insert(1, "0")
        location.check(len(columns) == 4, _QRELS, line)
        query_id, _, document_id, grade = columns
        judgements.add(query_id, document_id, read_grade(grade, location), location)
    return judgements.relevance()


def qrels_rows(relevance: Mapping[str, Relevance]) -> Iterator[str]:
    for query_id, judgements in relevance.items():
        for document_id, grade in judgements.grades.items():
            query, item = _fitting_query_id(query_id), _fitting_id(document_id)
            if grade != int(grade):
                expected = "a whole number, since trec_eval cuts off the rest"
                raise InvalidInput("grade", grade, expected, _REMEDY)
            yield f"{query} 0 {item} {format_grade(grade)}"


def by_score(scores: Mapping[str, float]) -> Ranking:
    pairs = sorted(((score, item) for item, score in scores.items()), reverse=True)
    return Ranking([item for _, item in pairs], [score for score, _ in pairs])


def read_trec_run(path: Path) -> tuple[dict[str, Ranking], str, list[str]]:
    """Read the rankings, the tag and what is strange about a run."""
    scores: dict[str, dict[str, float]] = {}
    first: dict[str, tuple[bytes, float]] = {}
    last: dict[str, tuple[bytes, float]] = {}
    tag = b""
    for number, raw in raw_lines(path):
        columns = raw.split()  # of bytes: at the white space that C knows
        if not columns or columns[0].startswith(b"#"):
            continue
        query_id, item, score = _run_columns(raw, columns, path, number)
        tag = columns[5]
        of_query = scores.setdefault(query_id, {})
        if item in of_query:
            raise Location(str(path), number).wrong(ONCE, f"{query_id} {item}")
        of_query[item] = score
        first.setdefault(query_id, (columns[3], score))
        last[query_id] = columns[3], score
    rankings = {query_id: by_score(of_query) for query_id, of_query in scores.items()}
    return rankings, tag.decode(errors="replace"), _turned_round(first, last)


def _turned_round(
    first: Mapping[str, tuple[bytes, float]], last: Mapping[str, tuple[bytes, float]]
) -> list[str]:
    """A note where most rankings have scores that rise with the rank that the file gives."""
    n_several = n_rising = 0
    for query_id, (rank, score) in first.items():
        other_rank, other_score = last[query_id]
        steps = _number(other_rank) - _number(rank)
        n_several += bool(steps)
        n_rising += steps * (other_score - score) > 0
    if 2 * n_rising <= n_several:
        return []
    return [_RISING.format(rising=n_rising, several=n_several)]


def _run_columns(
    raw: bytes, columns: Sequence[bytes], path: Path, number: int
) -> tuple[str, str, float]:
    # what follows the tag doesn't count; but an id with a space in it also makes a column more
    if len(columns) < 6 or (len(columns) > 6 and math.isnan(_number(columns[3]))):
        location = Location(str(path), number)
        raise location.wrong(_RUN, decoded(raw, location).strip())
    try:
        query_id, item = columns[0].decode(), columns[2].decode()
    except UnicodeDecodeError:
        decoded(raw, Location(str(path), number))
        raise
    score = _number(columns[4])
    if score != score:  # noqa: PLR0124
        text = columns[4].decode(errors="replace")
        raise Location(str(path), number).wrong("a score, a number", text)
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
        query, scores = _fitting_query_id(query_id), _ordering_scores(ranking)
        for rank, (item, score) in enumerate(zip(ranking.ids, scores, strict=True), 1):
            yield f"{query} Q0 {_fitting_id(item)} {rank} {score!r} {tag}"


def _ordering_scores(ranking: Ranking) -> list[float]:
    """The ranking's scores where they give its order, and else n, n - 1, …, 1."""
    numbers = [math.nan if score is None else float(score) for score in ranking.scores or ()]
    if len(numbers) == len(ranking.ids) and all(map(math.isfinite, numbers)):
        pairs = zip(numbers, ranking.ids, strict=True)
        if all(above > below for above, below in pairwise(pairs)):
            return numbers
    return [float(rank) for rank in range(len(ranking.ids), 0, -1)]


def _fitting_query_id(query_id: str) -> str:
    if query_id.startswith("#"):
        expected = "an id that doesn't begin a comment"
        raise InvalidInput("query_id", query_id, expected, _REMEDY)
    return _fitting_id(query_id)


def _fitting_id(item: str) -> str:
    is_odd = not item or _SPACES.search(item) or item[0] == "\ufeff"
    if is_odd or is_broken(item):
        raise InvalidInput("id", item, "an id without white space", _REMEDY)
    return item
