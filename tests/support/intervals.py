"""Intervals once more, slowly and plainly: an oracle of the tests that shares nothing with them."""

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import stats


class Interval(Protocol):
    """Of a mean or of a difference, where either end may be missing."""

    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...


def ends(interval: Interval) -> tuple[float, float]:
    """Lower and upper end, of an interval that has both."""
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


def width(interval: Interval) -> float:
    low, high = ends(interval)
    return high - low


def pseudo_change(
    differences: Sequence[float] | npt.NDArray[Any], widest: float = 1.0, counted: int = 1
) -> float:
    """M: by how much each of the two pseudo-queries changes, one up and one down.

    M² = (Σd² + c R²) / (k + c), of R, the widest difference there can be, counted c times, and
    k = (Σ|d|)² / Σd², the effective number of changes.
    """
    squares = fsum(d * d for d in differences)
    changes = fsum(abs(d) for d in differences) ** 2 / squares if squares else 0.0
    return sqrt((squares + counted * widest * widest) / (changes + counted))


def pseudo_bounds(
    differences: Sequence[float] | npt.NDArray[Any],
    confidence: float = 0.95,
    widest: float = 1.0,
    counted: int = 1,
) -> tuple[float, float]:
    """Bounds with two pseudo-queries at ±M."""
    n, m = len(differences), pseudo_change(differences, widest, counted)
    together = [*differences, m, -m]
    centre, error = np.mean(together), np.std(together) / sqrt(n + 1)
    reach = stats.t.ppf(confidence, n + 1) * error
    return centre - reach, centre + reach
