"""How often does a rule over slices fail a system that truly loses nothing in any slice?

Each slice is drawn from one population of real differences (real_scores.py), the signs by lot or
weighed so that gains balance losses; the rule is `>= baseline in every slice` at 95 %, without a
tolerance, so that it is at its limit everywhere. `python benchmarks/gate_slices.py` prints the
table of benchmarks/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gate_rates import CONFIDENCE, Columns
from real_statistics import gains, scored_pairs, tilted, widest

from llama_index_rag_metrics.statistics.differences import (
    CAUTIOUS,
    pseudo_queries,
    student,
    unvaried,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

SLICES = (
    (150, 50, 10),
    (200, 100, 50, 30, 20, 10, 5, 3),
    (200, 150, 120, 100, 80, 60, 50, 40, 30, 25, 20, 15, 12, 10, 8, 6, 5, 4, 3, 2),
)
DATA_SETS = 1_000


def fails(sample: Columns, apart: Columns, confidence: float) -> Columns:
    """(data sets,) whether even the better bound is a loss, as the gate has it."""
    units = Units.of(sample)
    alike = pseudo_queries(units, apart, counted=CAUTIOUS).bounds(confidence)[1]
    highest = np.where(unvaried(units), alike, student(units).bounds(confidence)[1])
    return np.asarray(highest < -NOISE)


def failing(rng: np.random.Generator, pair: Columns, sizes: Sequence[int], null: str) -> Columns:
    """(2,) the share of data sets in which any slice fails, corrected and not."""
    values, n = gains(pair), sum(sizes)
    if null == "signs":
        differences = values[rng.integers(0, len(values), (n, DATA_SETS))]
        differences = differences * rng.choice([-1.0, 1.0], differences.shape)
    else:
        differences = rng.choice(values, (n, DATA_SETS), p=tilted(values, 0.0))
    apart = np.full(DATA_SETS, widest(pair[:, np.newaxis])[0])
    parts = np.split(differences, np.cumsum(sizes)[:-1])
    levels = 1 - (1 - CONFIDENCE) / len(sizes), CONFIDENCE
    return np.array(
        [np.any([fails(part, apart, level) for part in parts], axis=0).mean() for level in levels]
    )


def main() -> None:
    rng = np.random.default_rng(0)
    print("| slices | questions in each | null | populations | fail | not corrected |")
    print("|---:|---|---|---:|---:|---:|")
    pairs = [pair for pair in scored_pairs().values() if gains(pair).min() < 0 < gains(pair).max()]
    for sizes in SLICES:
        for null in ("signs", "shares"):
            found = np.array([failing(rng, pair, sizes, null) for pair in pairs])
            shown = [f"{share.mean():.1%} (worst {share.max():.1%})" for share in found.T]
            cells = [len(sizes), f"{sizes[0]} to {sizes[-1]}", null, len(pairs), *shown]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
