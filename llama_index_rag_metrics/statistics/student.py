"""Student's t of columns of paired differences; with clusters, its cluster-robust form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.statistics.resampling import NOISE, Units


@dataclass(frozen=True)
class Student:
    """Student's t of (columns,) centres, standard errors and degrees of freedom.

    With df below 1 there is nothing to say; no true mean is farther from 0 than `limit`.
    """

    centre: FloatArray
    error: FloatArray
    df: IntArray
    limit: FloatArray | float = math.inf

    def bounds(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """(columns,) the lower and the upper bound, each of which holds with this confidence."""
        from scipy.special import stdtrit

        reach = stdtrit(np.maximum(self.df, 1), confidence) * self.error
        # rectified differences may lie beyond what the metric allows: both ends stay within it
        return (
            np.clip(self.centre - reach, -self.limit, self.limit),
            np.clip(self.centre + reach, -self.limit, self.limit),
        )


def student(units: Units, limit: FloatArray | float = math.inf) -> Student:
    """Plain paired t; with clusters its robust form, of (clusters - 1) degrees of freedom.

    Where every unit changed by the same amount there is no spread to go by: two more are taken to
    have changed by it, one of them the other way, so that two equal changes aren't certainty.
    """
    means, count, steady = units.means, units.n_units, unvaried(units)
    alike = np.where(np.abs(means) <= NOISE, 0.0, means)
    share = count / (count + 2)
    mirrored = np.abs(alike) * np.sqrt((1 - np.square(share)) / (count + 1))
    return Student(
        np.where(steady, share * alike, means),
        np.where(steady, mirrored, units.standard_errors),
        np.where(count < 2, 0, np.where(steady, count + 1, count - 1)),
        limit,
    )


def unvaried(units: Units) -> BoolArray:
    """(columns,) whether every unit has the same mean, rounding noise aside."""
    pull = np.abs(units.influence).max(axis=0, initial=0)
    return np.asarray(pull * units.n <= NOISE, np.bool_)
