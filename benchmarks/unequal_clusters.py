"""What 95 % intervals miss, and claim, where a few clusters hold many of the questions.

Clusters have sizes of Zipf's law, at most 20 questions; four fifths of what varies in a score is
shared by the questions of a cluster. No system is better than another but for few losses, and no
metric follows the answers. `python benchmarks/unequal_clusters.py [DATA_SETS]` prints the table of
benchmarks/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from llama_index_rag_metrics.statistics.association import associations
from llama_index_rag_metrics.statistics.corrections import max_t
from llama_index_rag_metrics.statistics.differences import difference_intervals, t_p
from llama_index_rag_metrics.statistics.intervals import excludes_0, mean_intervals
from llama_index_rag_metrics.statistics.resampling import Units

DATA_SETS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
FLIPS = 1_000
METRICS = 4
EXPONENTS = (1.5, 1.7, 3.0)
SIZES = (60, 200, 500)
RATES = (0.3, 0.97)
LOST = 0.05
MISSED = (
    *(f"a hit rate of {rate:.0%}" for rate in RATES),
    "a graded mean",
    f"{LOST:.0%} lost",
    "a difference",
    "any of four",
    "p below 5 %",
    "relate",
)


def data_set(
    exponent: float, n: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """(questions, 9) uniform numbers, and (questions,) clusters."""
    clusters = np.repeat(np.arange(n), np.minimum(rng.zipf(exponent, n), 20))[:n]
    shape = n, 2 * METRICS + 1
    drawn = 2 * rng.normal(size=shape)[clusters] + rng.normal(size=shape)
    return np.asarray(norm.cdf(drawn / np.sqrt(5)), np.float64), clusters


def wrong(exponent: float, n: int, rng: np.random.Generator) -> Iterator[bool]:
    """Of one data set, whether each of `MISSED` is."""
    drawn, clusters = data_set(exponent, n, rng)
    graded = np.round(drawn * 4) / 4
    hits = drawn[:, :1] < RATES
    means = mean_intervals(np.hstack([hits, graded[:, :1]]), clusters=clusters)
    lost = -(drawn[:, :1] < LOST).astype(np.float64)
    [loss] = difference_intervals(Units.of(lost, clusters), widest=1.0)
    for interval, truth in zip([*means, loss], (*RATES, 0.5, -LOST), strict=True):
        # all questions in one cluster have no interval
        yield interval.low is not None and not interval.low <= truth <= (interval.high or 0.0)
    units = Units.of(graded[:, :METRICS] - graded[:, METRICS:-1], clusters)
    widest, family = np.ones(METRICS), [np.arange(METRICS)]
    yield excludes_0(difference_intervals(units, widest=widest)[0])
    tested = max_t(units, t_p(units), family, resamples=FLIPS, seed=0)
    together = difference_intervals(units, widest=widest, confidence=1 - tested.levels[0])
    yield any(map(excludes_0, together))
    yield bool((tested.p_values < 0.05).any())
    answers = (drawn[:, -1] > 0.5).astype(np.float64)
    found = associations(drawn[:, :METRICS], answers, "auc", clusters=clusters, resamples=FLIPS)
    yield bool(((found.low > 0.5) | (found.high < 0.5)).any())


if __name__ == "__main__":
    print(f"| sizes | n | clusters | {' | '.join(MISSED)} |")
    print(f"|{'---|' * (3 + len(MISSED))}")
    for exponent, n in product(EXPONENTS, SIZES):
        rng = np.random.default_rng(n)
        shares = np.mean([[*wrong(exponent, n, rng)] for _ in range(DATA_SETS)], axis=0)
        n_clusters = np.mean([data_set(exponent, n, rng)[1].max() + 1 for _ in range(200)])
        row = " | ".join(f"{share:.1%}" for share in shares)
        print(f"| Zipf, {exponent} | {n} | {n_clusters:.0f} | {row} |", flush=True)
