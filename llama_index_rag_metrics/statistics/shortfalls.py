"""How far each of several systems may lie below the best one, whichever that is.

Multiple comparisons with the best (Hsu 1984; Edwards and Hsu 1983): one-sided bounds under any best
system that its own bounds don't exclude, held together by the largest t under shared flips. All
hold at once, so that a system may be chosen after looking.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, ratio

from .differences import Student, pseudo_queries, widest_apart
from .intervals import without_noise
from .resampling import Units, flipped_sums, level_of_largest


class Shortfalls(NamedTuple):
    """How far several systems may lie below the best one."""

    at_most: FloatArray  # (systems,) how far each one's true mean lies below the best, at most
    queries: int | None = None  # about how many would show one within the tolerance


def shortfalls(
    scores: FloatArray,
    tolerance: float = 0.0,
    *,
    span: float = math.inf,
    worst: float | None = None,
    clusters: IntArray | None = None,
    alpha: float = 0.05,
) -> Shortfalls:
    """Bounds that hold together in at least 1 - alpha of cases; infinite with fewer than 2 units.

    `scores` are (queries, systems), more is better, none NaN; `span` is how far two of them can be
    apart, `worst` as for `widest_apart`. Levels go by the means of clusters, as those of
    `joint_levels`. The number of queries is that at which the highest mean would be shown to lie
    within the tolerance if half of its leads were luck; on real scores, that many showed some
    system to do so in three of four cases.

    >>> lead = np.linspace(-0.2, 0.3, 40)  # a mean of 0.05
    >>> shortfalls(np.stack([lead, np.zeros(40)], axis=1)).at_most.round(3)
    array([0.   , 0.087])
    """
    systems = scores.shape[1]
    units = Units.of(scores, clusters)
    n, centred = len(units), units.own_means - units.means
    if systems < 2:
        return Shortfalls(np.zeros(systems))
    if n < 2:
        return Shortfalls(np.full(systems, math.inf))
    at_most, times = np.zeros(systems), 0.0
    flipped = np.concatenate([*flipped_sums(centred)])
    highest = int(scores.mean(axis=0).argmax())
    # no level is lower than this one: whom it excludes, any excludes
    leads = leads_over(scores, highest, np.arange(systems), span, worst, clusters)
    excluded = leads.bounds(1 - alpha / (systems - 1))[0] > 0
    for leader in np.flatnonzero(~excluded).tolist():
        rivals = np.delete(np.arange(systems), leader)
        norms = np.sqrt(np.square(centred[:, [leader]] - centred[:, rivals]).sum(axis=0))
        largest = ratio(flipped[:, [leader]] - flipped[:, rivals], norms).max(axis=1)
        leads = leads_over(scores, leader, rivals, span, worst, clusters)
        level = level_of_largest(largest, n, alpha, len(rivals), sides=1)
        below = leads.bounds(1 - level)[1]
        if (below < 0).any():
            continue
        at_most[rivals] = np.maximum(at_most[rivals], below)
        if leader == highest:
            continue
        lead = leads.centre[rivals == highest].item()
        reach, room = below[rivals == highest].item() - lead, tolerance + max(-lead, 0.0) / 2
        times_of_leader = math.inf
        if room > 0:
            times_of_leader = (reach / room) ** 2
        times = max(times, times_of_leader)
    if (at_most > tolerance).all() and 1 < times < math.inf:
        return Shortfalls(at_most, math.ceil(len(scores) * times))
    return Shortfalls(at_most)


def beats_all(
    scores: FloatArray,
    best: int,
    *,
    span: float,
    worst: float | None = None,
    clusters: IntArray | None = None,
    alpha: float = 0.05,
) -> bool:
    """Whether a system is shown to be the best of several: the interval of each lead is above 0.

    Each has the whole level: a false winner must beat the truly best one and all others as well. So
    one is named in at most alpha of cases: Gutmann and Maymin (1987), Hung and Fithian (2019).
    Arguments are those of `shortfalls`.
    """
    rivals = np.delete(np.arange(scores.shape[1]), best)
    lowest, _ = leads_over(scores, best, rivals, span, worst, clusters).bounds(1 - alpha / 2)
    return bool((lowest > 0).all())


def leads_over(
    scores: FloatArray,
    best: int,
    rivals: IntArray,
    span: float,
    worst: float | None,
    clusters: IntArray | None,
) -> Student:
    """How much more one system scores than the others, with pseudo-queries."""
    highest, lowest = scores.max(axis=0), scores.min(axis=0)
    ends = np.minimum(lowest[best], lowest[rivals]), np.maximum(highest[best], highest[rivals])
    widest = widest_apart(*ends, span, worst)
    leads = Units.of(without_noise(scores[:, [best]] - scores[:, rivals]), clusters)
    return pseudo_queries(leads, widest, span)
