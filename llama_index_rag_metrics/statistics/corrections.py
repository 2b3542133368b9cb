"""The level of intervals that hold together: by the largest t under shared flips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, ratio
from llama_index_rag_metrics.statistics.intervals import RESAMPLES, SEED
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums


def joint_levels(
    units: Units,
    families: Sequence[IntArray],
    *,
    alpha: float = 0.05,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[float]:
    """For each family of columns, the level at which its intervals hold together at `alpha`.

    That of maxT (Westfall and Young 1993): the signs of all columns of paired differences are
    flipped together, and each column is held against the largest of its family, so that columns
    that say much the same cost little, and identical ones nothing. It goes by the means of
    clusters, so that a large one doesn't make columns look alike.
    """
    sums = units.own_means if units.clustered else units.sums
    norms = np.sqrt(np.square(sums).sum(axis=0))
    distinct = [_distinct_columns(units, family) for family in families]
    largest: list[list[FloatArray]] = [[] for _ in families]
    for flipped in flipped_sums(replace(units, sums=sums), resamples, seed):
        size = ratio(np.abs(flipped), norms)
        for blocks, columns in zip(largest, distinct, strict=True):
            blocks.append(size[:, columns].max(axis=1, initial=0.0))
    levels = []
    for blocks, columns in zip(largest, distinct, strict=True):
        level = alpha
        if len(columns) > 1:
            n = int(units.n_units[columns].max())
            level = level_of_largest(np.concatenate(blocks), n, alpha, columns=len(columns))
        levels.append(level)
    return levels


def level_of_largest(
    largest: FloatArray, n: int, alpha: float, *, columns: int, sides: Literal[1, 2] = 2
) -> float:
    """The p value of t as extreme as the largest of several columns is in a share alpha of flips.

    The sum over its norm, s, is t = s √((n - 1) / (n - s²)).
    """
    from scipy.special import stdtr

    critical = float(np.quantile(largest, 1 - alpha))
    if n < 2 or critical**2 >= n:
        return alpha / columns
    t = critical * math.sqrt((n - 1) / (n - critical**2))
    return float(np.clip(sides * stdtr(n - 1, -t), alpha / columns, alpha))


def _distinct_columns(units: Units, family: IntArray) -> IntArray:
    """The positions of a family's columns without those that repeat another, or its negative."""
    first: dict[bytes, int] = {}
    for position in family.tolist():
        column = np.round(units.sums[:, position], 12) + 0.0
        sign = np.sign(column[np.flatnonzero(column)[:1]].sum()) or 1.0
        first.setdefault((sign * column + 0.0).tobytes(), position)
    return np.array([*first.values()], np.int64)
