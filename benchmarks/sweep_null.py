"""How often does a sweep name a winner where there is none, and how often the true one?

Real scores (real_scores.py). A null configuration takes, for each question, the score that one of
the eight retrievers drawn at random has there: all such configurations are equally good, and differ
from question to question as retrievers do. `python benchmarks/sweep_null.py` prints the table that
stands in benchmarks/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from real_scores import load

from llama_index_rag_metrics.decisions.sweeps.sweep_result import not_beaten

Columns = npt.NDArray[np.float64]

DATA_SETS = 60
RESAMPLES = 999
SIZES = (50, 200)
CONFIGURATIONS = 30
STEP = 0.1
"""How much better, or worse, the configurations are that aren't equally good."""


def populations() -> Iterator[tuple[str, Columns]]:
    """(questions, runs) scores of every kind of labels and metric."""
    for labels, metrics in load().items():
        for metric in ("ndcg@10", "recall@10", "hit_rate@5"):
            yield f"{labels}, {metric}", metrics[metric]


def draw(rng: np.random.Generator, scores: Columns, n: int, n_null: int) -> Columns:
    """(n, n_null) scores of configurations that are equally good."""
    questions = rng.integers(0, len(scores), n)
    runs = rng.integers(0, scores.shape[1], (n, n_null))
    return scores[questions[:, np.newaxis], runs]


def shifted(rng: np.random.Generator, drawn: Columns, step: float) -> Columns:
    """The same with some questions lost: each share of the scores that makes the mean lower."""
    if not drawn.any():
        return drawn
    return np.where(rng.random(drawn.shape) < step / drawn.mean(), 0.0, drawn)


def shares(seed: int = 1) -> Iterator[tuple[str, list[float]]]:
    """By how many are truly the best: how often a false winner is named, and how often the true."""
    for label, n_best in (
        ("30 of 30 equally good", CONFIGURATIONS),
        ("2 of 2 equally good", 2),
        ("2 best of 30", 2),
        ("1 best of 30", 1),
    ):
        n_worse = 0 if label.startswith(("30", "2 of")) else CONFIGURATIONS - n_best
        row = []
        for n in SIZES:
            named = right = total = 0
            worst = 0.0
            for number, (_, scores) in enumerate(populations()):
                rng = np.random.default_rng((seed, n, number, n_best, n_worse))
                here = 0
                for data_set in range(DATA_SETS):
                    drawn = draw(rng, scores, n, n_best + n_worse)
                    drawn[:, n_best:] = shifted(rng, drawn[:, n_best:], STEP)
                    kept = not_beaten(drawn, resamples=RESAMPLES, seed=data_set)
                    if len(kept) == 1:
                        is_right = n_best == 1 and kept[0] == 0
                        right += is_right
                        here += not is_right
                total += DATA_SETS
                named += here
                worst = max(worst, here / DATA_SETS)
            row += [named / total, worst, right / total]
        yield label, row


def main() -> None:
    """Print the table."""
    print("| configurations | queries | false winner | worst population | true winner |")
    print("|---|---|---|---|---|")
    for label, row in shares():
        for column, n in enumerate(SIZES):
            false, worst, true = row[3 * column : 3 * column + 3]
            shown = f"{true:.1%}" if label.startswith("1 best") else "–"
            print(f"| {label} | {n} | {false:.1%} | {worst:.1%} | {shown} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
