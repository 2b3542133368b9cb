"""Sweep: every configuration of a grid with its quality and its cost, and what is best of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model, numbers
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.text import listed
from llama_index_rag_metrics.runtime.containers import FloatArray, map_values
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.statistics.differences import Contest, Shortfalls
from llama_index_rag_metrics.statistics.intervals import alpha_of, exact_mean
from llama_index_rag_metrics.statistics.resampling import NOISE
from llama_index_rag_metrics.stories import results_report
from llama_index_rag_metrics.stories.first_line import with_failures
from llama_index_rag_metrics.stories.label_view import LabelView

from .grid import Configuration

_COST_FORMS: Mapping[str, model.Form] = {"tokens": "count", "p95": "seconds"}
_COST_HEADINGS = {"tokens": "tokens {depth}", "p95": "latency p95"}
# the least share of a cost that counts as saved: a p95 differs much from run to run
_LEAST_SAVINGS = {"tokens": 0.05, "p95": 0.5}
# the badge of each outcome, and its colour; of those not here: can't tell
_BADGES: Mapping[str, tuple[str, model.Tone]] = {
    "failed": ("No decision", "alarm"),
    "winner": ("best", "best"),
    "take": ("good enough", "best"),
    "cheaper": ("good enough", "best"),
    "tied": ("same scores", "normal"),
    "tied, ahead": ("best", "best"),
}
_WORSE = "at most worse by"
_GREY = 6  # of the colours of figures
_NOTHING = "Nothing was measured: {failed} failed ({errors})."
_SOME_FAILED = (
    "No decision: {failed} failed and may be better ({errors}). Of the others: {decision}"
)
_TWINS = " It scores the same as {twins} on all {questions}."
_DECISIONS = {
    "single": "Only {best} was evaluated: there is nothing to compare it with.",
    "nothing in common": (
        "Nothing can be compared: no question has a value for all {n} configurations."
    ),
    "winner": "{best} is the best of {n} on {metric} ({confidence} confidence, {questions}).",
    "take": (
        "Take {recommended}: it is at most {bound} worse than the best of {n} on {metric} "
        "({confidence} confidence, {questions})."
    ),
    "cheaper": (
        "Take {recommended}: it costs less than {best}, which has the best mean, and is at most "
        "{bound} worse than the best of {n} on {metric} ({confidence} confidence, {questions})."
    ),
    "tied": "Take {best}: none of {n} is better on {metric}.",
    "tied, ahead": (
        "Take {best}: none of {n} is better on {metric} ({confidence} confidence, {questions})."
    ),
    "too few": (
        "Not enough questions to choose one of {n} configurations on {metric}: {until}take {best}, "
        "which has the best mean."
    ),
}
_HOW = (
    "At most worse by: how far the true mean on {metric}, in its unit, may lie below the best "
    "configuration's; all bounds hold at once with {confidence} confidence."
)
_RIVALS = " The first {n} score the same here; on other questions they may differ by their bound."
_WHY = ' Question by question: compare(found.results, baseline="{best}").to_html("report.html").'
_LEFT_OUT = "left out of ranks and bounds: {questions} that not every configuration has a value for"


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Reportable):
    """What `sweep` found: its configurations, which `sweep["top_k=5"]` finds by their names.

    The configurations are in the order of the grid; of the metrics the first decides.
    """

    configurations: Sequence[Configuration]
    metric_names: Sequence[str]
    confidence: float = 0.95
    tolerance: float = 0.02

    def __getitem__(self, name: str) -> Configuration:
        names = list(map(attrgetter("name"), self))
        if name not in names:
            raise InvalidInput("configuration", name, " or ".join(map(repr, names)))
        return self.configurations[names.index(name)]

    def __iter__(self) -> Iterator[Configuration]:
        return iter(self.configurations)

    @property
    def primary(self) -> str:
        """The metric that decides."""
        return self.metric_names[0]

    @cached_property
    def failed(self) -> list[Configuration]:
        """The configurations without results, or without a mean."""
        return [configuration for configuration in self if configuration.failure(self.primary)]

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
        candidates = [point for point in self.ranked if point in self.within]
        for cost in self._costs:
            amount, saving = attrgetter(cost), _LEAST_SAVINGS[cost]
            lowest = min(map(amount, candidates), default=0.0)
            candidates = [point for point in candidates if amount(point) * (1 - saving) <= lowest]
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
        """The evaluated configurations, best mean first (it may be chance).

        The means are over questions that all have values for; ties go by tokens, then by the grid.
        """

        def rank_key(configuration: Configuration) -> tuple[float, float]:
            mean, tokens = exact_mean(self._scores_of(configuration)), configuration.tokens
            return -mean, math.inf if tokens is None else tokens

        return sorted(self._finished, key=rank_key)

    @property
    def decision(self) -> str:
        """The result in one or two sentences."""
        if not self.failed:
            return self._decision_of_finished
        reasons = dict.fromkeys(point.failure(self.primary).rstrip(".") for point in self.failed)
        failed = numbers.counted(len(self.failed), "configuration", "configurations")
        fields = {"failed": failed, "errors": join_first(list(reasons), 3)}
        if self._finished:
            return _SOME_FAILED.format(decision=self._decision_of_finished, **fields)
        if any(map(attrgetter("error"), self)):
            return _NOTHING.format(**fields)
        return f"{'. '.join(reasons)}."

    def report(self, *, full: bool = False) -> model.Report:
        """The decision, and every configuration with its quality and cost."""
        systems = [system_of(results, name) for name, results in self.results.items()]
        n_all = numbers.counted(len(self.configurations), "configuration", "configurations")
        lead = f"{n_all}, {numbers.questions(len(self._scores))}"
        about = results_report.about(systems)
        outcome = "failed" if self.failed else self._outcome
        badge, tone = _BADGES.get(outcome, ("can't tell", "open"))
        verdict = model.Statement(self.decision, tone, badge)
        decision = with_failures([verdict], systems, self.primary)
        notes = [*self._notes(), *results_report.remarks(systems)]
        records = list(map(self._record, self))
        columns = {name: list(map(itemgetter(name), records)) for name in records[0]}
        return model.Report(
            title=f"Sweep over {', '.join(self.configurations[0].shown) or 'one configuration'}",
            lead=results_report.with_left_out(lead, systems[0]) if systems else lead,
            decision=decision,
            about=[pair for pair in about if pair in systems[0].about.items()],  # what all share
            tables=[self._table()],
            failures=results_report.failures(systems),
            notes=results_report.unsaid(notes, decision),
            glossary=results_report.glossary(self.metric_names),
            figures={"tradeoff": self._tradeoff},
            records=model.Records(columns),
        )

    @cached_property
    def _finished(self) -> list[Configuration]:
        return [configuration for configuration in self if configuration not in self.failed]

    @property
    def _costs(self) -> list[str]:
        return [cost for cost in _COST_FORMS if None not in map(attrgetter(cost), self._finished)]

    @cached_property
    def _paired(self) -> Paired:
        return pair(map_values(attrgetter("scores"), self.results), [self.primary])

    @cached_property
    def _contest(self) -> Contest:
        return self._paired.contest(self.primary) if self._finished else Contest(np.empty((0, 1)))

    @property
    def _scores(self) -> FloatArray:
        """(queries, evaluated configurations) these scores; more is better."""
        return self._contest.scores

    def _scores_of(self, configuration: Configuration) -> FloatArray:
        return np.asarray(self._scores[:, self._finished.index(configuration)], np.float64)

    @cached_property
    def _tied(self) -> list[Configuration]:
        """The best mean and those that score the same on every question, in that order."""
        scores = self._scores_of(self.ranked[0])
        return [point for point in self.ranked if np.array_equal(self._scores_of(point), scores)]

    @cached_property
    def _is_ahead(self) -> bool:
        rivals = [self._scores_of(point) for point in self.ranked if point not in self._tied]
        columns = [self._scores_of(self.ranked[0]), *rivals]
        if len(columns) < 2 or len(self._scores) < 2:
            return False
        contest = replace(self._contest, scores=np.stack(columns, axis=1))
        return contest.beats_all(0, alpha_of(self.confidence))

    @property
    def _leader(self) -> Configuration | None:
        return self.ranked[0] if self._is_ahead and len(self._tied) == 1 else None

    @cached_property
    def _shortfalls(self) -> Shortfalls:
        return self._contest.shortfalls(self.tolerance, alpha_of(self.confidence))

    @property
    def _outcome(self) -> str:
        best, n_tied = self.ranked[0], len(self._tied)
        if len(self._finished) == 1:
            return "single"
        if not len(self._scores):
            return "nothing in common"
        if self.recommended not in (None, best) and best in self.within:
            return "cheaper"
        if self._leader is not None:
            return "winner"
        if self.recommended is not None:
            return "take"
        if n_tied == len(self._finished):
            return "tied"
        if self._is_ahead:
            return "tied, ahead"
        return "too few"

    @property
    def _decision_of_finished(self) -> str:
        best, until, template = self.ranked[0], "", _DECISIONS[self._outcome]
        if self._shortfalls.queries is not None:
            until = f"until you have about {numbers.two_digits_up(self._shortfalls.queries)}, "
        twins = list(map(self._twin, self._tied[1:]))
        if twins and self._outcome in ("tied", "tied, ahead", "too few"):
            template += _TWINS
        return template.format(
            best=best.name,
            recommended=self._proposal.name,
            n=len(self._finished),
            metric=self.primary,
            bound=numbers.shown(self._bound(self._proposal)),
            confidence=numbers.percent(self.confidence),
            questions=numbers.questions(len(self._scores)),
            twins=listed(twins),
            until=until,
        )

    def _twin(self, twin: Configuration) -> str:
        leader, pairs = self.ranked[0], twin.shown.items()
        text = ", ".join(f"{name}={value}" for name, value in pairs if value != leader.shown[name])
        for metric in self.metric_names[1:]:
            gain = (twin.mean(metric) or 0.0) - (leader.mean(metric) or 0.0)
            if (-gain if lower_is_better(metric) else gain) > NOISE:
                return f"{text} (better on {metric})"
        return text

    def _notes(self) -> Iterator[str]:
        for point in self.failed:
            if self._finished or point.error:
                yield f"{point.name} failed: {point.failure(self.primary)}"
        if self._finished:
            is_scored = np.isfinite(self._paired.columns[self.primary]).any(axis=1)
            n_left_out = int(is_scored.sum()) - len(self._scores)
            if n_left_out:
                yield _LEFT_OUT.format(questions=numbers.questions(n_left_out))

    def _table(self) -> model.Table:
        rows, cells = [], dict[str, model.Cell]()
        for rank, configuration in enumerate(self.ranked, 1):
            cells = self._cells(configuration)
            rows.append(model.Row(self._label(rank, configuration), list(cells.values())))
        text = _HOW.format(metric=self.primary, confidence=numbers.percent(self.confidence))
        if self._finished and len(self._tied) > 1:
            text += _RIVALS.format(n=len(self._tied))
        if rows[1:]:
            text += _WHY.format(best=self._proposal.name)
        title, n_core = f"Configurations on {self.primary}", len(self.configurations[0].shown) + 2
        return model.Table(title, list(cells), rows, "rank", text=text, n_core=n_core)

    @property
    def _proposal(self) -> Configuration:
        return self.recommended or self.ranked[0]

    def _label(self, rank: int, configuration: Configuration) -> str:
        return f"{rank}{' ✓' * (configuration is self._proposal)}"

    def _heading(self, cost: str) -> str:
        k = LabelView.of(self.primary).k
        return _COST_HEADINGS[cost].format(depth=f"in first {k}" if k else "a question")

    def _cells(self, configuration: Configuration) -> dict[str, model.Cell]:
        tone: model.Tone = "best" if configuration is self.recommended else "normal"
        parameters = configuration.shown.items()
        cells = {name: model.Cell(str(value), tone=tone) for name, value in parameters}
        cells |= {self.primary: self._bound(configuration), _WORSE: self._bound(configuration)}
        for metric in self.metric_names:
            mean = model.Cell.of(configuration.mean(metric), "score")
            digits = self._digits * (metric == self.primary)
            cells[metric] = numbers.mean_of(mean, len(self._scores), digits)
        scores = self.results[configuration.name].scores
        interval = scores.intervals(confidence=self.confidence)[self.primary]
        cells[self.primary] = cells[self.primary]._replace(low=interval.low, high=interval.high)
        for cost in self._costs:
            amount = model.Cell.of(getattr(configuration, cost), _COST_FORMS[cost])
            cells[self._heading(cost)] = amount
        return cells

    @cached_property
    def _digits(self) -> int:
        bounds = map(self.at_most_worse, self._finished)
        smallest = min((bound for bound in bounds if 0 < bound < math.inf), default=1.0)
        digits = max(numbers.digits_of(len(self._scores)), numbers.decimals_of(-smallest, smallest))
        return min(digits, numbers.DIGITS)

    def _bound(self, configuration: Configuration) -> model.Cell:
        bound = self.at_most_worse(configuration)
        if bound == math.inf:
            return model.Cell.of(None, "score")
        rounded = float(numbers.rounded_up(bound, self._digits))
        return model.Cell(rounded, "score", digits=self._digits)

    def _record(self, configuration: Configuration) -> dict[str, Any]:
        is_finished = configuration in self._finished
        bound = self.at_most_worse(configuration) if is_finished else math.inf
        return {
            "configuration": configuration.name,
            **configuration.shown,
            **dict(zip(self.metric_names, map(configuration.mean, self.metric_names), strict=True)),
            "tokens": configuration.tokens,
            "p95": configuration.p95,
            "at_most_worse": bound if bound < math.inf else None,
            "recommended": configuration is self.recommended,
            "error": configuration.failure(self.primary) or None,
        }

    def _tradeoff(self) -> model.Figure | None:
        series, amounts, saving = [], [0.0], _LEAST_SAVINGS["tokens"]
        for rank, point in enumerate(self.ranked, 1):
            mean = point.mean(self.primary)
            if point.tokens is not None and mean is not None:
                amounts.append(point.tokens)
                title = f"{point}; tokens {numbers.count(point.tokens)}"
                mark = model.Mark(point.tokens, mean, title, label=self._label(rank, point))
                colour = _GREY * (point is not self._proposal)
                series.append(model.Series(point.name, colour, [mark]))
        if max(amounts) * (1 - saving) <= min(amounts[1:], default=0.0):
            return None
        return model.Figure("marks", self._heading("tokens"), self.primary, series)
