"""Two Ray workers against one, of one CPU each, on Parquet: `python benchmarks/ray_scaling.py`.

Needs the extra `ray` and two idle cores: the load of the machine is printed beside the ratio.
Start-up is left out: each cluster scores the files once before it is timed. Clusters of one worker
and of two take turns, so that noise hits both alike.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import polars as pl
import ray
from measure import best_of

from llama_index_rag_metrics import ScoreTotals
from llama_index_rag_metrics.distributed.ray import score_dataset

METRICS = ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg"]


def block(n: int, depth: int, n_relevant: int, seed: int) -> pl.DataFrame:
    """So many queries, of whose relevant items about half were retrieved."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 10**6, (n, 1))
    retrieved = start + rng.permuted(np.tile(np.arange(2 * depth), (n, 1)), axis=1)[:, :depth]
    expected = start + np.arange(n_relevant)

    def ids(numbers: Any) -> pl.Series:
        texts = pl.Series(numbers.ravel()).cast(pl.String)
        return ("doc" + texts).reshape(numbers.shape).arr.to_list()

    queries = [f"q{seed}-{one}" for one in range(n)]
    frame = {"query_id": queries, "retrieved_ids": ids(retrieved), "expected_ids": ids(expected)}
    return pl.DataFrame(frame)


def write(folder: Path, n_files: int, n: int, depth: int) -> None:
    """Files of so many queries each."""
    for seed in range(n_files):
        block(n, depth, 3, seed).write_parquet(folder / f"{seed}.parquet")


def score(folder: Path, workers: int, rounds: int) -> tuple[float, ScoreTotals]:
    """The seconds of the fastest round, on a cluster of so many CPUs, and what came of it."""
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=workers, **options)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.enable_rich_progress_bars = False

    def run() -> ScoreTotals:
        return score_dataset(ray.data.read_parquet(str(folder)), METRICS)

    totals = run()
    seconds = best_of({"": run}, rounds)[""]
    ray.shutdown()
    return seconds, totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=4_000_000)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    seconds = {1: float("inf"), 2: float("inf")}
    sums = []
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.files, given.queries // given.files, given.depth)
        size = sum(one.stat().st_size for one in Path(folder).iterdir()) / 2**20
        print(f"{given.queries:,} queries × {given.depth}, {size:,.0f} MiB of Parquet")
        for workers in (1, 2) * 2:
            found, totals = score(Path(folder), workers, given.rounds)
            seconds[workers] = min(seconds[workers], found)
            sums.append(totals.sums)
            load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
            print(f"{workers} workers: {found:.2f} s (load {load})")
    assert all(one == sums[0] for one in sums)
    print(f"ray {ray.__version__}, {os.cpu_count()} cores")
    print(f"two workers against one: {seconds[1] / seconds[2]:.2f} times")


if __name__ == "__main__":
    main()
