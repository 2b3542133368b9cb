"""Two Ray workers against one, of one CPU each, on Parquet: `python benchmarks/ray_scaling.py`.

Needs the extra `ray` and two idle cores: the load of the machine is printed beside the ratio.
Start-up is left out: the file is read into Ray's object store first, and the workers are warm. Ray
takes up to a second until a second worker has its first task, and a fifth of one for each further
task, so blocks are large.
Rounds of one worker and of two take turns, so that noise hits both alike.
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
import pyarrow.parquet as pq
import ray
from measure import rounds_of, times

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

    queries = [f"q{seed}-{number}" for number in range(n)]
    frame = {"query_id": queries, "retrieved_ids": ids(retrieved), "expected_ids": ids(expected)}
    return pl.DataFrame(frame)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=18_000_000)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    options: Any = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=2, object_store_memory=11 * 2**30, **options)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.enable_rich_progress_bars = False
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{seed}.parquet" for seed in range(arguments.blocks)]
        for seed, path in enumerate(paths):
            block(arguments.queries // arguments.blocks, arguments.depth, 3, seed).write_parquet(
                path
            )
        read = ray.remote(pq.read_table)
        rankings = ray.data.from_arrow_refs([read.remote(path) for path in paths])
        rankings = rankings.materialize()

    def score(workers: int) -> ScoreTotals:
        return score_dataset(rankings, METRICS, compute=ray.data.TaskPoolStrategy(size=workers))

    assert score(1).sums == score(2).sums
    contestants = {f"{n} workers": lambda n=n: score(n) for n in (1, 2)}
    seconds = rounds_of(contestants, arguments.rounds)
    load = ", ".join(f"{minutes:.1f}" for minutes in os.getloadavg())
    print(f"ray {ray.__version__}, {os.cpu_count()} cores, load {load}")
    size = rankings.size_bytes() / 2**20
    print(f"{rankings.count():,} queries × {arguments.depth}, {size:,.0f} MiB")
    faster = times(seconds, "1 workers", "2 workers")
    print(f"one worker takes {faster} times as long as two")


if __name__ == "__main__":
    main()
