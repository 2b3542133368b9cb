"""Intervals of means: Wilson's, for an effective number of queries.

n scores of the mean m, within 0 and 1, are worth as many zeros and ones as have the same standard
error: n' = m(1 - m) / (s² / n + m(1 - m) / n²), at least n, with Student's quantile. The second
term is a query that no one has seen yet. Each end has its own s² = (Σ(x - m)² + (end - m)² / 2) /
(n - 1/2): half an imagined query scores as low, or as high, as there is, so that many small misses
hide no whole one. Zeros and ones alone need none. Clusters are units as queries are, and n is how
many of one size say as much; s² / n is then cluster-robust. The next one may be larger, and half of
the range apart: a quarter of the variance of sizes, as questions see them, is added to it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.runtime.containers import FloatArray, IntArray, ratio
from llama_index_rag_metrics.runtime.errors import check_amount

from .resampling import NOISE, Units

SAME = "all questions have the same score"
UNIT_RANGE = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over n queries (NaN of none) and its interval, or a note why there is none."""

    mean: float
    low: float | None
    high: float | None
    n: int
    note: str = ""


def mean_interval(
    scores: Sequence[float] | FloatArray,
    *,
    confidence: float = 0.95,
    limits: tuple[float, float] = UNIT_RANGE,
    clusters: Sequence[Hashable] | IntArray | None = None,
) -> MeanInterval:
    """The mean of one column of scores (NaN for none), with its confidence interval.

    The limits are the lowest and the highest score that there can be, widened to those seen;
    infinite ones are replaced by them, and then equal scores have no interval.
    """
    column = np.asarray(scores, np.float64).reshape(-1, 1)
    return mean_intervals(column, confidence=confidence, limits=[limits], clusters=clusters)[0]


def mean_intervals(
    columns: FloatArray,
    *,
    confidence: float = 0.95,
    limits: Sequence[tuple[float, float]] | None = None,
    clusters: Sequence[Hashable] | IntArray | None = None,
) -> list[MeanInterval]:
    """`mean_interval` of (queries, columns) scores; without limits, of 0 to 1."""
    from scipy.special import stdtrit

    check_confidence(confidence)
    units = Units.of(columns, None if clusters is None else number_clusters(clusters))
    bounds = np.array(limits or [UNIT_RANGE] * columns.shape[1], np.float64).reshape(-1, 2)
    lowest, highest = _limits_seen(columns, bounds)
    span, has_hits = highest - lowest, (columns == 0) | (columns == 1) | np.isnan(columns)
    may_be_hits = (bounds == UNIT_RANGE).all(axis=1) | np.isinf(bounds).all(axis=1)
    are_hits = may_be_hits & has_hits.all(axis=0)
    share = np.clip((units.means - lowest) / span, 0.0, 1.0)
    quantile = np.asarray(stdtrit(np.maximum(units.n_even - 1, 1), (1 + confidence) / 2))
    imagined = np.where(are_hits, np.nan, [lowest, highest])
    n_by_end = _effective_queries(units, share, span, imagined)
    low, high = _score_ends(share, n_by_end, quantile)
    lows, highs = lowest + span * low[0], lowest + span * high[1]
    intervals = []
    for position, column in enumerate(columns.T):
        values = column[~np.isnan(column)]
        ends = float(lows[position]), float(highs[position])
        is_bounded = bool(np.isfinite(bounds[position]).all())
        if are_hits[position] and units.clusters is None and len(values):
            ends, is_bounded = wilson(int(values.sum()), len(values), confidence), True
        reason = reason_no_interval(units, position)
        intervals.append(_interval(values, ends, reason, is_bounded=is_bounded))
    return intervals


def _interval(
    values: FloatArray, ends: tuple[float, float], reason: str, *, is_bounded: bool
) -> MeanInterval:
    mean, n, note = exact_mean(values), len(values), ""
    if n and np.ptp(values) <= NOISE:
        note = f"interval approximate: {SAME}"
        if not is_bounded:
            reason = reason or f"no interval: {SAME}"
    if reason:
        return MeanInterval(mean, None, None, n, reason)
    # a mean at a limit stands at the end of its interval, which may be a rounding off
    return MeanInterval(mean, min(ends[0], mean), max(ends[1], mean), n, note)


def reason_no_interval(units: Units, position: int) -> str:
    if not units.n[position]:
        return "no question has a value"
    if units.n_units[position] > 1:
        return ""
    reason = "only 1 question"
    if units.clusters is not None:
        reason = "all questions belong to one conversation or cluster, which counts as 1 question"
    return f"{reason}: too few for an interval"


def _limits_seen(columns: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    filled = np.where(np.isnan(columns), 0.0, columns)
    lowest, highest = filled.min(axis=0, initial=0.0), filled.max(axis=0, initial=0.0)
    low, high = bounds.T
    lowest = np.where(np.isfinite(low), np.minimum(low, lowest), lowest)
    highest = np.where(np.isfinite(high), np.maximum(high, highest), highest)
    return lowest, np.where(highest > lowest, highest, lowest + 1.0)


def _effective_queries(
    units: Units, share: FloatArray, span: FloatArray, imagined: FloatArray
) -> FloatArray:
    """(ends, columns) how many zeros and ones of the same mean would tell as much as the scores.

    Half a unit more is taken to score `imagined`, of the same shape; NaN for none.
    """
    count, n = units.n_even, units.n_units
    of_hits = share * (1 - share)
    squares = np.square(units.influence * n).sum(axis=0)
    with_half = squares + np.square(imagined - units.means) / 2
    variance = np.where(np.isnan(imagined), ratio(squares, n - 1), ratio(with_half, n - 0.5))
    error = np.where(count > 1, ratio(variance, n) / np.square(span), 0.0)
    unseen = ratio(of_hits, np.square(count)) + units.share_variance / 4
    return np.maximum(ratio(of_hits, error + unseen), np.maximum(count, 1))


def _score_ends(share: FloatArray, n: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    weight = 1 / (1 + z * z / n)
    centre = weight * (share + z * z / (2 * n))
    half = weight * z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion, modified where there are few hits or few misses.

    With up to 3 hits (2 if n is at most 50) the lower end, and with as few misses the upper end, is
    the one-sided Poisson limit: Brown, Cai and DasGupta, Statistical Science 16(2), 2001.
    """
    from scipy.special import gammaincinv, ndtri

    share, size, z = np.array([hits / n, n, ndtri((1 + confidence) / 2)])
    low, high = map(float, _score_ends(share, size, z))
    few = 2 if n <= 50 else 3
    if 0 < hits <= few:
        low = min(low, float(gammaincinv(hits, 1 - confidence)) / n)
    if 0 < n - hits <= few:
        high = max(high, 1 - float(gammaincinv(n - hits, 1 - confidence)) / n)
    return low, high


def denoised(differences: FloatArray) -> FloatArray:
    return np.where(np.abs(differences) <= NOISE, 0.0, differences)


def exact_mean(values: FloatArray) -> float:
    """The correctly rounded sum over the number of values, as `Scores.means` are; NaN for none."""
    if not len(values):
        return math.nan
    try:
        return math.fsum(values.tolist()) / len(values)
    except OverflowError:  # though the mean is a number
        return math.fsum((values / len(values)).tolist())


def number_clusters(clusters: Sequence[Hashable] | IntArray) -> IntArray:
    """(queries,) clusters as numbers from 0, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in list(clusters)], np.int64)


def alpha_of(confidence: float) -> float:
    """1 - confidence, without the noise of binary fractions."""
    return round(1 - confidence, 12)


def check_confidence(confidence: float) -> None:
    expected = "a number between 0 and 1, such as 0.95"
    check_amount("confidence", confidence, expected, lambda level: 0 < level < 1)
