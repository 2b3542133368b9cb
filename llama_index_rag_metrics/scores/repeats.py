"""Scores of questions that were asked several times, and what a report says of their runs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.mappings import picked
from llama_index_rag_metrics.statistics.intervals import exact_mean

from .scores import Scores

_FAILED = "{n:,} of {answers:,} answers failed, of {questions}"
_FEWER = (
    "fewer than {runs} runs: {n:,} of {questions}, with the mean of those: a run that isn't there "
    "doesn't count as 0"
)


def runs_of(repeats: Iterable[Scores], metric: str) -> Mapping[str, list[float]]:
    """Each question's score in every run that has a value."""
    runs: dict[str, list[float]] = defaultdict(list)
    for scores in repeats:
        for query_id, value in scores.by_query(metric).items():
            runs[query_id].append(value)
    return runs


def of_repeats(repeats: Iterable[Scores]) -> Scores:
    """The scores of questions that were asked several times, from those of each run.

    A question's score is the mean of its runs, so that whatever follows takes the question as its
    unit. What failed or is empty did so in every run; `counts` counts questions of which any did.
    """
    parts = tuple(repeats)
    query_ids = list(_all(parts, "query_ids"))
    columns = {}
    for name in parts[0]:
        runs = runs_of(parts, name)
        columns[name] = [_mean(runs.get(query_id, ())) for query_id in query_ids]
    excluded, failed = _all(parts, "excluded"), _all(parts, "failed")
    n_asked, n_failed, n_empty = Counter[str](), Counter[str](), Counter[str]()
    for part in parts:
        n_asked.update(dict.fromkeys([*part.query_ids, *part.excluded], 1))
        n_failed.update(list(part.failed))
        n_empty.update(part.empty)
        for query_id in set(part.query_ids).difference(part.excluded):
            excluded.pop(query_id, None)
    scores = parts[0].replace(
        query_ids=query_ids,
        columns=columns,
        excluded=excluded,
        failed=picked(failed, _in_every_run(n_failed, n_asked)),
        empty=_in_every_run(n_empty, n_asked),
        no_relevant=list(_all(parts, "no_relevant")),
        queries=_all(parts, "queries"),
        metadata=_all(parts, "metadata"),
        repeats=parts,
    )
    return scores.replace(notes=[*_notes(scores, n_asked, n_failed)])


def _in_every_run(n_times: Mapping[str, int], n_asked: Mapping[str, int]) -> list[str]:
    return [query_id for query_id, n in n_times.items() if n == n_asked[query_id]]


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
    scores: Scores, n_asked: Mapping[str, int], n_failed: Mapping[str, int]
) -> Iterator[str]:
    n_runs = len(scores.repeats)
    notes = Counter[str](chain.from_iterable(run.notes for run in scores.repeats))
    for note, n in notes.items():
        yield note if n == n_runs else f"in {n} of {n_runs} runs: {note}"
    if n_failed:
        n_failures, n_answers = sum(n_failed.values()), sum(n_asked.values())
        fields = {"n": n_failures, "answers": n_answers, "questions": questions(len(n_failed))}
        yield _FAILED.format(**fields)
    n_fewer = len(n_asked) - list(n_asked.values()).count(n_runs)
    if n_fewer:
        yield _FEWER.format(runs=n_runs, n=n_fewer, questions=questions(len(n_asked)))
