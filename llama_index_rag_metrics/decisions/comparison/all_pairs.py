"""All pairs of several systems: the paired t-tests of each metric, corrected together by max-t."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from llama_index_rag_metrics.decisions.comparison.difference import Settings
from llama_index_rag_metrics.decisions.comparison.pairing import Paired
from llama_index_rag_metrics.statistics.corrections import max_t
from llama_index_rag_metrics.statistics.differences import difference_intervals
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.statistics.significance import t_p


@dataclass(frozen=True, slots=True)
class SystemPair:
    """Two of several systems, compared with all pairs in mind.

    Attributes:
        system: the one.
        other: the other.
        metric: the metric's name.
        n: how many queries have a value for both.
        difference: mean of `system` minus mean of `other` over these.
        low: lower end of the simultaneous interval; None with fewer than two queries or clusters.
        high: upper end.
        p: of the paired t-test, corrected for all pairs of the metric; several metrics aren't
            accounted for.
    """

    system: str
    other: str
    metric: str
    n: int
    difference: float
    low: float | None
    high: float | None
    p: float


def all_pairs(paired: Paired, settings: Settings) -> tuple[SystemPair, ...]:
    """All pairs of three or more systems, metric by metric."""
    if len(paired.systems) < 3:
        return ()
    return tuple(pair for metric in paired.columns for pair in _pairs(paired, metric, settings))


def _pairs(paired: Paired, metric: str, settings: Settings) -> Iterator[SystemPair]:
    names = [*combinations(paired.systems, 2)]
    evidence, clusters = paired.in_order(
        np.stack([paired.evidence(system, metric, other) for system, other in names], axis=1)
    )
    changes, _ = paired.in_order(
        np.stack([paired.differences(system, other, metric) for system, other in names], axis=1)
    )
    units = Units.of(evidence, clusters, changes)
    family, alpha = np.arange(len(names)), settings.alpha
    corrected, (level,) = max_t(
        units, t_p(units), [family], alpha=alpha, resamples=settings.resamples, seed=settings.seed
    )
    intervals = difference_intervals(
        units,
        widest=paired.widest(metric),
        limit=paired.limit(metric),
        confidence=1 - level,
        # later steps find more than the level of the first: their intervals leave out 0, too
        p_values=np.where(corrected <= alpha, 0.0, 1.0),
    )
    for (system, other), interval, p in zip(names, intervals, corrected.tolist(), strict=True):
        ends = (interval.low, interval.high)
        yield SystemPair(system, other, metric, interval.n, interval.mean, *ends, p)
