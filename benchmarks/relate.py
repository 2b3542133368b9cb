"""Do the intervals of `relate` cover, and how often does it claim what isn't so, on real scores?

Per-query scores of five runs on Cranfield (real_scores.py) and of clusters of known items
(held_out_scores.py); answers are drawn anew for every data set, from a logistic model of ndcg@10:
two-valued or in five grades, seldom or mostly good, following it not at all, weakly and closely.
Data sets are drawn with replacement, clusters whole. The truth is that of all pairs of questions
and answers that can be drawn.

`python benchmarks/relate.py [DATA_SETS]` prints the tables of benchmarks/README.md.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from held_out_scores import load as load_held_out
from real_scores import load as load_real
from scipy.special import stdtrit

from llama_index_rag_metrics.statistics.association import (
    MEASURES,
    Associations,
    Measure,
    associations,
)
from llama_index_rag_metrics.statistics.resampling import Units

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

DATA_SETS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
NOISE_SETS = 4 * DATA_SETS
SIZES = (20, 30, 50, 100, 200, 500)
SHARED = ("ndcg@10", "mrr@10", "hit_rate@5", "hit_rate@1")
COLUMNS = (0, 2, 3)
"""ndcg@10, hit_rate@5, hit_rate@1: many values, and two."""
STRENGTHS = {"none": 0.0, "weak": 1.0, "close": 3.0}
RATES = {"few good": -2.2, "half": 0.0, "most good": 1.7}
CUTS = (-2.0, -0.7, 0.7, 2.0)
FLIPS = 2_000
NULL: dict[Measure, float] = {"auc": 0.5, "tau_b": 0.0}
EFFECT = 1.0
"""The standard deviation of what questions of a cluster share, in logits."""

RUNS = (("graded", 0), ("single label", 0), ("known item", 0), ("graded", 5), ("known item", 3))


class Cell(NamedTuple):
    """Real scores of one run, and of each question the chance of every grade of its answer."""

    measure: Measure
    strength: str
    scores: Floats
    chances: Floats
    clusters: Places | None

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Places | None]:
        if self.clusters is None:
            rows, clusters = rng.integers(0, len(self.scores), n), None
        else:
            parts: list[Places] = []
            while sum(map(len, parts)) < n:
                parts.append(np.flatnonzero(self.clusters == rng.integers(self.clusters.max() + 1)))
            rows = np.concatenate(parts)
            clusters = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        answered = rows
        if self.strength == "none":  # as others' answers are, those of a cluster alike
            units = np.arange(len(rows)) if clusters is None else clusters
            answered = rng.integers(0, len(self.scores), len(rows))[units]
        below = self.chances.cumsum(axis=1)[answered]
        answers = (rng.random((len(rows), 1)) > below).sum(axis=1)
        return self.scores[rows], answers.astype(np.float64), clusters

    def truth(self) -> Floats:
        """(columns,) the value over all pairs of what can be drawn."""
        if self.strength == "none":
            return np.full(self.scores.shape[1], NULL[self.measure])
        grades = np.arange(self.chances.shape[1])
        order = self.chances @ np.sign(grades[:, None] - grades) @ self.chances.T
        signs = [np.sign(column[:, None] - column) for column in self.scores.T]
        shares = self.chances.mean(axis=0)
        apart = 1 - np.square(shares).sum()
        if self.measure == "auc":
            return np.array([(1 + (sign * order).mean() / apart) / 2 for sign in signs])
        return np.array(
            [(sign * order).mean() / np.sqrt(np.abs(sign).mean() * apart) for sign in signs]
        )


def cells() -> Iterator[Cell]:
    real = load_real()
    measures: list[tuple[Measure, tuple[float, ...]]] = [("auc", (0.0,)), ("tau_b", CUTS)]
    populations: list[tuple[Floats, Places | None]] = [
        (np.stack([real[labels][metric][:, run] for metric in SHARED], axis=1), None)
        for labels, run in RUNS
    ]
    clustered = load_held_out()["clusters"]
    populations.append(
        (
            np.stack([clustered.scores[metric][:, 0] for metric in SHARED], axis=1),
            clustered.clusters,
        )
    )
    for (scores, clusters), strength, rate in product(populations, STRENGTHS, RATES):
        latent = RATES[rate] + STRENGTHS[strength] * standardised(scores[:, 0])
        if clusters is not None:
            rng = np.random.default_rng(0)
            latent += rng.normal(0, EFFECT, int(clusters.max()) + 1)[clusters]
        for measure, cuts in measures:
            below = 1 / (1 + np.exp(latent[:, None] - np.array(cuts)))
            ends = np.zeros((len(scores), 1)), np.ones((len(scores), 1))
            chances = np.diff(np.concatenate([ends[0], below, ends[1]], axis=1))
            yield Cell(measure, strength, scores, chances, clusters)


def standardised(column: Floats) -> Floats:
    return np.asarray((column - column.mean()) / column.std(), np.float64)


def found(scores: Floats, answers: Floats, cell: Cell, clusters: Places | None) -> Associations:
    return associations(scores, answers, cell.measure, clusters=clusters, resamples=FLIPS)


def plain(
    scores: Floats, answers: Floats, cell: Cell, clusters: Places | None
) -> tuple[float, float]:
    """Student's interval by the pulls alone, without imagined questions."""
    value, pulls = MEASURES[cell.measure](scores, answers)
    units = Units.of(pulls.reshape(-1, 1), clusters)
    reach = float(stdtrit(len(units) - 1, 0.975) * units.standard_errors[0])
    return value - reach, value + reach


def coverage(every: list[Cell]) -> None:
    head = "covered | worst cell | width"
    print(f"| | n | plain t: {head} | values: {head} | leads: {head} |")
    print(f"|{'---|' * 11}")
    for (kind, measure), n in product(product(("questions", "clusters"), ("auc", "tau_b")), SIZES):
        held: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for cell in every:
            if cell.measure != measure or (cell.clusters is None) != (kind == "questions"):
                continue
            rng, truth = np.random.default_rng(n), cell.truth()
            seen: dict[tuple[str, object], list[tuple[bool, float]]] = defaultdict(list)
            for _ in range(DATA_SETS):
                scores, answers, clusters = cell.draw(n, rng)
                for column in COLUMNS:
                    one = found(scores[:, [column]], answers, cell, clusters)
                    low, high = one.low[0], one.high[0]
                    if not np.isnan(low):
                        inside = low - 1e-9 <= truth[column] <= high + 1e-9
                        seen["values", column].append((inside, high - low))
                        low, high = plain(scores[:, column], answers, cell, clusters)
                        inside = low - 1e-9 <= truth[column] <= high + 1e-9
                        seen["plain", column].append((inside, high - low))
                for pair in combinations(COLUMNS, 2):
                    two = found(scores[:, pair], answers, cell, clusters)
                    if np.isnan(two.leads_low).any():
                        continue
                    first = int(np.argmax(two.values))
                    lead = truth[pair[first]] - truth[pair[1 - first]]
                    low, high = two.leads_low[1 - first], two.leads_high[1 - first]
                    seen["leads", pair].append((low - 1e-9 <= lead <= high + 1e-9, high - low))
            for (what, _), cases in seen.items():
                if len(cases) >= DATA_SETS / 4:
                    inside, width = zip(*cases, strict=True)
                    held[what].append((float(np.mean(inside)), float(np.median(width))))
        row = [" | ".join(summary(held[what])) for what in ("plain", "values", "leads")]
        print(f"| {measure}, {kind} | {n} | {' | '.join(row)} |", flush=True)


def summary(cells_held: list[tuple[float, float]]) -> list[str]:
    """How many are covered, in the worst cell, and the median width; dashes where none is given."""
    if not cells_held:
        return ["–"] * 3
    shares, widths = zip(*cells_held, strict=True)
    return [f"{np.mean(shares):.1%}", f"{min(shares):.1%}", f"{np.median(widths):.2f}"]


def claims(every: list[Cell]) -> None:
    """Any metric of four said to predict answers that none does; and the best of four named.

    Of two that are equally good, each the true one with a rank in a few moved by lot, none is.
    """
    print(
        "\n| | n | noise: any predicts | worst cell | equally good: one is best | worst cell |"
        " the best one of four named | another one |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for measure, n in product(("auc", "tau_b"), SIZES):
        shares: dict[str, list[float]] = defaultdict(list)
        for number, cell in enumerate(each for each in every if each.measure == measure):
            if cell.strength == "none":
                shares["noise"].append(claimed(cell, n, np.random.default_rng([n, number])))
                continue
            rng, best = np.random.default_rng(n), int(np.argmax(cell.truth()))
            counts: dict[str, int] = defaultdict(int)
            for _ in range(DATA_SETS):
                scores, answers, clusters = cell.draw(n, rng)
                tied = np.stack([scores[:, 0] + rng.normal(0, 0.1, len(scores)) for _ in "ab"], 1)
                with_ties = np.concatenate([tied, scores[:, 2:]], axis=1)
                equal = found(with_ties, answers, cell, clusters)
                counts["tied"] += equal.is_highest and int(np.nanargmax(equal.values)) < 2
                made = found(scores, answers, cell, clusters)
                is_right = made.is_highest and int(np.nanargmax(made.values)) == best
                counts["named"] += is_right
                counts["wrong"] += made.is_highest and not is_right
            for what in ("tied", "named", "wrong"):
                shares[what].append(counts[what] / DATA_SETS)
        row = [
            f"{np.mean(shares[what]):.1%} | {max(shares[what]):.1%}" for what in ("noise", "tied")
        ]
        row += [f"{np.mean(shares[what]):.1%}" for what in ("named", "wrong")]
        print(f"| {measure} | {n} | {' | '.join(row)} |", flush=True)


def claimed(cell: Cell, n: int, rng: np.random.Generator) -> float:
    """How often any metric is said to predict answers, or to go against them."""
    claims, null = 0, NULL[cell.measure]
    for _ in range(NOISE_SETS):
        scores, answers, clusters = cell.draw(n, rng)
        made = found(scores, answers, cell, clusters)
        claims += bool((made.low > null).any() or (made.high < null).any())
    return claims / NOISE_SETS


if __name__ == "__main__":
    EVERY = [*cells()]
    coverage(EVERY)
    claims(EVERY)
