"""Few human scores and many of a judge, by prediction-powered inference.

A judge scores n + N questions, people score n of them, drawn at random. PPI++ (Angelopoulos, Duchi
and Zrnic 2023) takes the people's mean y and moves it by how the judge scores the questions that
people did not see:

    mean = λ f' + (y - λ f),    variance = s²(y - λ f) / n + λ² s²(f') / N

f is the judge's score of the n, f' of the N others. What the judge gets wrong on average cancels.
λ is tuned: cov(y, f) / ((1 + n / N) var f), within 0 and 1, so that a judge who knows nothing is
left aside.

Here that is done to every human score, y - λ (f - f'), whose mean is PPI's; its deviations are
stretched so that their standard error is PPI's, too. Everything that works on scores of n queries
then works on these: t, the pseudo-queries, max-t. What it was worth is how many human scores would
have had the same standard error; of a mean, the interval is Wilson's with so many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.statistics import intervals
from llama_index_rag_metrics.statistics.resampling import Units

FEWEST_HUMAN = 20
"""With fewer human scores, λ is too uncertain for the intervals to hold."""

TOO_POOR = "the judge's scores hardly follow people's"


@dataclass(frozen=True)
class PredictionPowered:
    """(n,) human scores, and the same moved by what a judge of `n_judged` questions knows.

    `weight` is λ, and `worth` how many human scores would tell as much: 0 and n where people's
    scores stand alone, which `reason_alone` explains.
    """

    human: FloatArray
    values: FloatArray
    weight: float
    n_judged: int
    worth: float
    reason_alone: str = ""

    @property
    def n(self) -> int:
        return len(self.human)

    @property
    def helps(self) -> bool:
        return not self.reason_alone

    def without_judge(self, why: str) -> PredictionPowered:
        return replace(self, values=self.human, weight=0.0, worth=float(self.n), reason_alone=why)

    @property
    def mean(self) -> float:
        return intervals.exact_mean(self.values)

    @property
    def standard_error(self) -> float:
        """Of the mean; 0 where it can't be estimated."""
        return float(self.values.std(ddof=1)) / math.sqrt(self.n) if self.n > 1 else 0.0


def prediction_powered(
    human: FloatArray, judge: FloatArray, others: FloatArray
) -> PredictionPowered:
    """Human scores of n questions drawn at random, moved by a judge's of these and of N others."""
    n = len(human)
    unmoved = PredictionPowered(human, human, 0.0, n + len(others), float(n))
    if n < FEWEST_HUMAN:
        return unmoved.without_judge(f"fewer than {FEWEST_HUMAN} questions were scored by people")
    if len(others) < 2:
        return unmoved.without_judge("people scored every question themselves")
    weight = power_tuned(human, judge, others)
    rest = human - weight * judge
    spread = float(rest.var())
    # λ was fitted to the same scores: a degree of freedom less
    variance = spread / (n - 2) + weight**2 * float(others.var(ddof=1)) / len(others)
    before = float(human.var(ddof=1)) / n
    if not variance < before or spread == 0.0:
        return unmoved.without_judge(TOO_POOR)
    centre = weight * float(others.mean()) + float(rest.mean())
    stretched = math.sqrt(variance * (n - 1) / spread)
    values = centre + (rest - rest.mean()) * stretched
    return replace(unmoved, values=values, weight=weight, worth=n * before / variance)


def power_tuned(human: FloatArray, judge: FloatArray, others: FloatArray) -> float:
    """λ, within 0 and 1: the weight of the judge with the smallest variance."""
    spread = float(np.concatenate([judge, others]).var(ddof=1))
    if spread == 0.0:
        return 0.0
    shared = float(((human - human.mean()) * (judge - judge.mean())).mean())
    return min(1.0, max(0.0, shared / ((1 + len(human) / len(others)) * spread)))


def prediction_powered_interval(
    combined: PredictionPowered,
    *,
    confidence: float = 0.95,
    limits: tuple[float, float] = intervals.UNIT_RANGE,
) -> tuple[PredictionPowered, intervals.MeanInterval]:
    """The mean with Wilson's interval for as many human scores as all is worth.

    Where that is wider than people's scores alone would give, these stand alone.
    """
    alone = intervals.mean_interval(combined.human, confidence=confidence, limits=limits)
    if not combined.helps:
        return combined, alone
    column, n = combined.human[:, None], combined.n
    seen = intervals.limits_seen(column, intervals.bounds_of(column, [limits]))
    effective = intervals.effective_queries(Units.of(column), *seen) * combined.worth / n
    ends = intervals.wilson_ends(combined.mean, seen, effective, n, confidence)
    low, high = (float(end[0]) for end in ends)
    if alone.low is None or alone.high is None or high - low >= alone.high - alone.low:
        return combined.without_judge(TOO_POOR), alone
    mean = float(np.clip(combined.mean, *seen)[0])
    return combined, intervals.MeanInterval(mean, low, high, n, "Wilson, prediction-powered")
