"""Units that are drawn, questions or clusters; and levels at which intervals hold together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.runtime.containers import FloatArray, IntArray, ratio

RESAMPLES = 10_000
_STREAM = (0, 1)  # the seed of random numbers
_BLOCK = 1 << 22  # cells, units × resamples, that are held at once: 32 MB as 64-bit floats
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
        sums, sizes = self.sums[:, positions], self.sizes[:, positions]
        return Units(sums, sizes, self.values[:, positions], self.clusters)

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def n(self) -> FloatArray:
        return np.asarray(self.sizes.sum(axis=0), np.float64)

    @property
    def n_units(self) -> IntArray:
        return np.asarray(np.count_nonzero(self.sizes, axis=0), np.int64)

    @property
    def n_even(self) -> FloatArray:
        """(columns,) how many units of one size say as much (Kish 1965), n_units at most."""
        return ratio(np.square(self.n), np.square(self.sizes).sum(axis=0))

    @property
    def share_variance(self) -> FloatArray:
        """(columns,) the variance, over values, of the share of all values that a unit has."""
        squares, cubes = (self.sizes**2).sum(axis=0), (self.sizes**3).sum(axis=0)
        return ratio(self.n * cubes - np.square(squares), self.n**4)

    @property
    def own_means(self) -> FloatArray:
        """(units, columns) the mean of each unit by itself, 0 where it has no value."""
        return ratio(self.sums, self.sizes)

    @property
    def means(self) -> FloatArray:
        return ratio(self.sums.sum(axis=0), self.n)

    @property
    def influence(self) -> FloatArray:
        """(units, columns) how far a unit pulls the mean: (sum - size × mean) / n."""
        return ratio(self.sums - self.sizes * self.means, self.n)

    @property
    def standard_errors(self) -> FloatArray:
        """(columns,) the errors of the means: sd / √n of queries, or its cluster-robust form."""
        n = self.n_units
        squares = np.square(self.influence).sum(axis=0)
        return np.asarray(np.sqrt(squares * ratio(n, n - 1)), np.float64)


def _by_cluster(values: FloatArray, clusters: IntArray) -> FloatArray:
    n = int(clusters.max(initial=-1)) + 1
    sums = [np.bincount(clusters, weights=column, minlength=n) for column in values.T]
    return np.stack(sums, axis=1) if sums else np.zeros((n, 0))


def flipped_sums(sums: FloatArray) -> Iterator[FloatArray]:
    """Blocks of (resamples, columns): the sums of (units, columns) under random flips of signs."""
    observed, n = sums.sum(axis=0), len(sums)
    rng = np.random.default_rng(_STREAM)
    rows = max(1, _BLOCK // max(n, 1))
    for start in range(0, RESAMPLES, rows):
        shape = min(rows, RESAMPLES - start), -(-n // 64)
        bits = rng.integers(0, 1 << 64, shape, dtype=np.uint64)
        signs = np.unpackbits(bits.view(np.uint8), axis=1, count=n).astype(np.float64)
        yield np.asarray(2 * (signs @ sums) - observed, np.float64)


def joint_levels(units: Units, families: Sequence[IntArray], *, alpha: float = 0.05) -> list[float]:
    """For each family of columns, the level at which its intervals hold together at `alpha`.

    That of maxT (Westfall and Young 1993): the signs of all columns of paired differences are
    flipped together, and each column is held against the largest of its family. It goes by the
    means of clusters, so that a large one doesn't make columns look alike.
    """
    sums = units.sums if units.clusters is None else units.own_means
    norms = np.sqrt(np.square(sums).sum(axis=0))
    sizes = ratio(np.abs(np.concatenate(list(flipped_sums(sums)))), norms)
    levels = []
    for family in families:
        columns, level = _distinct_columns(units, family), alpha
        if len(columns) > 1:
            n, largest = int(units.n_units[columns].max()), sizes[:, columns].max(axis=1)
            level = level_of_largest(largest, n, alpha, len(columns), sides=2)
        levels.append(level)
    return levels


def level_of_largest(largest: FloatArray, n: int, alpha: float, count: int, *, sides: int) -> float:
    """Return the p value of the t that the largest of several columns reaches in alpha of flips.

    A sum over its norm, s, is t = s √((n - 1) / (n - s²)).
    """
    from scipy.special import stdtr

    critical = float(np.quantile(largest, 1 - alpha))
    if n < 2 or critical**2 >= n:
        return alpha / count
    t = critical * math.sqrt((n - 1) / (n - critical**2))
    return float(np.clip(sides * stdtr(n - 1, -t), alpha / count, alpha))


def _distinct_columns(units: Units, family: IntArray) -> IntArray:
    """The positions of a family's columns without those that repeat another, or its negative."""
    position_of: dict[bytes, int] = {}
    for position in family.tolist():
        column = np.round(units.sums[:, position], 12) + 0.0
        changes = column[column != 0]
        if len(changes) and changes[0] < 0:
            column = -column + 0.0
        position_of.setdefault(column.tobytes(), position)
    return np.array(list(position_of.values()), np.int64)
