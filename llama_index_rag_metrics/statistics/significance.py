"""Tests of paired differences, of many columns at once: might they be chance?

Randomisation (Fisher 1935; Smucker, Allan and Carterette 2007), Student's paired t, and Wilcoxon's
signed ranks, which asks for symmetry about 0. Identical columns have p = 1 in each.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray, ratio
from llama_index_rag_metrics.statistics.resampling import NOISE, Units, flips_reaching

_DECIMALS = 12  # ranks see differences without their rounding noise, so that equal ones tie


@dataclass(frozen=True)
class Student:
    """Student's t of (columns,) centres; no bound excludes the mean, or lies beyond `limit`."""

    mean: FloatArray
    centre: FloatArray
    error: FloatArray
    df: IntArray
    limit: FloatArray | float = math.inf

    def bounds(self, confidence: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """(columns,) the lower and the upper bound, each of which holds with this confidence."""
        from scipy.special import stdtrit

        reach = stdtrit(np.maximum(self.df, 1), confidence) * self.error
        # what a judge moved may lie beyond what the metric allows: both ends stay within it
        return (
            np.clip(np.minimum(self.centre - reach, self.mean), -self.limit, self.limit),
            np.clip(np.maximum(self.centre + reach, self.mean), -self.limit, self.limit),
        )


def student(units: Units) -> Student:
    """Plain paired t; with clusters its robust form, of (clusters - 1) degrees of freedom.

    Where every unit changed by the same amount there is no spread to go by: two more are taken to
    have changed by it, one of them the other way, so that two equal changes aren't certainty.
    """
    means, count, steady = units.means, units.n_units, unvaried(units)
    alike = np.where(np.abs(means) <= NOISE, 0.0, means)
    share = count / (count + 2)
    mirrored = np.abs(alike) * np.sqrt((1 - np.square(share)) / (count + 1))
    return Student(
        means,
        np.where(steady, share * alike, means),
        np.where(steady, mirrored, units.standard_errors),
        np.where(count < 2, 0, np.where(steady, count + 1, count - 1)),
    )


def unvaried(units: Units) -> BoolArray:
    """(columns,) whether every unit has the same mean, rounding noise aside."""
    pull = np.abs(units.influence).max(axis=0, initial=0)
    return np.asarray(pull * units.n <= NOISE, np.bool_)


def randomisation_p(units: Units, resamples: int, seed: int) -> FloatArray:
    """(columns,) two-sided p values of the randomisation test, (b + 1) / (resamples + 1)."""
    return np.asarray((flips_reaching(units, resamples, seed) + 1) / (resamples + 1), np.float64)


def t_p(units: Units) -> FloatArray:
    """(columns,) two-sided p values of the paired t-test, 1 with fewer than two units."""
    from scipy.special import stdtr

    evidence = student(units)
    t = ratio(np.abs(evidence.centre), evidence.error)
    p = 2 * stdtr(np.maximum(evidence.df, 1), -t)
    return np.asarray(np.where(evidence.df < 1, 1.0, p), np.float64)


def wilcoxon_p(units: Units) -> FloatArray:
    """(columns,) two-sided p values of Wilcoxon's signed-rank test of units' means."""
    from scipy.stats import wilcoxon

    means = np.divide(
        units.sums, units.sizes, out=np.full_like(units.sums, np.nan), where=units.sizes > 0
    )
    p = np.ones(means.shape[1])
    with warnings.catch_warnings():
        # scipy before 1.13 warns wherever zeros or few differences make it approximate
        warnings.simplefilter("ignore", UserWarning)
        for position, column in enumerate(np.round(means, _DECIMALS).T):
            present = column[~np.isnan(column)]
            if np.any(present):
                p[position] = wilcoxon(present).pvalue
    return p
