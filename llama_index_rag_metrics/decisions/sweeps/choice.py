"""Choice: which of several configurations is the best, and which is the cheapest good enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from llama_index_rag_metrics.decisions.comparison.difference import margin_of
from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better, worst_score
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import MeanInterval, exact_mean, number_clusters
from llama_index_rag_metrics.statistics.resampling import NOISE
from llama_index_rag_metrics.statistics.shortfalls import Shortfalls, not_beaten, shortfalls

from .configuration import SAVINGS, Configuration, Cost, saves


class Choice(Sequence[Configuration]):
    """Configurations in the order of the grid, and what these questions show of them."""

    def __init__(
        self,
        configurations: Sequence[Configuration],
        metric_names: Sequence[str],
        *,
        confidence: float = 0.95,
        tolerance: float | None = None,
    ) -> None:
        self._configurations = tuple(configurations)
        self.metric_names = tuple(metric_names)
        self.confidence = confidence
        self.tolerance = margin_of(self.primary, tolerance, "tolerance")

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
        if self.failed:
            return None
        return self.leader

    @property
    def leader(self) -> Configuration | None:
        """The same among those that were evaluated."""
        if len(self.finished) < 2 or len(self.not_beaten) > 1:
            return None
        return self.not_beaten[0]

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
        candidates = set(self.within)
        if self.is_same:
            candidates = set(self.finished)
        for cost in self.costs:
            amounts = {candidate: getattr(candidate, cost) for candidate in candidates}
            lowest = min(amounts.values(), default=0.0)
            candidates -= {
                candidate for candidate in amounts if saves(cost, amounts[candidate], lowest)
            }
        for configuration in self.ranked:
            if configuration in candidates:
                return configuration
        return None

    def at_most_worse(self, configuration: Configuration) -> float:
        """How much worse than the best one a configuration is, at most, on the metric that decides.

        Whichever the best one is; 0 for the winner. The bounds of all configurations hold together
        in at least `confidence` of sweeps (Hsu's multiple comparisons with the best), so that one
        may be picked by its cost. Infinite with fewer than two queries, or clusters.
        """
        if configuration not in self._bounds:
            raise InvalidInput("configuration", configuration.name, "one that was evaluated")
        if configuration is self.leader:
            return 0.0
        return self._bounds[configuration]

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
        if self.within:
            return None
        return self._shortfalls.queries

    @property
    def all_results(self) -> dict[str, EvaluationResults]:
        """The results of the configurations that have any, by their names."""
        return {point.name: point.results for point in self if point.results is not None}

    @property
    def results(self) -> dict[str, EvaluationResults]:
        """The same of those that were evaluated, and can be compared."""
        names = {configuration.name for configuration in self.finished}
        return {name: results for name, results in self.all_results.items() if name in names}

    @property
    def _sign(self) -> float:
        if lower_is_better(self.primary):
            return -1.0
        return 1.0

    @cached_property
    def _paired(self) -> Paired:
        scores = {name: results.scores for name, results in self.results.items()}
        return pair(scores, self.finished[0].name, metrics=[self.primary])

    @cached_property
    def _is_common(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(queries,) whether all evaluated configurations have a value."""
        is_missing = np.isnan(self._paired.columns[self.primary])
        has_value: np.ndarray[Any, np.dtype[np.bool_]] = np.all(~is_missing, axis=1)
        return has_value

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
