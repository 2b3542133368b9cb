"""Choice: which of several configurations is the best, and which is the cheapest good enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.decision import winner_of
from llama_index_rag_metrics.decisions.comparison.difference import margin_of
from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better, worst_score
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.scores import listed_means
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    alpha_of,
    exact_mean,
    number_clusters,
)
from llama_index_rag_metrics.statistics.resampling import NOISE
from llama_index_rag_metrics.statistics.shortfalls import Shortfalls, not_beaten, shortfalls

Cost: TypeAlias = Literal["tokens", "p95"]

SAVINGS: Mapping[Cost, float] = {"tokens": 0.05, "p95": 0.5}
"""The least share of a cost that counts as saved: a p95 differs much from run to run."""


def saves(cost: Cost, more: float, less: float) -> bool:
    """Whether one cost is lower than another by a share that counts."""
    return less < more * (1 - SAVINGS[cost])


@dataclass(frozen=True, eq=False, repr=False)
class Configuration(Sentence):
    """One configuration of a sweep.

    Attributes:
        name: its parameters as a text, such as "chunk_size=128, top_k=5".
        params: its parameters.
        results: of its evaluation; None where there was none.
        error: why it can't be compared with the others; "" where it can.
        texts: parameter to its value as a text, without a secret.
        depth: how much of a ranking the metric that decides reads; None for all of it.
    """

    name: str
    params: Mapping[str, Any]
    results: EvaluationResults | None = None
    error: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    depth: int | TokenBudget | None = None

    def __str__(self) -> str:
        means = "" if self.results is None else listed_means(self.results.scores.means)
        return f"{self.name}: {'; '.join(filter(None, (means, self.error)))}"

    def mean(self, metric: str) -> float | None:
        """The mean on a metric; None where there is none."""
        if self.results is None:
            return None
        return system_of(self.results).mean(metric)

    @cached_property
    def tokens(self) -> float | None:
        """The mean tokens of a question, as deep as the metric reads; None if not counted.

        Failed questions are left out: they have nothing to read.
        """
        if self.results is None:
            return None
        rankings = self.results.run.every_ranking
        answered = [ranking for ranking in rankings if ranking.error is None]
        if not answered or any(ranking.tokens is None for ranking in answered):
            return None
        return float(np.mean([_tokens_read(ranking, self.depth) for ranking in answered]))

    @cached_property
    def p95(self) -> float | None:
        """The seconds in which 95 % of the questions were answered; None if they weren't timed."""
        if self.results is None or self.results.run.latency is None:
            return None
        return self.results.run.latency.p95


def _tokens_read(ranking: Ranking, depth: int | TokenBudget | None) -> int:
    costs: dict[str, int] = {}
    for item, tokens in zip(ranking.ids, ranking.tokens or (), strict=True):
        costs.setdefault(item, tokens)
    tokens_read = 0
    for rank, tokens in enumerate(costs.values(), 1):
        if isinstance(depth, int) and rank > depth:
            break
        if isinstance(depth, TokenBudget) and tokens_read + tokens > depth.tokens:
            break
        tokens_read += tokens
    return tokens_read


class Choice(Sequence[Configuration]):
    """Configurations in the order of the grid, and what these questions show of them.

    All but `failed` and `winner` is about those that were evaluated, on the first metric.
    """

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
        self.primary = self.metric_names[0]
        self.confidence = confidence
        self.tolerance = margin_of(self.primary, tolerance, "tolerance")
        self._sign = -1.0 if lower_is_better(self.primary) else 1.0

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._configurations[key]
        by_name = {configuration.name: configuration for configuration in self}
        if key not in by_name:
            raise InvalidInput("configuration", key, " or ".join(map(repr, by_name)))
        return by_name[key]

    def __len__(self) -> int:
        return len(self._configurations)

    def __iter__(self) -> Iterator[Configuration]:
        return iter(self._configurations)

    @cached_property
    def finished(self) -> list[Configuration]:
        """The configurations that were evaluated, and have a mean."""
        evaluated = [configuration for configuration in self if not configuration.error]
        return [point for point in evaluated if point.mean(self.primary) is not None]

    @property
    def failed(self) -> list[Configuration]:
        """The configurations without results, or without a mean."""
        return [configuration for configuration in self if configuration not in self.finished]

    @cached_property
    def not_beaten(self) -> tuple[Configuration, ...]:
        """The winner, or those that no other one is shown to beat.

        Whichever is truly the best is among them in at least `confidence` of sweeps.
        """
        if len(self.finished) < 2:
            return tuple(self.finished)
        return tuple(self.finished[n] for n in not_beaten(self._scores, **self._limits))

    @property
    def winner(self) -> Configuration | None:
        """The configuration that is shown to beat all others; None if none is, or if one failed."""
        return None if self.failed else self.leader

    @cached_property
    def leader(self) -> Configuration | None:
        """The same among those that were evaluated."""
        if len(self.finished) < 2:
            return None
        name = winner_of(self._paired, list(self.results), alpha_of(self.confidence))
        return None if name is None else self[name]

    @cached_property
    def within(self) -> tuple[Configuration, ...]:
        """The configurations that are shown to be at most `tolerance` worse than the best one."""
        return tuple(p for p in self.finished if self.at_most_worse(p) <= self.tolerance)

    @cached_property
    def recommended(self) -> Configuration | None:
        """The cheapest of the configurations within the tolerance, or of all if all are the same.

        None if none is within. It has the fewest tokens, then the lowest p95, then the best mean;
        fewer by less than 5 %, or a p95 lower by less than half, isn't cheaper.
        """
        candidates = set(self.finished if self.is_same else self.within)
        for cost in self.costs:
            amounts = {candidate: getattr(candidate, cost) for candidate in candidates}
            lowest = min(amounts.values(), default=0.0)
            candidates = {point for point in amounts if not saves(cost, amounts[point], lowest)}
        return next((point for point in self.ranked if point in candidates), None)

    def at_most_worse(self, configuration: Configuration) -> float:
        """How much worse than the best one a configuration is, at most, whichever that is.

        0 for the winner; infinite with fewer than two questions, or clusters. The bounds of all
        hold together in at least `confidence` of sweeps (Hsu's comparisons with the best).
        """
        if configuration not in self.finished:
            raise InvalidInput("configuration", configuration.name, "one that was evaluated")
        if configuration is self.leader:
            return 0.0
        return float(self._shortfalls.at_most[self.finished.index(configuration)])

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
        return [cost for cost in SAVINGS if None not in {getattr(p, cost) for p in self.finished}]

    def common_mean(self, configuration: Configuration) -> float:
        """The mean over the questions that all have a value for; NaN without any."""
        return self._sign * exact_mean(self._scores[:, self.finished.index(configuration)])

    def interval(self, configuration: Configuration) -> MeanInterval:
        """The interval of the mean of an evaluated configuration, with `confidence`."""
        intervals = self.results[configuration.name].scores.intervals(confidence=self.confidence)
        return intervals[self.primary]

    @property
    def n_questions(self) -> int:
        """How many questions all evaluated configurations have a value for."""
        return len(self._scores)

    @property
    def is_same(self) -> bool:
        """Whether two configurations or more score the same on two questions or more."""
        if len(self.finished) < 2 or self.n_questions < 2:
            return False
        return bool((np.ptp(self._scores, axis=1) <= NOISE).all())

    @property
    def questions_needed(self) -> int | None:
        """About how many questions like these would show one to be within the tolerance.

        None where one is, or no number would.
        """
        return None if self.within else self._shortfalls.queries

    @property
    def results(self) -> dict[str, EvaluationResults]:
        """The results of the evaluated configurations, by their names."""
        return {point.name: point.results for point in self.finished if point.results is not None}

    @cached_property
    def question_clusters(self) -> IntArray | None:
        """The number of each such question's conversation; None where each is alone."""
        if not self.finished or self._paired.clusters is None:
            return None
        return number_clusters(self._paired.clusters[self._is_common].tolist())

    @cached_property
    def _paired(self) -> Paired:
        scores = {name: results.scores for name, results in self.results.items()}
        return pair(scores, self.finished[0].name, metrics=[self.primary])

    @cached_property
    def _is_common(self) -> BoolArray:
        """(queries,) whether all evaluated configurations have a value."""
        is_missing = np.isnan(self._paired.columns[self.primary])
        is_common: BoolArray = np.all(~is_missing, axis=1)
        return is_common

    @cached_property
    def _scores(self) -> FloatArray:
        """(queries, finished configurations) scores where all have one; more is better."""
        common: FloatArray = self._paired.columns[self.primary][self._is_common]
        return self._sign * common

    @property
    def _limits(self) -> dict[str, Any]:
        """What intervals take for granted."""
        (lowest, highest), worst = limits_of(self.primary), worst_score(self.primary)
        return {
            "span": highest - lowest,
            "worst": None if worst is None else self._sign * worst,
            "clusters": self.question_clusters,
            "alpha": alpha_of(self.confidence),
        }

    @cached_property
    def _shortfalls(self) -> Shortfalls:
        return shortfalls(self._scores, self.tolerance, **self._limits)
