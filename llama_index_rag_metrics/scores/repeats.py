"""Scores of questions that were asked several times, and what a report says of their runs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.mappings import ranking_digest
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.statistics.intervals import exact_mean

Runs = Mapping[str, tuple[float, ...]]  # query id to its score in each run that has a value


def runs_of(repeats: Iterable[Scores], metric: str) -> Runs:
    """Each question's score in every run."""
    runs: dict[str, list[float]] = defaultdict(list)
    for scores in repeats:
        for query_id, value in scores.by_query(metric).items():
            runs[query_id].append(value)
    return {query_id: tuple(values) for query_id, values in runs.items()}


def of_repeats(repeats: Iterable[Scores], metrics: Sequence[str] | None = None) -> Scores:
    parts = tuple(repeats)
    if len(parts) < 2:
        raise InvalidInput("repeats", list(parts), "the scores of two runs or more")
    names = dict.fromkeys(name for part in parts for name in part) if metrics is None else metrics
    values = {name: _means(runs_of(parts, name)) for name in names}
    query_ids = [*dict.fromkeys(query_id for part in parts for query_id in part.query_ids)]
    excluded, failed = _first(parts, "excluded"), _first(parts, "failed")
    counted = {q for part in parts for q in part.query_ids if q not in part.excluded}
    asked = Counter(q for part in parts for q in {*part.query_ids, *part.excluded})
    failures = Counter(query_id for part in parts for query_id in part.failed)
    empty = Counter(query_id for part in parts for query_id in part.empty)
    return parts[0].replace(
        query_ids=query_ids,
        columns={
            name: [known.get(q, math.nan) for q in query_ids] for name, known in values.items()
        },
        excluded={q: why for q, why in excluded.items() if q not in counted},
        failed={q: failed[q] for q, n in failures.items() if n == asked[q]},
        empty=[q for q, n in empty.items() if n == asked[q]],
        no_relevant=dict.fromkeys(q for part in parts for q in part.no_relevant),
        queries=_first(parts, "queries"),
        metadata=_first(parts, "metadata"),
        notes=[*_notes_of_runs(parts), *_notes(parts, asked)],
        rankings={
            query_id: ranking_digest([part.rankings.get(query_id, "") for part in parts])
            for query_id in _first(parts, "rankings")
        },
        labels=_first(parts, "labels"),
        usage={
            name: reduce(add, (part.usage[name] for part in parts if name in part.usage))
            for name in _first(parts, "usage")
        },
        repeats=parts,
    )


def _means(runs: Runs) -> dict[str, float]:
    return {query_id: _mean(each) for query_id, each in runs.items()}


def _mean(values: Sequence[float]) -> float:
    """Of equal values the value itself, to the last bit."""
    return values[0] if len({*values}) == 1 else exact_mean(np.array(values))


def _first(parts: Sequence[Scores], name: str) -> dict[str, Any]:
    """A mapping of the parts, with the value of the first that has one."""
    known: dict[str, Any] = {}
    for key, value in chain.from_iterable(getattr(part, name).items() for part in parts):
        known.setdefault(key, value)
    return known


def _notes_of_runs(parts: Sequence[Scores]) -> Iterator[str]:
    """The notes of all runs; those of some say of which."""
    for note in dict.fromkeys(note for part in parts for note in part.notes):
        numbers = [str(number) for number, part in enumerate(parts, 1) if note in part.notes]
        of_some = f"run{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: "
        yield f"{of_some if len(numbers) < len(parts) else ''}{note}"


def _notes(parts: Sequence[Scores], asked: Mapping[str, int]) -> Iterator[str]:
    n = sum(len(part.failed) for part in parts)
    some = {query_id for part in parts for query_id in part.failed}
    if n:
        yield f"{n:,} of {sum(asked.values()):,} answers failed, of {questions(len(some))}"
    if fewer := sum(times < len(parts) for times in asked.values()):
        yield (
            f"{fewer:,} of {questions(len(asked))} {'has' if fewer == 1 else 'have'} fewer than "
            f"{len(parts)} runs, and the mean of those: a run that isn't there doesn't count as 0"
        )
    digests = [dict(part.rankings) for part in parts]
    if digests[0] and all(each == digests[0] for each in digests):
        yield (
            f"all {len(parts)} runs returned the same: they show no spread. If that is a surprise, "
            "an LLM's answers are cached, or its temperature is 0"
        )
