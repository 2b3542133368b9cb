"""TREC runs: query id, Q0, document id, rank, score and tag, by trec_eval's rules."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from llama_index_rag_metrics.formats.judgements import read_number
from llama_index_rag_metrics.formats.lines import Faults, Place, read_lines
from llama_index_rag_metrics.formats.runs.order import by_score, ordering_scores
from llama_index_rag_metrics.formats.trec import fitting_id, split_columns
from llama_index_rag_metrics.run import Ranking

_NAME = "a TREC run"
_UNNAMED = "run"
ONCE = "every document once a query"


def read_trec_run(path: Path, faults: Faults) -> tuple[dict[str, Ranking], str]:
    """The rankings, and the tag of the last line, which is the one that trec_eval keeps.

    The rank column isn't read: the order is that of the scores.

    Raises:
        FileFormatError: a line hasn't six columns, has no score, or repeats a document.
    """
    scores: dict[str, dict[str, float]] = {}
    tag = ""

    def read(line: str, place: Place) -> None:
        nonlocal tag
        query_id, document_id, score, run_tag = read_run_line(line, place)
        found = scores.setdefault(query_id, {})
        if document_id in found:
            raise place.wrong(ONCE, f"{query_id} {document_id}")
        found[document_id] = score
        tag = run_tag

    faults.each(read_lines(path, faults), read)
    return {query_id: by_score(found) for query_id, found in scores.items()}, tag


def read_run_line(line: str, place: Place) -> tuple[str, str, float, str]:
    """Query id, document id, score and tag of a line.

    Raises:
        FileFormatError: it hasn't six columns, or no score.
    """
    columns = split_columns(line)
    if len(columns) != 6:
        raise place.wrong("6 columns: query id, Q0, document id, rank, score, tag", line)
    query_id, _, document_id, _, text, tag = columns
    score = read_number(text)
    if math.isnan(score):
        raise place.wrong("a score, a number", text)
    return query_id, document_id, score, tag


def trec_run_rows(rankings: Mapping[str, Ranking], name: str) -> Iterator[str]:
    """The lines of a TREC run; a query for which nothing was retrieved has none.

    Raises:
        FormatTooNarrow: an id has a space.
    """
    tag = re.sub(r"\s+", "-", name.strip()) or _UNNAMED
    for query_id, ranking in rankings.items():
        scores = ordering_scores(ranking)
        for rank, (item, score) in enumerate(zip(ranking.ids, scores, strict=True), 1):
            ids = fitting_id(query_id, _NAME), fitting_id(item, _NAME)
            yield f"{ids[0]} Q0 {ids[1]} {rank} {score!r} {tag}"
