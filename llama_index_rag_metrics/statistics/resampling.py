"""Resampling: signs of queries, or of clusters of them, are flipped once for all columns.

Flips depend on the seed and the number of queries alone, which keeps differences paired; they are
drawn in blocks, so that memory is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, ratio

_BLOCK = 1 << 22  # cells, units × resamples, that are held at once: 32 MB as 64-bit floats
_SIGNS = 1  # the stream of a seed that the flips are drawn from
NOISE = 1e-12  # differences of scores below this are rounding: 0.3 - 0.2 and 0.2 - 0.1 are the same


@dataclass(frozen=True)
class Units:
    """What is drawn: single queries, or whole clusters of queries."""

    sums: FloatArray  # (units, columns) the sum of a unit's values
    sizes: FloatArray  # (units, columns) how many values a unit has
    values: FloatArray  # (queries, columns) NaN where a query has none
    clusters: IntArray | None  # (queries,) the number of each one's cluster, from 0

    @classmethod
    def of(cls, columns: FloatArray, clusters: IntArray | None = None) -> Units:
        missing = np.isnan(columns)
        sums, sizes = np.where(missing, 0.0, columns), (~missing).astype(np.float64)
        if clusters is not None:
            sums, sizes = _by_cluster(sums, clusters), _by_cluster(sizes, clusters)
        return cls(sums, sizes, columns, clusters)

    def columns(self, positions: IntArray) -> Units:
        parts = ("sums", "sizes", "values")
        return replace(self, **{part: getattr(self, part)[:, positions] for part in parts})

    @property
    def clustered(self) -> bool:
        return self.clusters is not None

    @cached_property
    def informative(self) -> IntArray:
        """(columns,) how many units hold a value that isn't the column's commonest."""
        usual = [commonest(column[~np.isnan(column)]) for column in self.values.T]
        apart = (np.abs(self.values - np.array(usual)) > NOISE).astype(np.float64)
        by_unit = apart if self.clusters is None else _by_cluster(apart, self.clusters)
        return np.asarray(np.count_nonzero(by_unit, axis=0), np.int64)

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def n(self) -> FloatArray:
        """(columns,) how many values there are."""
        return np.asarray(self.sizes.sum(axis=0), np.float64)

    @property
    def n_units(self) -> IntArray:
        """(columns,) how many units have a value."""
        return np.asarray(np.count_nonzero(self.sizes, axis=0), np.int64)

    @property
    def n_even(self) -> FloatArray:
        """(columns,) how many units of one size say as much as these (Kish 1965), n_units at most.

        That is if values of a unit are alike; otherwise they say more.
        """
        return ratio(np.square(self.n), np.square(self.sizes).sum(axis=0))

    @property
    def share_variance(self) -> FloatArray:
        """(columns,) over values, the variance of their units' shares of all values."""
        squares, cubes = ((self.sizes**power).sum(axis=0) for power in (2, 3))
        return ratio(self.n * cubes - np.square(squares), self.n**4)

    @property
    def own_means(self) -> FloatArray:
        """(units, columns) of each unit alone, 0 where it has no value."""
        return ratio(self.sums, self.sizes)

    @property
    def means(self) -> FloatArray:
        """(columns,) the mean over queries."""
        return ratio(self.sums.sum(axis=0), self.n)

    @property
    def influence(self) -> FloatArray:
        """(units, columns) how far a unit pulls the mean: (sum - size × mean) / n."""
        return ratio(self.sums - self.sizes * self.means, self.n)

    @property
    def standard_errors(self) -> FloatArray:
        """(columns,) of the mean: sd / √n for queries, its cluster-robust form for clusters."""
        n = self.n_units
        squares = np.square(self.influence).sum(axis=0)
        return np.asarray(np.sqrt(squares * ratio(n, n - 1)), np.float64)


def flipped_sums(units: Units, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Blocks of (resamples, columns): the sums under random flips of the units' signs."""
    observed = units.sums.sum(axis=0)
    rng = np.random.default_rng([seed, _SIGNS])
    rows = max(1, _BLOCK // max(len(units), 1))
    for start in range(0, resamples, rows):
        shape = min(rows, resamples - start), -(-len(units) // 64)
        words = rng.integers(0, 1 << 64, shape, dtype=np.uint64)
        # 1 where a unit keeps its sign, 0 where it is flipped
        kept = np.unpackbits(words.view(np.uint8), axis=1, count=len(units)).astype(np.float64)
        yield np.asarray(2 * (kept @ units.sums) - observed, np.float64)


def _by_cluster(values: FloatArray, clusters: IntArray) -> FloatArray:
    n = int(clusters.max(initial=-1)) + 1
    sums = [np.bincount(clusters, weights=column, minlength=n) for column in values.T]
    return np.stack(sums, axis=1) if sums else np.zeros((n, 0))


def commonest(values: FloatArray) -> float:
    """The commonest value, rounding noise aside; the lowest among equally common ones."""
    if not len(values):
        return math.nan
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > NOISE]))
    lengths = np.diff(np.append(starts, len(ordered)))
    return float(ordered[starts[np.argmax(lengths)]])
