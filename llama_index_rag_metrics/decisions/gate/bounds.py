"""Evidence: how good or bad the true mean could be, by the numbers of one rule.

A rule asks two questions, and each is answered by the method that errs on its safe side.

* Is it safe to pass? By the interval of differences with two pseudo-queries: where few queries
  changed, those that change next may lose as much.
* Is it safe to fail? By Student's t. Where few queries lose, t errs towards no verdict.

Where all changed alike there is no spread for t; the pseudo-queries speak on both sides then. Rates
of false and of true verdicts on real scores stand in benchmarks/README.md, with the alternatives
tried.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.statistics.differences import pseudo_queries
from llama_index_rag_metrics.statistics.intervals import UNIT_RANGE, MeanInterval, mean_interval
from llama_index_rag_metrics.statistics.power import POWER, queries_to_decide
from llama_index_rag_metrics.statistics.prediction_powered import Rectified, rectified_interval
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.student import Student, student, unvaried

TOLERABLE = 0.25
"""A larger loss, as a share of the widest difference, isn't proposed as a tolerance."""


@dataclass(frozen=True)
class Evidence(ABC):
    """A column of scores, or of paired differences, where more is better.

    Values are NaN where there is none, and negated for a metric that had better be low.
    """

    values: FloatArray
    clusters: IntArray | None = None

    @abstractmethod
    def lowest(self, confidence: float) -> float | None:
        """The true mean is above this with this confidence; None where that can't be said."""

    @abstractmethod
    def highest(self, confidence: float) -> float | None:
        """The true mean is below this with this confidence; None where that can't be said."""

    @property
    @abstractmethod
    def method(self) -> str:
        """How the bounds are made."""


@dataclass(frozen=True)
class PairedEvidence(Evidence):
    """Differences, now minus before.

    Attributes:
        widest: the widest difference that the metric allows; infinite where there is no limit.
        changes: (queries,) the differences before a judge moved them; None without a judge.
    """

    widest: float = math.inf
    changes: FloatArray | None = None

    def lowest(self, confidence: float) -> float | None:
        if self._says_nothing:
            return None
        return float(self._assumed.bounds(confidence)[0][0])

    def highest(self, confidence: float) -> float | None:
        if self._says_nothing:
            return None
        steady = bool(unvaried(self._units)[0])
        evidence = self._assumed if steady else student(self._units, self.widest)
        return float(evidence.bounds(confidence)[1][0])

    @property
    def method(self) -> str:
        kind = "cluster-robust t" if self._units.clustered else "t"
        return f"{kind} with pseudo-queries"

    def needed(self, tolerance: float, confidence: float) -> int | None:
        """How many queries would show that nothing changed, if that is so.

        None where no number would, since a gain is wanted, or where these are enough.
        """
        if self._says_nothing or tolerance <= NOISE:
            return None
        n = int(self._units.n[0])
        error = float(self._assumed.error[0])
        needed = queries_to_decide(0.0, error, n, tolerance, confidence=confidence)
        return needed if needed is not None and needed > n else None

    def decidable(self, confidence: float) -> float | None:
        """The smallest loss that this many queries rule out with `POWER`, if nothing changed.

        None where it is more than anybody would tolerate.
        """
        from scipy.special import ndtri

        if self._says_nothing:
            return None
        assumed = replace(self._assumed, centre=np.zeros(1))
        loss = float(assumed.bounds(confidence)[1][0] + ndtri(POWER) * assumed.error[0])
        return loss if loss <= TOLERABLE * self.widest else None

    @cached_property
    def _units(self) -> Units:
        changes = None if self.changes is None else self.changes.reshape(-1, 1)
        return Units.of(self.values.reshape(-1, 1), self.clusters, changes)

    @cached_property
    def _assumed(self) -> Student:
        return pseudo_queries(self._units, self.widest)

    @property
    def _says_nothing(self) -> bool:
        few = int(self._units.n_units[0]) < 2
        unscaled = not math.isfinite(self.widest) and not np.nan_to_num(self.values).any()
        return few or unscaled


@dataclass(frozen=True)
class MeanEvidence(Evidence):
    """Scores, perhaps negated or rectified by a judge, whose mean is to be above a limit."""

    limits: tuple[float, float] = UNIT_RANGE
    negated: bool = False
    rectified: Rectified | None = None

    def lowest(self, confidence: float) -> float | None:
        return self._ends(confidence)[0]

    def highest(self, confidence: float) -> float | None:
        return self._ends(confidence)[1]

    @property
    def method(self) -> str:
        return self._interval(0.95).method

    def _ends(self, confidence: float) -> tuple[float | None, float | None]:
        interval = self._interval(confidence)
        if interval.low is None or interval.high is None:
            return None, None
        if self.negated:
            return -interval.high, -interval.low
        return interval.low, interval.high

    def _interval(self, confidence: float) -> MeanInterval:
        two_sided = 2 * confidence - 1
        if self.rectified is not None:
            return rectified_interval(self.rectified, confidence=two_sided, limits=self.limits)[1]
        scores = -self.values if self.negated else self.values
        return mean_interval(
            scores, confidence=two_sided, limits=self.limits, clusters=self.clusters
        )
