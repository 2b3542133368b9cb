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


def effective_changes(
    differences: Sequence[float] | npt.NDArray[Any],
    widest: float,
    *,
    is_noise_counted: bool = False,
) -> float:
    """k: (Σ|d|)² / Σd², and at most Σ min(1, |d| / (R / 10)) unless noise is counted."""
    squares = fsum(d * d for d in differences)
    if not squares:
        return 0.0
    alike = fsum(abs(d) for d in differences) ** 2 / squares
    if is_noise_counted:
        return alike
    return min(alike, fsum(min(1.0, abs(d) / (widest / 10)) for d in differences))


def pseudo_change(
    differences: Sequence[float] | npt.NDArray[Any], widest: float = 1.0, counted: int = 1
) -> float:
    """M: by how much each of the two pseudo-queries changes, one up and one down.

    M² = (Σd² + c R²) / (k + c), of R, the widest difference there can be, counted c times, and k,
    the effective number of changes.
    """
    squares = fsum(d * d for d in differences)
    changes = effective_changes(differences, widest)
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
    mean = fsum(differences) / n
    effective = effective_changes(differences, widest)
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


Groups = Sequence[Sequence[float]]
"""The scores of each unit: one question, or the questions of a conversation."""


def even_size(sizes: Sequence[int]) -> float:
    """How many units of one size say as much."""
    return sum(sizes) ** 2 / sum(size * size for size in sizes)


def mean_ends(
    groups: Groups, confidence: float, limits: tuple[float, float], half: float = 0.5
) -> tuple[float, float]:
    """Wilson's interval of a mean, with `half` a unit at the far end in the variance of each end.

    The limits are those of the metric, widened to the scores seen and 0.
    """
    scores = [score for group in groups for score in group]
    sizes = [len(group) for group in groups]
    n, total, mean = len(groups), len(scores), fsum(scores) / len(scores)
    lowest, highest = min([*scores, 0.0]), max([*scores, 0.0])
    if limits[0] > -np.inf:
        lowest = min(lowest, limits[0])
    if limits[1] < np.inf:
        highest = max(highest, limits[1])
    pulls = [(fsum(group) - len(group) * mean) * n / total for group in groups]
    even, squares, cubes = even_size(sizes), sum(s**2 for s in sizes), sum(s**3 for s in sizes)
    shares = (total * cubes - squares**2) / total**4
    share = (mean - lowest) / (highest - lowest)
    quantile = stats.t.ppf((1 + confidence) / 2, max(even - 1, 1))
    roots = []
    for end in (lowest, highest):
        variance = (fsum(p * p for p in pulls) + half * (end - mean) ** 2) / (n - 1 + half)
        error = variance / n / (highest - lowest) ** 2
        most = share * (1 - share)
        effective = max(most / (error + most / even**2 + shares / 4) if most else 0.0, even)
        # (share - p)² = t² p (1 - p) / n'
        factor = quantile**2 / effective
        half_width = factor * sqrt(1 / 4 + share * (1 - share) / factor) / (1 + factor)
        centre = (share + factor / 2) / (1 + factor)
        roots.append((centre - half_width, centre + half_width))
    low, high = max(roots[0][0], 0.0), min(roots[1][1], 1.0)
    span = highest - lowest
    return min(lowest + span * low, mean), max(lowest + span * high, mean)


def difference_bounds(
    groups: Groups, widest: float, confidence: float, *, counted: int = 1, is_noise_counted: bool
) -> tuple[float, float]:
    """One-sided bounds of a mean difference, with two pseudo-units at ±M."""
    n, sizes = len(groups), [len(group) for group in groups]
    scale = n / sum(sizes)
    changes = [fsum(group) * scale for group in groups]
    largest = widest / (even_size(sizes) / n)
    squares = fsum(d * d for d in changes)
    effective = effective_changes(changes, largest, is_noise_counted=is_noise_counted)
    pseudo = (squares + counted * largest**2) / (effective + counted)
    centre = fsum(changes) / (n + 2)
    pairs = zip(changes, sizes, strict=True)
    residuals = fsum((change - size * scale * centre) ** 2 for change, size in pairs)
    error = sqrt((residuals + 2 * pseudo + 2 * centre**2) / (n + 2) / (n + 1))
    reach = stats.t.ppf(confidence, even_size(sizes) + 1) * error
    return centre - reach, centre + reach
