"""CPU seconds of span metrics from Arrow columns, and of cutoffs by tokens beside cutoffs by rank.

    python benchmarks/spans.py
    python benchmarks/spans.py --queries 10000

CPU time rather than wall time, so that other work on the machine doesn't count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from llama_index_rag_metrics import score_table

SPAN_METRICS = ["span_recall", "span_precision", "span_f1", "span_iou"]
BY_RANK = ["hit_rate@10", "mrr@10", "precision@10", "recall@10", "ap@10", "ndcg@10"]
BY_TOKENS = [name.replace("@10", "@2000tokens") for name in BY_RANK]

_ROUNDS = 5
_RETRIEVED, _EXPECTED, _DOCUMENTS = 20, 3, 10_000


def questions(n_queries: int) -> pa.Table:
    """20 chunks of about 200 tokens retrieved and 3 passages expected, in 10,000 documents."""
    rng = np.random.default_rng(1)
    names = pa.array([f"document-{n}" for n in range(_DOCUMENTS)])
    of_query = rng.integers(0, _DOCUMENTS, (n_queries, 4))

    def spans(n: int, length: int) -> tuple[pa.Array, pa.Array]:
        which = np.take_along_axis(of_query, rng.integers(0, 4, (n_queries, n)), 1).ravel()
        start = rng.integers(0, 40, which.size) * length
        columns = [names.take(pa.array(which)), pa.array(start), pa.array(start + length + 50)]
        ids = [
            f"{name}-{place}" for name, place in zip(which.tolist(), start.tolist(), strict=True)
        ]
        return _lists(pa.array(ids), n), _lists(pa.StructArray.from_arrays(columns, _FIELDS), n)

    retrieved_ids, retrieved_spans = spans(_RETRIEVED, 800)
    expected_ids, expected_spans = spans(_EXPECTED, 150)
    tokens = pa.array(rng.integers(150, 250, n_queries * _RETRIEVED))
    return pa.table(
        {
            "retrieved_ids": retrieved_ids,
            "retrieved_spans": retrieved_spans,
            "retrieved_tokens": _lists(tokens, _RETRIEVED),
            "expected_ids": expected_ids,
            "expected_spans": expected_spans,
        }
    )


_FIELDS = ["source", "start", "end"]


def _lists(items: pa.Array, n: int) -> pa.Array:
    return pa.ListArray.from_arrays(np.arange(0, len(items) + 1, n, dtype=np.int32), items)


def cpu_seconds(contestants: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least that each took of several rounds, in turns."""
    seconds = dict.fromkeys(contestants, float("inf"))
    for _ in range(_ROUNDS):
        for name, run in contestants.items():
            start = time.process_time()
            run()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--queries", type=int, default=100_000)
    n_queries = parser.parse_args().queries
    table = questions(n_queries)
    by_ids = table.select(["retrieved_ids", "retrieved_tokens", "expected_ids"])
    metrics = {
        "four span metrics": (table, SPAN_METRICS),
        "four span metrics @2000tokens": (
            table,
            [f"{metric}@2000tokens" for metric in SPAN_METRICS],
        ),
        "six metrics @10": (by_ids, BY_RANK),
        "six metrics @2000tokens": (by_ids, BY_TOKENS),
    }
    seconds = cpu_seconds(
        {
            name: lambda arguments=arguments: score_table(*arguments)
            for name, arguments in metrics.items()
        }
    )
    shown = Table(title=f"{n_queries:,} queries, {_RETRIEVED} retrieved, {_EXPECTED} expected")
    shown.add_column("score_table of")
    shown.add_column("CPU seconds", justify="right")
    for name, taken in seconds.items():
        shown.add_row(name, f"{taken:.3f}")
    console = Console()
    console.print(shown)
    ratio = seconds["six metrics @2000tokens"] / seconds["six metrics @10"]
    console.print(f"@2000tokens / @10: {ratio:.2f}")


if __name__ == "__main__":
    main()
