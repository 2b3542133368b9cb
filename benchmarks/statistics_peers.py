"""Intervals, verdicts and gates of other programs on the same scores of real retrieval.

    pip install evalstats==0.3.3 retrieval-eval-gate==0.2.1
    python benchmarks/statistics_peers.py

Data sets are drawn from a tenth of the changes of held_out_statistics.py whose metrics lie between
0 and 1, for which each program has a method. Theirs are called as they are:

* evalstats: the interval that `compare` chooses for such data (Bonett and Price's for zeros and
  ones, NIG for grids of up to 50 steps, t of the logit for others), which its verdict follows.
* retrieval-eval-gate has no interval of a difference: its BCa bootstrap of a mean and its betting
  sequence are given the differences. Its verdict is the permutation test, its gate the policy
  "regression" (the mean isn't below the line, and no significant drop). 1,000 resamples instead of
  10,000, since it is written in plain Python.

A null is the data with the two systems swapped by lot, question by question.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from evalstats.config import MAX_DISCRETE_LEVELS
from evalstats.core.paired import canonical_pairwise_ci_func
from evalstats.core.resampling import detect_quantization_step
from held_out_statistics import (
    BOUNDS,
    CONFIDENCE,
    IDEAL,
    TOLERANCE,
    Change,
    changes,
    difference_ends,
    drawn,
    ends_of_means,
    gains,
    is_mild,
    lowest,
    weighed,
)
from rag_eval_gate.sequential import ConfidenceSequence
from rag_eval_gate.stats import bootstrap_ci, paired_permutation_test
from real_statistics import ALPHA, tilted

from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.statistics.differences import student, t_p
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

Columns = npt.NDArray[np.float64]

SIZES = (20, 50, 100, 200)
DATA_SETS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SEQUENCES = 40
"""Data sets of the betting sequence, which takes a tenth of a second each."""
EVERY = 10
RESAMPLES = 1_000

OURS, EVALSTATS, BCA, BETTING = "this package", "evalstats", "REG, BCa", "REG, betting"
T_TEST, PERMUTATION, REGRESSION = "plain t", "REG, permutation", "REG, regression"


def cells() -> Sequence[Change]:
    bounded = [change for change in changes() if limits_of(change.metric) == (0.0, 1.0)]
    return bounded[::EVERY]


def evalstats_ends(pairs: Columns) -> Columns:
    """(data sets, 2) of (n, data sets, 2) scores."""
    ends = []
    for position in range(pairs.shape[1]):
        scores = pairs[:, position]
        step = detect_quantization_step(scores)
        if set(np.unique(scores)) <= {0.0, 1.0}:
            kind = "binary"
        elif step is not None and round(1 / step) + 1 <= MAX_DISCRETE_LEVELS:
            kind = "likert"
        else:
            kind = "bounded_01"
        interval = canonical_pairwise_ci_func(kind, (-1.0, 1.0))
        ends.append(interval(gains(scores), ALPHA))
    return np.array(ends)


def intervals(change: Change, pairs: Columns) -> Mapping[str, Columns]:
    """By method (data sets, 2) ends; the betting sequence for the first data sets alone."""
    means = [ends_of_means(pairs[..., side], change.metric) for side in (0, 1)]
    differences = gains(pairs).T
    reach = student(Units.of(differences.T)).bounds(1 - ALPHA / 2)
    return {
        OURS: difference_ends(change, pairs, means),
        T_TEST: np.stack(reach, axis=1),
        EVALSTATS: evalstats_ends(pairs),
        BCA: np.array([bootstrap_ci(row.tolist(), ALPHA, RESAMPLES) for row in differences]),
        BETTING: np.array([_betting(row) for row in differences[:SEQUENCES]]),
    }


def _betting(differences: Columns) -> tuple[float, float]:
    low, high = ConfidenceSequence(ALPHA).extend(((differences + 1) / 2).tolist())
    return 2 * low - 1, 2 * high - 1


def verdicts(change: Change, pairs: Columns) -> Mapping[str, Columns]:
    """By method (data sets,) 1, -1 or 0."""
    differences = gains(pairs)
    means = [ends_of_means(pairs[..., side], change.metric) for side in (0, 1)]
    p = [
        paired_permutation_test(*pairs[:, position, ::-1].T.tolist(), iters=RESAMPLES).p_value
        for position in range(pairs.shape[1])
    ]
    signs = np.sign(differences.mean(axis=0))
    return {
        OURS: _sides(difference_ends(change, pairs, means)),
        T_TEST: np.where(t_p(Units.of(differences)) <= ALPHA, signs, 0),
        EVALSTATS: _sides(evalstats_ends(pairs)),
        PERMUTATION: np.where(np.array(p) < ALPHA, signs, 0),
    }


def _sides(ends: Columns) -> Columns:
    return np.where(ends[:, 0] > 0, 1, np.where(ends[:, 1] < 0, -1, 0))


def gates(change: Change, pairs: Columns) -> Mapping[str, Columns]:
    """By method (data sets,) 1 passes, -1 fails, 0 is neither; pairs in which more is better."""
    units = Units.of(gains(pairs))
    low = dict(zip(BOUNDS, lowest(pairs, change.metric), strict=True))["R counted twice"]
    high = student(units).bounds(CONFIDENCE)[1]
    drops = verdicts(change, pairs)[PERMUTATION] < 0
    regressed = (units.means < -TOLERANCE) | drops
    return {
        OURS: np.where(low >= -TOLERANCE - NOISE, 1, np.where(high < -TOLERANCE, -1, 0)),
        REGRESSION: np.where(regressed, -1, 1),
    }


def interval_table() -> Iterator[str]:
    """Coverage, width and verdicts."""
    yield (
        f"| n | method | covered, {len(cells())} cells | worst | below 92 % | width, median | "
        "widest | no width |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for n in SIZES:
        found: dict[str, list[tuple[float, float, float]]] = {}
        for number, change in enumerate(cells()):
            pairs = drawn(np.random.default_rng([9, number, n]), change, n, DATA_SETS)
            truth, spread = change.gains.mean(), change.gains.std()
            for name, ends in intervals(change, pairs).items():
                low, high = ends[:, 0] - 1e-9, ends[:, 1] + 1e-9
                covered = np.mean((low <= truth) & (truth <= high))
                width = np.median(ends[:, 1] - ends[:, 0]) * math.sqrt(n) / (IDEAL * spread)
                none = np.mean(ends[:, 1] - ends[:, 0] <= NOISE)
                found.setdefault(name, []).append((float(covered), float(width), float(none)))
        for name, rows in found.items():
            covered, width, none = np.array(rows).T
            yield (
                f"| {n} | {name} | {covered.mean():.1%} | {covered.min():.1%} | "
                f"{(covered < 0.92).sum()} | {np.median(width):.2f} | {width.max():.2f} | "
                f"{none.mean():.1%} |"
            )


def verdict_table() -> Iterator[str]:
    yield "| n | method | false, swapped by lot | worst | real changes found | wrong way |"
    yield "|---|---|---|---|---|---|"
    for n in SIZES:
        found: dict[str, list[tuple[float, float, float]]] = {}
        for number, change in enumerate(cells()):
            rng = np.random.default_rng([10, number, n])
            pairs = drawn(rng, change, n, DATA_SETS)
            swapped = np.where(rng.random((n, DATA_SETS, 1)) < 0.5, pairs, pairs[..., ::-1])
            true, null = verdicts(change, pairs), verdicts(change, swapped)
            sign = np.sign(change.gains.mean())
            for name in true:
                found.setdefault(name, []).append(
                    (
                        float(np.mean(null[name] != 0)),
                        float(np.mean(true[name] == sign)),
                        float(np.mean(true[name] == -sign)),
                    )
                )
        for name, rows in found.items():
            false, power, wrong = np.array(rows).T
            yield (
                f"| {n} | {name} | {false.mean():.1%} | {false.max():.1%} | {power.mean():.1%} | "
                f"{wrong.mean():.2%} |"
            )


def gate_table() -> Iterator[str]:
    yield "| true change | n | gate | cells | passes | most | fails | most |"
    yield "|---|---|---|---|---|---|---|---|"
    for effect in (0.0, -TOLERANCE, -0.05):
        for n in SIZES:
            found: dict[str, list[tuple[float, float]]] = {}
            for number, change in enumerate(cells()):
                sign = -1.0 if lower_is_better(change.metric) else 1.0
                values = sign * change.gains
                weights = tilted(values, effect)
                if not is_mild(weights, values, effect):
                    continue
                rng = np.random.default_rng([11, number, n])
                rows = weighed(rng, weights, n, DATA_SETS)
                for name, said in gates(change, sign * change.pair[rows]).items():
                    found.setdefault(name, []).append(
                        (float(np.mean(said == 1)), float(np.mean(said == -1)))
                    )
            for name, rates in found.items():
                passed, failed = np.array(rates).T
                yield (
                    f"| {effect:+.2f} | {n} | {name} | {len(rates)} | {passed.mean():.1%} | "
                    f"{passed.max():.1%} | {failed.mean():.1%} | {failed.max():.1%} |"
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    for table in (interval_table, verdict_table, gate_table):
        for line in table():
            print(line, flush=True)
        print()
