"""Do intervals hold, and what does a gate let pass, on scores on which nothing was chosen?

The populations of held_out_scores.py, and those of real_scores.py under the same names as before.
Data sets are drawn with replacement, clusters whole; intervals are those that `compare` has: R as
far as the scores of two systems are apart, ends cut at what the means allow.

    python benchmarks/held_out_statistics.py intervals
    python benchmarks/held_out_statistics.py gate
    python benchmarks/held_out_statistics.py nulls
    python benchmarks/held_out_statistics.py drift

prints the tables of benchmarks/README.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from held_out_scores import load as load_held_out
from real_scores import CHANGES, RUNS
from real_scores import load as load_real
from real_statistics import ALPHA, leaves_out_0, tilted

from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.statistics.differences import pseudo_queries, student, t_p, unvaried
from llama_index_rag_metrics.statistics.intervals import (
    bounds_of,
    effective_queries,
    limits_seen,
    mean_intervals,
    wilson_ends,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

Columns = npt.NDArray[np.float64]

SIZES = (20, 30, 50, 100, 200, 500)
GATE_SIZES = (20, 30, 50, 100, 200)
NULL_SIZES = (20, 50, 100, 200)
BOUNDS = {
    "R as the limits allow": (math.inf, 1),
    "R as seen": (1.0, 1),
    "1.25 R": (1.25, 1),
    "1.5 R": (1.5, 1),
    "R counted twice": (1.0, 2),
}
"""Ways to have the gate's bound: R by a factor, within the metric's limits, and how often counted.

Of a metric without limits they allow the widest change that was seen.
"""
DATA_SETS, GATE_DATA_SETS, LAST_DATA_SETS = 2_000, 1_000, 10_000
TOLERANCE, CONFIDENCE = 0.02, 0.95
SUSPECTS = 3
MILD = 0.2
"""A true difference is made by weighing questions; at least this share of them must be left."""
IDEAL = 2 * 1.959964
DRIFT, DRIFTS = 0.01, 300
SMALL = 0.15
"""The standard deviation of differences below which a change is called small."""


class Change(NamedTuple):
    """Two systems over one population of questions.

    Attributes:
        pair: (questions, 2) scores, the baseline's first.
        clusters: (questions,) numbers from 0, or None.
    """

    population: str
    metric: str
    pair: Columns
    clusters: npt.NDArray[np.int64] | None = None

    @property
    def gains(self) -> Columns:
        return gains(self.pair)


def gains(pairs: Columns) -> Columns:
    return np.asarray(np.round(pairs[..., 1] - pairs[..., 0], 4))


@cache
def changes() -> Sequence[Change]:
    """Every change that changes anything."""
    places = [(RUNS.index(baseline), RUNS.index(system)) for baseline, system in CHANGES]
    every = [
        Change(labels, metric, scores[:, place])
        for labels, metrics in load_real().items()
        for metric, scores in metrics.items()
        for place in places
    ]
    for name, population in load_held_out().items():
        every += [
            Change(name, metric, scores[:, place], population.clusters)
            for metric, scores in population.scores.items()
            for place in population.changes
        ]
    return [change for change in every if change.gains.any()]


def drawn(rng: np.random.Generator, change: Change, n: int, data_sets: int) -> Columns:
    """(n, data sets, 2) scores of questions drawn one by one."""
    return change.pair[rng.integers(0, len(change.pair), (n, data_sets))]


def apart(pairs: Columns) -> Columns:
    """(data sets,) how far scores are apart, as `Paired.widest` has it."""
    spread = np.ptp(pairs, axis=(0, 2))
    return np.where(spread > NOISE, spread, 1.0)


def ends_of_means(scores: Columns, metric: str) -> Columns:
    """(data sets, 2) of (n, data sets), as `mean_intervals` has them; infinite without any."""
    n, data_sets = scores.shape
    bounds = bounds_of(scores, [limits_of(metric)] * data_sets)
    hits = np.all((scores == 0) | (scores == 1), axis=0) & np.isfinite(bounds).all(axis=1)
    units, seen = Units.of(scores), limits_seen(scores, bounds)
    effective = effective_queries(units, *seen)
    low, high = wilson_ends(units.means, seen, effective, units.n_even, 1 - ALPHA)
    ends = np.stack([np.minimum(low, units.means), np.maximum(high, units.means)], axis=1)
    ends[(np.ptp(scores, axis=0) == 0) & np.isinf(bounds).any(axis=1)] = -math.inf, math.inf
    ends[hits] = proportion_ends(n)[scores[:, hits].sum(axis=0).astype(int)]
    return ends


@cache
def proportion_ends(n: int) -> Columns:
    """(n + 1, 2) by the number of hits."""
    found = mean_intervals((np.arange(n)[:, None] < np.arange(n + 1)).astype(np.float64))
    return np.array([(interval.low, interval.high) for interval in found])


def difference_ends(change: Change, sample: Columns, means: Sequence[Columns]) -> Columns:
    """(data sets, 2) as `compare` has them: cut where the means leave no room."""
    ends = pseudo_queries(Units.of(gains(sample)), apart(sample)).bounds(1 - ALPHA / 2)
    return cut(change.metric, ends, means)


def cut(metric: str, ends: tuple[Columns, Columns], means: Sequence[Columns]) -> Columns:
    lowest, highest = limits_of(metric)
    if not math.isfinite(highest - lowest):
        return np.stack(ends, axis=1)
    (base_low, base_high), (low, high) = (of.T for of in means)
    least = np.maximum(lowest - base_high, low - highest)
    most = np.minimum(highest - base_low, high - lowest)
    return np.stack([np.clip(end, least, most) for end in ends], axis=1)


class Cell(NamedTuple):
    """Shares of data sets, and the median width relative to the ideal one."""

    covered: float
    width: float


def cell(ends: Columns, values: Columns, n: int) -> Cell:
    low, high, truth = ends[:, 0] - 1e-9, ends[:, 1] + 1e-9, values.mean()
    given = np.isfinite(low) & np.isfinite(high)
    covered = np.mean((low[given] <= truth) & (truth <= high[given])) if given.any() else np.nan
    width = np.median((high - low)[given]) if given.any() else np.nan
    return Cell(float(covered), float(width) / (IDEAL * values.std() / math.sqrt(n)))


def question_cells(rng: np.random.Generator, change: Change, n: int) -> tuple[Cell, Cell]:
    """Of the system's mean, and of the difference."""
    sample = drawn(rng, change, n, DATA_SETS)
    means = [ends_of_means(sample[..., side], change.metric) for side in (0, 1)]
    ends = difference_ends(change, sample, means)
    mean = cell(means[1], change.pair[:, 1], n) if change.pair[:, 1].std() else None
    return mean or Cell(np.nan, np.nan), cell(ends, change.gains, n)


def cluster_cells(rng: np.random.Generator, change: Change, n: int) -> tuple[Cell, Cell]:
    """The same of n whole clusters, relative to the true error of so many."""
    number, of = int(change.clusters.max()) + 1, change.clusters
    sizes = np.bincount(of).astype(float)
    least = np.full(number, np.inf)
    np.minimum.at(least, of, change.pair.min(axis=1))
    most = np.full(number, -np.inf)
    np.maximum.at(most, of, change.pair.max(axis=1))
    rows = rng.integers(0, number, (n, DATA_SETS))

    def units(values: Columns) -> Units:
        sums = np.bincount(of, weights=values)[rows]
        return Units(sums, sizes[rows], sums, None, sums)

    means = []
    for side in (0, 1):
        column = units(change.pair[:, side])
        bounds = bounds_of(column.sums, [limits_of(change.metric)] * DATA_SETS)
        seen = limits_seen(np.zeros((1, DATA_SETS)), bounds)
        effective = effective_queries(column, *seen)
        ends = wilson_ends(column.means, seen, effective, column.n_even, 1 - ALPHA)
        means.append(np.stack(ends, axis=1))
    widest = most[rows].max(axis=0) - least[rows].min(axis=0)
    found = pseudo_queries(units(change.gains), np.where(widest > 0, widest, 1.0))
    ends = cut(change.metric, found.bounds(1 - ALPHA / 2), means)
    return tuple(
        Cell(made.covered, made.width / _design(values, of, n))
        for made, values in (
            (cell(means[1], change.pair[:, 1], n), change.pair[:, 1]),
            (cell(ends, change.gains, n), change.gains),
        )
    )


def _design(values: Columns, clusters: npt.NDArray[np.int64], n: int) -> float:
    """The true error of n clusters over that of n questions."""
    sizes = np.bincount(clusters).astype(float)
    pull = np.bincount(clusters, weights=values) - sizes * values.mean()
    return float(np.sqrt(np.square(pull).mean()) / sizes.mean() / values.std())


def interval_tables() -> Iterator[str]:
    """Coverage and width by n, and by metric."""
    found: dict[int, list[tuple[Cell, Cell]]] = {n: [] for n in SIZES}
    for n in SIZES:
        for number, change in enumerate(changes()):
            rng = np.random.default_rng([7, number, n])
            of = cluster_cells if change.clusters is not None else question_cells
            found[n].append(of(rng, change, n))
    yield "| | n | covered, mean | worst cell | below 92 % | width, median | widest |"
    yield "|---|---|---|---|---|---|---|"
    for side, kind in enumerate(("means", "differences")):
        for n in SIZES:
            covered, width = np.array([cells[side] for cells in found[n]]).T
            yield (
                f"| {kind} | {n} | {np.nanmean(covered):.1%} | {np.nanmin(covered):.1%} | "
                f"{(covered < 0.92).sum()} of {np.isfinite(covered).sum()} | "
                f"{np.nanmedian(width):.2f} | {np.nanmax(width):.2f} |"
            )
    yield ""
    yield "| population | metric | n | means: covered, worst, width | differences: … |"
    yield "|---|---|---|---|---|"
    names = [(change.population, change.metric) for change in changes()]
    for name in dict.fromkeys(names):
        rows = [row for row, other in enumerate(names) if other == name]
        for n in SIZES:
            shown = []
            for side in (0, 1):
                covered, width = np.array([found[n][row][side] for row in rows]).T
                middle, worst = np.nanmean(covered), np.nanmin(covered)
                shown.append(f"{middle:.1%}, {worst:.1%}, {np.nanmedian(width):.2f}")
            yield f"| {' | '.join(name)} | {n} | {' | '.join(shown)} |"


class GateCell(NamedTuple):
    """Shares of data sets.

    Attributes:
        passed: (bounds,) at the limit, which is false.
        failed: at the limit, which is as false.
        unchanged: (bounds,) passed where nothing is lost.
    """

    kind: str
    number: int
    passed: Columns
    failed: float
    unchanged: Columns


def weighed(rng: np.random.Generator, weights: Columns, n: int, data_sets: int) -> Columns:
    """(n, data sets) rows, drawn by weight."""
    places = np.searchsorted(np.cumsum(weights), rng.random((n, data_sets)))
    return np.minimum(places, len(weights) - 1)


def gate_sample(
    rng: np.random.Generator, change: Change, kind: str, loss: float, shape: tuple[int, int]
) -> Columns | None:
    """(*shape, 2) scores with a true loss, made by weighing questions or by signs drawn by lot.

    More is better in them. None where there can't be such a loss.
    """
    sign = -1.0 if lower_is_better(change.metric) else 1.0
    values = sign * change.gains
    if kind == "weighed":
        weights = tilted(values, -loss)
        if not is_mild(weights, values, -loss):
            return None
        return np.asarray(sign * change.pair[weighed(rng, weights, *shape)])
    typical = np.abs(values).mean()
    if loss >= typical:
        return None
    sample = np.sort(sign * drawn(rng, change, *shape), axis=-1)
    lost = rng.random((*shape, 1)) < (1 + loss / typical) / 2
    return np.where(lost, sample[..., ::-1], sample)


def gate_cell(number: int, kind: str, n: int, data_sets: int) -> GateCell | None:
    change = changes()[number]
    rng = np.random.default_rng([8, number, n, data_sets])
    tolerance = tolerance_of(change)
    at_limit = gate_sample(rng, change, kind, tolerance, (n, data_sets))
    unchanged = gate_sample(rng, change, kind, 0.0, (n, data_sets))
    if at_limit is None or unchanged is None:
        return None
    passed, safe = (
        np.array([(bound >= -tolerance - NOISE).mean() for bound in lowest(sample, change.metric)])
        for sample in (at_limit, unchanged)
    )
    units = Units.of(gains(at_limit))
    assumed = pseudo_queries(units, apart(at_limit)).bounds(CONFIDENCE)[1]
    highest = np.where(unvaried(units), assumed, student(units).bounds(CONFIDENCE)[1])
    return GateCell(kind, number, passed, float((highest < -tolerance - NOISE).mean()), safe)


def tolerance_of(change: Change) -> float:
    """0.02; of a metric without limits 2 % of the baseline's mean."""
    scale = 1.0 if math.isfinite(limits_of(change.metric)[1]) else change.pair[:, 0].mean()
    return TOLERANCE * float(scale)


def is_mild(weights: Columns, values: Columns, mean: float) -> bool:
    """Whether weighed questions have this mean, and enough of them are left to have it."""
    left = 1 / np.square(weights).sum() / len(weights)
    return bool(left >= MILD and abs(weights @ values - mean) < 1e-6)


def lowest(sample: Columns, metric: str) -> Iterator[Columns]:
    """(data sets,) the gate's lower bound in every way to have it."""
    units, seen = Units.of(gains(sample)), apart(sample)
    limit = np.subtract(*limits_of(metric)[::-1])
    for factor, counted in BOUNDS.values():
        widest = limit if math.isinf(factor) else np.maximum(np.minimum(factor * seen, limit), seen)
        yield pseudo_queries(units, widest, limit, counted=counted).bounds(CONFIDENCE)[0]


def gate_tables() -> Iterator[str]:
    """False passes and fails at the limit, and passes of unchanged systems, by bound.

    The worst cells of each way are measured again, since the worst of hundreds is chance, too.
    """
    yield f"| n | made by | cells | false fail | {' | '.join(BOUNDS)} |"
    yield f"|---|---|---|---|{'---|' * len(BOUNDS)}"
    every: dict[int, list[GateCell]] = {}
    for n in GATE_SIZES:
        every[n] = []
        for kind in ("weighed", "signs"):
            tried = (gate_cell(number, kind, n, GATE_DATA_SETS) for number in range(len(changes())))
            cells = [found for found in tried if found is not None]
            every[n] += cells
            passed = np.array([found.passed for found in cells])
            failed = np.array([found.failed for found in cells])
            suspects = {
                int(row) for column in (*passed.T, failed) for row in np.argsort(column)[-SUSPECTS:]
            }
            again = [gate_cell(cells[row].number, kind, n, LAST_DATA_SETS) for row in suspects]
            worst = np.max([found.passed for found in again if found is not None], axis=0)
            most = max(found.failed for found in again if found is not None)
            unchanged = np.mean([found.unchanged for found in cells], axis=0)
            shown = [
                f"{mean:.1%}, {high:.1%}; {safe:.1%}"
                for mean, high, safe in zip(passed.mean(axis=0), worst, unchanged, strict=True)
            ]
            yield (
                f"| {n} | {kind} | {len(cells)} | {failed.mean():.1%}, {most:.1%} | "
                f"{' | '.join(shown)} |"
            )
    yield ""
    yield f"| metric | n | cells | {' | '.join(BOUNDS)} |"
    yield f"|---|---|---|{'---|' * len(BOUNDS)}"
    for metric in dict.fromkeys(change.metric for change in changes()):
        for n in GATE_SIZES:
            cells = [found for found in every[n] if changes()[found.number].metric == metric]
            passed = np.array([found.passed for found in cells])
            unchanged = np.mean([found.unchanged for found in cells], axis=0)
            shown = [
                f"{mean:.1%}, {high:.1%}; {safe:.1%}"
                for mean, high, safe in zip(
                    passed.mean(axis=0), passed.max(axis=0), unchanged, strict=True
                )
            ]
            yield f"| {metric} | {n} | {len(cells)} | {' | '.join(shown)} |"


def null_tables() -> Iterator[str]:
    """How often t and the interval find what isn't there; and how often of k changed questions."""
    few: dict[tuple[int, int], Columns | float] = {}
    yield "| n | null | cells | t | worst | where | interval | worst | where |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for n in NULL_SIZES:
        found: dict[str, list[tuple[float, float]]] = {"signs by lot": [], "weighed": []}
        names: dict[str, list[Change]] = {kind: [] for kind in found}
        for number, change in enumerate(changes()):
            rng = np.random.default_rng([9, number, n])
            sample = drawn(rng, change, n, DATA_SETS)
            swapped = np.where(rng.random((n, DATA_SETS, 1)) < 0.5, sample, sample[..., ::-1])
            nulls = {"signs by lot": swapped}
            weights = tilted(change.gains, 0.0)
            if is_mild(weights, change.gains, 0.0):
                nulls["weighed"] = change.pair[weighed(rng, weights, n, DATA_SETS)]
            for kind, pairs in nulls.items():
                units = Units.of(gains(pairs))
                said = np.stack(
                    [t_p(units) <= ALPHA, leaves_out_0(gains(pairs), apart(pairs)) != 0]
                )
                found[kind].append((float(said[0].mean()), float(said[1].mean())))
                names[kind].append(change)
                if kind == "signs by lot":
                    changed = np.count_nonzero(units.sums, axis=0)
                    for k in range(1, 11):
                        of = said[:, changed == k]
                        of_k = np.array([of.shape[1], *of.sum(axis=1)], np.float64)
                        few[n, k] = few.get((n, k), 0.0) + of_k
        for kind, rates in found.items():
            shown = []
            for column in np.array(rates).T:
                worst = names[kind][int(column.argmax())]
                shown += [f"{column.mean():.1%}", f"{column.max():.1%}"]
                shown.append(f"{worst.population}, {worst.metric}")
            yield f"| {n} | {kind} | {len(rates)} | {' | '.join(shown)} |"
    yield ""
    yield (
        "| changed | least p by signs | "
        + " | ".join(f"n = {n}: data sets, t, interval" for n in NULL_SIZES)
        + " |"
    )
    yield f"|---|---|{'---|' * len(NULL_SIZES)}"
    for k in range(1, 11):
        shown = []
        for n in NULL_SIZES:
            total, by_t, by_interval = few[n, k]
            shown.append(f"{total:,.0f}, {by_t / total:.1%}, {by_interval / total:.1%}")
        yield f"| {k} | {2.0 ** (1 - k):.1%} | {' | '.join(shown)} |"


def drift_table() -> Iterator[str]:
    """What many small losses add up to that the gate lets pass, each for itself.

    Every change loses 0.01 in truth. It is merged unless a rule with a tolerance of 0.02 fails,
    against the scores merged last, or against those and the first ones.
    """
    yield "| questions | changes | cells | merged of 20, with the anchor | lost | without | lost |"
    yield "|---|---|---|---|---|---|---|"
    for n in (50, 100, 200):
        merged: dict[str, list[tuple[float, float]]] = {"small": [], "large": []}
        for number, change in enumerate(changes()):
            weights = tilted(change.gains, -DRIFT)
            if change.metric != "ndcg@10" or not is_mild(weights, change.gains, -DRIFT):
                continue
            rng = np.random.default_rng([12, number, n])
            kind = "small" if change.gains.std() < SMALL else "large"
            merged[kind].append(
                tuple(_merged(rng, change.gains, weights, n, anchored=side) for side in (1, 0))
            )
        for kind, found in merged.items():
            with_anchor, without = np.mean(found, axis=0)
            yield (
                f"| {n} | {kind} | {len(found)} | {with_anchor:.1f} | {DRIFT * with_anchor:.2f} | "
                f"{without:.1f} | {DRIFT * without:.2f} |"
            )


def _merged(
    rng: np.random.Generator, values: Columns, weights: Columns, n: int, *, anchored: bool
) -> float:
    """How many of 20 changes are merged, on average."""
    so_far, merged = np.zeros((n, DRIFTS)), 0
    for _ in range(20):
        change = values[weighed(rng, weights, n, DRIFTS)]
        fails = student(Units.of(change)).bounds(CONFIDENCE)[1] < -TOLERANCE
        if anchored:
            fails |= student(Units.of(so_far + change)).bounds(CONFIDENCE)[1] < -TOLERANCE
        so_far = np.where(fails, so_far, so_far + change)
        merged += int(np.count_nonzero(~fails))
    return merged / DRIFTS


TABLES = {
    "intervals": interval_tables,
    "nulls": null_tables,
    "gate": gate_tables,
    "drift": drift_table,
}


if __name__ == "__main__":
    for line in TABLES[sys.argv[1]]():
        print(line, flush=True)
