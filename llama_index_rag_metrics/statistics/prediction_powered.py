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
from llama_index_rag_metrics.statistics.intervals import (
    UNIT_RANGE,
    MeanInterval,
    bounds_of,
    effective_queries,
    exact_mean,
    limits_seen,
    mean_interval,
    score_interval,
    student_quantile,
)
from llama_index_rag_metrics.statistics.resampling import Units

FEWEST_HUMAN = 20
"""With fewer human scores, λ is too uncertain for the intervals to hold."""

TOO_POOR = "the judge's scores tell too little about people's"


@dataclass(frozen=True)
class Rectified:
    """Human scores, moved by what a judge knows.

    Attributes:
        human: (n,) the scores that people gave.
        values: (n,) the same, rectified: their mean and standard error are PPI's.
        weight: λ, from 0 to 1: how far the judge is trusted.
        n_judged: how many questions the judge scored, the n included.
        worth: how many human scores would tell as much; n where the judge doesn't help.
        why_alone: why people's scores stand alone; "" where the judge helps.
    """

    human: FloatArray
    values: FloatArray
    weight: float
    n_judged: int
    worth: float
    why_alone: str = ""

    @property
    def n(self) -> int:
        return len(self.human)

    @property
    def helps(self) -> bool:
        """Whether the judge makes the estimate more certain."""
        return not self.why_alone

    def alone(self, reason: str) -> Rectified:
        return replace(self, values=self.human, weight=0.0, worth=float(self.n), why_alone=reason)

    @property
    def mean(self) -> float:
        return exact_mean(self.values)

    @property
    def standard_error(self) -> float:
        """Of the mean; 0 where it can't be estimated."""
        return float(self.values.std(ddof=1)) / math.sqrt(self.n) if self.n > 1 else 0.0


def rectified(human: FloatArray, judge: FloatArray, others: FloatArray) -> Rectified:
    """Human scores, moved by what the judge says about the N other questions.

    Args:
        human: (n,) scores that people gave to questions drawn at random.
        judge: (n,) the judge's scores of the same questions.
        others: (N,) the judge's scores of the questions that people didn't score.

    Examples:
        >>> human = np.tile([1.0, 1.0, 0.0, 1.0], 10)
        >>> judge = np.tile([1.0, 1.0, 0.0, 0.0], 10)  # too strict
        >>> found = rectified(human, judge, np.tile([1.0, 0.0], 100))
        >>> round(found.mean, 4), round(found.weight, 4), round(found.worth)
        (0.75, 0.4149, 54)
    """
    n = len(human)
    unmoved = Rectified(human, human, 0.0, n + len(others), float(n))
    if n < FEWEST_HUMAN:
        return unmoved.alone(f"fewer than {FEWEST_HUMAN} questions were scored by people")
    if len(others) < 2:
        return unmoved.alone("people scored every question themselves")
    weight = power_tuned(human, judge, others)
    rest = human - weight * judge
    spread = float(rest.var())
    # λ was fitted to the same scores: a degree of freedom less
    variance = spread / (n - 2) + weight**2 * float(others.var(ddof=1)) / len(others)
    before = float(human.var(ddof=1)) / n
    if not variance < before or spread == 0.0:
        return unmoved.alone(TOO_POOR)
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


def rectified_interval(
    combined: Rectified,
    *,
    confidence: float = 0.95,
    limits: tuple[float, float] = UNIT_RANGE,
) -> tuple[Rectified, MeanInterval]:
    """The mean with Wilson's interval for as many human scores as all is worth.

    Where that is wider than people's scores alone would give, these stand alone.
    """
    alone = mean_interval(combined.human, confidence=confidence, limits=limits)
    if not combined.helps:
        return combined, alone
    column = combined.human[:, None]
    lowest, highest = limits_seen(column, bounds_of(column, [limits]))
    effective = effective_queries(Units.of(column), lowest, highest) * combined.worth / combined.n
    share = np.clip((combined.mean - lowest) / (highest - lowest), 0.0, 1.0)
    ends = score_interval(share, effective, student_quantile(combined.n, confidence))
    low, high = (float((lowest + (highest - lowest) * end)[0]) for end in ends)
    if alone.low is None or alone.high is None or high - low >= alone.high - alone.low:
        return combined.alone(TOO_POOR), alone
    mean = float(np.clip(combined.mean, lowest, highest)[0])
    return combined, MeanInterval(mean, low, high, combined.n, "Wilson, prediction-powered")
