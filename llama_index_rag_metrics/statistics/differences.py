"""Intervals of paired differences that are always there: Student's t with two pseudo-queries.

One gains M and one loses as much, where M² = (Σd² + R²) / (k + 1) is the mean square of the changes
that matter, one of R (`widest_apart`) among them, and k their effective number: (Σ|d|)² / Σd², but
at most Σ min(1, 10 |d| / R), so that noise doesn't count. Of
differences that are -1, 0 or 1 that is the interval of Agresti and Min (2005) and of Bonett and
Price (2012); with many changes, the plain one. Clusters are units as queries are: their sums over
the mean size take the place of d, R is that of a cluster as large as questions see them on average,
and as many as one size would say as much have the degrees of freedom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, ratio

from .intervals import MeanInterval, exact_mean, reason_no_interval
from .resampling import NOISE, Units

_LARGE = 0.1  # a change of this share of R, or a larger one, counts whole

# how often the gate counts R: once, it passes up to 11 % of changes that are at its limit
CAUTIOUS = 2


@dataclass(frozen=True)
class Student:
    """Student's t of (columns,) centres; no bound excludes the mean, or lies beyond `limit`."""

    mean: FloatArray
    centre: FloatArray
    error: FloatArray
    df: FloatArray
    limit: FloatArray | float = math.inf

    def bounds(self, confidence: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """(columns,) the lower and the upper bound, each of which holds with this confidence."""
        from scipy.special import stdtrit

        reach = stdtrit(np.maximum(self.df, 1), confidence) * self.error
        # both ends stay within what the metric allows
        return (
            np.clip(np.minimum(self.centre - reach, self.mean), -self.limit, self.limit),
            np.clip(np.maximum(self.centre + reach, self.mean), -self.limit, self.limit),
        )


def student(units: Units) -> Student:
    """Plain paired t; with clusters its robust form, with the degrees of freedom of `n_even`."""
    df = np.where(units.n_units < 2, 0.0, units.n_even - 1)
    return Student(units.means, units.means, units.standard_errors, df)


def unvaried(units: Units) -> BoolArray:
    """(columns,) whether every unit has the same mean, rounding noise aside."""
    pull = np.abs(units.influence).max(axis=0, initial=0)
    return np.asarray(pull * units.n <= NOISE, np.bool_)


def widest_apart(
    lowest: FloatArray | float, highest: FloatArray | float, span: float, worst: float | None = None
) -> FloatArray:
    """R, how far two scores can be apart, of the lowest and the highest seen.

    Any question may get the `worst` score that there is: where all seen are near the best one, they
    would say that no other question can fail. Where none seen differ, it is `span`, the width of
    the metric's range; if that is infinite, the farthest from 0.
    """
    observed = np.subtract(highest, lowest)
    reach = observed
    if worst is not None:
        reach = np.maximum(highest, worst) - np.minimum(lowest, worst)
    unseen: FloatArray | float = span
    if not math.isfinite(span):
        farthest = np.maximum(np.abs(lowest), np.abs(highest))
        unseen = np.where(farthest > 0, farthest, 1.0)
    return np.where(observed > NOISE, reach, unseen)


def effective_changes(changes: FloatArray, widest: FloatArray) -> FloatArray:
    """(columns,) how many changes of one size say as much as these, (units, columns).

    One below a tenth of R counts by its size: else thirty changes of a millionth were as many.
    """
    effective = ratio(np.square(changes.sum(axis=0)), np.square(changes).sum(axis=0))
    by_size: FloatArray = np.minimum(1.0, ratio(changes, widest * _LARGE)).sum(axis=0)
    return np.asarray(np.minimum(effective, by_size))


def pseudo_queries(
    units: Units,
    widest: FloatArray | float = math.inf,
    limit: FloatArray | float = math.inf,
    *,
    counted: int = 1,
) -> Student:
    """Student's t of paired differences with two pseudo-queries, at M and at -M.

    `widest` is R, how far two scores can be apart; the widest change where infinite. It is
    `counted` so often among the changes whose mean square is M².
    """
    count = units.n_units
    scale = ratio(count, units.n)
    values = units.sums * scale
    changes = np.abs(units.sums) * scale
    squares = np.square(changes).sum(axis=0)
    reach = ratio(widest, ratio(units.n_even, count))
    largest = np.where(np.isfinite(widest), reach, changes.max(axis=0, initial=0.0))
    effective = effective_changes(changes, largest)
    pseudo = (squares + counted * np.square(largest)) / (effective + counted)
    total = count + 2
    centre = values.sum(axis=0) / total
    residuals = np.square(values - units.sizes * scale * centre).sum(axis=0)
    variance = (residuals + 2 * pseudo + 2 * np.square(centre)) / total
    df = np.where(count < 2, 0.0, units.n_even + 1)
    error = np.sqrt(variance / (total - 1))
    return Student(units.means, centre, error, df, limit)


def difference_intervals(
    units: Units,
    *,
    widest: FloatArray | float = math.inf,
    confidence: FloatArray | float = 0.95,
    possible: FloatArray | None = None,
) -> list[MeanInterval]:
    """Mean paired differences with their intervals.

    Of several columns, `confidence` may be that of each. No end lies beyond `possible`, (columns,
    2) the lowest and the highest true difference; beyond ±`widest` without it.
    """
    lowest, highest = np.negative(widest), widest
    if possible is not None:
        lowest, highest = possible.T
    low, high = pseudo_queries(units, widest).bounds((1 + np.asarray(confidence)) / 2)
    columns = [column[~np.isnan(column)] for column in units.values.T]
    means = np.array([exact_mean(values) for values in columns])
    low = np.clip(np.minimum(low, means), lowest, highest)
    high = np.clip(np.maximum(high, means), lowest, highest)
    intervals = []
    for position, values in enumerate(columns):
        mean, reason = float(means[position]), reason_no_interval(units, position)
        ends: tuple[float | None, float | None] = None, None
        if not reason:
            ends = float(low[position]), float(high[position])
        intervals.append(MeanInterval(mean, *ends, len(values), reason))
    return intervals
