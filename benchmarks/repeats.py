"""Do intervals hold where every question is asked several times, and the answers differ?

A system that varies takes one of several real retrievers at random, for each question and each run
(real_scores.py): real scores, with a real spread within each question. Data sets are drawn with
replacement from the questions, so that the true means are known. The interval of the package takes
the questions' means; for comparison, one takes each run as a question of its own.
`python benchmarks/repeats.py` prints the table of benchmarks/README.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from real_scores import RUNS, load

from llama_index_rag_metrics.statistics.differences import pseudo_queries, widest_apart
from llama_index_rag_metrics.statistics.intervals import mean_intervals
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.statistics.sample_size import Components

Scores = npt.NDArray[np.float64]

SIZES, REPEATS = (25, 50, 100, 200), (1, 3, 5)
DATA_SETS = 1_000
EVERY = range(len(RUNS))
WORDS, MEANINGS = (0, 1, 2, 4), (5, 6, 7)
"""Retrievers that match words, and those that match meanings: two systems that vary."""


def populations() -> Iterator[Scores]:
    """(questions, retrievers) scores by every metric and kind of labels."""
    for metrics in load().values():
        yield from metrics.values()


def asked(
    rng: np.random.Generator, scores: Scores, rows: npt.NDArray[np.int64], repeats: int
) -> Scores:
    """(repeats, questions, data sets) what a system that varies scores on these questions."""
    which = rng.integers(0, scores.shape[1], (repeats, *rows.shape))
    return np.asarray(scores[rows[None], which])


def covered(columns: Scores, truth: float) -> float:
    """The share of the intervals of means that hold the truth."""
    ends = [(each.low, each.high) for each in mean_intervals(columns)]
    low, high = np.array(ends, np.float64).T  # without an interval NaN, which holds nothing
    return float(np.mean((low - 1e-12 <= truth) & (truth <= high + 1e-12)))


def covered_difference(one: Scores, other: Scores, truth: float) -> float:
    """The same of paired differences, as `compare` has them."""
    both = np.stack([one, other], axis=-1)
    widest = widest_apart(both.min(axis=(0, 2)), both.max(axis=(0, 2)), 1.0, worst=0.0)
    low, high = pseudo_queries(Units.of(other - one), widest).bounds(0.975)
    return float(np.mean((low - 1e-12 <= truth) & (truth <= high + 1e-12)))


def flat(runs: Scores) -> Scores:
    """(runs × questions, data sets) every run as a question of its own."""
    return runs.reshape(-1, runs.shape[-1])


def mean_cell(rng: np.random.Generator, scores: Scores, n: int, repeats: int) -> tuple[float, ...]:
    runs = asked(rng, scores, rng.integers(0, len(scores), (n, DATA_SETS)), repeats)
    truth = float(scores.mean())
    return covered(runs.mean(axis=0), truth), covered(flat(runs), truth)


def difference_cell(
    rng: np.random.Generator, scores: Scores, n: int, repeats: int
) -> tuple[float, ...]:
    rows = rng.integers(0, len(scores), (n, DATA_SETS))
    groups = [scores[:, list(group)] for group in (WORDS, MEANINGS)]
    one, other = (asked(rng, group, rows, repeats) for group in groups)
    truth = float(groups[1].mean() - groups[0].mean())
    return (
        covered_difference(one.mean(axis=0), other.mean(axis=0), truth),
        covered_difference(flat(one), flat(other), truth),
    )


def table(cell: Callable[..., tuple[float, ...]]) -> list[str]:
    """Markdown: coverage over all populations, and in the worst."""
    rng = np.random.default_rng(26)
    lines = []
    for n in SIZES:
        for repeats in REPEATS:
            cells = np.array([cell(rng, scores, n, repeats) for scores in populations()])
            shown = " | ".join(
                f"{mean:.1%} ({worst:.1%})"
                for mean, worst in zip(cells.mean(axis=0), cells.min(axis=0), strict=True)
            )
            lines.append(f"| {n} | {repeats} | {shown} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def precision_table() -> list[str]:
    """Markdown: the true standard error of a mean, and the one that `Spread.questions` assumes.

    From 100 questions asked 5 times it is reckoned how many questions, asked once or 3 times, would
    be as precise; so many are drawn.
    """
    rng = np.random.default_rng(26)
    lines = []
    for repeats in (1, 3):
        ratios = []
        for scores in populations():
            rows = rng.integers(0, len(scores), (100, 1))
            runs = asked(rng, scores, rows, 5)[:, :, 0].T.tolist()
            needed = Components.of(runs).questions(repeats)
            if needed is None:
                continue
            means = [
                asked(rng, scores, rng.integers(0, len(scores), (size, DATA_SETS)), times)
                .mean(axis=(0, 1))
                .std()
                for size, times in ((100, 5), (needed, repeats))
            ]
            ratios.append(means[1] / means[0])
        low, middle, high = np.quantile(ratios, [0, 0.5, 1])
        lines.append(f"| {repeats} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return lines


def main() -> None:
    spread = [
        math.sqrt(components.within / (components.within + components.between))
        for scores in populations()
        if (components := Components.of(scores.tolist())).within
    ]
    print(f"Spread within questions, as a share of all: {min(spread):.2f} to {max(spread):.2f}\n")
    for what, cell in (("means", mean_cell), ("differences", difference_cell)):
        print(f"Intervals of {what}, nominal 95 %:\n")
        print("| questions | runs of each | questions' means | runs as questions |")
        print("|---|---|---|---|")
        print("\n".join(table(cell)), end="\n\n")
    print("| runs of each | standard error, ratio | from … to |\n|---|---|---|")
    print("\n".join(precision_table()))


if __name__ == "__main__":
    main()
