"""How far judgements could change the difference of two systems: each one, and all at once.

A metric is a sum over relevant items, and pairs of them, divided by what depends on these alone:
Carterette, Allan and Sitaraman, "Minimal test collections for retrieval evaluation", SIGIR 2006.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.gains import NDCG
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.metrics.ranks import AveragePrecision
from llama_index_rag_metrics.metrics.sets import Precision, Recall
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput

_CLASSES = 6
_PRIOR = 2.0  # the judgements that the average rate counts as in a class
_SAME = 2.0  # the relevant items that the average counts as in a question
_LIKELIEST = 0.95


@dataclass(frozen=True, eq=False)
class PoolItems:
    """The items of all questions, those of a question together, retrieved or judged relevant.

    `query` is (items,) positions in `query_ids`; `rank` (items, systems), 0 where not retrieved in
    sight; `depth` (queries, systems); `grade` (items,), NaN where unjudged.
    """

    query_ids: Sequence[str]
    ids: Sequence[str]
    query: IntArray
    rank: IntArray
    depth: IntArray
    grade: FloatArray

    @classmethod
    def of(
        cls,
        runs: Sequence[Run],
        query_ids: Sequence[str],
        judgements: Mapping[str, Relevance],
        depth: int | None,
    ) -> PoolItems:
        """The items of some runs, to a depth (None: all). Negative grades mean unjudged."""
        rows: list[tuple[str, int, list[int], float]] = []
        depths = np.zeros((len(query_ids), len(runs)), np.int64)
        for position, query_id in enumerate(query_ids):
            retrieved = (run[query_id].ids if query_id in run else () for run in runs)
            rankings = [list(dict.fromkeys(ranking)) for ranking in retrieved]
            depths[position] = [len(ranking) for ranking in rankings]
            places = [{item: n for n, item in enumerate(best[:depth], 1)} for best in rankings]
            grades = judgements.get(query_id, Relevance()).grades
            for item in dict.fromkeys(chain(*places, grades)):
                rank = [place.get(item, 0) for place in places]
                rows.append((item, position, rank, grades.get(item, -1.0)))
        ids, query, rank, known = map(list, zip(*rows, strict=True)) if rows else ([],) * 4
        ranks = np.array(rank, np.int64).reshape(-1, len(runs))
        grade = np.array(known, np.float64)
        grade[grade < 0] = np.nan
        return cls(query_ids, ids, np.array(query, np.int64), ranks, depths, grade)

    @cached_property
    def in_sight(self) -> BoolArray:
        return np.asarray((self.rank > 0).any(axis=1), np.bool_)

    @property
    def unjudged(self) -> BoolArray:
        """(items,) whether an item is in sight and has no judgement."""
        return np.isnan(self.grade) & self.in_sight

    @property
    def reciprocal_rank(self) -> FloatArray:
        return ratio(1, self.rank)

    @property
    def tells_rates(self) -> bool:
        """Whether both relevant and other items in sight were judged: then rates can be learned."""
        grade = self.grade[self.in_sight]
        return bool((grade > 0).any() and (grade == 0).any())

    @property
    def known(self) -> FloatArray:
        return np.nan_to_num(self.grade, nan=0.0)


class Belief:
    """How likely the unjudged items of a pool are relevant, learned from the judged ones."""

    def __init__(self, items: PoolItems, rng: np.random.Generator) -> None:
        self._items = items
        self._rng = rng
        self._unjudged = np.flatnonzero(items.unjudged)
        judged = np.flatnonzero(~np.isnan(items.grade) & items.in_sight)
        # classes of equally many items, by the sum of 1 / rank over the systems
        evidence = items.reciprocal_rank.sum(axis=1)
        edges = np.quantile(evidence, np.arange(1, _CLASSES) / _CLASSES) if len(evidence) else []
        self._class = np.searchsorted(edges, evidence, side="right")
        relevant = items.grade[judged] > 0
        of_class = self._class[judged]
        hits = np.bincount(of_class[relevant], minlength=_CLASSES)
        n = np.bincount(of_class, minlength=_CLASSES)
        average = (hits.sum() + 1) / (n.sum() + 2)
        strength = min(_PRIOR, 2.0 * n.sum() + 2.0)
        self._alpha = hits + strength * average
        self._beta = n - hits + strength * (1 - average)
        self._mean = self._alpha / (self._alpha + self._beta)
        n_queries = len(items.query_ids)
        query = items.query[judged]
        self._found = np.bincount(query[relevant], minlength=n_queries) + _SAME
        self._expected = np.bincount(query, self._mean[of_class], n_queries) + _SAME
        positive = items.grade[judged][relevant]
        self._grades = positive if len(positive) else np.ones(1)

    @property
    def rate(self) -> FloatArray:
        rate = (self._items.known > 0).astype(np.float64)
        rate[self._unjudged] = self._rate(self._mean, self._found / self._expected)
        return np.asarray(rate, np.float64)

    def sample(self) -> FloatArray:
        grade = self._items.known.copy()
        of_class = self._rng.beta(self._alpha, self._beta)
        of_query = self._rng.gamma(self._found, 1 / self._expected)
        rate = self._rate(of_class, of_query)
        drawn = self._rng.random(len(rate)) < rate
        grade[self._unjudged] = np.where(drawn, self._rng.choice(self._grades, len(rate)), 0.0)
        return np.asarray(grade, np.float64)

    def _rate(self, of_class: FloatArray, of_query: FloatArray) -> FloatArray:
        by_class = of_class[self._class[self._unjudged]]
        rate: FloatArray = by_class * of_query[self._items.query[self._unjudged]]
        return np.minimum(rate, _LIKELIEST)


Divisor: TypeAlias = Callable[[FloatArray], float]

_MOST_AT_ONCE = 4_000_000


def checked_metric(metric: str | RankingMetric) -> RankingMetric:
    """The metric, if `queries_under` knows the weights of its items."""
    chosen = resolve(metric) if isinstance(metric, str) else metric
    is_uncut = isinstance(chosen, (NDCG, Precision)) and chosen.k is None
    is_curved = isinstance(chosen, NDCG) and chosen.mode == "exponential"
    if isinstance(chosen, (Recall, AveragePrecision, NDCG, Precision)) and not (
        is_uncut or is_curved or chosen.tokens
    ):
        return chosen
    expected = "ndcg@k, precision@k, recall, recall@k, ap or ap@k, with linear gains"
    raise InvalidInput("metric", getattr(chosen, "metric_name", chosen), expected)


@dataclass(frozen=True)
class Query:
    """The items of one question under a metric.

    `grade` has gains, 0 and 1 for binary metrics; `weight` is (items, systems). Unjudged relevant
    items gain from `low` to `high`; `divisor` takes the gains of relevant items, best first.
    """

    grade: FloatArray
    is_open: BoolArray
    rate: FloatArray
    weight: FloatArray
    has_pairs: bool
    low: float
    high: float
    divisor: Divisor

    @cached_property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @cached_property
    def divisors(self) -> dict[float, FloatArray]:
        """Gain to (open + 2,) the divisor with 0, 1, … further relevant items of that gain."""
        judged, numbers = self.grade[self.grade > 0], range(int(self.is_open.sum()) + 2)

        def divisor(gain: float, n: int) -> float:
            return self.divisor(np.sort(np.concatenate([judged, np.full(n, gain)]))[::-1])

        gains = {self.low, self.middle, self.high}
        return {gain: np.array([divisor(gain, n) for n in numbers]) for gain in gains}

    def effects(self, first: IntArray, second: IntArray) -> FloatArray:
        """(differences, items) how each unjudged item changes a difference if it is relevant."""
        return np.concatenate([self._effects(*block) for block in self._blocks(first, second)])

    def highest(self, first: IntArray, second: IntArray) -> FloatArray:
        """(differences,) bounds of `first` less `second`, however the rest is judged."""
        return np.concatenate([self._highest(*block) for block in self._blocks(first, second)])

    def _blocks(
        self, first: IntArray, second: IntArray
    ) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """The differences of the weights of items and of pairs, as many as fit into memory."""
        n_items = len(self.grade)
        n_blocks = math.ceil(len(first) * n_items ** (1 + self.has_pairs) / _MOST_AT_ONCE)
        weight, by_pair = self.weight.T, None
        if self.has_pairs:  # 1 / the lower rank is the smaller weight
            by_pair = np.minimum(weight[:, :, None], weight[:, None, :]) * (1 - np.eye(n_items))
        for one, other in np.array_split(np.stack([first, second]), max(1, n_blocks), axis=1):
            pairs = None if by_pair is None else by_pair[one] - by_pair[other]
            yield weight[one] - weight[other], pairs

    def _effects(self, delta: FloatArray, pairs: FloatArray | None) -> FloatArray:
        gain = np.where(self.is_open, self.middle, self.grade)
        paired = _sums(pairs, self.rate)
        own = gain * delta + paired
        whole = delta @ (gain * self.rate) + 0.5 * (paired @ self.rate)
        n_open = float(self.rate[self.is_open].sum())
        divisors = self.divisors[self.middle]
        with_it, without = (
            np.interp(n_open - self.rate + step, np.arange(len(divisors)), divisors)
            for step in (1.0, 0.0)
        )
        rest = whole[:, None] - self.rate * own
        return np.where(self.is_open, ratio(rest + own, with_it) - ratio(rest, without), 0.0)

    def _highest(self, delta: FloatArray, pairs: FloatArray | None) -> FloatArray:
        known = (self.grade > 0).astype(np.float64)
        paired = np.broadcast_to(_sums(pairs, known), delta.shape)
        fixed = delta @ self.grade + 0.5 * (paired @ known)
        opened = delta[:, self.is_open]
        most = np.maximum(self.low * opened, self.high * opened) + paired[:, self.is_open]
        if pairs is not None:
            among = pairs[:, self.is_open][:, :, self.is_open]
            most = most + np.maximum(among, 0.0).sum(axis=2) / 2
        most = -np.sort(-most, axis=1)
        n = most.shape[1] + 1
        upper = np.broadcast_to(fixed[:, None], (len(fixed), n)).copy()
        upper[:, 1:] += np.cumsum(most, axis=1)
        lowest, highest = (self.divisors[gain][:n] for gain in (self.low, self.high))
        best = np.where(upper > 0, ratio(upper, lowest), ratio(upper, highest))
        return np.asarray(np.minimum(best.max(axis=1), 1.0), np.float64)


def queries_under(
    metric: RankingMetric, items: PoolItems, rate: FloatArray, highest_grade: float
) -> list[Query]:
    """Every question's items under a metric that `checked_metric` gave; `rate` is Belief's."""
    k: Any = metric.model_dump().get("k")
    min_grade = getattr(metric, "min_grade", None)
    rank = np.where((items.rank > 0) & (items.rank <= (k or np.inf)), items.rank, 0)
    place = np.maximum(rank, 1)
    gain = items.known if min_grade is None else (items.known >= min_grade).astype(np.float64)
    divisor: Divisor = (lambda _: float(k)) if isinstance(metric, Precision) else len
    weight = (rank > 0).astype(np.float64)
    low = high = 1.0
    if isinstance(metric, NDCG):
        weight /= np.log2(place + 1)
        divisor = partial(_ideal_gain, k)
        positive = items.known[items.known > 0]
        low, high = float(positive.min(initial=1.0)), max(highest_grade, 1.0)
    elif isinstance(metric, AveragePrecision):
        weight /= place
    begin = np.searchsorted(items.query, np.arange(1, len(items.query_ids)))
    columns = (np.split(each, begin) for each in (gain, items.unjudged, rate, weight))
    told = isinstance(metric, AveragePrecision), low, high, divisor
    return [
        Query(gains, is_open, rates, weights, *told)
        for gains, is_open, rates, weights in zip(*columns, strict=True)
    ]


def _ideal_gain(k: int, gains: FloatArray) -> float:
    return float((gains[:k] / np.log2(np.arange(2, len(gains[:k]) + 2))).sum())


def _sums(pairs: FloatArray | None, weight: FloatArray) -> FloatArray:
    """(differences, items) per item, its pairs' weights times the other item's weight."""
    return np.zeros((1, len(weight))) if pairs is None else pairs @ weight
