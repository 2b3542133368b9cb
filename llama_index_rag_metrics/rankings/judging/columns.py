"""The table of what rankings carry beside their ids: adding a row adds a column everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from llama_index_rag_metrics.rankings.judging.forbidden import Forbidden
from llama_index_rag_metrics.rankings.judging.judged_calls import JudgedCalls
from llama_index_rag_metrics.rankings.judging.judged_column import (
    JudgedColumn,
    RetrievalScores,
    TokenCounts,
)
from llama_index_rag_metrics.rankings.judging.judged_spans import JudgedSpans
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.errors import InvalidInput

COLUMNS: tuple[type[JudgedColumn], ...] = (
    TokenCounts,
    JudgedSpans,
    Forbidden,
    JudgedCalls,
    RetrievalScores,
)

_FORMER = frozenset({"needs_tokens", "needs_spans", "needs_documents", "needs_forbidden"})
"""Attributes that `needs` replaced: ignored in silence, they would change scores."""


def columns_for(metrics: Iterable[object]) -> list[type[JudgedColumn]]:
    needs: set[str] = set()
    for metric in metrics:
        kind: type = type(metric)
        named = _former_of(kind) | _FORMER.intersection(vars(metric))
        if former := sorted(name for name in named if getattr(metric, name)):
            expected = "a property `needs`, such as super().needs | {'tokens'}"
            raise InvalidInput(type(metric).__name__, former, expected)
        needs.update(getattr(metric, "needs", ()))
    return [column for column in COLUMNS if column.name in needs]


@lru_cache
def _former_of(kind: type) -> frozenset[str]:
    """Which of them the class has, looked up once: pydantic takes long over a missing attribute."""
    return frozenset(name for name in _FORMER if hasattr(kind, name))


def compute_arguments(metric: object, ranking: Ranking) -> dict[str, Any]:
    return {column.argument: getattr(ranking, column.name) for column in columns_for([metric])}
