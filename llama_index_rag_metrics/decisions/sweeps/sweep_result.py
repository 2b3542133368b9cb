"""Sweep: every configuration of a grid with its quality and its cost, and what is best of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.comparing import compare
from llama_index_rag_metrics.decisions.comparison.comparison import Comparison, margin_of
from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
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
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.statistics.intervals import MeanInterval, exact_mean, number_clusters
from llama_index_rag_metrics.statistics.resampling import NOISE
from llama_index_rag_metrics.statistics.shortfalls import Shortfalls, not_beaten, shortfalls

from .configuration import Configuration

Cost: TypeAlias = Literal["tokens", "p95"]

SAVINGS: Mapping[Cost, float] = {"tokens": 0.05, "p95": 0.5}
"""The least share of a cost that counts as saved: a p95 differs much from run to run."""

_MOST_ERRORS = 3

_DECISIONS = {
    "nothing measured": "Nothing was measured: {failed} failed ({errors}).",
    "only one": "Only {best} was evaluated: there is nothing to compare it with.",
    "only one left": "Only {best} was evaluated: the others failed.",
    "nothing in common": (
        "Nothing can be compared: no question has a value for all {n} configurations."
    ),
    "the same": (
        "The {n} configurations score the same on {metric}, on all {questions}: take any of them."
    ),
    "the same, cheapest": (
        "The {n} configurations score the same on {metric}, on all {questions}: take the cheapest, "
        "{chosen} ({costs})."
    ),
    "winner": "{best} is the best of {n} on {metric}.",
    "winner and a cheaper one": (
        "{best} is the best of {n} on {metric}; {chosen} costs less and is at most {bound} worse."
    ),
    "take": (
        "Take {chosen}: it is at most {bound} worse than the best of {n} on {metric} ({confidence} "
        "confidence, {questions})."
    ),
    "take, no worse": (
        "Take {chosen}: it is no worse than any other of {n} on {metric} ({confidence} confidence, "
        "{questions})."
    ),
    "too few": (
        "Not enough questions to choose one of {n} configurations that {wanted} on {metric}: keep "
        "{best}. It has the {highest} ({mean} on {questions}){limit}."
    ),
    "too few, enough known": (
        "Not enough questions to choose one of {n} configurations that {wanted} on {metric}: until "
        "you have about {needed}, keep {best}. It has the {highest} ({mean} on {questions}){limit}."
    ),
}
_FAILED = (
    "No decision: {failed} of {all} configurations failed and may be better. Of the others: "
    "{decision}"
)
_COSTS = {
    "of the best": "It has the {highest} ({mean}), {costs}.",
    "of another": "Against the {highest}, {best}: {mean} instead of {best_mean}, {costs}.",
    "tokens": "{tokens} tokens a question",
    "p95": "p95 {p95}",
}
_TIED = {
    "two": "Both may be the best.",
    "all": "All {n} may be the best.",
    "some": "{tied} of {n} may be the best; the others are shown to be worse.",
}


class Sweep(Reportable, Sequence[Configuration]):
    """What `sweep` found: its configurations in the order of the grid.

    Attributes:
        metric_names: all metrics, of which the first decides.
        confidence: 1 - this is how often, at most, a winner is named though there is none, and how
            often a configuration that isn't within the tolerance is taken to be.
        tolerance: how much worse than the best one the recommended configuration may be.
        grading: how the metric that decides is graded, if it needs no labels.

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

    def __init__(
        self,
        configurations: Sequence[Configuration],
        metric_names: Sequence[str],
        *,
        confidence: float = 0.95,
        tolerance: float | None = None,
        grading: str = "",
    ) -> None:
        self._configurations = tuple(configurations)
        self.metric_names = tuple(metric_names)
        self.confidence = confidence
        self.tolerance = margin_of(self.primary, tolerance, "tolerance")
        self.grading = grading

    @property
    def primary(self) -> str:
        """The metric that decides."""
        return self.metric_names[0]

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._configurations[key]
        for configuration in self:
            if configuration.name == key:
                return configuration
        names = " or ".join(repr(configuration.name) for configuration in self)
        raise InvalidInput("configuration", key, names)

    def __len__(self) -> int:
        return len(self._configurations)

    def __iter__(self) -> Iterator[Configuration]:
        return iter(self._configurations)

    @cached_property
    def finished(self) -> list[Configuration]:
        """The configurations that were evaluated, and have a mean on the metric that decides."""
        return [
            configuration
            for configuration in self
            if not configuration.error and configuration.mean(self.primary) is not None
        ]

    @property
    def failed(self) -> list[Configuration]:
        """The configurations without results or without a value on the metric that decides."""
        finished = set(self.finished)
        return [configuration for configuration in self if configuration not in finished]

    @cached_property
    def not_beaten(self) -> tuple[Configuration, ...]:
        """The winner, or those that no other one is shown to beat, on the metric that decides.

        Whichever is truly the best is among them in at least `confidence` of sweeps.
        """
        if len(self.finished) < 2:
            return tuple(self.finished)
        positions = not_beaten(self._scores, **self._limits)
        return tuple(self.finished[position] for position in positions)

    @property
    def winner(self) -> Configuration | None:
        """The configuration that is shown to beat all others; None if none is, or if one failed."""
        return None if self.failed else self._leader

    @property
    def _leader(self) -> Configuration | None:
        has_one = len(self.not_beaten) == 1 and len(self.finished) > 1
        return self.not_beaten[0] if has_one else None

    @cached_property
    def within(self) -> tuple[Configuration, ...]:
        """The configurations that are shown to be at most `tolerance` worse than the best one."""
        return tuple(
            configuration
            for configuration in self.finished
            if self.at_most_worse(configuration) <= self.tolerance
        )

    @cached_property
    def recommended(self) -> Configuration | None:
        """The cheapest of the configurations within the tolerance, or of all if all are the same.

        None if none is within. It has the fewest tokens, then the lowest p95, then the best mean;
        fewer by less than 5 %, or a p95 lower by less than half, isn't cheaper. Where none is shown
        to be within, the safest choice is the best mean, the first of `ranked`.
        """
        left = list(self.finished if self.is_same else self.within)
        for cost in self.costs:
            least = min((getattr(configuration, cost) for configuration in left), default=0.0)
            left = [each for each in left if not saves(cost, getattr(each, cost), least)]
        best_first = [configuration for configuration in self.ranked if configuration in left]
        return best_first[0] if best_first else None

    def at_most_worse(self, configuration: Configuration) -> float:
        """How much worse than the best one a configuration is, at most, on the metric that decides.

        Whichever the best one is; 0 for the winner. The bounds of all configurations hold together
        in at least `confidence` of sweeps (Hsu's multiple comparisons with the best), so that one
        may be picked by its cost. Infinite with fewer than two queries, or clusters.
        """
        if configuration not in self._bounds:
            raise InvalidInput("configuration", configuration.name, "one that was evaluated")
        return 0.0 if configuration is self._leader else self._bounds[configuration]

    @cached_property
    def ranked(self) -> list[Configuration]:
        """The evaluated configurations, best mean first (it may be chance), ties cheapest first.

        The means are those over the questions that all of them have a value for.
        """

        def rank_key(configuration: Configuration) -> list[float]:
            costs = [getattr(configuration, cost) for cost in self.costs]
            return [-self._sign * self.common_mean(configuration), *costs]

        return sorted(self.finished, key=rank_key)

    @property
    def costs(self) -> list[Cost]:
        """The costs that are known of every evaluated configuration."""
        return [
            cost
            for cost in SAVINGS
            if all(getattr(configuration, cost) is not None for configuration in self.finished)
        ]

    def common_mean(self, configuration: Configuration) -> float:
        """The mean on the metric that decides over the questions that all have a value for.

        NaN where there is no such question.
        """
        return self._sign * self._common_means[configuration]

    def interval(self, configuration: Configuration) -> MeanInterval:
        """The interval of a configuration's mean on the metric that decides, with `confidence`."""
        if configuration.results is None:
            raise InvalidInput("configuration", configuration.name, "one that was evaluated")
        scores = configuration.results.scores
        return scores.intervals(confidence=self.confidence)[self.primary]

    @property
    def n_questions(self) -> int:
        """How many questions all evaluated configurations have a value for."""
        return len(self._scores)

    @property
    def is_same(self) -> bool:
        """Whether two configurations or more score the same on two questions or more."""
        if len(self.finished) < 2 or self.n_questions < 2:
            return False
        spread = self._scores.max(axis=1) - self._scores.min(axis=1)
        return bool((spread <= NOISE).all())

    @property
    def questions_needed(self) -> int | None:
        """About how many questions like these would show one to be within the tolerance.

        None where one is, or no number would.
        """
        return None if self.within else self._shortfalls.queries

    @property
    def decision(self) -> str:
        """The result in one or two sentences."""
        if not self.failed or len(self.finished) < 2:
            return self._decision
        failed, total = len(self.failed), len(self)
        return _FAILED.format(failed=failed, all=total, decision=self._decision)

    @property
    def costs_in_words(self) -> str:
        """What the recommended configuration costs, beside the best mean; "" where none is."""
        chosen = self.recommended
        if chosen is None or not self.costs or len(self.finished) < 2 or self.is_same:
            return ""
        best = self.ranked[0]
        kind = "of the best" if chosen is best else "of another"
        costs = [_cost_in_words(cost, chosen) for cost in self.costs]
        if chosen is not best:
            costs = [_cost_against(cost, chosen, best) for cost in self.costs]
        return _COSTS[kind].format(
            highest=self._highest,
            best=best.name,
            mean=self._mean_in_words(chosen),
            best_mean=self._mean_in_words(best),
            costs=", ".join(costs),
        )

    @property
    def tied_in_words(self) -> str:
        """How many may be the best; "" where there is a winner, or nothing to go by."""
        n, tied = len(self.finished), len(self.not_beaten)
        if tied < 2 or not self.n_questions or self.is_same:
            return ""
        kind = "some" if tied < n else "all"
        if tied == n == 2:
            kind = "two"
        return _TIED[kind].format(n=n, tied=tied)

    def compare(self, baseline: str | None = None, **options: Any) -> Comparison:
        """The configurations compared with one of them, by default the first that was evaluated.

        `options` are the further arguments of `compare`.
        """
        first = next(iter(self._results), "")
        return compare(
            self._results, baseline or first, **{"metrics": self.metric_names, **options}
        )

    def report(self, *, full: bool = False) -> Report:
        """The decision, and every configuration with its quality and cost."""
        from .sweep_report import sweep_report

        return sweep_report(self)

    def __repr__(self) -> str:
        return f"<Sweep of {len(self)} configurations: {self.decision}>"

    @property
    def _decision(self) -> str:
        """The decision on the configurations that were evaluated."""
        if not self.finished:
            errors = dict.fromkeys(configuration.error for configuration in self.failed)
            failed = counted(len(self.failed), "configuration", "configurations")
            listed = join_first([*errors], _MOST_ERRORS)
            return _DECISIONS["nothing measured"].format(failed=failed, errors=listed)
        kind, best, chosen = self._kind, self._leader or self.ranked[0], self.recommended
        costs = [] if chosen is None else [_cost_in_words(cost, chosen) for cost in self.costs]
        bound = 0.0 if chosen is None or len(self.finished) < 2 else self.at_most_worse(chosen)
        wanted = f"is within {given(self.tolerance)} of the best"
        limit = ""
        if kind.startswith("too few") and self.at_most_worse(best) < math.inf:
            worse = rounded_up(self.at_most_worse(best), 3)
            limit = f" and is at most {worse} worse than the best"
        return _DECISIONS[kind].format(
            n=len(self.finished),
            metric=self.primary,
            questions=questions(self.n_questions),
            confidence=percent(self.confidence),
            best=best.name,
            mean=self._mean_in_words(best),
            highest=self._highest,
            chosen="" if chosen is None else chosen.name,
            costs=", ".join(costs),
            bound="" if bound == math.inf else rounded_up(bound, 3),
            wanted=wanted if self.tolerance else "is the best",
            needed=two_digits_up(self.questions_needed or 0),
            limit=limit,
        )

    @property
    def _kind(self) -> str:
        """Which of the decisions it is."""
        chosen = self.recommended
        if len(self.finished) == 1:
            return "only one left" if self.failed else "only one"
        if not self.n_questions:
            return "nothing in common"
        if self.is_same and chosen is not None:
            is_cheapest = any(
                saves(cost, getattr(configuration, cost), getattr(chosen, cost))
                for cost in self.costs
                for configuration in self.finished
            )
            return "the same, cheapest" if is_cheapest else "the same"
        if self._leader is not None:
            has_cheaper = chosen is not None and chosen is not self._leader
            return "winner and a cheaper one" if has_cheaper else "winner"
        if chosen is not None:
            return "take" if self.at_most_worse(chosen) else "take, no worse"
        return "too few" if self.questions_needed is None else "too few, enough known"

    @property
    def _highest(self) -> str:
        return "lowest mean" if lower_is_better(self.primary) else "highest mean"

    def _mean_in_words(self, configuration: Configuration) -> str:
        return score(self.common_mean(configuration), digits=3)

    @property
    def _results(self) -> dict[str, EvaluationResults]:
        return {
            configuration.name: configuration.results
            for configuration in self.finished
            if configuration.results is not None
        }

    @property
    def _sign(self) -> float:
        return -1.0 if lower_is_better(self.primary) else 1.0

    @cached_property
    def _paired(self) -> Paired:
        scores = {name: results.scores for name, results in self._results.items()}
        return pair(scores, self.finished[0].name, metrics=[self.primary])

    @cached_property
    def _is_common(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(queries,) whether all evaluated configurations have a value."""
        return ~np.isnan(self._paired.columns[self.primary]).any(axis=1)

    @cached_property
    def _scores(self) -> FloatArray:
        """(queries, finished configurations) scores where all have one; more is better."""
        common: FloatArray = self._paired.columns[self.primary][self._is_common]
        return self._sign * common

    @cached_property
    def question_clusters(self) -> IntArray | None:
        """The number of each such question's conversation; None where each is alone."""
        if not self.finished or self._paired.clusters is None:
            return None
        return number_clusters(self._paired.clusters[self._is_common].tolist())

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

    @cached_property
    def _shortfalls(self) -> Shortfalls:
        return shortfalls(self._scores, self.tolerance, **self._limits)

    @cached_property
    def _bounds(self) -> dict[Configuration, float]:
        if not self.finished:
            return {}
        return dict(zip(self.finished, self._shortfalls.at_most.tolist(), strict=True))

    @cached_property
    def _common_means(self) -> dict[Configuration, float]:
        means = [exact_mean(column) for column in self._scores.T]
        return dict(zip(self.finished, means, strict=True))


def saves(cost: Cost, more: float, less: float) -> bool:
    """Whether one cost is lower than another by a share that counts."""
    return less < more * (1 - SAVINGS[cost])


def _amount(cost: Cost, configuration: Configuration) -> str:
    value = getattr(configuration, cost)
    return count(value) if cost == "tokens" else seconds(value)


def _cost_in_words(cost: Cost, configuration: Configuration) -> str:
    return _COSTS[cost].format(**{cost: _amount(cost, configuration)})


def _cost_against(cost: Cost, chosen: Configuration, best: Configuration) -> str:
    """A cost beside that of the best mean, and by how much it differs where that counts."""
    text = f"{_cost_in_words(cost, chosen)} instead of {_amount(cost, best)}"
    before, after = getattr(best, cost), getattr(chosen, cost)
    is_less, is_more = saves(cost, before, after), saves(cost, after, before)
    return f"{text} ({times(after / before)})" if before and (is_less or is_more) else text
