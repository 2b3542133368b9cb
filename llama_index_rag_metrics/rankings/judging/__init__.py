"""Judging: a ranking and its relevance become hits at ranks. No metric ever sees an id."""

from llama_index_rag_metrics.rankings.judging.arrow import (
    GRADES,
    WEIGHTS,
    check_undamaged,
    frame_of,
    judge_table,
)
from llama_index_rag_metrics.rankings.judging.columns import COLUMNS, columns_for, compute_arguments
from llama_index_rag_metrics.rankings.judging.forbidden import Forbidden, forbidden_in
from llama_index_rag_metrics.rankings.judging.judged import (
    ALL_RETRIEVED,
    Cutoff,
    GroupHits,
    Hits,
    JudgedRankings,
    Ranked,
    Selection,
    TokenBudget,
)
from llama_index_rag_metrics.rankings.judging.judged_calls import JudgedCalls, calls_in
from llama_index_rag_metrics.rankings.judging.judged_column import (
    EXPECTED,
    QUERY_ID,
    RETRIEVED,
    Batch,
    ColumnSources,
    ForbiddenIds,
    JudgedColumn,
    TokenCounts,
    ids_of,
)
from llama_index_rag_metrics.rankings.judging.judged_spans import (
    EXPECTED_SPANS,
    JudgedSpans,
    Unit,
    span_series,
    with_expected_ids,
)
from llama_index_rag_metrics.rankings.judging.lists import id_kinds, judge, judge_one

__all__ = [
    "ALL_RETRIEVED",
    "COLUMNS",
    "EXPECTED",
    "EXPECTED_SPANS",
    "GRADES",
    "QUERY_ID",
    "RETRIEVED",
    "WEIGHTS",
    "Batch",
    "ColumnSources",
    "Cutoff",
    "Forbidden",
    "ForbiddenIds",
    "GroupHits",
    "Hits",
    "JudgedCalls",
    "JudgedColumn",
    "JudgedRankings",
    "JudgedSpans",
    "Ranked",
    "Selection",
    "TokenBudget",
    "TokenCounts",
    "Unit",
    "calls_in",
    "check_undamaged",
    "columns_for",
    "compute_arguments",
    "forbidden_in",
    "frame_of",
    "id_kinds",
    "ids_of",
    "judge",
    "judge_one",
    "judge_table",
    "span_series",
    "with_expected_ids",
]
