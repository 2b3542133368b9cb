"""How far two people, or a person and a judge, agree beyond chance: Cohen's kappa.

    κ = (o - e) / (1 - e)

o is the observed agreement, e that of the same scores in any pairing (Cohen 1960). Any disagreement
counts alike, or by its squared distance (Cohen 1968); squared, κ is defined for any numbers, and
there it is Lin's concordance (1989). The interval is Wilson's of o with the effective number of
queries, e as it is. It has a width where they always agreed, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.judging import FloatArray
from llama_index_rag_metrics.statistics.intervals import mean_interval
from llama_index_rag_metrics.statistics.resampling import NOISE


@dataclass(frozen=True, slots=True)
class Kappa:
    """Agreement beyond chance.

    Attributes:
        kappa: 1 where they always agree, 0 where as often as by chance; NaN where nothing varies.
        low: the lower end of its interval; None where none can be given.
        high: the upper end.
        n: how many pairs.
    """

    kappa: float
    low: float | None
    high: float | None
    n: int


def cohens_kappa(
    ours: FloatArray, theirs: FloatArray, *, squared: bool = False, confidence: float = 0.95
) -> Kappa:
    """Cohen's kappa of paired scores, with its interval.

    Args:
        ours: (n,) scores.
        theirs: (n,) those of somebody else, of the same things.
        squared: whether a disagreement counts by its squared distance.
        confidence: such as 0.95.

    Examples:
        >>> ours, theirs = np.array([1.0, 1, 0, 0, 1, 0]), np.array([1.0, 1, 0, 0, 0, 0])
        >>> found = cohens_kappa(ours, theirs)  # o = 5/6, e = 1/2 × 1/3 + 1/2 × 2/3 = 1/2
        >>> round(found.kappa, 4), found.n
        (0.6667, 6)
    """
    n, every = len(ours), np.concatenate([ours, theirs])
    span = float(np.ptp(every)) if n else 0.0
    if span <= NOISE:
        return Kappa(math.nan, None, None, n)
    if squared:
        agreed = 1 - np.square((ours - theirs) / span)
        # the mean over all pairings, from the moments
        apart = ours.var() + theirs.var() + (ours.mean() - theirs.mean()) ** 2
        chance = 1 - float(apart) / span**2
    else:
        agreed = (np.abs(ours - theirs) <= NOISE).astype(np.float64)
        values, numbers = np.unique(np.round(every, 12), return_inverse=True)
        shares = [np.bincount(part, minlength=len(values)) / n for part in np.split(numbers, [n])]
        chance = float(shares[0] @ shares[1])
    observed = mean_interval(agreed, confidence=confidence)
    ends = [
        None if end is None else max(-1.0, (end - chance) / (1 - chance))
        for end in (observed.low, observed.high)
    ]
    return Kappa((observed.mean - chance) / (1 - chance), ends[0], ends[1], n)
