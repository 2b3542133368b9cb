"""Do the figures of a proposed threshold hold on questions that it wasn't chosen on?

Questions with an answer have one relevant passage, whose score is normal; the best score of those
without one lies `apart` standard deviations below. So the truth of any threshold is known. `python
benchmarks/thresholds.py` prints the table that stands in benchmarks/README.md.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from llama_index_rag_metrics.statistics.abstention import Steps
from llama_index_rag_metrics.statistics.differences import difference_intervals
from llama_index_rag_metrics.statistics.intervals import HasEnds, mean_interval
from llama_index_rag_metrics.statistics.resampling import Units

CASES = (
    (300, 100, 1.5, 0.05),
    (100, 50, 1.5, 0.05),
    (100, 50, 3.0, 0.02),
    (130, 50, 3.0, 0.02),
    (40, 10, 1.5, 0.1),
)
"""Questions with an answer, without one, how far apart their scores are, and the tolerance."""
DATA_SETS = 2_000


def covers(interval: HasEnds, truth: float) -> bool:
    return (interval.low or 0.0) <= truth <= (interval.high or 0.0)


def figures(with_answer: int, without: int, apart: float, tolerance: float) -> str:
    chance = np.random.default_rng(0)
    rows = []
    for _ in range(DATA_SETS):
        scores, best = chance.normal(apart, 1, (with_answer, 1)), chance.normal(size=without)
        steps = Steps(scores, np.tile([1.0, 0.0], (with_answer, 1)), best)
        threshold = steps.choose(tolerance)
        threshold = -math.inf if threshold is None else threshold
        lost, spared = steps.held_out(tolerance)
        [loss] = difference_intervals(Units.of(lost.reshape(-1, 1)), widest=1.0)
        truth = norm.cdf(threshold), norm.cdf(threshold - apart)
        rows.append(
            (
                (best < threshold).mean(),
                spared.mean(),
                truth[0],
                covers(mean_interval(spared), truth[0]),
                (scores < threshold).mean(),
                lost.mean(),
                truth[1],
                covers(loss, truth[1]),
            )
        )
    shares = " | ".join(f"{share:.1%}" for share in np.mean(rows, axis=0))
    return f"| {with_answer} | {without} | {apart:g} | {tolerance:g} | {shares} |"


if __name__ == "__main__":
    print("| with | without | apart | tolerance | spared: seen | held out | true | covered "
          "| lost: seen | held out | true | covered |")  # fmt: skip
    print(f"{'|---' * 12}|")
    for case in CASES:
        print(figures(*case))
