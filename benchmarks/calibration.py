"""Do calibrated means and differences hold, and what is a judge worth, on real rankings?

Rankings by BM25, BM25 without stemming, and LSA, on the Cranfield collection (three kinds of
labels) and on 472 questions about spans of five corpora, cut into chunks of 800 characters. People
judge every passage that a run retrieved, and those that are relevant anyway. A judge errs passage
by passage: its label is people's with probability κ, else a draw at their rate, which is a kappa of
κ exactly; the lenient one, moreover, takes 15 % of all passages for relevant. Both sides are scored
by their own labels. Each data set is 500 questions drawn with replacement, of which a few have
people's scores.

`python benchmarks/calibration.py CRANFIELD SPANS` prints the tables of benchmarks/README.md.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from real_scores import bm25, collection, vectors

from llama_index_rag_metrics.statistics.differences import difference_intervals, t_p
from llama_index_rag_metrics.statistics.intervals import mean_interval
from llama_index_rag_metrics.statistics.prediction_powered import (
    PredictionPowered,
    prediction_powered,
    prediction_powered_interval,
)
from llama_index_rag_metrics.statistics.resampling import Units

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

QUESTIONS, CHUNK, DEPTH = 500, 800, 10
HUMAN = (20, 50, 100)
DATA_SETS = int(sys.argv[3]) if len(sys.argv) > 3 else 300
LABELLINGS = 20
"""How often a judge labels everything; a data set draws one of them for each question."""
ALPHA = 0.05
DISCOUNTS = 1 / np.log2(np.arange(2, DEPTH + 2))
IDEALS = np.concatenate([[0], np.cumsum(DISCOUNTS)])


class Judge(NamedTuple):
    """How a judge labels passages."""

    name: str
    kappa: float
    lenient: float = 0.0


JUDGES = (
    Judge("0.9", 0.9),
    Judge("0.7", 0.7),
    Judge("0.5", 0.5),
    Judge("0.5, lenient", 0.5, 0.15),
    Judge("0.4", 0.4),
    Judge("0.2", 0.2),
)


class Pools(NamedTuple):
    """(questions, passages) whether they are relevant, and are there; (runs, questions, ranks)."""

    relevant: Bools
    known: Bools
    retrieved: Places


class Population(NamedTuple):
    """People's scores or differences, (questions,), and a judge's, (labellings, questions)."""

    is_hits: bool
    people: Floats
    judge: Floats
    widest: float


class Cell(NamedTuple):
    """What was found in the data sets of one population."""

    covered: float
    width: float
    worth: float
    correlation: float
    null: float = 0.0


def chunked(folder: Path) -> tuple[dict[str, dict[str, int]], dict[str, str], dict[str, str]]:
    """Relevance, documents and questions; a chunk is relevant with half of a reference."""
    documents = {
        f"{path.stem}:{start}": text[start : start + CHUNK]
        for path in sorted((folder / "corpora").glob("*.md"))
        for text in [path.read_text(encoding="utf-8")]
        for start in range(0, len(text), CHUNK)
    }
    relevant: dict[str, dict[str, int]] = {}
    questions: dict[str, str] = {}
    with (folder / "questions.csv").open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            questions[str(number)] = row["question"]
            relevant[str(number)] = {
                f"{row['corpus_id']}:{start}": 1
                for place in json.loads(row["references"])
                for first, end in [(place["start_index"], place["end_index"])]
                for start in range(first // CHUNK * CHUNK, end, CHUNK)
                if 2 * (min(end, start + CHUNK) - max(first, start)) >= end - first
            }
    return relevant, documents, questions


def pooled(
    relevant: Mapping[str, Mapping[str, int]], runs: Sequence[Mapping[str, Sequence[str]]]
) -> Pools:
    pools = [
        [*dict.fromkeys([*relevant[key], *(item for run in runs for item in run[key])])]
        for key in relevant
    ]
    shape = len(pools), max(map(len, pools))
    labels, known = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    retrieved = np.full((len(runs), len(pools), DEPTH), shape[1])
    for row, (key, pool) in enumerate(zip(relevant, pools, strict=True)):
        known[row, : len(pool)] = True
        labels[row, : len(pool)] = [relevant[key].get(item, 0) > 0 for item in pool]
        for run, places in zip(runs, retrieved, strict=True):
            found = [pool.index(item) for item in run[key][:DEPTH]]
            places[row, : len(found)] = found
    return Pools(labels, known, retrieved)


def scored(labels: Bools, retrieved: Places) -> dict[str, Floats]:
    """Metric to (..., runs, questions) scores by (..., questions, passages) labels."""
    beyond = np.zeros((*labels.shape[:-1], 1), np.bool_)
    padded = np.concatenate([labels, beyond], axis=-1)[..., None, :, :]
    hits = np.take_along_axis(
        padded, np.broadcast_to(retrieved, (*labels.shape[:-2], *retrieved.shape)), -1
    )
    ideal = IDEALS[np.minimum(labels.sum(axis=-1), DEPTH)][..., None, :]
    return {
        "hit_rate@5": hits[..., :5].any(axis=-1).astype(np.float64),
        "mrr@10": np.where(hits.any(axis=-1), 1 / (hits.argmax(axis=-1) + 1), 0.0),
        "ndcg@10": np.divide(hits @ DISCOUNTS, ideal, out=hits * 1.0 @ DISCOUNTS, where=ideal > 0),
    }


def populations(
    rng: np.random.Generator, pools: Pools, judge: Judge, *, paired: bool
) -> Iterator[Population]:
    shape = (LABELLINGS, *pools.relevant.shape)
    rate = pools.relevant[pools.known].mean()
    labels = np.where(rng.random(shape) < judge.kappa, pools.relevant, rng.random(shape) < rate)
    labels = (labels | (rng.random(shape) < judge.lenient)) & pools.known
    people, judged = (scored(each, pools.retrieved) for each in (pools.relevant, labels))
    for metric, scores in people.items():
        for run in (1, 2):
            yield Population(
                metric.startswith("hit"),
                scores[run] - paired * scores[0],
                judged[metric][:, run] - paired * judged[metric][:, 0],
                float(np.ptp(scores[[0, run]])),
            )


def drawn(
    rng: np.random.Generator, population: Population, n: int, signs: bool
) -> PredictionPowered:
    which = rng.integers(0, len(population.people), QUESTIONS)
    labelling = rng.integers(0, LABELLINGS, QUESTIONS)
    sign = rng.choice([-1.0, 1.0], QUESTIONS) if signs else 1.0
    people, judge = population.people[which] * sign, population.judge[labelling, which] * sign
    return prediction_powered(people[:n], judge[:n], judge[n:], widest=population.widest)


def measure(rng: np.random.Generator, population: Population, n: int, *, paired: bool) -> Cell:
    """Coverage, and width in that of people's scores alone."""
    truth = population.people.mean()
    estimates = [drawn(rng, population, n, False) for _ in range(DATA_SETS)]
    null = 0.0
    if paired:
        moved, alone = (
            difference_intervals(
                Units.of(columns, changes=_stacked(estimates, "human")), widest=population.widest
            )
            for columns in (_stacked(estimates, "values"), _stacked(estimates, "human"))
        )
        nulls = [drawn(rng, population, n, True) for _ in range(DATA_SETS)]
        null = float((t_p(Units.of(_stacked(nulls, "values"))) <= ALPHA).mean())
    else:
        moved = [prediction_powered_interval(estimate)[1] for estimate in estimates]
        alone = [mean_interval(estimate.human) for estimate in estimates]
    ends, ends_alone = (
        np.array([(interval.low, interval.high) for interval in intervals], np.float64)
        for intervals in (moved, alone)
    )
    covered = (ends[:, 0] - 1e-12 <= truth) & (truth <= ends[:, 1] + 1e-12)
    both = np.corrcoef(np.tile(population.people, LABELLINGS), population.judge.ravel())
    return Cell(
        covered.mean(),
        float(np.median(np.ptp(ends, axis=1) / np.ptp(ends_alone, axis=1))),
        float(np.median([estimate.worth for estimate in estimates])),
        both[0, 1],
        null,
    )


def _stacked(estimates: Sequence[PredictionPowered], part: str) -> Floats:
    return np.stack([getattr(estimate, part) for estimate in estimates], axis=1)


def table(every: Sequence[Pools], *, paired: bool) -> Iterator[str]:
    """Markdown: a row a judge and number of human scores, hit rates apart."""
    rng = np.random.default_rng(1)
    null = " a true null rejected |" if paired else ""
    yield (
        "| kappa of passages | r | human scores | covered | worst | hit rates | worst | width | "
        f"worth | by r |{null}"
    )
    yield "|---|" + "---:|" * (10 if paired else 9)
    for judge in JUDGES:
        found = [each for pools in every for each in populations(rng, pools, judge, paired=paired)]
        for n in HUMAN:
            cells = np.array([measure(rng, each, n, paired=paired) for each in found])
            covered, width, worth, correlation, nulls = cells.T
            rates = covered[[each.is_hits for each in found]]
            share = (QUESTIONS - n) / QUESTIONS
            by_r = float(np.median(n / (1 - np.square(correlation) * share)))
            row = (
                f"| {judge.name} | {np.median(correlation):.2f} | {n} | {covered.mean():.1%} | "
                f"{covered.min():.1%} | {rates.mean():.1%} | {rates.min():.1%} | "
                f"{np.median(width):.2f} | {np.median(worth):.0f} | {by_r:.0f} |"
            )
            yield row + (f" {nulls.mean():.1%} (at most {nulls.max():.1%}) |" if paired else "")


def load(cranfield: Path, spans: Path) -> Iterator[Pools]:
    collections = [
        *((labels, texts, asked) for _, labels, texts, asked in collection(cranfield)),
        chunked(spans),
    ]
    for relevant, documents, questions in collections:
        runs = (
            bm25(documents, questions),
            bm25(documents, questions, stemmed=False),
            vectors(documents, questions, 200),
        )
        yield pooled(relevant, runs)


if __name__ == "__main__":
    judged_by_people = [*load(Path(sys.argv[1]), Path(sys.argv[2]))]
    for title, paired in (("Means", False), ("Differences", True)):
        print(f"\n{title}\n", flush=True)
        for line in table(judged_by_people, paired=paired):
            print(line, flush=True)
