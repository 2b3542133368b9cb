"""Corrections for many comparisons: the more one looks at, the more look significant by chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.resampling import NOISE, Units, flipped_sums

Scaled: TypeAlias = Literal["holm", "benjamini-hochberg", "none"]
Correction: TypeAlias = Literal["max-t", "holm", "benjamini-hochberg", "none"]


def correct(p_values: Sequence[float] | FloatArray, method: Scaled = "holm") -> FloatArray:
    """(tests,) p values corrected for how many they are, in the order given.

    "holm" (Holm 1979) bounds the chance of any false claim, "benjamini-hochberg" (1995) the share
    of false claims among all claims.

    >>> correct([0.01, 0.04, 0.03])  # 3 × 0.01; then 2 × 0.03, which 1 × 0.04 mustn't undercut
    array([0.03, 0.06, 0.06])
    """
    if method not in METHODS:
        raise InvalidInput("correction", method, " or ".join(map(repr, METHODS)))
    uncorrected = np.asarray(p_values, np.float64)
    order = np.argsort(uncorrected, kind="stable")
    corrected = np.empty_like(uncorrected)
    corrected[order] = np.minimum(METHODS[method](uncorrected[order]), 1.0)
    return corrected


def _benjamini_hochberg(rising: FloatArray) -> FloatArray:
    scaled = rising * len(rising) / np.arange(1, len(rising) + 1)
    return np.minimum.accumulate(scaled[::-1])[::-1]


# the corrections by name; each takes p values from the lowest up
METHODS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "holm": lambda rising: np.maximum.accumulate(rising * np.arange(len(rising), 0, -1)),
    "benjamini-hochberg": _benjamini_hochberg,
    "none": lambda rising: rising,
}

CORRECTIONS: tuple[Correction, ...] = get_args(Correction)


class MaxT(NamedTuple):
    """(columns,) corrected p values, and per family the uncorrected p at which one would count."""

    p_values: FloatArray
    levels: Sequence[float]


def max_t(
    units: Units,
    p_values: FloatArray,
    families: Sequence[IntArray],
    *,
    alpha: float = 0.05,
    resamples: int,
    seed: int,
) -> MaxT:
    """P values corrected by step-down maxT (Westfall and Young 1993), family by family.

    The signs of all columns of paired differences are flipped together. A difference is held
    against the largest of those no larger than itself, so columns that say much the same cost
    little, and identical ones nothing. The flips are coarse where few queries changed: where Holm's
    correction is smaller, it is taken. A p value alone in its family stays, and none gets smaller.
    `alpha` is the level of all tests of a family together. Levels go by the means of clusters, so
    that a large one doesn't make columns look alike.
    """
    n_columns = units.sums.shape[1]
    sums = np.hstack([units.sums, units.own_means]) if units.clustered else units.sums
    norms = np.sqrt(np.square(sums).sum(axis=0))
    observed = ratio(np.abs(sums.sum(axis=0)), norms)[:n_columns]
    columns = [distinct_columns(units, family) for family in families]
    steps = [each[np.argsort(p_values[each], kind="stable")] for each in columns]
    counts = [np.zeros(len(step), np.int64) for step in steps]
    largest: list[list[FloatArray]] = [[] for _ in steps]
    for flipped in flipped_sums(replace(units, sums=sums), resamples, seed):
        size = ratio(np.abs(flipped), norms)
        for number, step in enumerate(steps):
            largest_left = np.maximum.accumulate(size[:, step[::-1]], axis=1)[:, ::-1]
            counts[number] += np.count_nonzero(largest_left >= observed[step] - NOISE, axis=0)
            largest[number].append(size[:, -n_columns:][:, step].max(axis=1, initial=0.0))
    corrected = np.asarray(p_values, np.float64).copy()
    for step, count in zip(steps, counts, strict=True):
        alone = p_values[step]
        by_flips, by_holm = (count + 1) / (resamples + 1), alone * np.arange(len(step), 0, -1)
        smaller = np.maximum(np.minimum(by_flips, by_holm), alone)
        corrected[step] = np.minimum(np.maximum.accumulate(smaller), 1.0)
    for family in families:  # repeated columns share the p value of the first of them
        corrected[family] = corrected[_first_alike(units, family)]
    levels = [alpha] * len(steps)
    for number, step in enumerate(steps):
        if len(step) > 1:
            most, n = np.concatenate(largest[number]), int(units.n_units[step].max())
            levels[number] = level_of_largest(most, n, alpha, columns=len(step))
    return MaxT(corrected, levels)


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


def distinct_columns(units: Units, family: IntArray) -> IntArray:
    """The positions of a family's columns without those that repeat another, or its negative."""
    return np.asarray(family[family == _first_alike(units, family)], np.int64)


def _first_alike(units: Units, family: IntArray) -> IntArray:
    """(columns,) the position of the first column of a family that each one repeats."""
    first: dict[bytes, int] = {}
    alike = []
    for position in family.tolist():
        column = np.round(units.sums[:, position], 12) + 0.0
        sign = np.sign(column[np.flatnonzero(column)[:1]].sum()) or 1.0
        alike.append(first.setdefault((sign * column + 0.0).tobytes(), position))
    return np.array(alike, np.int64)
