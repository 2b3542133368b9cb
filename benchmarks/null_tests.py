"""Do the tests find differences where there are none in 5 % of cases, and no more?

Systems whose scores of a query could be swapped without anyone noticing: an exchangeable null.
Every cell is 5,000 data sets, all of them columns of one call of the program's own functions.
`python benchmarks/null_tests.py` prints the tables that stand in benchmarks/README.md.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.statistics.corrections import max_t
from llama_index_rag_metrics.statistics.differences import randomisation_p, t_p, wilcoxon_p
from llama_index_rag_metrics.statistics.resampling import Units

Columns: TypeAlias = npt.NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Columns]

DATA_SETS = 5_000
RESAMPLES = 2_000
SIZES = (50, 200)
ALPHA = 0.05
CLUSTER = 5


def _noisy(rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
    """(queries, data sets, systems) a query's difficulty and each system's noise, in [0, 1]."""
    return np.clip(rng.beta(2, 2, (*shape[:2], 1)) + rng.normal(0, 0.15, shape), 0, 1)


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
    return rng.beta(0.5, 2, (*shape[:2], 1)) * rng.beta(2, 1, shape)


def _hits(rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
    return (rng.random(shape) < rng.beta(8, 2, (*shape[:2], 1))).astype(np.float64)


def _reciprocal_ranks(rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
    shift = rng.integers(0, 3, (*shape[:2], 1))
    return 1.0 / np.minimum(rng.geometric(0.5, shape) + shift, 10)


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
    """Both systems agree on 95 % of queries."""
    common = rng.beta(2, 2, (*shape[:2], 1))
    return np.where(rng.random((*shape[:2], 1)) < 0.05, rng.beta(2, 2, shape), common)


def _near_copies(rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
    """The first two systems differ on 10 % of queries alone."""
    scores = _noisy(rng, shape)
    changed = rng.random(shape[:2]) < 0.1
    scores[..., 1] = np.where(changed, scores[..., 1], scores[..., 0])
    return scores


def _clustered(rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
    """Questions on one document share what the document does to each system."""
    queries, data_sets, systems = shape
    effects = rng.normal(0, 0.1, (-(-queries // CLUSTER), data_sets, systems))
    return np.repeat(effects, CLUSTER, axis=0)[:queries] + rng.normal(0, 0.1, shape)


POPULATIONS: Mapping[str, Draw] = {
    "continuous": _noisy,
    "continuous, skewed": _skewed,
    "hit rates": _hits,
    "reciprocal ranks": _reciprocal_ranks,
    "95 % of queries alike": _sparse,
    "two near copies": _near_copies,
    f"continuous, clusters of {CLUSTER}": _clustered,
}


class Rejections(NamedTuple):
    """Shares of data sets in which a test rejects at the 5 % level."""

    randomisation: float
    t: float
    wilcoxon: float


def rejections(draw: Draw, n: int, data_sets: int = DATA_SETS, seed: int = 1) -> Rejections:
    """How often each test of two systems rejects, over data sets of n queries."""
    rng = np.random.default_rng([seed, n])
    scores = draw(rng, (n, data_sets, 2))
    clusters = np.arange(n) // CLUSTER if draw is _clustered else None
    units = Units.of(scores[..., 1] - scores[..., 0], clusters)
    p_values = (randomisation_p(units, RESAMPLES, seed), t_p(units), wilcoxon_p(units))
    return Rejections(*(float((p <= ALPHA).mean()) for p in p_values))


def pair_rejections(
    draw: Draw, n: int, systems: int, data_sets: int = DATA_SETS, seed: int = 1
) -> float:
    """How often max-t over the paired t-tests finds any pair of several systems different."""
    rng = np.random.default_rng([seed, n, systems])
    first, second = np.array([*combinations(range(systems), 2)]).T
    clusters = np.arange(n) // CLUSTER if draw is _clustered else None
    n_rejected = 0
    for data_set in range(data_sets):
        scores = draw(rng, (n, 1, systems))[:, 0]
        units = Units.of(scores[:, first] - scores[:, second], clusters)
        found = max_t(units, t_p(units), [np.arange(len(first))], resamples=500, seed=data_set)
        n_rejected += bool(found.p_values.min() <= ALPHA)
    return n_rejected / data_sets


def table() -> str:
    """Markdown: the share of rejections of each test, for each population and size."""
    heads = [
        *(f"{test}, n = {n}" for n in SIZES for test in ("randomisation", "t", "Wilcoxon")),
        *(f"all pairs of {systems} systems, n = 50" for systems in (3, 5)),
    ]
    lines = [f"| population | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, draw in POPULATIONS.items():
        seed = zlib.crc32(name.encode())
        cells = [f"{rate:.1%}" for n in SIZES for rate in rejections(draw, n, seed=seed)]
        cells += [f"{pair_rejections(draw, 50, systems, seed=seed):.1%}" for systems in (3, 5)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
