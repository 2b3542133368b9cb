"""The bootstrap: resampled means, and BCa intervals of them (Efron 1987), used on request only.

It gives no interval where fewer than `FEWEST` queries differ from the others: what they say about
the tails is too little, and the interval would cover too rarely.
"""

from __future__ import annotations

import numpy as np

from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, ratio
from llama_index_rag_metrics.statistics.resampling import BOOTSTRAP_STREAM, NOISE, Units, blocks

FEWEST = 30
"""Without this limit, 90 % of intervals cover with 10 differing queries, 94 % with 50."""


def bootstrap_means(units: Units, resamples: int, seed: int) -> FloatArray:
    """(resamples, columns) the means of samples drawn with replacement, as large as the original.

    With clusters, or where queries have no value, a sample's mean is over what it happens to hold.
    """
    sizes, column = np.unique(units.sizes, axis=1, return_inverse=True)
    column = column.reshape(-1)
    means = np.empty((resamples, units.sums.shape[1]))
    rng = np.random.default_rng([seed, BOOTSTRAP_STREAM])
    for block in blocks(len(units), resamples):
        counts = _draw_counts(rng, len(units), block.stop - block.start)
        means[block] = ratio(counts @ units.sums, (counts @ sizes)[:, column])
    return means


def bca_ends(
    units: Units, wanted: BoolArray, tails: tuple[float, ...], resamples: int, seed: int
) -> FloatArray:
    """(tails, columns) BCa quantiles of resampled means; NaN for the columns not wanted.

    Args:
        units: what is resampled.
        wanted: (columns,) which columns to resample.
        tails: the probabilities wanted, such as 0.025 and 0.975.
        resamples: how many bootstrap samples.
        seed: of the random numbers.
    """
    ends = np.full((len(tails), units.sums.shape[1]), np.nan)
    positions = np.flatnonzero(wanted)
    if len(positions):
        chosen = units.columns(positions)
        ends[:, positions] = bca(bootstrap_means(chosen, resamples, seed), chosen, tails)
    return ends


def enough(units: Units) -> BoolArray:
    """(columns,) whether enough units differ from the others for a bootstrap."""
    return np.asarray((units.informative >= FEWEST) & (units.n_units > FEWEST), np.bool_)


def why_not(units: Units, position: int) -> str:
    """Why a column has no bootstrap interval."""
    informative, n_units = int(units.informative[position]), int(units.n_units[position])
    what = "clusters" if units.clustered else "queries"
    if informative == 0:
        return "every query has the same value: nothing to resample"
    if n_units <= FEWEST:
        return f"only {n_units} {what}: too few to resample (it takes more than {FEWEST})"
    return f"only {informative} of {n_units} {what} differ from the others: too few to resample"


def bca(means: FloatArray, units: Units, tails: tuple[float, ...]) -> FloatArray:
    """(tails, columns) quantiles of the bias-corrected and accelerated bootstrap.

    Args:
        means: (resamples, columns) of the bootstrap samples; they are sorted in place.
        units: what was resampled.
        tails: the probabilities wanted, such as 0.025 and 0.975.
    """
    from scipy.special import ndtr, ndtri

    observed, size = units.means, len(means)
    noise = NOISE * np.abs(means).max(axis=0, initial=0)
    below = np.count_nonzero(means < observed - noise, axis=0)
    equal = np.count_nonzero(np.abs(means - observed) <= noise, axis=0)
    bias = ndtri((below + equal / 2) / size)
    pull = units.influence
    acceleration = (pull**3).sum(axis=0) / (6 * (pull**2).sum(axis=0) ** 1.5)
    means.sort(axis=0)
    ends = np.empty((len(tails), means.shape[1]))
    for row, tail in enumerate(tails):
        shifted = bias + ndtri(tail)
        place = ndtr(bias + shifted / (1 - acceleration * shifted)) * (size - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, size - 1)
        columns = np.arange(means.shape[1])
        start = means[low, columns]
        ends[row] = start + (place - low) * (means[high, columns] - start)
    return ends


def _draw_counts(rng: np.random.Generator, n_units: int, rows: int) -> FloatArray:
    """(rows, units) how often each unit was drawn."""
    drawn = rng.integers(0, n_units, (rows, n_units), dtype=np.int64)
    drawn += np.arange(rows)[:, None] * n_units
    counts = np.bincount(drawn.reshape(-1), minlength=rows * n_units)
    return counts.reshape(rows, n_units).astype(np.float64)
