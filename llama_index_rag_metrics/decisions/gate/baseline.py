"""The baseline: the results of before, from a file that `to_json()` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from llama_index_rag_metrics.decisions.comparison.pairing import Results, scores_of
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scores_export import read_json

BaselineLike: TypeAlias = "Results | str | Path"
"""The results of before, or the file that their `to_json()` wrote."""


def read_scores(path: str | Path, system: str | None = None) -> Scores:
    """The scores of one system, from a file of `to_json()` or `rag-metrics evaluate --json`.

    Raises:
        FileFormatError: the file has something else.
        InvalidInput: the file has several systems, and none of this name.
    """
    return _one_of(read_json(Path(path)), system)


def baseline_scores(baseline: BaselineLike, name: str) -> Scores:
    """The scores of a baseline; of a file of several systems, those of this name."""
    if not isinstance(baseline, (str, Path)):
        return scores_of(baseline, "baseline")
    if not Path(baseline).is_file():
        remedy = "`rag-metrics gate --accept`, or pytest --rag-accept, writes it."
        raise InvalidInput("baseline", str(baseline), "a file", remedy)
    by_name = read_json(Path(baseline))
    return _one_of(by_name, name if name in by_name else None)


def _one_of(by_name: Mapping[str, Scores], system: str | None) -> Scores:
    if "" in by_name:
        return by_name[""]
    if system is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if system is None or system not in by_name:
        raise InvalidInput("--system", system, " or ".join(map(repr, by_name)))
    return by_name[system]


def check_same_questions(before: Scores, now: Scores) -> None:
    """Refuse a baseline of other questions or labels; what one side doesn't know isn't compared.

    Raises:
        InvalidInput: the questions, their texts or their labels aren't the same.
    """
    ids_before = {*before.query_ids, *before.excluded}
    ids_now = {*now.query_ids, *now.excluded}
    differences = {
        "missing now": ids_before - ids_now,
        "new": ids_now - ids_before,
        "with another question": _unequal(before.queries, now.queries),
        "with other labels": _unequal(before.labels, now.labels),
    }
    listed = {reason: sorted(map(str, ids)) for reason, ids in differences.items() if ids}
    if listed:
        parts = [f"{len(ids)} {reason} ({join_first(ids)})" for reason, ids in listed.items()]
        sentence = f"the baseline has other questions: {'; '.join(parts)}."
        remedy = "Accept these results: rag-metrics gate --accept, or pytest --rag-accept."
        raise InvalidInput("baseline", "", sentence=sentence, remedy=remedy)


def _unequal(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """The queries that both sides know, with something else."""
    return {
        query_id
        for query_id in before.keys() & now.keys()
        if before[query_id] and now[query_id] and before[query_id] != now[query_id]
    }
