"""What a judgement could do to a difference: its effect, and the bounds of all that are missing.

Carterette, Allan and Sitaraman, "Minimal test collections for retrieval evaluation", SIGIR 2006,
write a metric as a sum over relevant items, and over pairs of them, divided by what depends on the
relevant items alone. A difference of two systems is then such a sum, too: an item that both rank
alike can't change it, whatever it is worth.

| metric | weight of an item | weight of a pair | divided by |
|---|---|---|---|
| precision@k | 1 within k | | k |
| recall | 1 within k | | R |
| ndcg@k | gain / log2(rank + 1) within k | | the ideal DCG |
| ap | 1 / rank within k | 1 / the lower rank within k | R |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.labels.pool_items import PoolItems
from llama_index_rag_metrics.metrics import (
    NDCG,
    AveragePrecision,
    Precision,
    RankingMetric,
    Recall,
)

Divisor = Callable[[FloatArray], float]


def check_metric(metric: RankingMetric) -> None:
    """Refuse a metric that isn't such a sum.

    Raises:
        InvalidInput: it is none of these.
    """
    has_k = metric.model_dump().get("k") is not None
    is_sum = isinstance(metric, (Recall, AveragePrecision)) or (
        isinstance(metric, (NDCG, Precision)) and has_k
    )
    if (
        not is_sum
        or getattr(metric, "tokens", None)
        or getattr(metric, "mode", "") == "exponential"
    ):
        wish = "ndcg@k, precision@k, recall, recall@k, ap or ap@k, with linear gains"
        raise InvalidInput("metric", metric.metric_name, wish)


@dataclass(frozen=True)
class Query:
    """The items of one question under a metric.

    Attributes:
        grade: (items,) the gain of each: its grade, or 0 and 1 for binary metrics.
        is_open: (items,) whether it is unjudged.
        rate: (items,) how likely it is to be relevant.
        weight: (items, systems) the weight of each item.
        rank: (items, systems) the ranks that pairs take their weight from; none for other metrics.
        low: the gain of an open item if it is relevant, at least;
        high: and at most.
        divisor: the gains of the relevant items, best first, to the divisor.
    """

    grade: FloatArray
    is_open: BoolArray
    rate: FloatArray
    weight: FloatArray
    rank: IntArray | None
    low: float
    high: float
    divisor: Divisor

    @cached_property
    def middle(self) -> float:
        """The gain of an open item if it is relevant, in between."""
        return (self.low + self.high) / 2

    @cached_property
    def divisors(self) -> dict[float, FloatArray]:
        """Gain to (open + 2,) the divisor with 0, 1, … further relevant items of that gain."""
        judged = self.grade[self.grade > 0]
        n_open = int(self.is_open.sum())
        return {
            gain: np.array(
                [
                    self.divisor(np.sort(np.concatenate([judged, np.full(n, gain)]))[::-1])
                    for n in range(n_open + 2)
                ]
            )
            for gain in {self.low, self.middle, self.high}
        }

    def pairs(self, first: int, second: int) -> FloatArray:
        """(items, items) the weights of pairs in a difference of systems; 0 on the diagonal."""
        matrix = np.zeros((len(self.grade),) * 2)
        if self.rank is None:
            return matrix
        for sign, system in ((1, first), (-1, second)):
            rank = self.rank[:, system]
            lower = np.maximum(rank[:, None], rank[None, :])
            both = (rank[:, None] > 0) & (rank[None, :] > 0)
            matrix += sign * np.where(both, 1 / np.maximum(lower, 1), 0.0)
        np.fill_diagonal(matrix, 0.0)
        return matrix

    def effects(self, first: int, second: int) -> FloatArray:
        """(items,) how much the difference changes if an item turns out relevant; 0 if judged."""
        gain = np.where(self.is_open, self.middle, self.grade)
        expected = gain * self.rate
        delta = self.weight[:, first] - self.weight[:, second]
        pairs = self.pairs(first, second)
        own = gain * delta + pairs @ self.rate
        whole = float(expected @ delta + 0.5 * self.rate @ pairs @ self.rate)
        n_open = float(self.rate[self.is_open].sum())
        divisors = self.divisors[self.middle]
        with_it, without = (
            np.interp(n_open - self.rate + step, np.arange(len(divisors)), divisors)
            for step in (1.0, 0.0)
        )
        rest = whole - self.rate * own
        effect = _ratio(rest + own, with_it) - _ratio(rest, without)
        return np.where(self.is_open, effect, 0.0)

    def highest(self, first: int, second: int) -> float:
        """A bound that the difference can't exceed, however the open items are judged."""
        delta = self.weight[:, first] - self.weight[:, second]
        pairs = self.pairs(first, second)
        known = self.grade > 0
        fixed = float(self.grade @ delta + 0.5 * known @ pairs @ known)
        open_pairs = np.maximum(pairs[np.ix_(self.is_open, self.is_open)], 0.0).sum(axis=1) / 2
        most = np.maximum(self.low * delta[self.is_open], self.high * delta[self.is_open])
        most = np.sort(most + (pairs @ known)[self.is_open] + open_pairs)[::-1]
        upper = fixed + np.concatenate([[0.0], np.cumsum(most)])
        n = len(upper)
        lowest, highest = self.divisors[self.low][:n], self.divisors[self.high][:n]
        best = np.where(upper > 0, _ratio(upper, lowest), _ratio(upper, highest)).max()
        return min(float(best), 1.0)


def queries_of(
    metric: RankingMetric, items: PoolItems, rate: FloatArray, highest_grade: float
) -> list[Query]:
    """Every question's items under a metric.

    Args:
        metric: one that `check_metric` lets pass.
        items: the items.
        rate: (items,) how likely each is to be relevant.
        highest_grade: the best grade that an item can have.
    """
    k: Any = metric.model_dump().get("k")
    min_grade = getattr(metric, "min_grade", None)
    rank = np.where((items.rank > 0) & (items.rank <= (k or np.inf)), items.rank, 0)
    place = np.maximum(rank, 1)
    gain = items.known if min_grade is None else (items.known >= min_grade).astype(np.float64)
    divisor: Divisor = _n_relevant
    weight = (rank > 0).astype(np.float64)
    low = high = 1.0
    if isinstance(metric, NDCG):
        weight /= np.log2(place + 1)
        divisor = partial(_ideal_gain, k)
        positive = items.known[items.known > 0]
        low, high = float(positive.min(initial=1.0)), max(highest_grade, 1.0)
    elif isinstance(metric, Precision):
        divisor = partial(_constant, k)
    elif isinstance(metric, AveragePrecision):
        weight /= place
    begin = np.searchsorted(items.query, np.arange(len(items.query_ids) + 1))
    return [
        Query(
            gain[start:end],
            items.unjudged[start:end],
            rate[start:end],
            weight[start:end],
            rank[start:end] if isinstance(metric, AveragePrecision) else None,
            low,
            high,
            divisor,
        )
        for start, end in pairwise(begin.tolist())
    ]


def _n_relevant(gains: FloatArray) -> float:
    return float(len(gains))


def _constant(k: int, _: FloatArray) -> float:
    return float(k)


def _ideal_gain(k: int, gains: FloatArray) -> float:
    return float((gains[:k] / np.log2(np.arange(2, len(gains[:k]) + 2))).sum())


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
