"""Do the 95 % intervals that the program chooses cover the truth in 95 % of data sets?

Simulated queries with a known mean; every cell is thousands of data sets, all of them columns of
one call of the program's own function. `python benchmarks/interval_coverage.py` prints the table
that stands in benchmarks/README.md.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.statistics.differences import difference_intervals
from llama_index_rag_metrics.statistics.intervals import mean_intervals
from llama_index_rag_metrics.statistics.resampling import Units

Columns = npt.NDArray[np.float64]

DATA_SETS = 4_000
AT_ONCE = 1_000
SIZES = (25, 50, 200, 1_000)


class Population(NamedTuple):
    """Where queries come from.

    Attributes:
        draw: a generator and a shape to values.
        mean: the true mean.
        differences: whether the values are differences of two systems.
    """

    draw: Callable[[np.random.Generator, tuple[int, int]], Columns]
    mean: float
    differences: bool = False


def _mixed(zeros: float, ones: float) -> Population:
    """Scores such as those of reciprocal ranks: many zeros, many ones, the rest between."""
    shares, values = [zeros, ones], [0.0, 1.0]
    for rank in range(2, 11):
        shares.append((1 - zeros - ones) / 9)
        values.append(1 / rank)
    mean = float(np.dot(shares, values))
    return Population(lambda rng, shape: rng.choice(values, shape, p=shares), mean)


def _sparse(changed: float, shift: float) -> Population:
    """Differences that are 0 for most queries, and shifted by so many sd for the others."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Columns:
        return (rng.random(shape) < changed) * rng.normal(0.2 * shift, 0.2, shape)

    return Population(draw, changed * 0.2 * shift, differences=True)


def _turned(wins: float, losses: float) -> Population:
    """Differences of hit rates: 1, 0 or -1."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Columns:
        return rng.choice([1.0, 0.0, -1.0], shape, p=[wins, 1 - wins - losses, losses])

    return Population(draw, wins - losses, differences=True)


def _hit_rate(rate: float) -> Population:
    return Population(lambda rng, shape: (rng.random(shape) < rate).astype(np.float64), rate)


POPULATIONS: Mapping[str, Population] = {
    "dense scores, Beta(2, 3)": Population(lambda rng, shape: rng.beta(2, 3, shape), 0.4),
    "dense scores, skewed, Beta(6, 1)": Population(lambda rng, shape: rng.beta(6, 1, shape), 6 / 7),
    "dense differences, normal": Population(
        lambda rng, shape: rng.normal(0.02, 0.2, shape), 0.02, differences=True
    ),
    "30 % zeros, 40 % ones": _mixed(0.3, 0.4),
    "10 % zeros, 70 % ones": _mixed(0.1, 0.7),
    "5 % zeros, 85 % ones": _mixed(0.05, 0.85),
    "differences, 80 % zeros": _sparse(0.2, 0.5),
    "differences, 95 % zeros": _sparse(0.05, 0.5),
    "differences, 95 % zeros, all gains": _sparse(0.05, 3),
    "hit rates' differences, 15 % / 10 %": _turned(0.15, 0.10),
    "hit rates' differences, 4 % / 1 %": _turned(0.04, 0.01),
    "hit rate 0.9": _hit_rate(0.9),
    "hit rate 0.95": _hit_rate(0.95),
    "hit rate 0.98": _hit_rate(0.98),
    "hit rate 0.99": _hit_rate(0.99),
    "hit rate 0.995": _hit_rate(0.995),
}


class Coverage(NamedTuple):
    """Shares of data sets: with an interval; of these, with the truth in it, below it, above it."""

    bounded: float
    covered: float
    below: float
    above: float


def coverage(population: Population, n: int, data_sets: int = DATA_SETS, seed: int = 1) -> Coverage:
    """How often the interval is given, and covers, over data sets of n queries."""
    rng = np.random.default_rng([seed, n])
    n_bounded = below = above = 0
    for start in range(0, data_sets, AT_ONCE):
        columns = population.draw(rng, (n, min(AT_ONCE, data_sets - start)))
        intervals = (
            difference_intervals(Units.of(columns), widest=1.0)
            if population.differences
            else mean_intervals(columns)
        )
        ends = [(interval.low, interval.high) for interval in intervals if interval.low is not None]
        n_bounded += len(ends)
        below += sum(population.mean < low for low, _ in ends)
        above += sum(population.mean > high for _, high in ends)
    whole = max(n_bounded, 1)
    return Coverage(
        n_bounded / data_sets, 1 - (below + above) / whole, below / whole, above / whole
    )


def table(sizes: tuple[int, ...] = SIZES) -> str:
    """Markdown: coverage, and in how many data sets an interval is given where not in all."""
    heads = "".join(f" n = {n:,} |" for n in sizes)
    lines = [f"| population |{heads}", f"|---|{'---|' * len(sizes)}"]
    for name, population in POPULATIONS.items():
        cells = [_cell(coverage(population, n, seed=zlib.crc32(name.encode()))) for n in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


def _cell(cell: Coverage) -> str:
    if not cell.bounded:
        return "no interval"
    rest = "" if cell.bounded > 0.9995 else f" (given: {cell.bounded:.1%})"
    return f"{cell.covered:.1%}{rest}"


if __name__ == "__main__":
    print(table())
