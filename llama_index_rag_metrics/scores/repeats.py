"""Scores of questions that were asked several times: of each question the mean of its runs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from llama_index_rag_metrics.files.conversations import conversations_of
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.metrics.passes import Passes
from llama_index_rag_metrics.report.numbers import questions, score
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.mappings import ranking_digest
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.statistics.intervals import exact_mean
from llama_index_rag_metrics.statistics.sample_size import Components

Runs = Mapping[str, tuple[float, ...]]
"""Query id to its score in each run that has a value."""


@dataclass(frozen=True, repr=False)
class Spread(Sentence):
    """The spread of a metric within questions that were asked several times, and between them.

    Attributes:
        metric: its name.
        runs: query id to its score in each run; where a run has no value, it is left out.
        conversations: the conversation of each of these questions; None where no two share one.

    Examples:
        >>> runs = [Scores(["q1", "q2"], {"mrr": column}) for column in ([1, 0], [0.5, 0])]
        >>> spread = Scores.of_repeats(runs).spread("mrr")
        >>> print(spread)
        mrr: 1 of 2 questions differs between runs; spread within questions 0.25, between 0.50
        >>> spread.unstable, spread.runs["q1"]
        (('q1',), (1.0, 0.5))
    """

    metric: str
    runs: Runs
    conversations: Sequence[Hashable] | None = None

    @property
    def within(self) -> float:
        """The standard deviation of a question's runs; NaN where all were asked once."""
        return math.sqrt(self._components.within)

    @property
    def between(self) -> float:
        """The standard deviation of the questions' means, without that of their runs."""
        return math.sqrt(self._components.between)

    @property
    def is_binary(self) -> bool:
        """Whether all scores are 0 or 1."""
        return _is_binary(self.runs)

    @cached_property
    def unstable(self) -> tuple[str, ...]:
        """The questions whose runs differ, most first; ties keep their order."""
        # of the same values in another order the same to the last bit
        deviations = {
            query_id: float(np.std(sorted(runs)))
            for query_id, runs in self.runs.items()
            if len({*runs}) > 1
        }
        return tuple(sorted(deviations, key=lambda query_id: -deviations[query_id]))

    def questions(self, repeats: int) -> int | None:
        """How many questions, asked so many times each, have a mean as precise as this one.

        In conversations as long as these, where there are any. Asking more questions helps more
        than asking them again, which takes away the spread within questions alone. None where there
        is no spread.

        Raises:
            InvalidInput: `repeats` isn't a whole number from 1 on.
        """
        check_integer("repeats", repeats, 1, "a number of runs of each question, from 1 on")
        return self._components.questions(repeats)

    @cached_property
    def _components(self) -> Components:
        return Components.of([*self.runs.values()], self.conversations)

    def __str__(self) -> str:
        n, total = len(self.unstable), questions(len(self.runs))
        differ = f"{n:,} of {total} {'differs' if n == 1 else 'differ'} between runs"
        spreads = f"within questions {score(self.within, digits=2)}"
        between = score(self.between, digits=2)
        return f"{self.metric}: {differ}; spread {spreads}, between {between}"


def spread_of(scores: Scores, metric: str) -> Spread:
    _, of_one_run = Passes.split(metric)
    if not scores.repeats:
        raise InvalidInput("scores", "one run", "several runs of each question", "Give repeats=5.")
    runs = _runs_of(scores.repeats, of_one_run)
    return Spread(of_one_run, runs, conversations_of([*runs], scores.metadata))


def _runs_of(repeats: Iterable[Scores], metric: str) -> Runs:
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
    runs = {name: _runs_of(parts, Passes.split(name)[1]) for name in names}
    values = {name: _values(name, of_questions) for name, of_questions in runs.items()}
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
        notes=[*_notes_of_runs(parts), *_notes(parts, asked, runs)],
        rankings={
            query_id: ranking_digest([part.rankings.get(query_id, "") for part in parts])
            for query_id in _first(parts, "rankings")
        },
        usage={
            name: reduce(add, (part.usage[name] for part in parts if name in part.usage))
            for name in _first(parts, "usage")
        },
        repeats=parts,
    )


def _values(name: str, runs: Runs) -> dict[str, float]:
    """Query id to the mean of its runs, or to its chance to pass."""
    passes, _ = Passes.split(name)
    if passes is None:
        return {query_id: _mean(each) for query_id, each in runs.items()}
    if not _is_binary(runs):
        return {}
    return {q: passes.chance(int(sum(each)), len(each)) for q, each in runs.items()}


def _is_binary(runs: Runs) -> bool:
    return {value for values in runs.values() for value in values} <= {0.0, 1.0}


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


def _notes(
    parts: Sequence[Scores], asked: Mapping[str, int], runs: Mapping[str, Runs]
) -> Iterator[str]:
    n = sum(len(part.failed) for part in parts)
    some = {query_id for part in parts for query_id in part.failed}
    if n:
        yield f"{n:,} of {sum(asked.values()):,} answers failed, of {questions(len(some))}"
    if fewer := sum(times < len(parts) for times in asked.values()):
        yield (
            f"{fewer:,} of {questions(len(asked))} {'has' if fewer == 1 else 'have'} fewer than "
            f"{len(parts)} runs, and the mean of those: a run that isn't there doesn't count as 0"
        )
    for name, of_questions in runs.items():
        passes, of_one_run = Passes.split(name)
        if passes is None:
            continue
        short = [query_id for query_id, each in of_questions.items() if len(each) < passes.k]
        if not _is_binary(of_questions):
            yield f"{name}: no value, since {of_one_run} isn't always 0 or 1, as hit_rate@5 is"
            continue
        if short:
            fewer_values = f"questions with fewer than {passes.k} values"
            yield f"{name}: no value for {fewer_values}: {join_first(short)}"
        if passes.all_of_them and passes.k > 1 and lower_is_better(of_one_run):
            any_run = f"{passes._replace(all_of_them=False)} {of_one_run}"
            yield (
                f"{name} is the chance that all of {passes.k} runs score 1, the worst score here; "
                f"the chance that any does is {any_run}"
            )
    digests = [dict(part.rankings) for part in parts]
    if digests[0] and all(each == digests[0] for each in digests):
        yield (
            f"all {len(parts)} runs returned the same: they show no spread. If that is a surprise, "
            "an LLM's answers are cached, or its temperature is 0"
        )
