"""How often does the gate pass and fail a change of known size, at a margin of 0.02 and 95 %?

Populations are the real differences of real_scores.py, with the signs of changes weighted so that
the true mean is 0, -0.01, -0.02, -0.05 or +0.02. Passing a change of -0.02 or worse is false, and
so is failing one of -0.02 or better. `python benchmarks/gate_rates.py` prints the table for both
sizes of the pseudo-queries: as in the interval, and never below the widest difference seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from real_scores import CHANGES, differences, load

from llama_index_rag_metrics.statistics.differences import pseudo_queries, student
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

EFFECTS = (0.0, -0.01, -0.02, -0.05, 0.02)
SIZES = (50, 100, 200, 500)
MARGIN, CONFIDENCE, WIDEST = 0.02, 0.95, 1.0
DATA_SETS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000


def populations() -> Iterator[npt.NDArray[np.float64]]:
    """The size of every query's change: of each kind of labels, metric and pair of retrievers."""
    for metrics in load().values():
        for scores in metrics.values():
            for change in CHANGES:
                yield np.abs(differences(scores, change))


def rates(changes: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """How often changes (queries, data sets) pass plainly, pass cautiously, and fail."""
    units = Units.of(changes)
    plain = pseudo_queries(units, WIDEST).bounds(CONFIDENCE)
    cautious = pseudo_queries(units, WIDEST, cautious=True).bounds(CONFIDENCE)
    constant = np.ptp(changes, axis=0) <= NOISE
    highest = np.where(constant, cautious[1], student(units).bounds(CONFIDENCE)[1])
    return (
        float((plain[0] >= -MARGIN).mean()),
        float((cautious[0] >= -MARGIN).mean()),
        float((highest < -MARGIN).mean()),
    )


def main() -> None:
    rng = np.random.default_rng(0)
    sizes = [one for one in populations() if one.any()]
    print("| true change | n | populations | pass, plain | pass, cautious | fail |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for effect in EFFECTS:
        for n in SIZES:
            cells = []
            for population in sizes:
                if abs(effect) < (typical := population.mean()):
                    drawn = population[rng.integers(0, len(population), (n, DATA_SETS))]
                    gains = rng.random(drawn.shape) < (effect / typical + 1) / 2
                    cells.append(rates(np.where(gains, drawn, -drawn)))
            found = np.array(cells)
            shown = [
                f"{mean:.1%} (worst {worst:.1%})"
                for mean, worst in zip(found.mean(axis=0), found.max(axis=0), strict=True)
            ]
            print(f"| {effect:+.2f} | {n} | {len(found)} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
