"""Sweep: every configuration of a grid with its quality and its cost, and what is best of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.figure import Figure, Mark, Series
from llama_index_rag_metrics.report.numbers import (
    NO_VALUE,
    count,
    counted,
    given,
    mean_of,
    percent,
    questions,
    rounded_up,
    score,
    seconds,
    two_digits_up,
)
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.mappings import map_values
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.statistics.intervals import alpha_of, exact_mean
from llama_index_rag_metrics.statistics.shortfalls import Shortfalls, beats_all, shortfalls
from llama_index_rag_metrics.stories import results_report
from llama_index_rag_metrics.stories.first_line import nothing_measured
from llama_index_rag_metrics.stories.label_view import System

from .grid import Configuration

_SAVINGS = {"tokens": 0.05, "p95": 0.5}
"""The least share of a cost that counts as saved: a p95 differs much from run to run."""

_DIGITS = 3
_NOTHING = "Nothing was measured: {failed} failed ({errors})."
_SOME_FAILED = (
    "No decision: {failed} failed and may be better ({errors}). Of the others: {decision}"
)
_DECISIONS = {
    "single": "Only {best} was evaluated: there is nothing to compare it with.",
    "nothing in common": (
        "Nothing can be compared: no question has a value for all {n} configurations."
    ),
    "winner": "{best} is the best of {n} on {metric}.",
    "winner, another is cheaper": (
        "{best} is the best of {n} on {metric}; {recommended} costs less and is at most {bound} "
        "worse."
    ),
    "take": (
        "Take {recommended}: it is at most {bound} worse than the best of {n} on {metric} "
        "({confidence} confidence, {questions})."
    ),
    "the same": (
        "All {n} configurations score the same on {metric}, on all {questions}: keep {best}."
    ),
    "too few": (
        "Not enough questions to choose one of {n} configurations that {aim} on {metric}: {until}"
        "keep {best}."
    ),
}
_TIED = "{names} score the same on {metric}, on all {questions}."
_COSTS = "{recommended} has {facts}."
_COSTS_OF_TWO = "{recommended} has {facts}; {best}, the best mean, has {facts_of_best}."
_HOW = (
    "At most worse by: how far the true mean on {metric} may lie below the best configuration's; "
    "all bounds hold at once with {confidence} confidence."
)
_LEFT_OUT = "left out of ranks and bounds: {questions} that not every configuration has a value for"


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Reportable):
    """What `sweep` found: its configurations, which `sweep["top_k=5"]` finds by their names.

    What it shows of them is about those that were evaluated, on the first metric.

    Attributes:
        configurations: in the order of the grid.
        metric_names: all metrics, of which the first decides.
        confidence: 1 - this is how often, at most, a winner is named though there is none, and how
            often a configuration that isn't within the tolerance is taken to be.
        tolerance: how much worse than the best one the recommended configuration may be.

    Examples:
        >>> from llama_index_rag_metrics import sweep
        >>> def build(top_k):
        ...     return lambda query: ["d2", "d1"][:top_k]
        >>> dataset = {"queries": {f"q{n}": "x?" for n in range(10)}, "corpus": {},
        ...            "relevant_docs": {f"q{n}": ["d1" if n else "d2"] for n in range(10)}}
        >>> swept = sweep(build, {"top_k": [1, 2]}, dataset, ["recall"])
        >>> swept.winner.name, swept["top_k=1"].mean("recall")
        ('top_k=2', 0.1)
    """

    configurations: Sequence[Configuration]
    metric_names: Sequence[str]
    confidence: float = 0.95
    tolerance: float = 0.02

    def __getitem__(self, name: str) -> Configuration:
        by_name = {configuration.name: configuration for configuration in self}
        if name not in by_name:
            raise InvalidInput("configuration", name, " or ".join(map(repr, by_name)))
        return by_name[name]

    def __iter__(self) -> Iterator[Configuration]:
        return iter(self.configurations)

    @property
    def primary(self) -> str:
        """The metric that decides."""
        return self.metric_names[0]

    @cached_property
    def failed(self) -> list[Configuration]:
        """The configurations without results, or without a mean."""
        return [point for point in self if point.error or point.mean(self.primary) is None]

    @cached_property
    def results(self) -> dict[str, EvaluationResults]:
        """The results of the evaluated configurations by their names, such as for `compare`."""
        return {point.name: point.results for point in self._finished if point.results is not None}

    @property
    def winner(self) -> Configuration | None:
        """The configuration that is shown to beat all others; None if none is, or if one failed."""
        return None if self.failed else self._leader

    @cached_property
    def within(self) -> list[Configuration]:
        """The configurations that are shown to be at most `tolerance` worse than the best one."""
        return [point for point in self._finished if self.at_most_worse(point) <= self.tolerance]

    @cached_property
    def recommended(self) -> Configuration | None:
        """The cheapest of the configurations within the tolerance; None if none is.

        It has the fewest tokens, then the lowest p95, then the best mean; fewer by less than 5 %,
        or a p95 lower by less than half, isn't cheaper.
        """
        candidates = [*filter(self.within.__contains__, self.ranked)]
        for cost in self._costs:
            amounts = {point: getattr(point, cost) for point in candidates}
            lowest = min(amounts.values(), default=0.0)
            share = 1 - _SAVINGS[cost]
            candidates = [point for point in candidates if amounts[point] * share <= lowest]
        return next(iter(candidates), None)

    def at_most_worse(self, configuration: Configuration) -> float:
        """How much worse than the best one a configuration is, at most, whichever that is.

        0 for the winner; infinite with fewer than two questions, or clusters. The bounds of all
        hold together in at least `confidence` of sweeps (Hsu's comparisons with the best).
        """
        if configuration not in self._finished:
            raise InvalidInput("configuration", configuration.name, "one that was evaluated")
        if configuration is self._leader:
            return 0.0
        return float(self._shortfalls.at_most[self._finished.index(configuration)])

    @cached_property
    def ranked(self) -> list[Configuration]:
        """The evaluated configurations, best mean first (it may be chance), ties cheapest first.

        The means are those over the questions that all of them have a value for.
        """

        def rank_key(configuration: Configuration) -> list[float]:
            costs = map(partial(getattr, configuration), self._costs)
            return [-self._sign * self._common_mean(configuration), *costs]

        return sorted(self._finished, key=rank_key)

    @property
    def decision(self) -> str:
        """The result in one or two sentences."""
        failed = counted(len(self.failed), "configuration", "configurations")
        errors = dict.fromkeys(point.error or "no question has a value" for point in self.failed)
        fields = {"failed": failed, "errors": join_first([*errors], 3)}
        if not self._finished:
            return self._unmeasured or _NOTHING.format(**fields)
        if not self.failed or len(self._finished) == 1:
            return self._decision_of_finished
        return _SOME_FAILED.format(decision=self._decision_of_finished, **fields)

    def report(self, *, full: bool = False) -> m.Report:
        """The decision, and every configuration with its quality and cost."""
        systems = [
            system_of(point.results, point.name) for point in self if point.results is not None
        ]
        about = list(systems[0].about.items()) if systems else []
        for system in systems:
            about = [pair for pair in about if pair in system.about.items()]
        sizes = [
            counted(len(self.configurations), "configuration", "configurations"),
            questions(len(self._scores)),
            counted(len(self.metric_names), "metric", "metrics"),
        ]
        statements, remarks = self._statements(systems), results_report.remarks(systems)
        return m.Report(
            title=f"Sweep over {', '.join(self.configurations[0].shown) or 'one configuration'}",
            lead=", ".join(sizes),
            decision=statements,
            about=about,
            tables=[self._table()],
            failures=results_report.failures(systems),
            notes=[*self._notes(), *results_report.unsaid(remarks, statements)],
            glossary=results_report.glossary(self.metric_names),
            figures={"tradeoff": self._tradeoff},
            records=self._records(),
        )

    @cached_property
    def _finished(self) -> list[Configuration]:
        return [configuration for configuration in self if configuration not in self.failed]

    @property
    def _unmeasured(self) -> str:
        """Why no metric has a value though every configuration answered; "" if that isn't so."""
        runs = [point.results for point in self if point.results and not point.error]
        reasons = {nothing_measured(run.scores) for run in runs}
        is_all = len(runs) == len(self.configurations) and not self._finished
        return " ".join(reasons) * (is_all and len(reasons) == 1)

    @cached_property
    def _ties(self) -> list[str]:
        """The configurations that score like the best mean on every question, it included."""
        highest = self._scores[:, self._finished.index(self.ranked[0])]
        is_tied = (self._scores == highest[:, np.newaxis]).all(axis=0)
        return [point.name for point in self.ranked if is_tied[self._finished.index(point)]]

    @property
    def _costs(self) -> list[str]:
        """The costs that are known of every evaluated configuration."""
        return [cost for cost in _SAVINGS if None not in {getattr(p, cost) for p in self._finished}]

    @property
    def _sign(self) -> float:
        return -1.0 if lower_is_better(self.primary) else 1.0

    @cached_property
    def _paired(self) -> Paired:
        return pair(map_values(attrgetter("scores"), self.results), [self.primary])

    @cached_property
    def _common(self) -> tuple[FloatArray, dict[str, Any]]:
        """Scores of questions that all have a value for, and what their bounds take for granted."""
        if not self._finished:
            return np.empty((0, 1)), {}
        scores, limits = self._paired.common(self.primary)
        return scores, {**limits, "alpha": alpha_of(self.confidence)}

    @property
    def _scores(self) -> FloatArray:
        """(queries, evaluated configurations) scores where all have one; more is better."""
        return self._common[0]

    @cached_property
    def _leader(self) -> Configuration | None:
        """The configuration that is shown to beat all others that were evaluated."""
        if len(self._finished) < 2 or len(self._scores) < 2:
            return None
        leader = int(self._scores.mean(axis=0).argmax())
        if beats_all(self._scores, leader, **self._common[1]):
            return self._finished[leader]
        return None

    @cached_property
    def _shortfalls(self) -> Shortfalls:
        return shortfalls(self._scores, self.tolerance, **self._common[1])

    def _common_mean(self, configuration: Configuration) -> float:
        """The mean over the questions that all have a value for; NaN without any."""
        return self._sign * exact_mean(self._scores[:, self._finished.index(configuration)])

    def _bound_in_words(self, configuration: Configuration) -> str:
        bound = self.at_most_worse(configuration)
        return rounded_up(bound, _DIGITS) if math.isfinite(bound) else NO_VALUE

    @property
    def _decision_of_finished(self) -> str:
        leader = self._leader or self.ranked[0]
        recommended = self.recommended or leader
        outcome, until, aim = "too few", "", "is the best"
        if len(self._finished) == 1:
            outcome = "single"
        elif not len(self._scores):
            outcome = "nothing in common"
        elif self._leader is not None:
            outcome = "winner" if recommended is leader else "winner, another is cheaper"
        elif self.recommended is not None:
            outcome = "take"
        elif len(self._ties) == len(self._finished):
            outcome = "the same"
        elif self._shortfalls.queries is not None:
            until = f"until you have about {two_digits_up(self._shortfalls.queries)}, "
        if self.tolerance:
            aim = f"is within {given(self.tolerance)} of the best"
        return _DECISIONS[outcome].format(
            best=leader.name,
            recommended=recommended.name,
            n=len(self._finished),
            metric=self.primary,
            bound=self._bound_in_words(recommended),
            confidence=percent(self.confidence),
            questions=questions(len(self._scores)),
            aim=aim,
            until=until,
        )

    def _statements(self, systems: Sequence[System]) -> list[m.Statement]:
        tone: m.Tone = "open"
        if self.failed:
            tone = "alarm"
        elif self.recommended is not None and len(self._finished) > 1:
            tone = "best"
        statements = [m.Statement(self.decision, tone)]
        if len(self._finished) > 1 and len(self._scores):
            if 1 < len(self._ties) < len(self._finished):
                names, n = results_report.listed(self._ties), questions(len(self._scores))
                sentence = _TIED.format(names=names, metric=self.primary, questions=n)
                statements.append(m.Statement(sentence))
            statements.append(m.Statement(self._costs_in_words()))
        # who graded, or that labels don't fit, where it holds for all configurations
        for note in systems[0].scores.label_notes if systems else ():
            if all(note in system.scores.label_notes for system in systems):
                statements.append(m.Statement(f"{note}.", "alarm"))
        return statements

    def _costs_in_words(self) -> str:
        """The mean and the costs of what to take, beside those of the best mean."""
        leader = self.ranked[0]
        recommended = self.recommended or leader
        fields = {"recommended": recommended.name, "facts": self._facts(recommended)}
        if recommended is leader:
            return _COSTS.format(**fields)
        fields |= {"best": leader.name, "facts_of_best": self._facts(leader)}
        return _COSTS_OF_TWO.format(**fields)

    def _facts(self, configuration: Configuration) -> str:
        facts = [f"{self.primary} {score(self._common_mean(configuration), digits=_DIGITS)}"]
        if "tokens" in self._costs:
            facts.append(f"{count(configuration.tokens or 0)} tokens a question")
        if "p95" in self._costs:
            facts.append(f"p95 {seconds(configuration.p95 or 0)}")
        return ", ".join(facts)

    def _notes(self) -> Iterator[str]:
        for point in () if self._unmeasured else self.failed:
            yield f"{point.name} failed: {point.error or 'no question has a value'}"
        if not self._finished:
            return
        is_scored = np.isfinite(self._paired.columns[self.primary]).any(axis=1)
        n_left_out = int(is_scored.sum()) - len(self._scores)
        if n_left_out:
            yield _LEFT_OUT.format(questions=questions(n_left_out))

    def _table(self) -> m.Table:
        """The configurations, best mean first."""
        rows, head = [], []
        for rank, configuration in enumerate(self.ranked, 1):
            cells = self._cells(configuration)
            rows.append(m.Row(str(rank), list(cells.values())))
            head = list(cells)
        text = _HOW.format(metric=self.primary, confidence=percent(self.confidence))
        return m.Table(f"Configurations on {self.primary}", head, rows, "rank", text=text)

    def _cells(self, configuration: Configuration) -> dict[str, m.Cell]:
        """The cells of a configuration by their headings."""
        tone: m.Tone = "best" if configuration is self.recommended else "normal"
        cells = {name: m.Cell(str(value), tone=tone) for name, value in configuration.shown.items()}
        for metric in self.metric_names:
            mean = m.Cell.of(configuration.mean(metric), "score")
            cells[metric] = mean_of(mean, len(self._scores), _DIGITS)
        scores = self.results[configuration.name].scores
        interval = scores.intervals(confidence=self.confidence)[self.primary]
        cells[self.primary] = cells[self.primary]._replace(low=interval.low, high=interval.high)
        at_most = self.at_most_worse(configuration)
        bound = float(rounded_up(at_most, _DIGITS)) if math.isfinite(at_most) else None
        cells["at most worse by"] = m.Cell.of(bound, "score")._replace(digits=_DIGITS)
        if "tokens" in self._costs:
            cells["tokens a question"] = m.Cell.of(configuration.tokens, "count")
        if "p95" in self._costs:
            cells["p95"] = m.Cell.of(configuration.p95, "seconds")
        return cells

    def _records(self) -> m.Records:
        columns: dict[str, list[Any]] = defaultdict(list)
        for configuration in self:
            bound = None
            if configuration in self._finished:
                bound = self.at_most_worse(configuration)
            row = {"configuration": configuration.name, **configuration.shown}
            row |= {metric: configuration.mean(metric) for metric in self.metric_names}
            row |= {"tokens": configuration.tokens, "p95": configuration.p95}
            row["at_most_worse"] = None if bound == math.inf else bound
            row["recommended"] = configuration is self.recommended
            row["error"] = configuration.error or None
            for name, value in row.items():
                columns[name].append(value)
        return m.Records(columns)

    def _tradeoff(self) -> Figure | None:
        """Every configuration by its tokens and its quality; the recommended one has its name."""
        named = self.recommended or next(iter(self.ranked), None)
        marks = []
        for point in self._finished:
            mean = point.mean(self.primary)
            if point.tokens is not None and mean is not None:
                title = f"{point}; tokens {count(point.tokens)}"
                label = point.name if point is named else ""
                marks.append(Mark(point.tokens, mean, title, label=label))
        if not marks:
            return None
        series = [Series("configurations", 0, marks)]
        return Figure("marks", "tokens a question", self.primary, series)
