"""Few human scores and many of a judge, by prediction-powered inference.

PPI++ (Angelopoulos, Duchi and Zrnic 2023) moves people's mean y of n questions by the judge's f of
these and f' of N others: mean = λ f' + (y - λ f), variance = s²(y - λ f) / n + λ² s²(f') / N, with
λ = cov(y, f) / ((1 + n / N) var f) within 0 and 1. Here every human score is moved so, with
deviations stretched to PPI's standard error, so that whatever works on n scores works on these. A
cluster with queries of both kinds counts in both parts and in their covariance. What it is `worth`
is how many human scores have the same standard error, two imagined disagreements of half the width
among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.statistics import intervals
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

FEWEST_HUMAN = 20  # with fewer human scores, λ is too uncertain for the intervals to hold
TOO_POOR = "the judge's scores hardly follow people's"
ALL_SAME = "people's scores are all the same"


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
    """Human scores of n queries drawn at random, moved by a judge's of these and of N others."""
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
        return unmoved.without_judge(ALL_SAME if np.ptp(human) <= NOISE else TOO_POOR)
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
    """Wilson's interval for as many human scores as all is worth, or people's if narrower."""
    alone = intervals.mean_interval(
        combined.human, confidence=confidence, limits=limits, clusters=combined.clusters
    )
    if not combined.helps:
        return combined, alone
    n, units = combined.n, combined.units(combined.human)
    seen = intervals.limits_seen(units.values, intervals.bounds_of(units.values, [limits]))
    effective = intervals.effective_queries(units, *seen) * combined.worth / n
    ends = intervals.wilson_ends(combined.mean, seen, effective, units.n_even, confidence)
    low, high = (float(end[0]) for end in ends)
    no_gain = alone.low is None or alone.high is None or high - low >= alone.high - alone.low
    if no_gain or combined.worth <= n:
        return combined.without_judge(TOO_POOR), alone
    mean = float(np.clip(combined.mean, *seen)[0])
    return combined, intervals.MeanInterval(mean, low, high, n, "Wilson, prediction-powered")
