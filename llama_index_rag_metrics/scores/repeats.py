"""Scores of questions that were asked several times, and what a report says of their runs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.mappings import map_values
from llama_index_rag_metrics.statistics.intervals import exact_mean

from .scores import Scores

Runs = Mapping[str, tuple[float, ...]]  # query id to its score in each run that has a value


def runs_of(repeats: Iterable[Scores], metric: str) -> Runs:
    """Each question's score in every run."""
    runs: dict[str, list[float]] = defaultdict(list)
    for scores in repeats:
        for query_id, value in scores.by_query(metric).items():
            runs[query_id].append(value)
    return map_values(tuple, runs)


def of_repeats(repeats: Iterable[Scores], metrics: Sequence[str] | None = None) -> Scores:
    """The scores of questions that were asked several times, from those of each run.

    A question's score is the mean of its runs, so that whatever follows takes the question as its
    unit. What failed or is empty did so in every run; `counts` counts questions of which any did.
    """
    parts = tuple(repeats)
    if metrics is None:
        metrics = list(_all(parts, "metric_names"))
    query_ids = list(_all(parts, "query_ids"))
    columns = {}
    for name in metrics:
        runs = runs_of(parts, name)
        columns[name] = [_mean(runs.get(query_id, ())) for query_id in query_ids]
    counted: set[str] = set()
    n_asked, n_failed, n_empty = Counter[str](), Counter[str](), Counter[str]()
    for part in parts:
        counted.update(set(part.query_ids).difference(part.excluded))
        n_asked.update(dict.fromkeys([*part.query_ids, *part.excluded], 1))
        n_failed.update(list(part.failed))
        n_empty.update(part.empty)
    excluded, failed = _all(parts, "excluded"), _all(parts, "failed")
    return parts[0].replace(
        query_ids=query_ids,
        columns=columns,
        excluded={q: reason for q, reason in excluded.items() if q not in counted},
        failed={q: failed[q] for q, n in n_failed.items() if n == n_asked[q]},
        empty=[q for q, n in n_empty.items() if n == n_asked[q]],
        no_relevant=list(_all(parts, "no_relevant")),
        queries=_all(parts, "queries"),
        metadata=_all(parts, "metadata"),
        notes=[*_notes(parts, n_asked, n_failed)],
        repeats=parts,
    )


def _mean(values: Sequence[float]) -> float:
    """The mean of a question's runs; of equal values the value itself, to the last bit."""
    if not values:
        return math.nan
    if len(set(values)) == 1:
        return values[0]
    return exact_mean(np.array(values))


def _all(parts: Sequence[Scores], name: str) -> dict[str, Any]:
    """What the parts have, with the value of the first that has one; ids without values as keys."""
    merged: dict[str, Any] = {}
    for part in parts:
        values = getattr(part, name)
        if not isinstance(values, Mapping):
            values = dict.fromkeys(values)
        for key, value in values.items():
            merged.setdefault(key, value)
    return merged


def _notes(
    parts: Sequence[Scores], n_asked: Mapping[str, int], n_failed: Mapping[str, int]
) -> Iterator[str]:
    for note in _all(parts, "notes"):
        n = sum(note in part.notes for part in parts)
        yield note if n == len(parts) else f"in {n} of {len(parts)} runs: {note}"
    if n_failed:
        failures, n_answers = sum(n_failed.values()), sum(n_asked.values())
        yield f"{failures:,} of {n_answers:,} answers failed, of {questions(len(n_failed))}"
    n_fewer = sum(times < len(parts) for times in n_asked.values())
    if n_fewer:
        yield (
            f"fewer than {len(parts)} runs: {n_fewer:,} of {questions(len(n_asked))}, with the "
            "mean of those: a run that isn't there doesn't count as 0"
        )
    rankings = [part.rankings for part in parts]
    if len(parts) > 1 and rankings[0] and all(of_run == rankings[0] for of_run in rankings):
        yield (
            f"all {len(parts)} runs returned the same: they show no spread. If that is a surprise, "
            "an LLM's answers are cached, or its temperature is 0"
        )
