"""How likely unjudged items are to be relevant, learned from those that were judged.

An item's rate depends on how high the systems rank it, in a few classes, and on its question, some
of which have many relevant items. Both are drawn anew for every sample, so that what few judgements
can't tell stays open: with none, anything is possible.
"""

from __future__ import annotations

import numpy as np

from llama_index_rag_metrics.judging import FloatArray, IntArray
from llama_index_rag_metrics.labels.pooling.items import PoolItems

_CLASSES = 6
_PRIOR = 2.0
"""How many judgements the average rate is worth in a class of which little is known."""

_SAME = 2.0
"""How many relevant items it takes to believe that a question has more than others."""

_LIKELIEST = 0.95


class Belief:
    """What is believed of the unjudged items of a pool.

    Args:
        items: the items, judged and not.
        rng: where samples come from.
    """

    def __init__(self, items: PoolItems, rng: np.random.Generator) -> None:
        self._items = items
        self._rng = rng
        self._unjudged = np.flatnonzero(items.unjudged)
        judged = np.flatnonzero(~np.isnan(items.grade) & (items.rank > 0).any(axis=1))
        self._class = _classes(items)
        relevant = items.grade[judged] > 0
        of_class = self._class[judged]
        hits = np.bincount(of_class[relevant], minlength=_CLASSES)
        n = np.bincount(of_class, minlength=_CLASSES)
        average = (hits.sum() + 1) / (n.sum() + 2)
        strength = min(_PRIOR, 2.0 * n.sum() + 2.0)
        self._alpha = hits + strength * average
        self._beta = n - hits + strength * (1 - average)
        rate = self._alpha / (self._alpha + self._beta)
        n_queries = len(items.query_ids)
        query = items.query[judged]
        self._found = np.bincount(query[relevant], minlength=n_queries) + _SAME
        self._expected = np.bincount(query, rate[of_class], n_queries) + _SAME
        positive = items.grade[judged][relevant]
        self._grades = positive if len(positive) else np.ones(1)

    @property
    def rate(self) -> FloatArray:
        """(items,) how likely each is to be relevant; 0 or 1 where it was judged."""
        rate = (self._items.known > 0).astype(np.float64)
        mean = self._alpha / (self._alpha + self._beta)
        rate[self._unjudged] = self._rate(mean, self._found / self._expected)
        return np.asarray(rate, np.float64)

    @property
    def gain(self) -> float:
        """The grade of a relevant item, on average."""
        return float(self._grades.mean())

    def sample(self) -> FloatArray:
        """(items,) grades as they could turn out; those that were given as they are."""
        grade = self._items.known.copy()
        of_class = self._rng.beta(self._alpha, self._beta)
        of_query = self._rng.gamma(self._found, 1 / self._expected)
        rate = self._rate(of_class, of_query)
        drawn = self._rng.random(len(rate)) < rate
        grade[self._unjudged] = np.where(drawn, self._rng.choice(self._grades, len(rate)), 0.0)
        return np.asarray(grade, np.float64)

    def _rate(self, of_class: FloatArray, of_query: FloatArray) -> FloatArray:
        rate = of_class[self._class[self._unjudged]]
        rate = rate * of_query[self._items.query[self._unjudged]]
        capped: FloatArray = np.minimum(rate, _LIKELIEST)
        return capped


def _classes(items: PoolItems) -> IntArray:
    """(items,) classes of as many items each, by the sum of 1 / rank over the systems."""
    with np.errstate(divide="ignore"):
        evidence = np.where(items.rank > 0, 1 / items.rank, 0.0).sum(axis=1)
    edges = np.quantile(evidence, np.arange(1, _CLASSES) / _CLASSES) if len(evidence) else []
    return np.asarray(np.searchsorted(edges, evidence, side="right"), np.int64)
