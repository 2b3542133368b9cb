"""How much this many questions can show, and how many show what somebody wants to know.

N solves the formula of the deciding interval (`differences`) at N questions, of which the same
share changes as far. Where questions were asked several times, more of them may take the place of
more runs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray

from .differences import CAUTIOUS, effective_changes
from .resampling import NOISE, Units

_POWER = 0.8

# with fewer queries changed, their spread says too little about what could be detected
FEWEST_CHANGED = 10
MOST_QUESTIONS = 10**7
# How many changes as large as the pseudo-queries are added to those seen, of which few say little.
# Without, a number reckoned from 50 questions of which few changed is enough in 68 % of cases;
# with, in 83 %.
_UNSEEN = 0.25


class Aim(NamedTuple):
    """What questions are to show, by the bound that decides it."""

    confidence: float  # of the bound on one side
    counted: int = 1  # as for `pseudo_queries`
    is_loss: bool = True  # whether a loss is ruled out where nothing changed, or 0 where it did


def to_be_better(alpha: float = 0.05) -> Aim:
    """`compare` says better."""
    return Aim(1 - alpha / 2, is_loss=False)


def to_be_kept(confidence: float = 0.95) -> Aim:
    """A rule of the gate passes."""
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
        """Of each column of differences with two units or more; of others, as if none changed."""
        columns = []
        for position, reach in enumerate(widest.tolist()):
            n_units = int(units.n_units[position])
            size = evenness = 1.0
            if n_units:
                size = float(units.n[position]) / n_units
                evenness = float(units.n_even[position]) / n_units
            changes = units.sums[:, position] / size
            squares = float(np.square(changes).sum())
            largest = np.array([reach / evenness])
            effective = float(effective_changes(np.abs(changes)[:, None], largest)[0])
            unseen = _UNSEEN * (squares + (reach / evenness) ** 2) / (effective + 1)
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
        """Whether n units show it in a share `_POWER` of cases."""
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
    changed = np.count_nonzero(np.abs(units.sums) > NOISE, axis=0).tolist()
    columns = zip(Changes.seen(units, widest), units.n.tolist(), changed, strict=True)
    distances: list[float | None] = []
    for changes, n, n_changed in columns:
        distance = None
        if n_changed * changes.evenness >= FEWEST_CHANGED:
            distance = changes.distance(to_be_better(alpha), n)
        distances.append(distance)
    return distances
