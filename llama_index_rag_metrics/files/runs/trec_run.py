"""TREC runs: query id, Q0, document id, rank, score and tag.

As trec_eval orders them: by score as 64-bit float, then by document id, both descending.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from llama_index_rag_metrics.files.lines import Faults, Place, raw_lines
from llama_index_rag_metrics.files.trec import COMMENT, fitting_id, fitting_query_id
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.errors import FileFormatError

_BEGINS_COMMENT = COMMENT.encode()
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


def read_trec_run(path: Path, faults: Faults) -> tuple[dict[str, Ranking], str]:
    scores: dict[str, dict[str, float]] = {}
    tag = b""
    for number, query_id, item, score, its_tag in run_lines(raw_lines(path), path, faults):
        tag = its_tag
        by_document = scores.setdefault(query_id, {})
        if item in by_document:
            faults.take(Place(str(path), number).wrong(ONCE, f"{query_id} {item}"))
        else:
            by_document[item] = score
    rankings = {query_id: by_score(by_document) for query_id, by_document in scores.items()}
    return rankings, tag.decode(errors="replace")


def run_lines(
    lines: Iterable[tuple[int, bytes]], path: Path, faults: Faults
) -> Iterator[tuple[int, str, str, float, bytes]]:
    for number, raw in lines:
        columns = raw.split()  # of bytes: at the white space that C knows
        if not columns or columns[0].startswith(_BEGINS_COMMENT):
            continue
        try:
            query_id, item, score = _columns(raw, columns, path, number)
        except FileFormatError as error:
            faults.take(error)
        else:
            yield number, query_id, item, score, columns[5]


def _columns(
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
