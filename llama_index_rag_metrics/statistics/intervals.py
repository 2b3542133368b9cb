"""Intervals: how far a mean, or a mean difference, could be from that of all queries like these.

A mean of zeros and ones has Wilson's score interval, every other mean and every difference the
bias-corrected and accelerated bootstrap (BCa; Efron 1987). Two columns have none, and say so: a
constant one, and one to be bootstrapped in which too few queries differ from the commonest value.
How often the intervals cover, and why the limit is where it is, stands in benchmarks/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.statistics.resampling import NOISE, Units, bootstrap_means

FEWEST = 30
"""With fewer queries (or clusters) off the commonest value, the bootstrap covers too rarely.

By simulation: 90 % of intervals cover with 10 such queries on average, 93 % with 20, 94 % with 50.
"""

ROUGH = 5
"""With fewer hits (or misses), Wilson's interval is given, with a note."""

RESAMPLES = 10_000
SEED = 0


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean and its confidence interval.

    Attributes:
        mean: over the queries that have a value; 0 where there is none.
        low: the lower end, None where no interval is given.
        high: the upper end, None where no interval is given.
        n: how many queries have a value.
        method: how the interval was made; "" where none is given.
        note: why none is given, or what to know about it.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    method: str = ""
    note: str = ""


def mean_interval(
    scores: Sequence[float] | FloatArray,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    clusters: Sequence[Hashable] | None = None,
) -> MeanInterval:
    """The mean of one column of scores, with its confidence interval.

    Args:
        scores: one a query; NaN where a query has none.
        confidence: such as 0.95, between 0 and 1.
        resamples: how many bootstrap samples.
        seed: of the random numbers.
        clusters: of each query, what it belongs to, such as its document: clusters are then
            resampled as a whole.

    Raises:
        InvalidInput: an argument can't be used.

    Examples:
        >>> mean_interval([1, 1, 0, 0, 1] * 2 + [0])
        MeanInterval(mean=0.545..., low=0.280..., high=0.787..., n=11, method='Wilson', note='')
        >>> mean_interval([1, 1, 1]).note
        'every query has the same value'
    """
    column = np.asarray(scores, np.float64).reshape(-1, 1)
    return mean_intervals(
        column, confidence=confidence, resamples=resamples, seed=seed, clusters=clusters
    )[0]


def mean_intervals(
    columns: FloatArray,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    clusters: Sequence[Hashable] | IntArray | None = None,
    differences: BoolArray | bool = False,
) -> list[MeanInterval]:
    """`mean_interval` of many columns, which share their resamples.

    Args:
        columns: (queries, columns) NaN where a query has no value.
        confidence: such as 0.95.
        resamples: how many bootstrap samples.
        seed: of the random numbers.
        clusters: (queries,) of each query, what it belongs to.
        differences: (columns,) or one for all: whether a column is of differences between systems:
            zeros and ones are then no proportion, as -1 might have come.
    """
    check_options(confidence, resamples, seed)
    tail = (1 - confidence) / 2
    units = units_of(columns, clusters)
    proportion = ~np.broadcast_to(differences, columns.shape[1:]) & _are_proportions(columns, units)
    resampled = ~proportion & (units.informative >= FEWEST)
    ends = _bootstrap_ends(units, resampled, (tail, 1 - tail), resamples, seed)
    return [
        _interval(column[~np.isnan(column)], units, at, bool(proportion[at]), ends, confidence)
        for at, column in enumerate(columns.T)
    ]


def _interval(
    values: FloatArray,
    units: Units,
    at: int,
    proportion: bool,
    ends: FloatArray,
    confidence: float,
) -> MeanInterval:
    n, mean = len(values), exact_mean(values)
    if proportion:
        rare = int(units.informative[at])
        note = f"only {rare} of {n} queries differ: a rough interval" if rare < ROUGH else ""
        method = "modified Wilson" if rare <= few_hits(n) else "Wilson"
        low, high = wilson(int(values.sum()), n, confidence)
        return MeanInterval(mean, low, high, n, method, note)
    if note := _why_none(n, units, at):
        return MeanInterval(mean, None, None, n, note=note)
    method = "cluster BCa bootstrap" if units.clustered else "BCa bootstrap"
    return MeanInterval(mean, float(ends[0, at]), float(ends[1, at]), n, method)


def _why_none(n: int, units: Units, at: int) -> str:
    informative, n_units = int(units.informative[at]), int(units.n_units[at])
    what = "clusters" if units.clustered else "queries"
    if n == 0:
        return "no query has a value"
    if n == 1:
        return "only 1 query: too few for an interval"
    if informative == 0:
        return "every query has the same value"
    if n_units <= FEWEST:
        return f"only {n_units} {what}: too few for an interval (it takes more than {FEWEST})"
    if informative < FEWEST:
        return (
            f"only {informative} of {n_units} {what} differ from the commonest value: "
            f"too few for an interval (fewer than {FEWEST})"
        )
    return ""


def _are_proportions(columns: FloatArray, units: Units) -> BoolArray:
    """(columns,) whether a column has both zeros and ones, and nothing else, query by query."""
    if units.clustered:
        return np.zeros(columns.shape[1], np.bool_)
    binary = np.all((columns == 0) | (columns == 1) | np.isnan(columns), axis=0)
    return np.asarray(binary & (units.informative > 0))


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion, modified where there are few hits or few misses.

    Wilson 1927; with up to 3 hits (2 if n is at most 50) the lower end, and with as few misses the
    upper end, is the one-sided Poisson limit, since Wilson's covers too rarely there: Brown, Cai
    and DasGupta, Statistical Science 16(2), 2001.

    >>> wilson(90, 100)
    (0.825..., 0.944...)
    >>> wilson(1, 100)[0]  # -log(0.95) / 100; Wilson's is 0.00177
    0.000512...
    """
    from scipy.special import gammaincinv, ndtri

    share, z = hits / n, float(ndtri((1 + confidence) / 2))
    weight = 1 / (1 + z * z / n)
    centre = weight * (share + z * z / (2 * n))
    half = weight * z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    few = few_hits(n)
    if 0 < hits <= few:
        low = min(low, float(gammaincinv(hits, 1 - confidence)) / n)
    if 0 < n - hits <= few:
        high = max(high, 1 - float(gammaincinv(n - hits, 1 - confidence)) / n)
    return low, high


def few_hits(n: int) -> int:
    """Up to how many hits or misses of n Wilson's interval is modified."""
    return 2 if n <= 50 else 3


@dataclass(frozen=True, slots=True)
class DifferenceBounds:
    """A mean paired difference with its two one-sided bounds.

    Attributes:
        difference: the mean difference.
        lower: with the confidence given, the true difference is above this; None where there are
            too few queries to say.
        upper: with the same confidence, it is below this.
        n: how many queries.
        standard_error: of the difference, as `queries_to_decide` wants it.
        method: how the bounds were made; "" where there are none.
        note: why there are none, or what to know about them.
    """

    difference: float
    lower: float | None
    upper: float | None
    n: int
    standard_error: float
    method: str = ""
    note: str = ""


def difference_bounds(
    differences: Sequence[float] | FloatArray,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    clusters: Sequence[Hashable] | None = None,
) -> DifferenceBounds:
    """One-sided bounds of a mean paired difference: each holds with this confidence.

    Together they are the two-sided interval of confidence 2c - 1. Where every query changed by the
    same amount, both bounds are that amount.

    Args:
        differences: system minus baseline, one a query; NaN where a query has none.
        confidence: of each bound, above 0.5.
        resamples: how many bootstrap samples.
        seed: of the random numbers.
        clusters: of each query, what it belongs to.

    Raises:
        InvalidInput: an argument can't be used.

    Examples:
        >>> found = difference_bounds([0.1, 0.0, 0.2, -0.1, 0.1] * 20)
        >>> round(found.lower, 3), round(found.upper, 3)  # 0.06 ± 1.645 × 0.0102
        (0.043, 0.076)
        >>> difference_bounds([0.0, 0.0, 0.0]).lower
        0.0
    """
    if not 0.5 < confidence < 1:
        raise InvalidInput("confidence", confidence, "a number between 0.5 and 1, such as 0.95")
    values = cleaned(np.asarray(differences, np.float64)).reshape(-1, 1)
    (two_sided,) = mean_intervals(
        values,
        confidence=2 * confidence - 1,
        resamples=resamples,
        seed=seed,
        clusters=clusters,
        differences=True,
    )
    low, high, method = two_sided.low, two_sided.high, two_sided.method
    if two_sided.n and not np.nanmax(values) - np.nanmin(values) > NOISE:
        low, high, method = two_sided.mean, two_sided.mean, "constant"
    return DifferenceBounds(
        difference=two_sided.mean,
        lower=low,
        upper=high,
        n=two_sided.n,
        standard_error=float(units_of(values, clusters).standard_errors[0]),
        method=method,
        note=two_sided.note,
    )


def cleaned(differences: FloatArray) -> FloatArray:
    """Differences with what is mere rounding set to 0."""
    return np.where(np.abs(differences) <= NOISE, 0.0, differences)


def exact_mean(values: FloatArray) -> float:
    """The correctly rounded sum over the number of values, as `Scores.means` are; NaN for none."""
    return math.fsum(values.tolist()) / len(values) if len(values) else math.nan


def units_of(columns: FloatArray, clusters: Sequence[Hashable] | IntArray | None) -> Units:
    """The units of some columns, whose clusters may have any names."""
    if clusters is None:
        return Units.of(columns)
    if len(clusters) != len(columns):
        raise InvalidInput("clusters", len(clusters), f"one for each of {len(columns)} queries")
    return Units.of(columns, number_clusters(clusters))


def number_clusters(clusters: Sequence[Hashable] | IntArray) -> IntArray:
    """(queries,) clusters as numbers from 0, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(one, len(numbers)) for one in list(clusters)], np.int64)


def check_options(confidence: float, resamples: int, seed: int) -> None:
    """Whether intervals can be made with these options.

    Raises:
        InvalidInput: they can't.
    """
    if not (isinstance(confidence, Real) and 0 < confidence < 1):
        raise InvalidInput("confidence", confidence, "a number between 0 and 1, such as 0.95")
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 100:
        raise InvalidInput("resamples", resamples, "a whole number of at least 100")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidInput("seed", seed, "a whole number of at least 0")


def _bootstrap_ends(
    units: Units, wanted: BoolArray, tails: tuple[float, ...], resamples: int, seed: int
) -> FloatArray:
    """(tails, columns) BCa quantiles; NaN for the columns that aren't resampled."""
    ends = np.full((len(tails), units.sums.shape[1]), np.nan)
    at = np.flatnonzero(wanted)
    if len(at):
        chosen = units.columns(at)
        means = bootstrap_means(chosen, resamples, seed)
        ends[:, at] = bca(means, chosen, tails)
    return ends


def bca(means: FloatArray, units: Units, tails: tuple[float, ...]) -> FloatArray:
    """(tails, columns) quantiles of the bias-corrected and accelerated bootstrap (Efron 1987).

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
        at = ndtr(bias + shifted / (1 - acceleration * shifted)) * (size - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, size - 1)
        columns = np.arange(means.shape[1])
        start = means[low, columns]
        ends[row] = start + (at - low) * (means[high, columns] - start)
    return ends
