"""Sweep: every configuration of a grid with its quality and its cost, and what is best of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from llama_index_rag_metrics.decisions.clusters import Clusters, clusters_of
from llama_index_rag_metrics.decisions.comparison.comparing import compare
from llama_index_rag_metrics.decisions.comparison.comparison import Comparison, margin_of
from llama_index_rag_metrics.decisions.comparison.pairing import pair
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    system_of,
)
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better, worst_score
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.numbers import (
    count,
    counted,
    given,
    percent,
    questions,
    rounded_up,
    score,
    seconds,
    times,
    two_digits_up,
)
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.scores import Scores, listed_means
from llama_index_rag_metrics.statistics.intervals import MeanInterval, exact_mean, number_clusters
from llama_index_rag_metrics.statistics.resampling import NOISE
from llama_index_rag_metrics.statistics.shortfalls import Shortfalls, not_beaten, shortfalls


@dataclass(frozen=True, eq=False, repr=False)
class Configuration(Sentence):
    """One configuration of a sweep.

    Attributes:
        name: its parameters as a text, such as "chunk_size=128, top_k=5".
        params: its parameters.
        results: of its evaluation; None where there was none.
        error: why it can't be compared with the others; "" where it can.
        shown: parameter to its value as a text, without a secret.

    Examples:
        >>> from llama_index_rag_metrics import sweep
        >>> def build(top_k):
        ...     return lambda query: ["d2", "d1"][:top_k]
        >>> dataset = {"queries": {"q1": "x?", "q2": "y?"}, "corpus": {},
        ...            "relevant_docs": {"q1": ["d1"], "q2": ["d2"]}}
        >>> found = sweep(build, {"top_k": [1, 2]}, dataset, ["recall"])
        >>> [(configuration.name, configuration.mean("recall")) for configuration in found]
        [('top_k=1', 0.5), ('top_k=2', 1.0)]
    """

    name: str
    params: Mapping[str, Any]
    results: EvaluationResults | None = None
    error: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        means = "" if self.results is None else listed_means(self.results.scores.means)
        return f"{self.name}: {'; '.join(filter(None, (means, self.error)))}"

    def mean(self, metric: str) -> float | None:
        """The mean on a metric; None where there is none."""
        return None if self.results is None else system_of(self.results).mean(metric)

    @cached_property
    def tokens(self) -> float | None:
        """The mean tokens per query that a model has to read; None if they weren't counted."""
        return None if self.results is None else self.results.run.mean_tokens

    @cached_property
    def p95(self) -> float | None:
        """The seconds in which 95 % of the queries were answered; None if they weren't timed."""
        latency = None if self.results is None else self.results.run.latency
        return None if latency is None else latency.p95


def _interval(
    scores: Scores, metric: str, clusters: Clusters | None, confidence: float = 0.95
) -> MeanInterval:
    of_query = clusters_of(clusters, scores.query_ids, scores.metadata)
    known = None if of_query is None else of_query.tolist()
    return scores.intervals(confidence=confidence, clusters=known)[metric]


class Sweep(Reportable, Sequence[Configuration]):
    """What `sweep` found: its configurations in the order of the grid.

    Attributes:
        primary: the metric that decides.
        metric_names: all metrics.
        confidence: 1 - this is how often, at most, a winner is named though there is none, and how
            often a configuration that isn't within the tolerance is taken to be.
        tolerance: how much worse than the best one, on the primary metric, the recommended
            configuration may be.
        clusters: what questions belong to, as for `compare`; None for their conversations.

    Examples:
        >>> from llama_index_rag_metrics import sweep
        >>> def build(top_k):
        ...     return lambda query: ["d2", "d1"][:top_k]
        >>> dataset = {"queries": {f"q{n}": "x?" for n in range(10)}, "corpus": {},
        ...            "relevant_docs": {f"q{n}": ["d1" if n else "d2"] for n in range(10)}}
        >>> found = sweep(build, {"top_k": [1, 2]}, dataset, ["recall"])
        >>> found.winner.name, found["top_k=1"].mean("recall")
        ('top_k=2', 0.1)
    """

    def __init__(
        self,
        configurations: Sequence[Configuration],
        *,
        primary: str,
        metric_names: Sequence[str],
        confidence: float = 0.95,
        tolerance: float | None = None,
        clusters: Clusters | None = None,
    ) -> None:
        self._configurations = tuple(configurations)
        self.primary = primary
        self.metric_names = tuple(metric_names)
        self.confidence = confidence
        self.tolerance = margin_of(primary, tolerance, "tolerance")
        self.clusters = clusters

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._configurations[key]
        by_name = {configuration.name: configuration for configuration in self}
        if key not in by_name:
            raise InvalidInput("configuration", key, " or ".join(map(repr, by_name)))
        return by_name[key]

    def __len__(self) -> int:
        return len(self._configurations)

    @cached_property
    def finished(self) -> list[Configuration]:
        """The configurations that were evaluated, and have a mean on the primary metric."""
        return [
            configuration
            for configuration in self
            if not configuration.error and configuration.mean(self.primary) is not None
        ]

    @property
    def failed(self) -> list[Configuration]:
        """The configurations without results or without a value on the primary metric."""
        finished = set(self.finished)
        return [configuration for configuration in self if configuration not in finished]

    @cached_property
    def undefeated(self) -> tuple[Configuration, ...]:
        """The winner, or those that no other one is shown to beat, on the primary metric.

        They are statistically tied. Whichever is truly the best is among them in at least
        `confidence` of sweeps.
        """
        if len(self.finished) < 2:
            return tuple(self.finished)
        kept = not_beaten(self._scores, **self._limits)
        return tuple(self.finished[position] for position in kept)

    @property
    def winner(self) -> Configuration | None:
        """The configuration that is shown to beat all others; None if none is, or if one failed."""
        return None if self.failed else self._leader

    @property
    def _leader(self) -> Configuration | None:
        (first, *others) = self.undefeated or (None,)
        return first if not others and len(self.finished) > 1 else None

    @cached_property
    def within(self) -> tuple[Configuration, ...]:
        """The configurations that are shown to be at most `tolerance` worse than the best one."""
        return tuple(each for each in self.finished if self.at_most_worse(each) <= self.tolerance)

    @cached_property
    def recommended(self) -> Configuration | None:
        """The cheapest of the configurations within the tolerance, or of all if all are the same.

        None if none is within.
        It has the fewest tokens, then the lowest p95, then the best mean; fewer by less than 5 %,
        or a p95 lower by less than half, isn't cheaper. Where none is shown to be within, the
        safest choice is the best mean, the first of `ranked`.
        """
        left = list(self.finished if self.is_same else self.within)
        for cost in self.costs:
            least = min((getattr(each, cost) for each in left), default=0.0)
            left = [each for each in left if not saves(cost, getattr(each, cost), least)]
        return next((each for each in self.ranked if each in left), None)

    def at_most_worse(self, configuration: Configuration) -> float:
        """How much worse than the best one a configuration is on the primary metric, at most.

        Whichever the best one is; 0 for the winner. The bounds of all configurations hold together
        in at least `confidence` of sweeps (Hsu's multiple comparisons with the best), so that one
        may be picked by its cost. Infinite with fewer than two queries, or clusters.
        """
        if configuration not in self._bounds:
            raise InvalidInput("configuration", configuration.name, "one that was evaluated")
        return 0.0 if configuration is self._leader else self._bounds[configuration]

    @property
    def ranked(self) -> list[Configuration]:
        """The evaluated configurations, best mean first (it may be chance), ties cheapest first.

        The means are those over the questions that all of them have a value for.
        """
        return sorted(
            self.finished,
            key=lambda each: (-self._sign * self.common_mean(each), *self._cost(each)),
        )

    def common_mean(self, configuration: Configuration) -> float:
        """The mean on the primary metric over the questions that all have a value for.

        NaN where there is no such question.
        """
        return self._sign * self._common_means[configuration]

    def interval(self, configuration: Configuration) -> MeanInterval:
        """The interval of a configuration's mean on the primary metric, with `confidence`."""
        if configuration.results is None:
            raise InvalidInput("configuration", configuration.name, "one that was evaluated")
        scores = configuration.results.scores
        return _interval(scores, self.primary, self.clusters, self.confidence)

    @property
    def decision(self) -> str:
        """The result in one or two sentences."""
        n_failed = len(self.failed)
        if not self.finished:
            errors = join_first([*dict.fromkeys(each.error for each in self.failed)], _MOST_ERRORS)
            failed = counted(n_failed, "configuration", "configurations")
            return f"Nothing was measured: {failed} failed ({errors})."
        if len(self.finished) == 1:
            reason = "the others failed" if n_failed else "there is nothing to compare it with"
            return f"Only {self.finished[0].name} was evaluated: {reason}."
        if n_failed:
            return (
                f"No decision: {n_failed} of {len(self)} configurations failed and may be better. "
                f"Of the others: {_among_finished(self)}"
            )
        return _among_finished(self)

    def compare(self, baseline: str | None = None, **options: Any) -> Comparison:
        """The configurations compared with one of them, by default the first that was evaluated.

        `options` are the further arguments of `compare`.
        """
        first = next(iter(self._results), "")
        metrics = dict.fromkeys([self.primary, *self.metric_names])
        known = {"metrics": [*metrics], "clusters": self.clusters}
        return compare(self._results, baseline or first, **{**known, **options})

    def report(self, *, full: bool = False) -> Report:
        """The decision, and every configuration with its quality and cost."""
        from llama_index_rag_metrics.decisions.sweeps.sweep_report import sweep_report

        return sweep_report(self)

    def __repr__(self) -> str:
        return f"<Sweep of {len(self)} configurations: {self.decision}>"

    @property
    def _results(self) -> dict[str, EvaluationResults]:
        return {
            configuration.name: configuration.results
            for configuration in self.finished
            if configuration.results is not None
        }

    @property
    def n_questions(self) -> int:
        """How many questions all evaluated configurations have a value for."""
        return len(self._scores)

    @property
    def is_same(self) -> bool:
        """Whether two configurations or more score the same on two questions or more."""
        if len(self.finished) < 2 or self.n_questions < 2:
            return False
        return bool(np.ptp(self._scores, axis=1).max() <= NOISE)

    @property
    def questions_needed(self) -> int | None:
        """About how many questions like these would show one to be within the tolerance.

        None where one is, or no number would.
        """
        return None if self.within else self._shortfalls.queries

    @property
    def question_clusters(self) -> IntArray | None:
        """The number of each such question's cluster, or conversation; None where each is alone."""
        return self._compared[1] if self.finished else None

    @property
    def _scores(self) -> FloatArray:
        """(queries, finished configurations) scores where all have one; more is better."""
        return self._compared[0]

    @cached_property
    def _compared(self) -> tuple[FloatArray, IntArray | None]:
        """These scores, and (queries,) their clusters."""
        scores = {name: results.scores for name, results in self._results.items()}
        first = self.finished[0].name
        paired = pair(scores, first, metrics=[self.primary], clusters=self.clusters)
        columns = self._sign * paired.columns[self.primary]
        known, clusters = ~np.isnan(columns).any(axis=1), paired.clusters
        return columns[known], None if clusters is None else number_clusters(clusters[known])

    @cached_property
    def _bounds(self) -> dict[Configuration, float]:
        if not self.finished:
            return {}
        return dict(zip(self.finished, self._shortfalls.at_most.tolist(), strict=True))

    @cached_property
    def _common_means(self) -> dict[Configuration, float]:
        return dict(zip(self.finished, map(exact_mean, self._scores.T), strict=True))

    @cached_property
    def _shortfalls(self) -> Shortfalls:
        return shortfalls(self._scores, self.tolerance, **self._limits)

    @property
    def _limits(self) -> dict[str, Any]:
        """What intervals take for granted."""
        (lowest, highest), worst = limits_of(self.primary), worst_score(self.primary)
        return {
            "span": highest - lowest,
            "worst": None if worst is None else self._sign * worst,
            "clusters": self.question_clusters,
            "alpha": round(1 - self.confidence, 12),
        }

    @property
    def _sign(self) -> float:
        return -1.0 if lower_is_better(self.primary) else 1.0

    @cached_property
    def costs(self) -> list[str]:
        """The costs that all evaluated configurations have, of "tokens" and "p95"."""
        return [
            name
            for name in ("tokens", "p95")
            if all(getattr(configuration, name) is not None for configuration in self.finished)
        ]

    def _cost(self, configuration: Configuration) -> list[float]:
        return [getattr(configuration, name) for name in self.costs]


_MOST_ERRORS = 3

SAVINGS = {"tokens": 0.05, "p95": 0.5}
"""The least share of a cost that counts as saved: a p95 differs much from run to run."""


def saves(cost: str, more: float, less: float) -> bool:
    """Whether one cost is lower than another by a share that counts."""
    return less < more * (1 - SAVINGS[cost])


def costs(sweep: Sweep) -> str:
    """What the recommended configuration costs, beside the best mean; "" where none is."""
    chosen = sweep.recommended
    if chosen is None or not sweep.costs or len(sweep.finished) < 2 or sweep.is_same:
        return ""
    best = sweep.ranked[0]
    if chosen is best:
        parts = [
            f"{_best(sweep)} ({_mean(sweep, best)})",
            *(_cost(each, best) for each in sweep.costs),
        ]
        return f"It has the {', '.join(parts)}."
    parts = [f"{_mean(sweep, chosen)} instead of {_mean(sweep, best)}"]
    parts += [
        f"{_cost(cost, chosen)} instead of {_FORMS[cost](getattr(best, cost))}"
        f"{_change(cost, getattr(best, cost), getattr(chosen, cost))}"
        for cost in sweep.costs
    ]
    return f"Against the {_best(sweep)}, {best.name}: {', '.join(parts)}."


def tied(sweep: Sweep) -> str:
    """How many are statistically tied; "" where there is a winner, or nothing to go by."""
    n, n_tied = len(sweep.finished), len(sweep.undefeated)
    if n_tied < 2 or not sweep.n_questions or sweep.is_same:
        return ""
    if n_tied == n:
        return f"{'Both' if n == 2 else f'All {n}'} are statistically tied."
    return f"{n_tied} of {n} are statistically tied; the others are shown to be worse."


def _among_finished(sweep: Sweep) -> str:
    n, chosen, asked = len(sweep.finished), sweep.recommended, questions(sweep.n_questions)
    if not sweep.n_questions:
        return f"Nothing can be compared: no question has a value for all {n} configurations."
    if sweep.is_same and chosen is not None:
        costs = ", ".join(_cost(each, chosen) for each in sweep.costs)
        is_cheaper = any(
            saves(cost, getattr(each, cost), getattr(chosen, cost))
            for cost in sweep.costs
            for each in sweep.finished
        )
        take = f"take the cheapest, {chosen.name} ({costs})" if is_cheaper else "take any of them"
        return f"The {n} configurations score the same on {sweep.primary}, on all {asked}: {take}."
    (first, *others) = sweep.undefeated
    if not others:
        start = f"{first.name} is the best of {n} on {sweep.primary}"
        if chosen is None or chosen is first:
            return f"{start}."
        return f"{start}; {chosen.name} costs less and is at most {_bound(sweep, chosen)} worse."
    if chosen is not None:
        confidence = f"({percent(sweep.confidence)} confidence, {asked})"
        worse = f"at most {_bound(sweep, chosen)} worse than the best"
        if not sweep.at_most_worse(chosen):
            worse = "no worse than any other"
        return f"Take {chosen.name}: it is {worse} of {n} on {sweep.primary} {confidence}."
    best, needed = sweep.ranked[0], sweep.questions_needed
    within = f"is within {given(sweep.tolerance)} of the best" if sweep.tolerance else "is the best"
    until = "" if needed is None else f" until there are about {two_digits_up(needed)}"
    bound = sweep.at_most_worse(best)
    worse = f" and is at most {_bound(sweep, best)} worse than the best" if bound < math.inf else ""
    return (
        f"{asked} can't show which of {n} configurations {within} on {sweep.primary}. "
        f"Keep {best.name}{until}: it has the {_best(sweep)} ({_mean(sweep, best)}){worse}."
    )


def _change(cost: str, before: float, after: float) -> str:
    """By how much a cost differs; "" for less than counts."""
    if not before or not (saves(cost, before, after) or saves(cost, after, before)):
        return ""
    return f" ({times(after / before)})"


_FORMS = {"tokens": count, "p95": seconds}


def _cost(cost: str, configuration: Configuration) -> str:
    text = _FORMS[cost](getattr(configuration, cost))
    return f"{text} tokens a question" if cost == "tokens" else f"p95 {text}"


def _mean(sweep: Sweep, configuration: Configuration) -> str:
    return score(sweep.common_mean(configuration), digits=3)


def _best(sweep: Sweep) -> str:
    return f"{'lowest' if lower_is_better(sweep.primary) else 'highest'} mean"


def _bound(sweep: Sweep, configuration: Configuration) -> str:
    return rounded_up(sweep.at_most_worse(configuration), 3)
