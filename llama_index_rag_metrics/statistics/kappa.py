"""How far two people, or a person and a judge, agree beyond chance: Cohen's kappa.

κ = (o - e) / (1 - e), of the observed agreement and that of the same scores in any pairing (Cohen
1960); disagreements count alike, or by their distance (Cohen 1968). The interval is Wilson's of o
with as many queries as the error of κ allows: without weights that of o, with them that of
o_i + (1 - κ) (2e - e_i), κ's to first order, to which one imagined disagreement of half the width
is added; e_i is how well pair i agrees with any other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, ratio

from .intervals import mean_interval, units_of, wilson_ends
from .resampling import NOISE, Units

# a disagreement counts by its distance
Weights: TypeAlias = Literal["linear"]


@dataclass(frozen=True, slots=True)
class Kappa:
    """Agreement of n pairs beyond chance, at most 1; NaN where nothing varies."""

    kappa: float
    low: float | None
    high: float | None
    n: int


def cohens_kappa(
    first: FloatArray,
    second: FloatArray,
    *,
    weights: Weights | None = None,
    confidence: float = 0.95,
    clusters: Sequence[Hashable] | IntArray | None = None,
) -> Kappa:
    """Cohen's kappa of (n,) paired scores; `clusters` are what pairs belong to, such as queries."""
    n, scores = len(first), np.concatenate([first, second])
    span = float(np.ptp(scores)) if n else 0.0
    if span <= NOISE:
        return Kappa(math.nan, None, None, n)
    # (values,) the distinct scores; (n,) which ones each side gave, and (values,) how often
    values, numbers = np.unique(np.round(scores, 12), return_inverse=True)
    theirs = numbers[:n], numbers[n:]
    shares = [np.bincount(part, minlength=len(values)) / n for part in theirs]
    if weights is None:
        agreed = (np.abs(first - second) <= NOISE).astype(np.float64)
        # (2, n) the agreement of each score with any of the other side
        by_chance = np.stack([shares[1][theirs[0]], shares[0][theirs[1]]])
    else:
        agreed = 1 - np.abs(first - second) / span
        distances = [_distances(values, shares[1])[theirs[0]]]
        distances.append(_distances(values, shares[0])[theirs[1]])
        by_chance = 1 - np.stack(distances) / span
    observed = mean_interval(agreed, confidence=confidence, clusters=clusters)
    chance, low, high = float(by_chance.mean()), observed.low, observed.high
    kappa = (observed.mean - chance) / (1 - chance)
    if low is not None and ((agreed > 0) & (agreed < 1)).any():
        pulls = agreed + (1 - kappa) * (2 * chance - by_chance.sum(axis=0))
        low, high = _weighted_ends(units_of(pulls.reshape(-1, 1), clusters), confidence)
    if low is None or high is None:
        return Kappa(kappa, None, None, n)
    low, high = ((end - chance) / (1 - chance) for end in (low, high))
    return Kappa(kappa, max(-1.0, low), max(-1.0, high), n)


def _weighted_ends(units: Units, confidence: float) -> tuple[float, float]:
    """Wilson's of a mean between 0 and 1, with one imagined disagreement of a half."""
    n, share = float(units.n_even[0]), units.means
    squares = np.square(n * units.influence).sum(axis=0) + 0.5**2
    of_hits = share * (1 - share)
    effective = np.maximum(ratio(of_hits, squares / (n * (n + 1)) + of_hits / n**2), n)
    limits = np.zeros(1), np.ones(1)
    low, high = wilson_ends(share, limits, effective, units.n_even, confidence)
    return float(low[0]), float(high[0])


def _distances(values: FloatArray, shares: FloatArray) -> FloatArray:
    """(values,) the mean distance of each from one drawn with these shares."""
    rising = values - values[0]
    up_to, below = np.cumsum(shares), np.cumsum(rising * shares)
    return np.asarray(rising * (2 * up_to - 1) + below[-1] - 2 * below, np.float64)
