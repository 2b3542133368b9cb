"""How often is a recommended configuration worse than the best one by more than the tolerance?

Thirty real configurations on the Cranfield collection: BM25 with five values of k1 and five of b,
tf-idf, two LSA, two hybrids. All questions are the population: its means are the truth, and sweeps
are drawn from it with replacement. What configurations cost is drawn by lot, too. `python
benchmarks/sweep_tolerance.py FOLDER` prints the tables that stand in benchmarks/README.md, from a
copy of the collection in BEIR's format.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from real_scores import bm25, collection, vectors
from sweep_null import draw, populations

from llama_index_rag_metrics import fuse, score_rankings
from llama_index_rag_metrics.decisions.sweeps.sweep_result import not_beaten
from llama_index_rag_metrics.statistics.shortfalls import shortfalls

Columns = npt.NDArray[np.float64]

METRICS = ("ndcg@10", "mrr@10", "recall@10", "hit_rate@5", "precision@5")
SIZES = (50, 100, 200, 500)
LARGE_SIZES = (100, 500, 2000)
TOLERANCE = 0.02
DATA_SETS = 100
FURTHER_EVERY = 10
"""Of this many data sets one is decided by ties, too, and asked again with as many questions as its
report asks for: both take far longer."""
RESAMPLES = 999


def grids(folder: Path) -> Iterator[tuple[str, Columns]]:
    """(questions, configurations) scores of every kind of labels and metric."""
    for labels, relevant, documents, queries in collection(folder):
        runs = {
            f"bm25 {k1} {b}": bm25(documents, queries, k1=k1, b=b)
            for k1 in (0.6, 0.9, 1.2, 1.5, 2.0)
            for b in (0.2, 0.4, 0.6, 0.75, 0.9)
        }
        for dimensions in (None, 100, 200):
            runs[f"vectors {dimensions}"] = vectors(documents, queries, dimensions)
        for name in ("bm25 1.5 0.75", "bm25 0.9 0.4"):
            fused = fuse({name: runs[name], "lsa": runs["vectors 200"]}, depth=10)
            runs[f"hybrid of {name}"] = {key: list(ranking.ids) for key, ranking in fused.items()}
        scores = [score_rankings(relevant, run, METRICS) for run in runs.values()]
        for metric in METRICS:
            yield f"{labels}, {metric}", np.stack([each[metric] for each in scores], axis=1)


def real_rows(folder: Path) -> Iterator[str]:
    """One row a size: what was recommended, and how often that was wrong."""
    populations = [*grids(folder)]
    for n in SIZES:
        shown, wrong, any_wrong, cells = [], [], [], []
        tied_wrong, tied_loss, enough = [], [], []
        for number, (_, scores) in enumerate(populations):
            below = scores.mean(axis=0).max() - scores.mean(axis=0)
            here = []
            for data_set in range(DATA_SETS):
                rng = np.random.default_rng((n, number, data_set))
                sample = scores[rng.integers(0, len(scores), n)]
                cheapest_first = rng.permutation(scores.shape[1])
                options = {"resamples": RESAMPLES, "seed": data_set}
                at_most, asked_for = shortfalls(sample, TOLERANCE, span=1.0, **options)
                within = at_most <= TOLERANCE
                taken = next((each for each in cheapest_first if within[each]), None)
                shown.append(taken is not None)
                wrong.append(taken is not None and below[taken] > TOLERANCE)
                here.append(bool((below[within] > TOLERANCE).any()))
                if data_set % FURTHER_EVERY:
                    continue
                tied = not_beaten(sample, **options)
                cheapest = next(each for each in cheapest_first if each in tied)
                tied_wrong.append(below[cheapest] > TOLERANCE)
                tied_loss.append(below[cheapest])
                if asked_for is not None:
                    fresh = scores[rng.integers(0, len(scores), asked_for)]
                    again = shortfalls(fresh, TOLERANCE, span=1.0, **options)
                    enough.append((again.at_most <= TOLERANCE).any())
            any_wrong += here
            cells.append(np.mean(here))
        yield (
            f"| {n} | {np.mean(shown):.0%} | {np.mean(wrong):.1%} | {np.mean(any_wrong):.1%} "
            f"| {max(cells):.0%} | {np.mean(tied_wrong):.0%} | {max(tied_loss):.3f} "
            f"| {np.mean(enough):.0%} |"
        )


def hardest_rows() -> Iterator[str]:
    """The same for configurations as good as each other but for a loss beyond the tolerance."""
    for n_all, n_worse in ((2, 1), (30, 1), (30, 29)):
        for n in LARGE_SIZES:
            shown, wrong = [], []
            for number, (_, scores) in enumerate(populations()):
                lost = 1.05 * TOLERANCE / scores.mean()
                for data_set in range(DATA_SETS // 3):
                    rng = np.random.default_rng((n, number, n_all, n_worse, data_set))
                    sample = draw(rng, scores, n, n_all)
                    worse = sample[:, -n_worse:]
                    worse[rng.random(worse.shape) < lost] = 0.0
                    bounds = shortfalls(sample, span=1.0, resamples=RESAMPLES, seed=data_set)
                    within = bounds.at_most <= TOLERANCE
                    shown.append(within.any())
                    wrong.append(within[-n_worse:].any())
            yield f"| {n_worse} of {n_all} | {n} | {np.mean(shown):.0%} | {np.mean(wrong):.1%} |"


def main() -> None:
    """Print the tables."""
    print(
        "| questions | recommends | wrong | whatever it costs | worst cell | old | worst | enough |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in real_rows(Path(sys.argv[1])):
        print(row, flush=True)
    print("\n| worse by 0.021 | questions | recommends | a wrong one is within |")
    print("|---|---|---|---|")
    for row in hardest_rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
