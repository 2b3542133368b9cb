"""Resident memory and throughput of score_files on files of any size.

    python benchmarks/large_files.py                       # 10 million queries, 100 million lines
    python benchmarks/large_files.py --queries 1000000 --lines 10000000

Writes a Parquet file (a row a query, 10 retrieved, 2 relevant) and a TREC run (100 lines a query)
into a temporary folder, and scores each in a process of its own, which knows its peak of memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

from llama_index_rag_metrics import score_files, score_table, table_totals

NAMES = ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg"]
_AT_ONCE = 200_000
_LINES_A_QUERY = 100
_ROUNDS = 3


def query_tables(n_queries: int) -> Iterator[pa.Table]:
    """10 of 20 neighbouring documents retrieved, 2 relevant, either retrieved or not."""
    rng = np.random.default_rng(1)
    names = pa.array([f"doc{n}" for n in range(1_000_000)])
    for start in range(0, n_queries, _AT_ONCE):
        n = min(_AT_ONCE, n_queries - start)
        first = rng.integers(0, 999_980, n)[:, None]
        order = np.argsort(rng.random((n, 20)), axis=1)
        yield pa.table(
            {
                "query_id": pa.array(np.arange(start, start + n).astype(str)),
                "retrieved_ids": _lists(names, first + order[:, :10]),
                "expected_ids": _lists(names, first + order[:, 9:11]),
            }
        )


def _lists(names: pa.Array, which: np.ndarray) -> pa.Array:
    offsets = np.arange(0, which.size + 1, which.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(which.ravel())))


def write_parquet(path: Path, n_queries: int) -> None:
    """The tables in one file."""
    tables = query_tables(n_queries)
    first = next(tables)
    with parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def write_trec(run: Path, qrels: Path, n_lines: int) -> None:
    """100 lines a query, scores descending; every fifth of ten documents is relevant."""
    with run.open("w") as lines, qrels.open("w") as judgements:
        for query in range(n_lines // _LINES_A_QUERY):
            start = query * 7919 % 10_000_000
            lines.writelines(
                f"{query} Q0 FT{start + rank * 31} {rank} {30 - rank / 8} bm25\n"
                for rank in range(1, _LINES_A_QUERY + 1)
            )
            judgements.writelines(
                f"{query} 0 FT{start + rank * 31} 1\n" for rank in range(5, 55, 10)
            )


def score_alone(run: Path, qrels: Path | None) -> dict[str, float]:
    """Seconds of the fastest and peak memory of the largest of several processes."""
    command = [sys.executable, __file__, "--alone", str(run), *([str(qrels)] if qrels else [])]
    rounds: list[dict[str, float]] = []
    for _ in range(_ROUNDS):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rounds.append(json.loads(done.stdout))
    fastest = min(rounds, key=lambda figures: figures["s"])
    return {**fastest, "MiB": max(figures["MiB"] for figures in rounds)}


def _alone(run: Path, qrels: Path | None) -> None:
    start = time.perf_counter()
    totals = score_files(run, qrels, NAMES, per_query=False)
    seconds = time.perf_counter() - start
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"queries": totals.counts.queries, "s": seconds, "MiB": mebibytes}))


def in_memory_throughput(n_queries: int) -> float:
    """Queries a second of `score_table`, on a table that is there already."""
    table = pa.concat_tables(query_tables(n_queries))
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        table_totals(score_table(table, NAMES))
        best = min(best, time.perf_counter() - start)
    return n_queries / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000_000)
    parser.add_argument("--lines", type=int, default=100_000_000)
    parser.add_argument("--alone", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.alone:
        _alone(arguments.alone[0], arguments.alone[1] if len(arguments.alone) > 1 else None)
        return
    table = Table(title=f"score_files, six metrics ({', '.join(NAMES)})")
    for heading in ("", "size", "queries", "seconds", "queries a second", "peak memory"):
        table.add_column(heading, justify="left" if not heading else "right")
    in_memory = in_memory_throughput(min(arguments.queries, 1_000_000))
    table.add_row("in memory, score_table", "", "1,000,000", "", f"{in_memory:,.0f}", "")
    with tempfile.TemporaryDirectory() as folder:
        stored, run, qrels = (Path(folder, name) for name in ("a.parquet", "a.run", "qrels.txt"))
        write_parquet(stored, arguments.queries)
        write_trec(run, qrels, arguments.lines)
        for path, judgements in ((stored, None), (run, qrels)):
            figures = score_alone(path, judgements)
            table.add_row(
                "Parquet" if judgements is None else f"TREC, {arguments.lines:,} lines",
                f"{path.stat().st_size / 2**20:,.0f} MiB",
                f"{figures['queries']:,}",
                f"{figures['s']:.1f}",
                f"{figures['queries'] / figures['s']:,.0f}",
                f"{figures['MiB']:,.0f} MiB",
            )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
