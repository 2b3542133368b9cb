"""Tukey's honestly significant differences: all pairs of systems, on the two-way layout.

Each query is a block that every system met, so the error is what is left after system and query
means are taken out (Carterette 2012; Sakai 2018). The one-way test, which leaves the queries'
spread in the error, hardly ever finds anything. Like any such analysis it takes the error to be
alike for all systems; a near copy of another system makes it look smaller than it is for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.statistics.resampling import NOISE


@dataclass(frozen=True, slots=True)
class TukeyPair:
    """Two of several systems, compared with all pairs in mind.

    Attributes:
        system: the one.
        other: the other.
        metric: the metric's name.
        n: how many queries; those for which every system has a value.
        difference: mean of `system` minus mean of `other`.
        low: lower end of the simultaneous interval.
        high: upper end.
        p: chance of a largest difference like this if all systems were alike; the pairs of one
            metric are accounted for, several metrics aren't.
    """

    system: str
    other: str
    metric: str
    n: int
    difference: float
    low: float
    high: float
    p: float


def tukey_pairs(
    systems: Sequence[str], metric: str, scores: FloatArray, confidence: float = 0.95
) -> tuple[TukeyPair, ...]:
    """All pairs of systems by one metric.

    None with fewer than two systems or queries, and none where systems differ and nothing is left
    unexplained: without an error, the smallest difference would look certain. Where all systems
    are alike, p is 1.

    q = |difference| / √(MSE / n) has the studentised range of S systems with (S - 1)(n - 1) degrees
    of freedom, MSE being the residual mean square of the two-way layout.

    Args:
        systems: the names of the S systems.
        metric: the metric's name.
        scores: (queries, S); queries with a NaN are left out.
        confidence: of all intervals together.
    """
    complete = scores[~np.isnan(scores).any(axis=1)]
    n, s = complete.shape
    if n < 2 or s < 2:
        return ()
    means = complete.mean(axis=0)
    error = math.sqrt(residual_mean_square(complete) / n)
    if error <= NOISE < float(np.ptp(means)):
        return ()
    df = (s - 1) * (n - 1)
    half = critical_range(s, df, confidence) * error
    pairs = []
    for system, other in combinations(range(s), 2):
        difference = float(means[system] - means[other])
        p = 1.0 if error <= NOISE else _p(abs(difference), error, s, df)
        ends = (difference - half, difference + half)
        pairs.append(TukeyPair(systems[system], systems[other], metric, n, difference, *ends, p))
    return tuple(pairs)


def residual_mean_square(scores: FloatArray) -> float:
    """What system and query leave unexplained, by its (S - 1)(n - 1) degrees of freedom.

    >>> residual_mean_square(np.array([[0.0, 1.0], [1.0, 0.0]]))  # residuals ±0.5, df 1
    1.0
    """
    n, s = scores.shape
    by_query, by_system = scores.mean(axis=1, keepdims=True), scores.mean(axis=0)
    residuals = scores - by_query - by_system + scores.mean()
    return float(np.square(residuals).sum() / ((s - 1) * (n - 1)))


def _p(difference: float, error: float, s: int, df: int) -> float:
    from scipy.stats import studentized_range

    return float(np.clip(studentized_range.sf(difference / error, s, df), 0.0, 1.0))


@lru_cache(maxsize=64)
def critical_range(s: int, df: int, confidence: float) -> float:
    """The quantile of the studentised range; metrics of the same queries share it."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(confidence, s, df))
