"""Intervals once more, slowly and plainly: an oracle of the tests that shares nothing with them."""

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq


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


def smallest_shown(
    differences: Sequence[float] | npt.NDArray[Any], widest: float = 1.0, alpha: float = 0.05
) -> float:
    """The true difference at which N questions like these leave out 0 in 80 % of cases.

    A quarter of a change of M is added to those seen: s² = (Σ(d - m)² + M² / 4) / (N - 3/4), and
    a share p = (k + 1/4) / (N + 1/4) changes. At a true difference δ, Σd² is N (s² + δ²), of which
    pseudo-queries and the error follow; the centre N δ / (N + 2) varies by √N s / (N + 2).
    """
    n, total = len(differences), len(differences) + 2
    mean, squares = fsum(differences) / n, fsum(d * d for d in differences)
    effective = fsum(abs(d) for d in differences) ** 2 / squares
    residuals = fsum((d - mean) ** 2 for d in differences)
    spread = (residuals + pseudo_change(differences, widest) ** 2 / 4) / (n - 0.75)
    share = (effective + 0.25) / (n + 0.25)

    def lacks(true: float) -> float:
        changed = max(share, true**2 / (spread + true**2))
        assumed = (n * (spread + true**2) + widest**2) / (n * changed + 1)
        centre = n * true / total
        variance = (n * (spread + true**2) + 2 * assumed) / total - centre**2
        error = sqrt(variance / (total - 1))
        chance = stats.norm.ppf(0.8) * sqrt(n * spread) / total
        return float(stats.t.ppf(1 - alpha / 2, total - 1) * error + chance - centre)

    return float(brentq(lacks, 0, widest, xtol=1e-14))
