"""How often does the gate pass and fail a change of known size, at a margin of 0.02 and 95 %?

Populations are the real differences of real_scores.py, made to have a true mean of 0, -0.01, -0.02,
-0.05 or +0.02 in two ways: by the signs of changes ("signs"), or by making gains or losses rarer
("shares"). In a third kind few large losses hide among tiny changes ("hidden"). Passing a change of
-0.02 or worse is false, and so is failing one of -0.02 or better. Of hit rates every data set there
can be is looked at, with the chance that it has.

How often could one pass at all? The last column is a gate that knows the true spread, which nobody
does, and passes 5 % of the changes at the limit. `python benchmarks/gate_rates.py` prints the table
for three sizes of the pseudo-queries: M of the number of changes, never below the widest difference
seen, and of the effective number of changes with R counted twice, as the gate has it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from real_statistics import changes, tilted
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import multinomial

from llama_index_rag_metrics.statistics.differences import CAUTIOUS, pseudo_queries, student
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

Columns = npt.NDArray[np.float64]

EFFECTS = (0.0, -0.01, -0.02, -0.05, 0.02)
SIZES = (50, 100, 200, 500)
MARGIN, CONFIDENCE, WIDEST = 0.02, 0.95, 1.0
DATA_SETS = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
UNLIKELY = 1e-9
HIDDEN = [(0.02, 1.0), (0.05, 1.0), (0.05, 0.5), (0.1, 0.5), (0.1, 0.3)]
"""The share of queries that lose much, and how much."""
TINY = (0.002, 0.005, 0.01)


class Sample(NamedTuple):
    """Data sets drawn from one population.

    Attributes:
        changes: (queries, data sets).
        weights: (data sets,) the chance of each.
        spread: the true standard deviation.
    """

    changes: Columns
    weights: Columns
    spread: float


def drawn(changes: Columns, spread: float) -> Sample:
    """Data sets drawn by lot, one as likely as another."""
    return Sample(changes, np.full(changes.shape[1], 1 / changes.shape[1]), spread)


def hit_rates(gaining: float, losing: float, n: int, spread: float) -> Sample:
    """Every number of gains and losses of 1 that there can be, but for the unlikeliest."""
    gains, losses = (grid.ravel() for grid in np.indices((n + 1, n + 1)))
    counts = np.stack([gains, losses, n - gains - losses], axis=1)
    weights = multinomial.pmf(counts, n, [gaining, losing, 1 - gaining - losing])
    likely = weights > UNLIKELY
    row = np.arange(n)[:, np.newaxis]
    changes = np.where(row < gains[likely], 1.0, 0.0) - (row >= n - losses[likely])
    return Sample(changes, weights[likely] / weights[likely].sum(), spread)


def by_signs(rng: np.random.Generator, effect: float, n: int) -> Iterator[Sample]:
    """Samples of n queries whose changes gain or lose by lot."""
    for values in changes().values():
        sizes = np.abs(values)
        if abs(effect) >= (typical := sizes.mean()):
            continue
        gaining = (effect / typical + 1) / 2
        spread = math.sqrt(np.square(sizes).mean() - effect**2)
        if set(sizes) <= {0.0, 1.0}:
            yield hit_rates(gaining * typical, (1 - gaining) * typical, n, spread)
            continue
        sample = sizes[rng.integers(0, len(sizes), (n, DATA_SETS))]
        yield drawn(np.where(rng.random(sample.shape) < gaining, sample, -sample), spread)


def by_shares(rng: np.random.Generator, effect: float, n: int) -> Iterator[Sample]:
    """Samples of n queries with the changes that were, gains or losses likelier."""
    for values in changes().values():
        if not values.min() < effect < values.max():
            continue
        weights = tilted(values, effect)
        spread = math.sqrt(weights @ np.square(values) - effect**2)
        if set(np.abs(values)) <= {0.0, 1.0}:
            yield hit_rates(weights[values > 0].sum(), weights[values < 0].sum(), n, spread)
        else:
            yield drawn(rng.choice(values, (n, DATA_SETS), p=weights), spread)


def hidden(rng: np.random.Generator, effect: float, n: int) -> Iterator[Sample]:
    """Samples of n queries of which few lose much, few gain as much, and the others hardly move."""
    for share, size in HIDDEN:
        gaining = share + effect / size
        if not 0 <= gaining <= 1 - share:
            continue
        for tiny in TINY:
            lot = rng.random((n, DATA_SETS))
            small = tiny * rng.choice([-1.0, 1.0], lot.shape)
            large = np.where(lot < share + gaining, size, small)
            square = (share + gaining) * size**2 + (1 - share - gaining) * tiny**2
            yield drawn(np.where(lot < share, -size, large), math.sqrt(square - effect**2))


def lowest(changes: Columns, square: Columns) -> Columns:
    """(data sets,) the lower bound with pseudo-queries of a squared size."""
    total = len(changes) + 2
    centre = changes.sum(axis=0) / total
    variance = (np.square(changes).sum(axis=0) + 2 * square) / total - np.square(centre)
    return np.asarray(
        centre - stdtrit(total - 1, CONFIDENCE) * np.sqrt(np.maximum(variance, 0) / (total - 1))
    )


def rates(sample: Sample, effect: float) -> list[float]:
    """How often changes pass by three bounds, fail, and could pass."""
    changes, weights, spread = sample
    units = Units.of(changes)
    squares = np.square(changes).sum(axis=0)
    counted = (squares + WIDEST**2) / (np.count_nonzero(changes, axis=0) + 1)
    cautious = np.maximum(counted, np.square(changes).max(axis=0))
    gate = pseudo_queries(units, WIDEST, counted=CAUTIOUS).bounds(CONFIDENCE)
    constant = np.ptp(changes, axis=0) <= NOISE
    highest = np.where(constant, gate[1], student(units).bounds(CONFIDENCE)[1])
    limit = -MARGIN - NOISE
    return [
        float(weights @ (lowest(changes, counted) >= limit)),
        float(weights @ (lowest(changes, cautious) >= limit)),
        float(weights @ (gate[0] >= limit)),
        float(weights @ (highest < limit)),
        float(ndtr((MARGIN + effect) * math.sqrt(len(changes)) / spread - ndtri(CONFIDENCE))),
    ]


def main() -> None:
    rng = np.random.default_rng(0)
    print(
        "| true change | made by | n | populations | pass, number | pass, widest | "
        "pass, the gate | fail | pass, spread known |\n"
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    for effect in EFFECTS:
        for name, kind in (("signs", by_signs), ("shares", by_shares), ("hidden", hidden)):
            if name != "signs" and effect != -MARGIN:
                continue
            for n in SIZES:
                cells = [rates(sample, effect) for sample in kind(rng, effect, n)]
                passed = np.array(cells)
                shown = [
                    f"{mean:.1%} ({most:.1%})"
                    for mean, most in zip(passed.mean(axis=0), passed.max(axis=0), strict=True)
                ]
                shown[-1] = f"{passed[:, -1].mean():.1%}"
                cells_text = " | ".join(shown)
                print(
                    f"| {effect:+.2f} | {name} | {n} | {len(passed)} | {cells_text} |", flush=True
                )


if __name__ == "__main__":
    main()
