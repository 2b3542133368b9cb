"""Do intervals, tests and detectable differences hold on scores of real retrieval?

Data sets are drawn with replacement from the stored per-query scores (real_scores.py), so that the
true means are known: three kinds of labels × six metrics × seven changes; for means, eight runs. Of
zeros and ones every data set there can be is looked at, with the chance that it has.
A true null is a data set of differences whose signs are drawn by lot, or weighed so that gains and
losses balance. The program's own functions are called; `python benchmarks/real_statistics.py`
prints the tables of benchmarks/README.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from real_scores import CHANGES, RUNS, load

from llama_index_rag_metrics.statistics.corrections import correct, max_t
from llama_index_rag_metrics.statistics.differences import pseudo_queries, t_p, widest_apart
from llama_index_rag_metrics.statistics.intervals import mean_intervals
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums
from llama_index_rag_metrics.statistics.sample_size import detectable_differences

Columns = npt.NDArray[np.float64]

SIZES = (25, 50, 100, 200, 500)
DATA_SETS, PAIRED_DATA_SETS = 4_000, 2_000
FLIPS = 2_000
ALPHA = 0.05
MARGIN = 0.02
FEWEST_SIZES = 6
"""With as many changes, each of another size, two flips of 64 are as extreme as all gains: 3 %."""
Z = 1.959964
"""The ideal interval: normal, with the true standard deviation."""


class Cell(NamedTuple):
    """What was found in the data sets of one population at one size."""

    bounded: float
    covered: float
    width: float


def draw(rng: np.random.Generator, values: Columns, n: int, data_sets: int = DATA_SETS) -> Columns:
    """(n, data sets) with replacement."""
    return values[rng.integers(0, len(values), (n, data_sets))]


def scored_pairs() -> Mapping[str, Columns]:
    """By name (queries, 2) scores of every change by every metric and kind of labels."""
    every = {
        f"{labels}, {metric}, {' to '.join(change)}": scores[:, [RUNS.index(run) for run in change]]
        for labels, metrics in load().items()
        for metric, scores in metrics.items()
        for change in CHANGES
    }
    return {name: pair for name, pair in every.items() if np.ptp(pair, axis=1).any()}


def changes() -> Mapping[str, Columns]:
    """By name the paired differences of the same."""
    return {name: gains(pair) for name, pair in scored_pairs().items()}


def gains(pair: Columns) -> Columns:
    return np.asarray(np.round(pair[..., 1] - pair[..., 0], 4))


def widest(pairs: Columns) -> Columns:
    """(data sets,) how far scores of (n, data sets, 2) can be apart, as `Paired.widest` has it."""
    return widest_apart(pairs.min(axis=(0, 2)), pairs.max(axis=(0, 2)), 1.0, worst=0.0)


def leaves_out_0(sample: Columns, apart: Columns | float, alpha: float = ALPHA) -> Columns:
    """(data sets,) 1 where the interval says better, -1 where it says worse, else 0."""
    low, high = pseudo_queries(Units.of(sample), apart).bounds(1 - alpha / 2)
    return np.where(low > 0, 1, np.where(high < 0, -1, 0))


def runs() -> Iterator[Columns]:
    """Scores of every run by every metric and kind of labels."""
    for metrics in load().values():
        for scores in metrics.values():
            yield from scores.T


def difference_cell(rng: np.random.Generator, pair: Columns, n: int) -> Cell:
    """Coverage and width of the intervals of the difference of two runs."""
    sample = pair[rng.integers(0, len(pair), (n, PAIRED_DATA_SETS))]
    low, high = pseudo_queries(Units.of(gains(sample)), widest(sample)).bounds(1 - ALPHA / 2)
    return _cell(low, high, gains(pair), n)


def _cell(low: Columns, high: Columns, values: Columns, n: int, given: float = 1.0) -> Cell:
    low, high, truth = low - 1e-12, high + 1e-12, values.mean()
    ideal = 2 * Z * values.std() / math.sqrt(n)
    covered = float(np.mean((low <= truth) & (truth <= high)))
    return Cell(given, covered, float(np.median(high - low)) / ideal)


def proportion_cell(values: Columns, n: int) -> Cell:
    """Coverage and width of the intervals of a hit rate, exactly: by every number of hits."""
    from scipy.stats import binom

    hits, truth = np.arange(n + 1), values.mean()
    intervals = mean_intervals((np.arange(n)[:, None] < hits).astype(np.float64))
    ends = np.array([(interval.low, interval.high) for interval in intervals], np.float64)
    low, high = ends[:, 0] - 1e-12, ends[:, 1] + 1e-12
    chances = binom.pmf(hits, n, truth)
    covered = float(chances[(low <= truth) & (truth <= high)].sum())
    typical = (high - low)[np.searchsorted(np.cumsum(chances), 0.5)]
    return Cell(1.0, covered, float(typical) / (2 * Z * values.std() / math.sqrt(n)))


def mean_cell(rng: np.random.Generator, values: Columns, n: int) -> Cell:
    """Coverage and width of the intervals of the mean of one run's scores."""
    if set(np.unique(values)) <= {0.0, 1.0}:
        return proportion_cell(values, n)
    intervals = mean_intervals(draw(rng, values, n))
    ends = [(interval.low, interval.high) for interval in intervals if interval.low is not None]
    low, high = np.array(ends, np.float64).T
    return _cell(low, high, values, n, len(ends) / len(intervals))


def interval_table(populations: Callable[[], Iterable[Columns]], *, paired: bool) -> list[str]:
    """Markdown: coverage over all populations and in the worst, share given, relative width."""
    rng = np.random.default_rng(1)
    lines = []
    for n in SIZES:
        cells = [
            difference_cell(rng, values, n) if paired else mean_cell(rng, values, n)
            for values in populations()
        ]
        bounded, covered, width = (np.array(column) for column in zip(*cells, strict=True))
        lines.append(
            f"| {n} | {bounded.mean():.1%} | {covered.mean():.1%} | {covered.min():.1%} | "
            f"{np.median(width):.2f} | {width.max():.2f} |"
        )
        print(lines[-1], file=sys.stderr)
    head = "| n | given | covered | worst of {} | width, median | widest |"
    return [head.format(len(cells)), "|---|---|---|---|---|---|", *lines]


def by_flips(sample: Columns, seed: int) -> tuple[Columns, Columns]:
    """(data sets,) the randomisation test's p values, and its mid-p, in which ties count half."""
    units = Units.of(sample)
    observed = np.abs(units.sums.sum(axis=0))
    above = same = np.zeros(sample.shape[1])
    for sums in flipped_sums(units, FLIPS, seed):
        ties = np.abs(np.abs(sums) - observed) < 1e-9
        same = same + ties.sum(axis=0)
        above = above + ((np.abs(sums) > observed) & ~ties).sum(axis=0)
    return (above + same + 1) / (FLIPS + 1), (above + same / 2) / FLIPS


def sizes_of(sample: Columns) -> Columns:
    """(data sets,) in how many sizes queries changed."""
    return np.asarray((np.diff(np.sort(np.abs(sample), axis=0), axis=0) > 1e-9).sum(axis=0))


def adjusted_t(sample: Columns) -> Columns:
    """(data sets,) p values of t with the degrees of freedom of Box and Andersen (1955).

    As many as the fourth moment of the differences says that random signs would give.
    """
    from scipy.special import fdtrc

    n, squares = len(sample), np.square(sample).sum(axis=0)
    known = np.where(squares > 0, squares, 1.0)
    uneven = np.minimum((sample**4).sum(axis=0) / np.square(known), 0.999)
    share = np.where(squares > 0, np.square(sample.sum(axis=0)) / (n * known), 0.0)
    df = ((n - 1) / (1 - uneven) - 2) / n
    return np.asarray(fdtrc(df, df * (n - 1), (n - 1) * share / np.maximum(1 - share, 1e-12)))


def tests_of(sample: Columns) -> dict[str, Columns]:
    """By name of the test (data sets,) its p values."""
    t, (randomisation, mid_p) = t_p(Units.of(sample)), by_flips(sample, 0)
    by_sizes = np.where(sizes_of(sample) >= FEWEST_SIZES, randomisation, t)
    return {
        "t": t,
        "mid-p": mid_p,
        "randomisation": randomisation,
        "by sizes": by_sizes,
        "adjusted t": adjusted_t(sample),
    }


def compared_tests(sizes: Sequence[int] = (50, 100), data_sets: int = 4_000) -> list[str]:
    """Markdown: how often t and its rivals reject, and where each loses most."""
    rng = np.random.default_rng(2)
    lines = []
    for n in sizes:
        rejected: dict[str, list[float]] = {}
        power: dict[str, list[float]] = {}
        for values in changes().values():
            sample = draw(rng, values, n, data_sets)
            null = sample * rng.choice([-1.0, 1.0], sample.shape)
            for rates, drawn in ((rejected, null), (power, sample)):
                for name, p in tests_of(drawn).items():
                    rates.setdefault(name, []).append(float(np.mean(p <= ALPHA)))
        best = np.maximum(power["t"], power["mid-p"])
        for name, powers in power.items():
            loss = np.array(powers) - best
            worst = [*changes()][int(loss.argmin())]
            lines.append(
                f"| {n} | {name} | {np.mean(rejected[name]):.1%} (at most "
                f"{max(rejected[name]):.1%}) | {np.mean(powers):.1%} | {loss.min():+.1%} | "
                f"{(loss < -0.02).sum()} | {worst} |"
            )
            print(lines[-1], file=sys.stderr)
    head = (
        "| n | test | rejects a true null | power | largest loss to the better of t and mid-p | "
        "cells that lose more than 2 points | where |"
    )
    return [head, "|---|---|---|---|---|---|---|", *lines]


def null_table(data_sets: int = 4_000) -> list[str]:
    """Markdown: how often the t-test rejects a true null, with little noise in the worst cell."""
    rng = np.random.default_rng(3)
    lines = []
    for n in SIZES[1:]:
        rates = []
        for values in changes().values():
            sample = draw(rng, values, n, data_sets)
            sample *= rng.choice([-1.0, 1.0], sample.shape)
            rates.append(float(np.mean(t_p(Units.of(sample)) <= ALPHA)))
        lines.append(f"| {n} | {np.mean(rates):.1%} | {min(rates):.1%} | {max(rates):.1%} |")
        print(lines[-1], file=sys.stderr)
    return ["| n | rejected | least | most |", "|---|---|---|---|", *lines]


def verdict_table(data_sets: int = 1_000) -> list[str]:
    """Markdown: how often the interval says better or worse, and how often the t-test would."""
    rng = np.random.default_rng(6)
    lines = []
    for n in SIZES:
        cells = []
        for pair in scored_pairs().values():
            values = gains(pair)
            rows = rng.integers(0, len(pair), (n, data_sets))
            balanced = rng.choice(len(pair), (n, data_sets), p=tilted(values, 0.0))
            signs = rng.choice([-1.0, 1.0], rows.shape)
            cells.append(
                [
                    share
                    for drawn, sign in ((rows, signs), (balanced, 1.0), (rows, 1.0))
                    for said in _said(values[drawn] * sign, widest(pair[drawn]))
                    for share in (np.mean(said != 0), np.mean(said * values.mean() < 0))
                ]
            )
        share = np.array(cells)
        mean, most = share.mean(axis=0), share.max(axis=0)
        lines.append(
            f"| {n} | {mean[0]:.1%} (at most {most[0]:.1%}) | {mean[2]:.1%} ({most[2]:.1%}) | "
            f"{mean[4]:.1%} ({most[4]:.1%}) | {mean[6]:.1%} ({most[6]:.1%}) | "
            f"{mean[8]:.1%} | {mean[10]:.1%} | {mean[9]:.2%} | {mean[11]:.2%} |"
        )
        print(lines[-1], file=sys.stderr)
    head = (
        "| n | signs by lot: t | interval | gains balance losses: t | interval | "
        "real changes: t | interval | wrong way: t | interval |"
    )
    return [head, "|---|---|---|---|---|---|---|---|---|", *lines]


def _said(sample: Columns, apart: Columns) -> tuple[Columns, Columns]:
    """(data sets,) 1, -1 or 0 by the t-test, and by the interval."""
    by_t = np.where(t_p(Units.of(sample)) <= ALPHA, np.sign(sample.mean(axis=0)), 0)
    return by_t, leaves_out_0(sample, apart)


def family_table(data_sets: int = 300) -> list[str]:
    """Markdown: any false claim among four systems, or seven, by one metric; and power."""
    rng = np.random.default_rng(4)
    lines = []
    for size, n in ((4, 50), (4, 100), (7, 50), (7, 100)):
        claims = []
        for metrics in load().values():
            scores = metrics["ndcg@10"][:, : size + 1]
            chosen = np.round(scores[:, 1:] - scores[:, [0]], 4)
            for number in range(data_sets):
                rows = rng.integers(0, len(chosen), n)
                sample, apart = chosen[rows], float(np.ptp(scores[rows]))
                null = sample * rng.choice([-1.0, 1.0], (n, 1))
                *power, covered = _claims(sample, apart, number, np.mean, chosen.mean(axis=0))
                *false, _ = _claims(null, apart, number, np.any, chosen.mean(axis=0))
                claims.append([*false, *power, covered])
        shares = " | ".join(f"{share:.1%}" for share in np.mean(claims, axis=0))
        lines.append(f"| {size} | {n} | {shares} |")
        print(lines[-1], file=sys.stderr)
    head = (
        "| comparisons | n | false claim, intervals | max-t's p | Holm's p | power, intervals | "
        "max-t's p | Holm's p | all intervals cover |"
    )
    return [head, "|---|---|---|---|---|---|---|---|---|", *lines]


def _claims(
    sample: Columns, apart: float, seed: int, of: Callable[[Columns], float], truth: Columns
) -> tuple[float, float, float, float]:
    """What intervals, max-t and Holm claim; and whether all intervals cover the truth."""
    units = Units.of(sample)
    p = t_p(units)
    family = [np.arange(sample.shape[1])]
    corrected, (level,) = max_t(units, p, family, resamples=FLIPS, seed=seed)
    low, high = pseudo_queries(units, apart).bounds(1 - level / 2)
    return (
        float(of((low > 0) | (high < 0))),
        float(of(corrected <= ALPHA)),
        float(of(correct(p, "holm") <= ALPHA)),
        float(((low <= truth) & (truth <= high)).all()),
    )


def detectable_table(data_sets: int = 3, checks: int = 300) -> list[str]:
    """Markdown: power at the difference that was said to be detectable with 80 %.

    A true difference is made in two ways: every query's difference shifts, or gains become likelier
    and losses rarer (exponential tilting), which changes no single difference.
    """
    rng = np.random.default_rng(5)
    lines = []
    for alpha, where in ((ALPHA, "alone"), (0.005, "one of ten")):
        for n in (50, 100, 200):
            powers, stated = [], []
            for pair in scored_pairs().values():
                values, apart = gains(pair), float(np.ptp(pair))
                for _ in range(data_sets):
                    units = Units.of(draw(rng, values, n, 1))
                    (least,) = detectable_differences(units, np.array([apart]), alpha=alpha)
                    stated.append(least is not None)
                    if least is None:
                        continue
                    shifted = draw(rng, values - values.mean() + least, n, checks)
                    weights = tilted(values, least)
                    likelier = rng.choice(values, (n, checks), p=weights)
                    powers.append(
                        [
                            float(np.mean(leaves_out_0(sample, apart, alpha) != 0))
                            for sample in (shifted, likelier)
                        ]
                    )
            shift, tilt = np.mean(powers, axis=0)
            lines.append(f"| {where} | {n} | {np.mean(stated):.0%} | {shift:.1%} | {tilt:.1%} |")
            print(lines[-1], file=sys.stderr)
    head = "| comparison | n | said | power, all queries shifted | power, gains likelier |"
    return [head, "|---|---|---|---|---|", *lines]


def alike_table(data_sets: int = 400) -> list[str]:
    """Markdown: how often a true difference of 0.02 lies in an interval within ±0.02."""
    rng, lines = np.random.default_rng(8), []
    for n in SIZES:
        real = [
            pair[rng.choice(len(pair), (n, data_sets), p=tilted(gains(pair), mean))]
            for pair in scored_pairs().values()
            for mean in (-MARGIN, MARGIN)
            if gains(pair).min() < mean < gains(pair).max()
        ]
        hidden = [
            near_the_best(rng, n, data_sets, least, share)
            for least in (0.5, 0.8, 0.95, 1.0)
            for share in (0.02, 0.04, 0.0667)
        ]
        for name, samples in (("real", real), ("failures, hidden", hidden)):
            cells = []
            for reach in (lambda sample: np.maximum(np.ptp(sample, axis=(0, 2)), 1e-9), widest):
                shares = []
                for sample in samples:
                    evidence = pseudo_queries(Units.of(gains(sample)), reach(sample))
                    low, high = evidence.bounds(1 - ALPHA / 2)
                    shares.append(np.mean((low >= -MARGIN) & (high <= MARGIN)))
                cells.append(f"{np.mean(shares):.1%} ({np.max(shares):.1%})")
            lines.append(f"| {name} | {n} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr)
    return ["| population | n | by scores seen | and the worst |", "|---|---|---|---|", *lines]


def near_the_best(
    rng: np.random.Generator, n: int, data_sets: int, least: float, share: float
) -> Columns:
    """(n, data sets, 2) scores from `least` to 1; a share of the questions loses 0.02 in all."""
    base = least + (1 - least) * rng.random((n, data_sets))
    moved = np.where(rng.random(base.shape) < 0.1, base - 0.002, base)
    failed = rng.random(base.shape) < share
    return np.stack([base, np.where(failed, base - MARGIN / share, moved)], axis=2).clip(0, 1)


def tilted(values: Columns, mean: float) -> Columns:
    """Weights ∝ exp(λ × value) under which the mean is as wanted, by bisection."""
    low, high = -60.0, 60.0
    sizes = values / np.abs(values).max()
    for _ in range(60):
        middle = (low + high) / 2
        weights = np.exp(middle * sizes - np.max(middle * sizes))
        weights /= weights.sum()
        low, high = (middle, high) if float(weights @ values) < mean else (low, middle)
    return np.asarray(weights)


if __name__ == "__main__":
    for title, lines in (
        ("Differences", interval_table(scored_pairs().values, paired=True)),
        ("Means", interval_table(runs, paired=False)),
        ("Verdicts", verdict_table()),
        ("A true null, t", null_table()),
        ("t and mid-p", compared_tests()),
        ("Corrections", family_table()),
        ("Alike", alike_table()),
        ("Detectable differences", detectable_table()),
    ):
        print("\n".join((f"\n{title}\n", *lines)))
