"""Single `compute()` calls, as the stock evaluator makes them, against LlamaIndex core."""

from __future__ import annotations

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from measure import Row, rounds_of, times
from peers import CORE, NAMES, Stored

from llama_index_rag_metrics.metrics.metric_names import metrics


def compute_rows(n_queries: int = 1_000, rounds: int = 5) -> list[Row]:
    """Six `compute()` calls on one query: what judging costs where nothing is shared."""
    rows = []
    ours = metrics(NAMES)
    for depth in (10, 100):
        stored = Stored.random(n_queries, depth, 5)

        def compute(chosen: list[BaseRetrievalMetric], stored: Stored = stored) -> None:
            for ids, ranking in zip(stored.expected, stored.retrieved, strict=True):
                for metric in chosen:
                    metric.compute("", ids, ranking)

        contestants = {"core": lambda: compute(CORE), "ours": lambda: compute(ours)}
        taken = times(rounds_of(contestants, rounds), "ours", "core")
        rows.append(Row(f"six `compute()` on one query, depth {depth}", "LlamaIndex core's", taken))
    return rows
