"""The table of what rankings carry beside their ids: adding a row adds a column everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llama_index_rag_metrics.rankings.judging.forbidden import Forbidden
from llama_index_rag_metrics.rankings.judging.judged_calls import JudgedCalls
from llama_index_rag_metrics.rankings.judging.judged_column import JudgedColumn, TokenCounts
from llama_index_rag_metrics.rankings.judging.judged_spans import JudgedSpans
from llama_index_rag_metrics.rankings.run import Ranking

COLUMNS: tuple[type[JudgedColumn], ...] = (TokenCounts, JudgedSpans, Forbidden, JudgedCalls)


def columns_for(metrics: Iterable[object]) -> list[type[JudgedColumn]]:
    """The columns that any of the metrics needs."""
    needs = {need for metric in metrics for need in getattr(metric, "needs", ())}
    return [column for column in COLUMNS if column.name in needs]


def compute_arguments(metric: object, ranking: Ranking) -> dict[str, Any]:
    """What a metric's `compute` needs of a ranking beside its ids and texts."""
    return {column.argument: getattr(ranking, column.name) for column in columns_for([metric])}
