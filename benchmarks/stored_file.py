"""From a Parquet file to means: this package, and pytrec_eval with the dicts that it needs.

    python benchmarks/stored_file.py

Both begin with the same file on disk (in the page cache), of a row a query with `query_id`,
`retrieved_ids` and `expected_ids`, and end with the means of six metrics, which are compared.
"""

from __future__ import annotations

import math
import tempfile
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytrec_eval
from measure import Row, console_table, rounds_of, times
from peers import NAMES, PACKAGES, Stored
from pyarrow import compute, parquet
from rich.console import Console

from llama_index_rag_metrics import score_table

SHAPES = ((1_000_000, 10, 2), (20_000, 1_000, 20))
"""Queries, retrieved, relevant."""


def write(path: Path, shape: tuple[int, int, int]) -> None:
    """Random rankings, without a repeated id."""
    stored = Stored.random(*shape)
    query_ids = pa.array([f"q{n}" for n in range(shape[0])])
    parquet.write_table(stored.table.add_column(0, "query_id", query_ids), path)


def means_by_pytrec(path: Path, depth: int) -> list[float]:
    """The file as dicts, evaluated at once."""
    score = [float(-rank) for rank in range(depth)]
    columns = parquet.read_table(path).to_pydict()
    queries, rankings = columns["query_id"], columns["retrieved_ids"]
    run = {
        query: dict(zip(ids, score, strict=True))
        for query, ids in zip(queries, rankings, strict=True)
    }
    qrels = {
        query: dict.fromkeys(ids, 1)
        for query, ids in zip(queries, columns["expected_ids"], strict=True)
    }
    measures = [f"success_{depth}", "recip_rank", "set_P", "set_recall", "map", "ndcg"]
    rows = pytrec_eval.RelevanceEvaluator(qrels, set(measures)).evaluate(run)
    return [math.fsum(row[measure] for row in rows.values()) / len(rows) for measure in measures]


def means_by_us(path: Path) -> list[float]:
    """The same file, as an Arrow table."""
    scores = score_table(parquet.read_table(path), NAMES)
    return [compute.mean(scores[name]).as_py() for name in NAMES]


def stored_file_rows(rounds: int = 3) -> list[Row]:
    """Reading the file included."""
    rows = []
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "run.parquet")
            write(path, shape)
            ours, theirs = means_by_us(path), means_by_pytrec(path, shape[1])
            assert all(abs(a - b) < 1e-9 for a, b in zip(ours, theirs, strict=True)), (ours, theirs)
            contestants = {
                "ours": lambda path=path: means_by_us(path),
                "theirs": lambda path=path, depth=shape[1]: means_by_pytrec(path, depth),
            }
            taken = times(rounds_of(contestants, rounds), "theirs", "ours")
        size = " × ".join(f"{n:,}" for n in shape)
        task = f"score_table: six means from one Parquet file, {size}"
        rows.append(Row(task, "pytrec_eval, with the dicts that it needs", taken))
    return rows


def main() -> None:
    console = Console(width=120)
    console.print(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    console.print(console_table("times as long as this package", stored_file_rows()))


if __name__ == "__main__":
    main()
