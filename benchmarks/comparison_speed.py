"""Seconds and memory of a large comparison, beside scipy called column by column.

`python benchmarks/comparison_speed.py`: 5 systems × 10 metrics × 10,000 queries.
"""

from __future__ import annotations

import os
import resource
import time

import numpy as np
from scipy.stats import permutation_test

from llama_index_rag_metrics import Scores, compare

SYSTEMS, METRICS, QUERIES, FLIPS = 5, 10, 10_000, 10_000


def made() -> dict[str, Scores]:
    """Dense scores, zeros and ones, and nearly equal systems, so that every path is taken."""
    rng = np.random.default_rng(3)
    ids = [f"query-{number}" for number in range(QUERIES)]
    difficulty = rng.beta(2, 2, QUERIES)
    systems = {}
    for system in range(SYSTEMS):
        noise = rng.normal(0.01 * system, 0.2, (METRICS, QUERIES))
        scores = np.clip(difficulty + noise, 0, 1)
        scores[::3] = scores[::3] > 0.2
        columns = {f"metric-{number}": column for number, column in enumerate(scores)}
        systems[f"system-{system}"] = Scores(ids, columns)
    return systems


def peak_mib() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    systems = made()
    before, start = peak_mib(), time.perf_counter()
    comparison = compare(systems, "system-0")
    ours, peak = time.perf_counter() - start, peak_mib()
    print(f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.1f} before the end")
    print(
        f"{SYSTEMS} systems × {METRICS} metrics × {QUERIES:,} queries, with "
        f"{len(comparison.means)} + {len(comparison.differences)} intervals: "
        f"{ours:.1f} s, peak {peak:.0f} MiB ({before:.0f} before)"
    )
    changed, baseline = (systems[name].columns["metric-1"] for name in ("system-1", "system-0"))
    column = changed - baseline
    start = time.perf_counter()
    flips = {"permutation_type": "samples", "n_resamples": FLIPS, "batch": 100}
    permutation_test((column,), np.mean, **flips)
    scipys = time.perf_counter() - start
    columns = len(comparison.differences)
    print(
        f"scipy.stats.permutation_test of one such column: {scipys:.1f} s; so {columns} columns "
        f"would take {scipys * columns / ours:.0f} times as long as all of the above"
    )


if __name__ == "__main__":
    main()
