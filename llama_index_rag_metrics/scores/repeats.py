"""Scores of questions that were asked several times, and what a report says of their runs."""

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
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import cut_line
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.numbers import mean_of, questions, score
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.mappings import ranking_digest
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.scores.stories import query_answers
from llama_index_rag_metrics.scores.systems import System, query_text
from llama_index_rag_metrics.statistics.intervals import exact_mean
from llama_index_rag_metrics.statistics.sample_size import Components

Runs = Mapping[str, tuple[float, ...]]  # query id to its score in each run that has a value


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


REPEATS = "Runs of the same question"  # the heading of the section
_HEAD = ("questions that differ", "within a question", "between questions")
_PASSES = "pass@k: the chance that at least one of k runs scores 1; pass^k: that all k do."
_AS_LONG = "in conversations as long as these"
_TIMES = (1, 2, 3, 5, 10)
_MOST_QUESTIONS, _MOST_RUNS = 10, 10
_QUESTION_CHARACTERS = 48


def repeats_section(systems: Sequence[System], metrics: Sequence[str], metric: str) -> m.Section:
    """How runs differ, of one system on all metrics; empty without repeats."""
    is_one = len(systems) == 1
    shown = [(system, name) for system in systems for name in (metrics if is_one else [metric])]
    known = {
        spread.metric if is_one else system.name: spread
        for system, name in shown
        if (spread := _spread(system, name)) is not None
    }
    if not known:
        return m.Section(REPEATS, [])
    rows = [m.Row(label, _cells(spread)) for label, spread in known.items()]
    title = "Standard deviation of scores" + ("" if is_one else f" on {Passes.split(metric)[1]}")
    tables = [m.Table(title, _HEAD, [rows], first="metric" if is_one else "system")]
    passes: list[m.Table] = []
    if is_one and (spread := _spread(systems[0], metric)):
        passes = [*_passes(systems[0].scores, known)]
        tables = [*_differing(systems[0], spread), *tables, *passes, *_as_precise(spread)]
    return m.Section(REPEATS, tables, text=_PASSES if passes else "")


def _spread(system: System, metric: str) -> Spread | None:
    """None where no question was asked several times, or the metric has no value."""
    _, of_one_run = Passes.split(metric)
    if not any(of_one_run in run for run in system.scores.repeats[:1]):
        return None
    spread = system.scores.spread(of_one_run)
    return spread if spread.runs else None


def _cells(spread: Spread) -> list[m.Cell]:
    n = len(spread.runs)
    spreads = (m.Cell.of(value, "score") for value in (spread.within, spread.between))
    return [m.Cell((len(spread.unstable), n), "share"), *(mean_of(cell, n) for cell in spreads)]


def _differing(system: System, spread: Spread) -> Iterator[m.Table]:
    """The scores of the questions whose runs differ most."""
    shown = spread.unstable[:_MOST_QUESTIONS]
    runs = system.repeats[:_MOST_RUNS]
    columns = [run.by_query(spread.metric) for run in runs]
    digits, rows = 0 if spread.is_binary else 2, []
    for query_id in shown:
        text = cut_line(query_text(query_id, [system]), _QUESTION_CHARACTERS)
        scores = (m.Cell.of(column.get(query_id), "score") for column in columns)
        cells = [cell._replace(digits=digits) for cell in scores]
        rows.append(m.Row(f"{query_id}  {text}".strip(), cells))
    if rows:
        n = len(spread.unstable)
        remark = f"the first {len(rows)} of {n:,}" if n > len(rows) else ""
        title = f"Questions whose runs differ most on {spread.metric}"
        yield m.Table(title, [run.name for run in runs], [rows], first="question", remark=remark)


def _passes(scores: Scores, spreads: Mapping[str, Spread]) -> Iterator[m.Table]:
    """The chances to pass in as many runs as every question has, of metrics that are 0 or 1."""
    binary = [name for name, spread in spreads.items() if spread.is_binary]
    names = [f"pass{sign}{{}} {name}" for name in binary for sign in "@^"][:MOST_ABREAST]
    if not names:
        return
    rows, runs = [], chain.from_iterable(spreads[name].runs.values() for name in binary)
    for k in range(1, min(map(len, runs)) + 1):
        chances = of_repeats(scores.repeats, [name.format(k) for name in names])
        means = ((m.Cell.of(chances.means[name], "score"), chances.n(name)) for name in chances)
        rows.append(m.Row(f"{k}", [mean_of(*each) for each in means]))
    yield m.Table("Chance to pass", [name.format("k") for name in names], [rows], first="k")


def _as_precise(spread: Spread) -> Iterator[m.Table]:
    """How many questions, asked how often, give an equally narrow interval of the mean."""
    rows = []
    for times in sorted({*_TIMES, max(map(len, spread.runs.values()))}):
        if (n := spread.questions(times)) is not None:
            label = "once" if times == 1 else f"{times} times"
            rows.append(m.Row(label, [m.Cell(n, "count"), m.Cell(n * times, "count")]))
    if rows:
        title = f"How many questions give as precise a mean of {spread.metric}"
        remark = _AS_LONG if spread.conversations else ""
        head = ["questions", "answers"]
        yield m.Table(title, head, [rows], first="each asked", place="detail", remark=remark)


def repeats_decision(systems: Sequence[System], metric: str) -> Iterator[m.Statement]:
    """How many questions differ between their runs, and how many asked once would do, of one."""
    if len(systems) > 1 or (spread := _spread(systems[0], metric)) is None:
        return
    n, times = len(spread.unstable), len(systems[0].scores.repeats)
    often = "" if all(len(runs) == times for runs in spread.runs.values()) else "up to "
    differing = f"{f'{n:,}' if n else 'none'} of {questions(len(spread.runs))}"
    score = "score" if n > 1 else "scores"
    text = f"{differing} {score} differently from run to run on {spread.metric}"
    if n and (once := spread.questions(1)):
        text += f"; {questions(once)} asked once would give as precise a mean"
        text += f", {_AS_LONG}" if spread.conversations else ""
    yield m.Statement(f"Asked {often}{times} times each, {text}.", evidence=REPEATS)


def unstable(systems: Sequence[System], metric: str, n: int) -> list[m.Listing]:
    """Of each system the questions whose runs differ most, with what each run retrieved."""
    listings = []
    for system in systems:
        if (spread := _spread(system, metric)) is None or not spread.unstable[:n]:
            continue
        repeats = system.repeats
        columns = [run.by_query(spread.metric) for run in repeats]
        shown = spread.unstable[:n]
        stories = [query_answers(each, repeats, spread.metric, columns) for each in shown]
        of_whom = f" of {system.name}" if len(systems) > 1 else ""
        title = f"What differs most on {spread.metric}{of_whom}, run by run"
        more = len(spread.unstable) - len(stories)
        listings.append(m.Listing(title, stories, more=more, on_request=True))
    return listings


def with_runs(systems: Sequence[System]) -> Sequence[System]:
    """The means of one system without rankings, and its runs beside them; several as they are."""
    if len(systems) > 1 or not systems[0].scores.repeats or not systems[0].run:
        return systems
    [system] = systems
    means = system.scores.replace(answers={}, repeats=())
    return [system._replace(scores=means, run=system.run.replaced({})), *system.repeats]


def in_first_run(systems: Sequence[System], text: str) -> str:
    """A sentence of what is counted in rankings, where these are of the first of several runs."""
    if not text or not any(system.scores.repeats for system in systems):
        return text
    return f"In the first run: {text[0].lower()}{text[1:]}"
