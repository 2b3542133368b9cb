"""Thresholds below which nothing is answered: what questions lose by each, and which to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.statistics.resampling import NOISE

# questions are split into so many parts, at most; each is judged by the choice of the others
FOLDS = 10
_RATES = np.linspace(0, 1, 11)[:-1]  # the shares of the questions on which MTEB abstains
_SEED = 0
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Steps:
    """What thresholds do to questions with and without an answer."""

    levels: FloatArray  # (questions, scores) the distinct scores of answerable ones; then inf
    values: FloatArray  # (questions, scores + 1) without what is below each score; then empty
    best: FloatArray  # (others,) each one's highest score; -inf where nothing was returned

    @cached_property
    def candidates(self) -> FloatArray:
        """(thresholds,) every score at which anything changes, ascending."""
        seen = np.concatenate([self.levels.ravel(), self.best])
        return np.unique(seen[np.isfinite(seen)])

    def means(self, thresholds: FloatArray) -> FloatArray:
        """(thresholds,) the mean value of the answerable questions."""
        level = self.levels.ravel()
        order = np.argsort(level, kind="stable")
        change = np.diff(self.values, axis=1).ravel()[order]
        change[~np.isfinite(level[order])] = 0.0
        passed = np.concatenate([[0.0], np.cumsum(change)])
        n_passed = np.searchsorted(level[order], thresholds, side="left")
        return np.asarray((self.values[:, 0].sum() + passed[n_passed]) / len(self.values))

    def answered(self, thresholds: FloatArray) -> FloatArray:
        """(thresholds,) the share of the answerable questions for which something is returned."""
        known = np.where(np.isfinite(self.levels), self.levels, -np.inf)
        n_below = _count_below(known.max(axis=1, initial=-np.inf), thresholds)
        return np.asarray((len(known) - n_below) / len(known))

    def spared(self, thresholds: FloatArray) -> FloatArray:
        """(thresholds,) the share of the others for which nothing is returned."""
        n = len(self.best)
        return _count_below(self.best, thresholds) / n if n else np.full(len(thresholds), np.nan)

    def choose(self, tolerance: float) -> float | None:
        """The lowest threshold that spares the most within the tolerance, if any spares more."""
        scores = self.candidates
        if not len(scores) or not len(self.best) or not len(self.values):
            return None
        lost = self.values[:, 0].mean() - self.means(scores)
        spared = np.where(lost <= tolerance + _EQUAL, self.spared(scores), -1.0)
        if spared.max() <= np.isneginf(self.best).mean():
            return None
        chosen = int(spared.argmax())
        return shortest_between(scores[chosen - 1] if chosen else -math.inf, scores[chosen])

    def held_out(
        self, tolerance: float, clusters: Sequence[IntArray] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """What (questions,) lose, whether (others,) are spared, by others' choice; NaN for few."""
        lost, spared = np.full(len(self.values), np.nan), np.full(len(self.best), np.nan)
        units = clusters or [np.arange(len(each)) for each in (lost, spared)]
        n_folds = min(FOLDS, *(len(np.unique(each)) for each in units))
        if n_folds < 2:
            return lost, spared
        chance = np.random.default_rng(_SEED)
        if clusters is None:
            parts = [chance.permutation(len(each)) % n_folds for each in units]
        else:
            of_cluster = _spread(chance.permutation(max(map(np.max, units)) + 1), units) % n_folds
            parts = [of_cluster[each] for each in units]
        for fold in range(n_folds):
            inside, others = (part == fold for part in parts)
            rest = Steps(self.levels[~inside], self.values[~inside], self.best[~others])
            threshold = rest.choose(tolerance)
            cutoff = -math.inf if threshold is None else threshold
            step = (self.levels < cutoff).sum(axis=1)
            lost[inside] = (self.values[:, 0] - self.values[np.arange(len(step)), step])[inside]
            spared[others] = ((self.best < cutoff) | np.isneginf(self.best))[others]
        return lost, spared


def _spread(order: IntArray, units: Sequence[IntArray]) -> IntArray:
    """(clusters,) places in this order, those with either kind of question side by side."""
    with_answer, without = (np.isin(order, each) for each in units)
    grouped = order[np.argsort(with_answer.astype(int) - without, kind="stable")]
    return np.asarray(np.argsort(grouped), np.int64)


def _count_below(best: FloatArray, thresholds: FloatArray) -> IntArray:
    """(thresholds,) how many questions have a lower best score, or none."""
    n_below = np.searchsorted(np.sort(best), thresholds, side="left")
    return np.asarray(np.maximum(n_below, np.isneginf(best).sum()))


def shortest_between(low: float, high: float) -> float:
    """The number with the fewest decimals above `low` and up to `high`.

    >>> shortest_between(0.41372, 0.4219), shortest_between(-2.5, -2.25), shortest_between(3, 9.7)
    (0.42, -2.3, 9.0)
    """
    for decimals in range(18):
        number = math.floor(high * 10**decimals) / 10**decimals
        if low < number <= high:
            return float(number)
    return float(high)


def confidences(scores: FloatArray) -> dict[str, float]:
    """A ranking's highest score, the scores' standard deviation, the first less the second."""
    best = np.sort(scores)[::-1][:2]
    return {
        "max": float(best[0]),
        "std": float(np.std(scores)),
        "diff1": float(best[0] - best[1]) if len(best) > 1 else 0.0,
    }


def abstention_nauc(confidence: FloatArray, values: FloatArray) -> float:
    """How well a confidence tells where to abstain, as MTEB computes it (nAUC).

    The mean of what is left without the 0 to 90 % least confident: its area above that of
    abstaining at random, as a share of what leaving out the lowest values would gain; NaN where all
    are the same. Equally confident questions count with their mean. Gisserot-Boukhlef et al., 2024,
    "Towards Trustworthy Reranking: A Simple yet Effective Abstention Mechanism".
    """

    def area(key: FloatArray) -> float:
        _, group, sizes = np.unique(key, return_inverse=True, return_counts=True)
        n = len(key)
        left_out = np.minimum(np.rint(_RATES * n).astype(int), n - 1)
        kept = np.repeat(np.bincount(group, weights=values) / sizes, sizes)
        curve = np.array([kept[start:].mean() for start in left_out])
        return float((np.diff(_RATES) * (curve[1:] + curve[:-1]) / 2).sum())

    if not len(values):
        return math.nan
    flat, best = float(values.mean() * _RATES[-1]), area(values)
    return math.nan if abs(best - flat) <= NOISE else (area(confidence) - flat) / (best - flat)
