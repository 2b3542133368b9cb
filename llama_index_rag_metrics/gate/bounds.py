"""Bounds for a verdict: those of the comparison, and what can still be said where it gives none.

The comparison gives no bootstrap bounds where few queries differ from the commonest value, as when
a change touches 12 of 200 queries. A verdict can do with less than an interval: each side needs
one bound that errs on the safe side.

* Passing: at worst, the queries below the commonest value c are as many as Clopper and Pearson's
  (1934) upper limit u of their share allows, and each scores the lowest value a that there can be,
  so that the mean is above c - u (c - a). Nothing is assumed about how much they lose.
* Failing: Student's t. Where a few queries lose, it errs on the safe side; where rare large gains
  make up for many small losses, a change at the limit fails in 8 % of cases rather than 5 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.judging import FloatArray, IntArray
from llama_index_rag_metrics.statistics.intervals import (
    FEWEST,
    difference_bounds,
    mean_interval,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units, commonest


@dataclass(frozen=True, slots=True)
class Bounds:
    """A mean with a bound on each side, either of which may be unknown.

    Attributes:
        mean: over the queries with a value.
        lower: with the confidence asked for, the true mean is above this; None: can't be said.
        upper: with the same confidence, it is below this.
        n: how many queries have a value.
        standard_error: of the mean; 0 where it can't be estimated.
        informative: how many queries (or clusters) differ from the commonest value.
        method: how the bounds were made.
    """

    mean: float
    lower: float | None
    upper: float | None
    n: int
    standard_error: float
    informative: int
    method: str

    @property
    def sparse(self) -> bool:
        """Whether too few queries differ from the commonest value for a bootstrap."""
        return self.informative < FEWEST

    def negated(self) -> Bounds:
        """The bounds of minus the mean."""
        lower = None if self.upper is None else -self.upper
        upper = None if self.lower is None else -self.lower
        return Bounds(
            -self.mean, lower, upper, self.n, self.standard_error, self.informative, self.method
        )


def bounds_of(
    values: FloatArray,
    confidence: float,
    lowest: float,
    *,
    differences: bool,
    clusters: IntArray | None = None,
) -> Bounds:
    """One-sided bounds of the mean of a column, which had better be high.

    Args:
        values: (queries,) scores, or differences of scores; NaN where a query has none.
        confidence: of each bound, between 0.5 and 1.
        lowest: the lowest value that there can be; -inf where there is none.
        differences: whether the values are paired differences. Where all are the same, both bounds
            are that value, so that an identical run passes.
        clusters: (queries,) the number of each query's cluster, or None.
    """
    present = values[~np.isnan(values)]
    units = Units.of(values.reshape(-1, 1), clusters)
    given = None if clusters is None else clusters.tolist()
    if differences:
        found = difference_bounds(values, confidence=confidence, clusters=given)
        mean, lower, upper, method = found.difference, found.lower, found.upper, found.method
    else:
        interval = mean_interval(values, confidence=2 * confidence - 1, clusters=given)
        mean, lower, upper, method = interval.mean, interval.low, interval.high, interval.method
    n_units = int(units.n_units[0])
    error = float(units.standard_errors[0]) if n_units > 1 else 0.0
    if lower is None and upper is None and len(present):
        method = "worst case, t"
        lower = None if clusters is not None else _worst_case(present, confidence, lowest)
        upper = _t_upper(mean, error, n_units, confidence)
    return Bounds(mean, lower, upper, len(present), error, int(units.informative[0]), method)


def _worst_case(values: FloatArray, confidence: float, lowest: float) -> float | None:
    """The mean if as many queries as may be fall from the commonest value to the lowest one."""
    from scipy.special import betaincinv

    if not math.isfinite(lowest):
        return None
    centre = commonest(values)
    below, n = int((values < centre - NOISE).sum()), len(values)
    share = float(betaincinv(below + 1, n - below, confidence))
    return centre - share * (centre - lowest)


def _t_upper(mean: float, error: float, n: int, confidence: float) -> float | None:
    """Student's one-sided upper bound; none for a single query."""
    from scipy.special import stdtrit

    return None if n < 2 else mean + float(stdtrit(n - 1, confidence)) * error
