"""Scoring stored rankings: lists and mappings, tables, and files of any size."""

from llama_index_rag_metrics.scores.scoring.batches import (
    EVERY_QUERY,
    Failed,
    Metrics,
    NoRelevant,
    ScoringOptions,
    no_common_query,
    ranking_metrics,
)
from llama_index_rag_metrics.scores.scoring.score_files import score_files
from llama_index_rag_metrics.scores.scoring.score_rankings import score_rankings, score_with
from llama_index_rag_metrics.scores.scoring.score_tables import (
    score_schema,
    score_table,
    score_totals,
    table_totals,
)
from llama_index_rag_metrics.scores.scoring.totals import ScoreTotals

__all__ = [
    "EVERY_QUERY",
    "Failed",
    "Metrics",
    "NoRelevant",
    "ScoreTotals",
    "ScoringOptions",
    "no_common_query",
    "ranking_metrics",
    "score_files",
    "score_rankings",
    "score_schema",
    "score_table",
    "score_totals",
    "score_with",
    "table_totals",
]
