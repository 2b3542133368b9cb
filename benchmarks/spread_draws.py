"""Draws for people that are spread over a judge's scores: do calibrated means hold, what is gained?

Rankings of Cranfield, as stored in real_scores.json.gz, of two runs and three kinds of labels; the
rank of the first relevant passage is known, so a judge can err passage by passage: its label is
people's with probability κ, else a draw at their rate. A data set is 500 questions drawn with
replacement, of which 20 or 60 are drawn for people: all alike (plain), by the judge's score on the
same metric (spread), or by its ndcg@10 whatever the metric (by ndcg). Worth is that of the
estimates made: how many people's scores alone would miss the truth by as little.

`python benchmarks/spread_draws.py` prints the table of benchmarks/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import real_scores

from llama_index_rag_metrics.decisions.draws import drawn_along
from llama_index_rag_metrics.statistics.prediction_powered import (
    prediction_powered,
    prediction_powered_interval,
)

Floats = npt.NDArray[np.float64]

DATA_SETS = int(sys.argv[1]) if len(sys.argv) > 1 else 800
QUESTIONS, LABELLINGS, DEPTH = 500, 10, 10
HUMAN = (20, 60)
JUDGES = ((0.9, 0.0), (0.7, 0.0), (0.7, 0.1))
"""(κ, share of all passages taken for relevant)"""
RUNS = (2, 6)
DISCOUNTS = 1 / np.log2(np.arange(2, DEPTH + 2))
IDEALS = np.concatenate([[1], np.cumsum(DISCOUNTS)])


class Population(NamedTuple):
    """People's scores, (questions,), and a judge's, (labellings, questions), by metric."""

    people: Mapping[str, Floats]
    judge: Mapping[str, Floats]


def scored(relevant: npt.NDArray[np.bool_]) -> dict[str, Floats]:
    """Metric to scores of (..., questions, ranks) labels."""
    first = np.where(relevant.any(axis=-1), relevant.argmax(axis=-1) + 1.0, np.inf)
    ideal = IDEALS[relevant.sum(axis=-1)]
    return {
        "hit_rate@5": (first <= 5).astype(np.float64),
        "mrr@10": 1 / first,
        "ndcg@10": relevant @ DISCOUNTS / ideal,
    }


def populations(rng: np.random.Generator, kappa: float, lenient: float) -> Iterator[Population]:
    for metrics in real_scores.load().values():
        for run in RUNS:
            reciprocal = metrics["mrr@10"][:, run]
            ranks = np.rint(1 / np.where(reciprocal > 0, reciprocal, np.inf))
            relevant = ranks[:, None] == np.arange(1, DEPTH + 1)
            shape = (LABELLINGS, *relevant.shape)
            by_lot = rng.random(shape) < relevant.mean()
            labels = np.where(rng.random(shape) < kappa, relevant, by_lot)
            yield Population(scored(relevant), scored(labels | (rng.random(shape) < lenient)))


def drawn(rng: np.random.Generator, scores: Floats | None, n: int) -> npt.NDArray[np.int64]:
    if scores is None:
        return rng.permutation(QUESTIONS)[:n]
    by_id = {f"{row:03}": float(value) for row, value in enumerate(scores)}
    return np.array([*map(int, drawn_along(by_id, n, int(rng.integers(2**32))))])


def measure(rng: np.random.Generator, population: Population, metric: str, n: int) -> Floats:
    """(ways to draw, 3) share covered, median width, and worth."""
    truth = population.people[metric].mean()
    found = np.empty((3, DATA_SETS, 3))
    for data_set in range(DATA_SETS):
        which = rng.integers(0, len(population.people[metric]), QUESTIONS)
        labelling = rng.integers(0, LABELLINGS, QUESTIONS)
        people = population.people[metric][which]
        judge = population.judge[metric][labelling, which]
        ndcg = population.judge["ndcg@10"][labelling, which]
        for way, scores in enumerate((None, judge, ndcg)):
            taken = drawn(rng, scores, n)
            others = np.setdiff1d(np.arange(QUESTIONS), taken)
            _, interval = prediction_powered_interval(
                prediction_powered(people[taken], judge[taken], judge[others], widest=1.0)
            )
            low, high = float(interval.low or 0), float(interval.high or 0)
            found[way, data_set] = low <= truth <= high, high - low, interval.mean - truth
    worth = population.people[metric].var() / np.square(found[..., 2]).mean(axis=1)
    return np.stack([found[..., 0].mean(axis=1), np.median(found[..., 1], axis=1), worth], axis=1)


def table() -> Iterator[str]:
    rng = np.random.default_rng(1)
    yield "| kappa of passages | human scores | draw | covered | worst | width | worth |"
    yield "|---|" + "---:|" * 2 + "---:|" * 4
    for kappa, lenient in JUDGES:
        every = [*populations(rng, kappa, lenient)]
        for n in HUMAN:
            cells = np.array(
                [measure(rng, each, metric, n) for each in every for metric in each.people]
            )
            for way, name in enumerate(("plain", "spread", "by ndcg")):
                covered, width, worth = cells[:, way].T
                yield (
                    f"| {kappa}{', lenient' * (lenient > 0)} | {n} | {name} | {covered.mean():.1%} "
                    f"| {covered.min():.1%} | {np.median(width):.3f} | {np.median(worth):.0f} |"
                )


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
