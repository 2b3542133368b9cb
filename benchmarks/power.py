"""Is a number of questions that was reckoned from few enough in four of five cases?

Data sets are drawn from real changes (held_out_statistics.py) weighed to a true mean of 0 or of
0.02: the package reckons how many questions show what is true, and that many are drawn afresh.

    python benchmarks/power.py
    python benchmarks/power.py metrics

print the tables of benchmarks/README.md: for a rule of the gate with a tolerance of 0.02, of
unchanged systems where it was inconclusive, and for `compare` to say better where 0.02 is true; and
how many questions metrics need relative to ndcg@10, by true differences and without knowing them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from held_out_scores import load as load_held_out
from held_out_statistics import (
    CONFIDENCE,
    Change,
    apart,
    changes,
    gains,
    is_mild,
    tolerance_of,
    weighed,
)
from real_scores import load as load_real
from real_statistics import tilted

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.statistics.differences import CAUTIOUS, pseudo_queries, student
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.statistics.sample_size import (
    POWER,
    Aim,
    Changes,
    to_be_better,
    to_be_kept,
)

Columns = npt.NDArray[np.float64]

METRICS = ("ndcg@10", "hit_rate@5", "mrr@10", "span_iou@5", "tokens@5", "dcg@10", "calls", "ap@10")
SIZES = (50, 100, 200)
DATA_SETS = 200
GRID = np.unique(np.geomspace(30, 4000, 11).astype(int))
"""Numbers of questions at which the true power is measured; it is interpolated between them."""
SMALL = 0.15
RELATED = ("ndcg@10", "hit_rate@5", "recall@5", "recall@10", "mrr@10", "precision@5", "ap@10")
FARTHEST = 0.05
"""Pairs whose mean difference is a smaller share of its deviation don't tell how many they need."""


class Cell(NamedTuple):
    """Of one change: what share of the numbers reckoned is enough, and how many data sets said."""

    kind: str
    power: float
    needed: float
    said: float


def shown(sample: Columns, sign: float, tolerance: float, *, gate: bool) -> Columns:
    """(data sets,) whether a rule passes, or `compare` says better."""
    units = Units.of(sign * gains(sample))
    if gate:
        low = pseudo_queries(units, apart(sample), counted=CAUTIOUS).bounds(CONFIDENCE)[0]
        return np.asarray(low >= -tolerance)
    return np.asarray(pseudo_queries(units, apart(sample)).bounds((1 + CONFIDENCE) / 2)[0] > 0)


def cells(number: int, change: Change, *, gate: bool) -> Iterator[tuple[int, Cell]]:
    """By the number of questions that it is reckoned from."""
    sign = -1.0 if lower_is_better(change.metric) else 1.0
    values, tolerance = sign * change.gains, tolerance_of(change)
    effect = 0.0 if gate else tolerance
    weights = tilted(values, effect)
    if not is_mild(weights, values, effect):
        return
    rng = np.random.default_rng([13, number, gate])

    def draw(size: int) -> Columns:
        return change.pair[weighed(rng, weights, size, DATA_SETS)]

    curve = [shown(draw(size), sign, tolerance, gate=gate).mean() for size in GRID.tolist()]
    kind = "small" if np.sqrt(weights @ np.square(values - effect)) < SMALL else "large"
    aim: Aim = to_be_kept(CONFIDENCE) if gate else to_be_better()
    for n in SIZES:
        if np.interp(np.log(n), np.log(GRID), curve) >= POWER:  # then any larger number is enough
            continue
        sample = draw(n)
        units = Units.of(sign * gains(sample))
        is_open = ~shown(sample, sign, tolerance, gate=gate)
        if gate:
            is_open &= student(units).bounds(CONFIDENCE)[1] >= 0
        found = [each.questions(aim, tolerance) for each in Changes.seen(units, apart(sample))]
        needed = np.array([np.nan if each is None else each for each in found])
        said = is_open & (needed > n) if gate else needed > n
        if said.any():
            power = np.interp(np.log(needed[said]), np.log(GRID), curve).mean()
            yield n, Cell(kind, float(power), float(np.median(needed[said])), float(said.mean()))


def table() -> Iterator[str]:
    yield "| to show | n | changes | cells | enough | worst | best | needed, median |"
    yield "|---|---|---|---|---|---|---|---|"
    for gate, name in ((True, "no loss of 0.02"), (False, "a gain of 0.02")):
        found = [
            pair
            for number, change in enumerate(changes())
            if change.metric in METRICS and change.clusters is None
            for pair in cells(number, change, gate=gate)
        ]
        for n in SIZES:
            for kind in ("small", "large"):
                of_kind = [each for size, each in found if (size, each.kind) == (n, kind)]
                power = np.array([each.power for each in of_kind])
                enough = np.average(power, weights=[each.said for each in of_kind])
                needed = np.median([each.needed for each in of_kind])
                yield (
                    f"| {name} | {n} | {kind} | {len(of_kind)} | {enough:.1%}"
                    f" | {power.min():.0%} | {power.max():.0%} | {needed:,.0f} |"
                )


def metric_table() -> Iterator[str]:
    """Questions relative to ndcg@10: medians over the pairs of systems that differ on it."""
    populations = {**load_real(), **{name: of.scores for name, of in load_held_out().items()}}
    yield "| population | metric | pairs | true z | size of changes | difference | share of mean |"
    yield "|---|---|---|---|---|---|---|"
    for name, metrics in populations.items():
        for metric in metrics:
            if metric not in RELATED or RELATED[0] not in metrics or metric == RELATED[0]:
                continue
            ratios = [*_ratios(metrics[RELATED[0]], metrics[metric])]
            shown = " | ".join(f"{middle:.1f}" for middle in np.median(ratios, axis=0))
            yield f"| {name} | {metric} | {len(ratios)} | {shown} |"


def _ratios(base: Columns, other: Columns) -> Iterator[list[float]]:
    for pair in combinations(range(base.shape[1]), 2):
        needs = [[*_relative_needs(scores[:, list(pair)])] for scores in (base, other)]
        if needs[0][0] < FARTHEST**-2 and np.isfinite(needs[1][1:]).all():
            yield [of_other / of_base for of_base, of_other in zip(*needs, strict=True)]


def _relative_needs(scores: Columns) -> Iterator[float]:
    """(sd / δ)² of the true difference, of the mean size of changes, of 1, and of the mean."""
    differences = scores[:, 1] - scores[:, 0]
    sizes = [differences.mean(), np.abs(differences).mean(), 1.0, scores.mean()]
    for size in sizes:
        yield float(differences.var() / size**2) if size else math.inf


if __name__ == "__main__":
    for line in metric_table() if sys.argv[1:] else table():
        print(line, flush=True)
