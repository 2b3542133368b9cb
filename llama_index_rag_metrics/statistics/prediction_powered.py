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
then works on these: t, the pseudo-queries, max-t. Clusters are units as queries are; one that has
queries of both kinds counts in both parts and in their covariance.

What it is worth is how many human scores would have had the same standard error, two imagined
disagreements on a question, of half the width of the scores, added to those seen: few questions on
which a judge erred nowhere don't show that it never errs. It is at most n + N. Of a mean, the
interval is Wilson's with so many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.statistics import intervals
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

FEWEST_HUMAN = 20
"""With fewer human scores, λ is too uncertain for the intervals to hold."""

TOO_POOR = "the judge's scores hardly follow people's"


@dataclass(frozen=True)
class PredictionPowered:
    """(n,) human scores, and the same moved by what a judge of `n_judged` queries knows.

    `weight` is λ, and `worth` how many human scores would tell as much: 0 and n where people's
    scores stand alone, which `reason_alone` explains. `clusters` are (n,) those of the human
    scores, and `agreed` says whether the judge's were the same on every one of these queries.
    """

    human: FloatArray
    values: FloatArray
    weight: float
    n_judged: int
    worth: float
    reason_alone: str = ""
    clusters: IntArray | None = None
    agreed: bool = False

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
        return float(self.units(self.values).standard_errors[0])

    def units(self, values: FloatArray) -> Units:
        return Units.of(values.reshape(-1, 1), self.clusters)


def prediction_powered(
    human: FloatArray,
    judge: FloatArray,
    others: FloatArray,
    *,
    widest: float | None = None,
    clusters: IntArray | None = None,
) -> PredictionPowered:
    """Human scores of n queries drawn at random, moved by a judge's of these and of N others.

    `widest` is how far two scores can be apart, as far as those given without it; `clusters` are
    (n + N,) numbers of what the n queries and the others belong to.
    """
    n, n_judged = len(human), len(human) + len(others)
    agreed = bool(n) and float(np.abs(human - judge).max()) <= NOISE
    unmoved = PredictionPowered(human, human, 0.0, n_judged, float(n), agreed=agreed)
    if clusters is not None:
        unmoved = replace(unmoved, clusters=intervals.number_clusters(clusters[:n]))
    alone = unmoved.units(human)
    if (n_units := int(alone.n_units[0])) < FEWEST_HUMAN:
        what = "questions" if clusters is None else "clusters of questions"
        return unmoved.without_judge(f"fewer than {FEWEST_HUMAN} {what} were scored by people")
    if len(others) < 2:
        return unmoved.without_judge("people scored every question themselves")
    weight = power_tuned(human, judge, others)
    rest = human - weight * judge
    parts = np.full((n_judged, 2), np.nan)
    parts[:n, 0], parts[n:, 1] = rest, weight * others
    both = Units.of(parts, clusters)
    pulls, n_others = both.influence, int(both.n_units[1])
    spread, far = np.square(pulls).sum(axis=0).tolist()
    if n_others > 1:
        far *= n_others / (n_others - 1)
    far += 2 * float(pulls[:, 0] @ pulls[:, 1])
    # λ was fitted to the same scores: a degree of freedom less
    variance = spread * n_units / (n_units - 2) + far
    before = float(alone.standard_errors[0]) ** 2
    if not variance < before or spread == 0.0:
        return unmoved.without_judge(TOO_POOR)
    centre = float(both.means.sum())
    stretched = math.sqrt(variance / spread * (n_units - 1) / n_units)
    values = centre + (rest - rest.mean()) * stretched
    if widest is None:
        widest = float(np.ptp(np.concatenate([human, judge, others])))
    imagined = 2 * (widest / 2 * n_units / n) ** 2
    doubted = (spread * n_units + imagined / n_units) / (n_units + 2) + far
    worth = min(max(1.0, before / doubted) * n, float(n + len(others)))
    return replace(unmoved, values=values, weight=weight, worth=worth)


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
    alone = intervals.mean_interval(
        combined.human, confidence=confidence, limits=limits, clusters=combined.clusters
    )
    if not combined.helps:
        return combined, alone
    n, units = combined.n, combined.units(combined.human)
    seen = intervals.limits_seen(units.values, intervals.bounds_of(units.values, [limits]))
    effective = intervals.effective_queries(units, *seen) * combined.worth / n
    ends = intervals.wilson_ends(combined.mean, seen, effective, units.n_units, confidence)
    low, high = (float(end[0]) for end in ends)
    no_gain = alone.low is None or alone.high is None or high - low >= alone.high - alone.low
    if no_gain or combined.worth <= n:
        return combined.without_judge(TOO_POOR), alone
    mean = float(np.clip(combined.mean, *seen)[0])
    return combined, intervals.MeanInterval(mean, low, high, n, "Wilson, prediction-powered")
