"""Intervals of paired differences that are always there: Student's t with two pseudo-queries.

Where few queries changed, the differences seen say little about how far others may go. So two
queries are added, one that gains M and one that loses as much:

    M² = (Σd² + R²) / (k + 1),    k = (Σ|d|)² / Σd²

R is the widest difference that the metric allows, and k the effective number of changes: of equal
ones it is their number, and many tiny ones beside a few large ones hardly count. So M² is the mean
square of the changes that matter, one of R among them. With N = n + 2 the interval is Student's
about m = Σd / N. Of differences that are -1, 0 or 1 it is that of Agresti and Min (2005) and of
Bonett and Price (2012); with many changes it becomes the plain t interval. Clusters are units as
queries are: their sums over the mean size take the place of d, and the error is the cluster-robust
one.

About a difference of exactly 0 the test says more than the pseudo-queries do: under it signs are
exchangeable, which is not so for any other value. So where the test finds a difference, the end
near 0 is that of plain t (which excludes 0 whenever the t-test does), and where it finds none, the
interval holds 0. A verdict and its interval never contradict each other then.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, ratio
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    check_options,
    exact_mean,
    reason_no_interval,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.significance import Student, student, t_p


def pseudo_queries(units: Units, widest: FloatArray | float = math.inf) -> Student:
    """Student's t of paired differences with two pseudo-queries, at M and at -M.

    `widest` is R, the widest difference that the metric allows; the widest seen where infinite.
    """
    count = units.n_units
    scale = ratio(count, units.n)
    values = units.sums * scale
    changes = np.abs(units.changes) * scale
    squares = np.square(changes).sum(axis=0)
    largest = np.where(np.isfinite(widest), widest, changes.max(axis=0, initial=0.0))
    effective = ratio(np.square(changes.sum(axis=0)), squares)
    pseudo = (squares + np.square(largest)) / (effective + 1)
    total = count + 2
    centre = values.sum(axis=0) / total
    residuals = np.square(values - units.sizes * scale * centre).sum(axis=0)
    variance = (residuals + 2 * pseudo + 2 * np.square(centre)) / total
    df = np.where(count < 2, 0, total - 1)
    return Student(centre, np.sqrt(variance / (total - 1)), df, widest)


def difference_intervals(
    units: Units,
    *,
    widest: FloatArray | float = math.inf,
    limit: FloatArray | float | None = None,
    confidence: float = 0.95,
    p_values: FloatArray | None = None,
) -> list[MeanInterval]:
    """Mean paired differences with their intervals, which agree with the test of each.

    `p_values`, two-sided, are of the test that decides whether a difference is 0; the t-test's
    unless given. No end lies farther from 0 than `limit`, by default `widest`, and infinite where
    the metric has no limits: a true mean may lie beyond what was seen.
    """
    check_options(confidence)
    different = (t_p(units) if p_values is None else p_values) <= round(1 - confidence, 12)
    farthest = widest if limit is None else limit
    low, high = _ends(units, widest, farthest, confidence, different)
    method = f"{'cluster-robust t' if units.clustered else 't'} with pseudo-queries"
    intervals = []
    for position, column in enumerate(units.values.T):
        values = column[~np.isnan(column)]
        mean, n = exact_mean(values), len(values)
        if note := reason_no_interval(units, position):
            intervals.append(MeanInterval(mean, None, None, n, note=note))
        else:
            ends = float(low[position]), float(high[position])
            intervals.append(MeanInterval(mean, *ends, n, method))
    return intervals


def _ends(
    units: Units,
    widest: FloatArray | float,
    limit: FloatArray | float,
    confidence: float,
    different: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """(columns,) the ends of the pseudo-queries' interval, and near 0 those of the test."""
    tail = (1 + confidence) / 2
    low, high = replace(pseudo_queries(units, widest), limit=limit).bounds(tail)
    t_low, t_high = student(units, limit).bounds(tail)
    above, below = different & (units.means > 0), different & (units.means < 0)
    low = np.where(above, np.maximum(low, np.maximum(t_low, NOISE)), low)
    high = np.where(below, np.minimum(high, np.minimum(t_high, -NOISE)), high)
    undecided = ~(above | below)
    low = np.where(undecided, np.minimum(low, 0.0), low)
    return low, np.where(undecided, np.maximum(high, 0.0), high)
