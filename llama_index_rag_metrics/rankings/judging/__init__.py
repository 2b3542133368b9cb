"""Judging: a ranking and its relevance become hits at ranks. No metric ever sees an id."""

from llama_index_rag_metrics.rankings.judging.arrow import (
    FORBIDDEN,
    GRADES,
    QUERY_ID,
    RETRIEVED,
    TOKENS,
    WEIGHTS,
    judge_table,
)
from llama_index_rag_metrics.rankings.judging.forbidden import (
    Forbidden,
    forbidden_ids,
    forbidden_in,
    n_forbidden,
)
from llama_index_rag_metrics.rankings.judging.frames import check_undamaged, frame_of
from llama_index_rag_metrics.rankings.judging.judged import (
    Cutoff,
    GroupHits,
    Hits,
    JudgedRankings,
    Ranked,
    TokenBudget,
)
from llama_index_rag_metrics.rankings.judging.judged_calls import JudgedCalls, calls_in, judge_calls
from llama_index_rag_metrics.rankings.judging.judged_spans import Ruler, Spans, Unit
from llama_index_rag_metrics.rankings.judging.lists import judge, judge_one
from llama_index_rag_metrics.rankings.judging.selection import ALL_RETRIEVED, Selection
from llama_index_rag_metrics.rankings.judging.span_columns import (
    EXPECTED,
    EXPECTED_SPANS,
    RETRIEVED_SPANS,
    span_series,
    with_expected_ids,
)

__all__ = [
    "ALL_RETRIEVED",
    "EXPECTED",
    "EXPECTED_SPANS",
    "FORBIDDEN",
    "GRADES",
    "QUERY_ID",
    "RETRIEVED",
    "RETRIEVED_SPANS",
    "TOKENS",
    "WEIGHTS",
    "Cutoff",
    "Forbidden",
    "GroupHits",
    "Hits",
    "JudgedCalls",
    "JudgedRankings",
    "Ranked",
    "Ruler",
    "Selection",
    "Spans",
    "TokenBudget",
    "Unit",
    "calls_in",
    "check_undamaged",
    "forbidden_ids",
    "forbidden_in",
    "frame_of",
    "judge",
    "judge_calls",
    "judge_one",
    "judge_table",
    "n_forbidden",
    "span_series",
    "with_expected_ids",
]
