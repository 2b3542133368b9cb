"""Intervals of paired differences that are always there: Student's t with two pseudo-queries.

One gains M and one loses as much, where M² = (Σd² + R²) / (k + 1) is the mean square of the changes
that matter, one of R (`widest_apart`) among them, and k their effective number: (Σ|d|)² / Σd², but
at most Σ min(1, 10 |d| / R), so that noise doesn't count. Where d is -1, 0 or 1, it is the interval
of Agresti and Min (2005), of Bonett and Price (2012); with many changes, the plain one. Clusters
are units as queries are: their sums over the mean size take the place of d, R is that of a cluster
as large as questions see them on average, and n that of clusters of one size that say as much.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from llama_index_rag_metrics.runtime.containers import BoolArray, FloatArray, IntArray, ratio

from .intervals import MeanInterval, denoised, exact_mean, reason_no_interval
from .resampling import NOISE, Units, flipped_sums, level_of_largest

_LARGE = 0.1  # a change of this share of R, or a larger one, counts whole

# how often the gate counts R: once, it passes up to 11 % of changes that are at its limit
CAUTIOUS = 2

_POWER = 0.8

# with fewer queries changed, their spread says too little about what could be detected
FEWEST_CHANGED = 10
MOST_QUESTIONS = 10**7
# so many changes as large as the pseudo-queries are added: a number reckoned from 50 questions is
# then enough in 83 % of cases, else in 68 %
_UNSEEN = 0.25


@dataclass(frozen=True)
class Student:
    """Student's t of (columns,) centres; no bound excludes the mean, or lies beyond `limit`."""

    mean: FloatArray
    centre: FloatArray
    error: FloatArray
    df: FloatArray
    limit: FloatArray | float = math.inf

    def bounds(self, confidence: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """(columns,) the lower and the upper bound, each of which holds with this confidence."""
        from scipy.special import stdtrit

        reach = stdtrit(np.maximum(self.df, 1), confidence) * self.error
        low, high = self.centre - reach, self.centre + reach
        low, high = np.minimum(low, self.mean), np.maximum(high, self.mean)
        return np.clip(low, -self.limit, self.limit), np.clip(high, -self.limit, self.limit)


def student(units: Units) -> Student:
    """Plain paired t; with clusters its robust form, with the degrees of freedom of `n_even`."""
    df = np.where(units.n_units < 2, 0.0, units.n_even - 1)
    return Student(units.means, units.means, units.standard_errors, df)


def unvaried(units: Units) -> BoolArray:
    return np.asarray(np.abs(units.influence).max(axis=0, initial=0) * units.n <= NOISE, np.bool_)


def widest_apart(
    lowest: FloatArray | float, highest: FloatArray | float, span: float, worst: float | None = None
) -> FloatArray:
    """R, how far two scores can be apart, of the lowest and the highest seen.

    Any question may get the `worst` score that there is, also where all seen are near the best one.
    Where none seen differ, it is `span`, the metric's range; if infinite, the farthest from 0.
    """
    observed = np.subtract(highest, lowest)
    reach = observed
    if worst is not None:
        reach = np.maximum(highest, worst) - np.minimum(lowest, worst)
    unseen: FloatArray | float = span
    if not math.isfinite(span):
        farthest = np.maximum(np.abs(lowest), np.abs(highest))
        unseen = np.where(farthest > 0, farthest, 1.0)
    return np.where(observed > NOISE, reach, unseen)


def effective_changes(changes: FloatArray, widest: FloatArray | float) -> FloatArray:
    """Return (columns,) how many changes of one size say as much as these (units, columns)."""
    effective = ratio(np.square(changes.sum(axis=0)), np.square(changes).sum(axis=0))
    by_size: FloatArray = np.minimum(1.0, ratio(changes, widest * _LARGE)).sum(axis=0)
    return np.asarray(np.minimum(effective, by_size))


def pseudo_queries(
    units: Units,
    widest: FloatArray | float = math.inf,
    limit: FloatArray | float = math.inf,
    *,
    counted: int = 1,
) -> Student:
    """Student's t of paired differences with two pseudo-queries, at M and at -M.

    `widest` is R, `counted` so often among the changes of M²; where infinite, the widest change.
    """
    count = units.n_units
    scale = ratio(count, units.n)
    values = units.sums * scale
    changes = np.abs(units.sums) * scale
    squares = np.square(changes).sum(axis=0)
    reach = ratio(widest, ratio(units.n_even, count))
    largest = np.where(np.isfinite(widest), reach, changes.max(axis=0, initial=0.0))
    effective = effective_changes(changes, largest)
    pseudo = (squares + counted * np.square(largest)) / (effective + counted)
    total = count + 2
    centre = values.sum(axis=0) / total
    residuals = np.square(values - units.sizes * scale * centre).sum(axis=0)
    variance = (residuals + 2 * pseudo + 2 * np.square(centre)) / total
    df = np.where(count < 2, 0.0, units.n_even + 1)
    return Student(units.means, centre, np.sqrt(variance / (total - 1)), df, limit)


def difference_intervals(
    units: Units,
    *,
    widest: FloatArray | float = math.inf,
    confidence: FloatArray | float = 0.95,
    possible: FloatArray | None = None,
) -> list[MeanInterval]:
    """Mean paired differences with their intervals.

    `confidence` may be each column's. Ends lie within `possible`, (columns, 2), or else ±`widest`.
    """
    lowest, highest = np.negative(widest), widest
    if possible is not None:
        lowest, highest = possible.T
    low, high = pseudo_queries(units, widest).bounds((1 + np.asarray(confidence)) / 2)
    columns = [column[~np.isnan(column)] for column in units.values.T]
    means = np.array(list(map(exact_mean, columns)))
    low = np.clip(np.minimum(low, means), lowest, highest)
    high = np.clip(np.maximum(high, means), lowest, highest)
    intervals = []
    for position, values in enumerate(columns):
        mean, reason = float(means[position]), reason_no_interval(units, position)
        ends: tuple[float | None, float | None] = None, None
        if not reason:
            ends = float(low[position]), float(high[position])
        intervals.append(MeanInterval(mean, *ends, len(values), reason))
    return intervals


class Aim(NamedTuple):
    """What questions are to show, by the bound that decides it."""

    confidence: float  # of the bound on one side
    counted: int = 1  # as for `pseudo_queries`
    is_loss: bool = True  # whether a loss is ruled out where nothing changed, or 0 where it did


def to_be_better(alpha: float = 0.05) -> Aim:
    return Aim(1 - alpha / 2, is_loss=False)


def to_be_kept(confidence: float = 0.95) -> Aim:
    return Aim(confidence, counted=CAUTIOUS)


@dataclass(frozen=True)
class Changes:
    """How questions change from one system to another, as far as it decides how many are needed."""

    deviation: float  # the standard deviation of the differences, those of 0 among them
    share: float  # of questions that change; the effective one, k / n
    widest: float = 1.0  # R, how far two scores can be apart
    size: float = 1.0  # questions in a cluster; 1 without clusters
    evenness: float = 1.0  # of clusters, how many of one size say as much

    @classmethod
    def seen(cls, units: Units, widest: FloatArray) -> list[Changes]:
        """Return how each column of differences changes; with fewer than two units, not at all."""
        columns = []
        for position, reach in enumerate(widest.tolist()):
            n_units = int(units.n_units[position])
            size = evenness = 1.0
            if n_units:
                size = float(units.n[position]) / n_units
                evenness = float(units.n_even[position]) / n_units
            changes = units.sums[:, position] / size
            largest = reach / evenness
            effective = float(effective_changes(np.abs(changes)[:, None], largest)[0])
            unseen = _UNSEEN * (np.square(changes).sum() + largest**2) / (effective + 1)
            total = n_units + _UNSEEN
            pull = units.influence[:, position] * n_units
            variance = (np.square(pull).sum() + unseen) / max(total - 1, _UNSEEN)
            share = min((effective + _UNSEEN) / total, 1.0)
            columns.append(cls(math.sqrt(variance), share, reach, size, evenness))
        return columns

    def questions(self, aim: Aim, distance: float) -> int | None:
        """How many questions show it; None where no number up to `MOST_QUESTIONS` does."""
        numbers = range(2, math.ceil(MOST_QUESTIONS / self.size))
        if distance <= NOISE or not self._is_shown(aim, distance, numbers.stop):
            return None
        fewest = bisect_left(numbers, True, key=lambda n: self._is_shown(aim, distance, n))
        return math.ceil((numbers.start + fewest) * self.size)

    def distance(self, aim: Aim, questions: float) -> float | None:
        """The smallest distance that this many questions show; None where none up to R is."""
        n, low, high = questions / self.size, 0.0, self.widest
        if n < 2 or not self._is_shown(aim, high, n):
            return None
        for _ in range(60):
            middle = (low + high) / 2
            if self._is_shown(aim, middle, n):
                high = middle
            else:
                low = middle
        return high

    def _is_shown(self, aim: Aim, distance: float, n: float) -> bool:
        from scipy.special import ndtri, stdtrit

        effect = 0.0 if aim.is_loss else distance
        square = self.deviation**2 + effect**2
        share = self.share
        if square:  # so few can't change that far
            share = max(share, effect**2 / square)
        squares, total = n * square, n + 2
        widest = self.widest / self.evenness
        pseudo = (squares + aim.counted * widest**2) / (n * share + aim.counted)
        centre = n * effect / total
        error = math.sqrt(((squares + 2 * pseudo) / total - centre**2) / (total - 1))
        chance = math.sqrt(n) * self.deviation / total
        quantile = float(stdtrit(n * self.evenness + 1, aim.confidence))
        reach = quantile * error + float(ndtri(_POWER)) * chance
        return reach <= (distance if aim.is_loss else centre)


def detectable_differences(
    units: Units, widest: FloatArray, *, alpha: float = 0.05
) -> list[float | None]:
    """The smallest true difference that each column shows, if enough units changed."""
    n, n_changed = units.n, np.count_nonzero(np.abs(units.sums) > NOISE, axis=0)
    distances: list[float | None] = [None] * len(n)
    for column, changes in enumerate(Changes.seen(units, widest)):
        if n_changed[column] * changes.evenness >= FEWEST_CHANGED:
            distances[column] = changes.distance(to_be_better(alpha), float(n[column]))
    return distances


class Shortfalls(NamedTuple):
    """How far several systems may lie below the best one, whichever that is."""

    at_most: FloatArray  # (systems,) how far each one's true mean lies below the best, at most
    queries: int | None = None  # about how many would show one within the tolerance


@dataclass(frozen=True)
class Contest:
    """The scores of several systems by one metric, of which more is better."""

    scores: FloatArray  # (queries, systems), none NaN
    span: float = math.inf  # how far two scores can be apart
    worst: float | None = None  # the worst score that there is, as for `widest_apart`
    clusters: IntArray | None = None  # (queries,) the number of each one's cluster, from 0

    def shortfalls(self, tolerance: float = 0.0, alpha: float = 0.05) -> Shortfalls:
        """Bounds that hold together in at least 1 - alpha of cases; infinite under 2 units.

        Multiple comparisons with the best (Hsu 1984; Edwards and Hsu 1983): one-sided bounds under
        any best system that its own bounds don't exclude, held together by the largest t of shared
        flips. The number of queries is that at which the highest mean would be shown to lie within
        the tolerance if half of its leads were luck.
        """
        n_queries, n_systems = self.scores.shape
        units = Units.of(self.scores, self.clusters)
        if n_systems < 2:
            return Shortfalls(np.zeros(n_systems))
        if len(units) < 2:
            return Shortfalls(np.full(n_systems, math.inf))
        at_most, times = np.zeros(n_systems), 0.0
        centred = units.own_means - units.means
        flipped = np.concatenate(list(flipped_sums(centred)))
        highest = int(self.scores.mean(axis=0).argmax())
        # no level is lower than this one: whom it excludes, any excludes
        leads = self._leads(highest, np.arange(n_systems))
        is_excluded = leads.bounds(1 - alpha / (n_systems - 1))[0] > 0
        for leader in np.flatnonzero(~is_excluded).tolist():
            rivals = np.delete(np.arange(n_systems), leader)
            norms = np.sqrt(np.square(centred[:, [leader]] - centred[:, rivals]).sum(axis=0))
            largest = ratio(flipped[:, [leader]] - flipped[:, rivals], norms).max(axis=1)
            level = level_of_largest(largest, len(units), alpha, len(rivals), sides=1)
            leads = self._leads(leader, rivals)
            below = leads.bounds(1 - level)[1]
            if (below < 0).any():
                continue
            at_most[rivals] = np.maximum(at_most[rivals], below)
            if leader != highest:
                lead = leads.centre[rivals == highest].item()
                reach = below[rivals == highest].item() - lead
                room = tolerance + max(-lead, 0.0) / 2
                times = max(times, (reach / room) ** 2 if room > 0 else math.inf)
        if (at_most > tolerance).all() and 1 < times <= MOST_QUESTIONS / n_queries:
            return Shortfalls(at_most, math.ceil(n_queries * times))
        return Shortfalls(at_most)

    def beats_all(self, best: int, alpha: float = 0.05) -> bool:
        """Whether a system is shown to be the best: the interval of each lead is above 0.

        Each has the whole level: a false winner must beat the truly best one as well, in at most
        alpha of cases (Gutmann and Maymin 1987; Hung and Fithian 2019).
        """
        rivals = np.delete(np.arange(self.scores.shape[1]), best)
        lowest, _ = self._leads(best, rivals).bounds(1 - alpha / 2)
        return bool((lowest > 0).all())

    def _leads(self, best: int, rivals: IntArray) -> Student:
        scores = self.scores
        highest, lowest = scores.max(axis=0), scores.min(axis=0)
        ends = np.minimum(lowest[best], lowest[rivals]), np.maximum(highest[best], highest[rivals])
        widest = widest_apart(*ends, self.span, self.worst)
        leads = Units.of(denoised(scores[:, [best]] - scores[:, rivals]), self.clusters)
        return pseudo_queries(leads, widest, self.span)
