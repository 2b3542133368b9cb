"""Single `compute()` calls, as the stock evaluator makes them, against LlamaIndex core."""

from __future__ import annotations

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from measure import best_of
from peers import CORE, NAMES, Stored
from rich.table import Table

from llama_index_rag_metrics import metrics


def compute_table(n_queries: int = 1_000) -> Table:
    """Six `compute()` calls on one query."""
    table = Table(title="six compute() calls on one query")
    for heading in ("depth", "core µs", "ours µs", "ours / core"):
        table.add_column(heading, justify="right")
    ours = metrics(NAMES)
    for depth in (10, 100):
        stored = Stored.random(n_queries, depth, 5)

        def compute(chosen: list[BaseRetrievalMetric], stored: Stored = stored) -> None:
            for ids, ranking in zip(stored.expected, stored.retrieved, strict=True):
                for one in chosen:
                    one.compute("", ids, ranking)

        seconds = best_of({"core": lambda: compute(CORE), "ours": lambda: compute(ours)})
        per_query = {name: taken / n_queries * 1e6 for name, taken in seconds.items()}
        table.add_row(
            str(depth),
            f"{per_query['core']:.1f}",
            f"{per_query['ours']:.1f}",
            f"{per_query['ours'] / per_query['core']:.1f}",
        )
    return table
