"""Do calibrated means and differences hold, and what is a judge worth, on scores of real retrieval?

The scores of real_scores.py are people's. A judge is made from them whose agreement is known: its
score of a question is people's with probability κ, else that of another question, which is a kappa
of κ exactly. The biased one, moreover, gives 30 % of the questions full marks (in differences: sees
no change in 30 %). The blind one has a kappa of 0. Each data set is 500 questions drawn with
replacement, of which 50 or 100 have people's scores.

`python benchmarks/calibration.py` prints the tables of benchmarks/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from real_scores import CHANGES, differences, load

from llama_index_rag_metrics.statistics.differences import difference_intervals
from llama_index_rag_metrics.statistics.intervals import mean_interval
from llama_index_rag_metrics.statistics.prediction_powered import (
    PredictionPowered,
    prediction_powered,
    prediction_powered_interval,
)
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.statistics.significance import t_p

Columns = npt.NDArray[np.float64]

QUESTIONS = 500
HUMAN = (50, 100)
DATA_SETS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
ALPHA = 0.05


class Judge(NamedTuple):
    """How a judge scores."""

    name: str
    kappa: float
    bias: float = 0.0


JUDGES = (
    Judge("kappa 0.7", 0.7),
    Judge("kappa 0.5", 0.5),
    Judge("kappa 0.3", 0.3),
    Judge("kappa 0.5, biased", 0.5, 0.3),
    Judge("blind", 0.0),
)


class Cell(NamedTuple):
    """What was found in the data sets of one population."""

    covered: float
    width: float
    wider: float
    worth: float
    null: float = 0.0


def runs() -> Iterator[tuple[bool, Columns]]:
    """Whether they are hits, and the scores of two runs by every metric and kind of labels."""
    for metrics in load().values():
        for metric, scores in metrics.items():
            for run in (0, 6):
                yield metric.startswith("hit"), scores[:, run]


def changes() -> Iterator[tuple[bool, Columns]]:
    """Whether they are of hits, and paired differences of two changes."""
    for metrics in load().values():
        for metric, scores in metrics.items():
            for change in (CHANGES[1], CHANGES[5]):
                changed = differences(scores, change)
                if changed.any():
                    yield metric.startswith("hit"), changed


def judged(
    rng: np.random.Generator, values: Columns, judge: Judge, full_marks: float, signs: Columns
) -> tuple[Columns, Columns]:
    """(questions,) people's scores and the judge's, of one data set."""
    drawn = rng.integers(0, len(values), QUESTIONS)
    other = rng.integers(0, len(values), QUESTIONS)
    agrees = rng.random(QUESTIONS) < judge.kappa
    seen = np.where(agrees, values[drawn], values[other])
    seen = np.where(rng.random(QUESTIONS) < judge.bias, full_marks, seen)
    return values[drawn] * signs, seen * signs


def mean_cell(rng: np.random.Generator, values: Columns, judge: Judge, n: int) -> Cell:
    """Coverage of calibrated means, and their width in that of people's scores alone."""
    rows, truth, signs = [], values.mean(), np.ones(QUESTIONS)
    for _ in range(DATA_SETS):
        human, judge_scores = judged(rng, values, judge, 1.0, signs)
        mean, interval = prediction_powered_interval(
            prediction_powered(human[:n], judge_scores[:n], judge_scores[n:])
        )
        alone = mean_interval(human[:n])
        assert None not in (interval.low, interval.high, alone.low, alone.high)
        low, high = interval.low or 0.0, interval.high or 0.0
        width = (high - low) / ((alone.high or 0.0) - (alone.low or 0.0))
        rows.append((low - 1e-12 <= truth <= high + 1e-12, width, mean.worth))
    covered, widths, worth = np.array(rows, np.float64).T
    return Cell(covered.mean(), np.median(widths), (widths > 1.05).mean(), np.median(worth))


def difference_cell(rng: np.random.Generator, values: Columns, judge: Judge, n: int) -> Cell:
    """The same of calibrated differences, and how often a true null is rejected."""
    same = np.ones(QUESTIONS)
    pairs = [judged(rng, values, judge, 0.0, same) for _ in range(DATA_SETS)]
    estimates = [prediction_powered(human[:n], scores[:n], scores[n:]) for human, scores in pairs]
    moved, before = _columns(estimates)
    ends, alone = (
        np.array(
            [
                (interval.low, interval.high)
                for interval in difference_intervals(Units.of(columns, changes=before), widest=1.0)
            ],
            np.float64,
        )
        for columns in (moved, before)
    )
    truth = values.mean()
    covered = (ends[:, 0] - 1e-12 <= truth) & (truth <= ends[:, 1] + 1e-12)
    widths = np.ptp(ends, axis=1) / np.ptp(alone, axis=1)
    nulls = []
    for _ in range(DATA_SETS):
        human, scores = judged(rng, values, judge, 0.0, rng.choice([-1.0, 1.0], QUESTIONS))
        nulls.append(prediction_powered(human[:n], scores[:n], scores[n:]))
    p = t_p(Units.of(_columns(nulls)[0]))
    return Cell(
        covered.mean(),
        np.median(widths),
        (widths > 1.05).mean(),
        np.median([estimate.worth for estimate in estimates]),
        (p <= ALPHA).mean(),
    )


def _columns(estimates: list[PredictionPowered]) -> tuple[Columns, Columns]:
    """(human, data sets) as a judge moved them, and as they were."""
    return (
        np.stack([estimate.values for estimate in estimates], axis=1),
        np.stack([estimate.human for estimate in estimates], axis=1),
    )


def table(*, paired: bool) -> Iterator[str]:
    """Markdown: a row a judge and number of human scores, hit rates apart."""
    rng = np.random.default_rng(1)
    populations = [*(changes() if paired else runs())]
    null = " a true null rejected |" if paired else ""
    yield (
        "| judge | human scores | covered | worst | hit rates | worst | width | over 1.05 | "
        f"worth |{null}"
    )
    yield "|---|" + "---:|" * (9 if paired else 8)
    for judge in JUDGES:
        for n in HUMAN:
            cell = difference_cell if paired else mean_cell
            cells = [(hits, cell(rng, values, judge, n)) for hits, values in populations]
            rates = np.array([cell for hits, cell in cells if hits])
            every = np.array([cell for _, cell in cells])
            row = (
                f"| {judge.name} | {n} | {every[:, 0].mean():.1%} | {every[:, 0].min():.1%} | "
                f"{rates[:, 0].mean():.1%} | {rates[:, 0].min():.1%} | "
                f"{np.median(every[:, 1]):.2f} | {every[:, 2].mean():.1%} | "
                f"{np.median(every[:, 3]):.0f} |"
            )
            row += (
                f" {every[:, 4].mean():.1%} (at most {every[:, 4].max():.1%}) |" if paired else ""
            )
            print(row, file=sys.stderr, flush=True)
            yield row


if __name__ == "__main__":
    for title, paired in (("Means", False), ("Differences", True)):
        print("\n".join((f"\n{title}\n", *table(paired=paired))), flush=True)
