"""Judging: a ranking and its relevance become hits at ranks. No metric ever sees an id."""

from llama_index_rag_metrics.judging.arrow import (
    FORBIDDEN,
    GRADES,
    QUERY_ID,
    RETRIEVED,
    TOKENS,
    WEIGHTS,
    judge_table,
)
from llama_index_rag_metrics.judging.calls import JudgedCalls, calls_in, judge_calls
from llama_index_rag_metrics.judging.forbidden import (
    Forbidden,
    forbidden_ids,
    forbidden_in,
    n_forbidden,
)
from llama_index_rag_metrics.judging.frames import check_whole, frame_of
from llama_index_rag_metrics.judging.judged import (
    BoolArray,
    Cutoff,
    FloatArray,
    GroupHits,
    Hits,
    IntArray,
    JudgedRankings,
    Ranked,
    TokenBudget,
    ratio,
)
from llama_index_rag_metrics.judging.lists import judge, judge_one
from llama_index_rag_metrics.judging.selection import ALL_RETRIEVED, Selection
from llama_index_rag_metrics.judging.span_columns import (
    EXPECTED,
    EXPECTED_SPANS,
    RETRIEVED_SPANS,
    span_series,
    with_expected_ids,
)
from llama_index_rag_metrics.judging.spans import Ruler, Spans, Unit

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
    "BoolArray",
    "Cutoff",
    "FloatArray",
    "Forbidden",
    "GroupHits",
    "Hits",
    "IntArray",
    "JudgedCalls",
    "JudgedRankings",
    "Ranked",
    "Ruler",
    "Selection",
    "Spans",
    "TokenBudget",
    "Unit",
    "calls_in",
    "check_whole",
    "forbidden_ids",
    "forbidden_in",
    "frame_of",
    "judge",
    "judge_calls",
    "judge_one",
    "judge_table",
    "n_forbidden",
    "ratio",
    "span_series",
    "with_expected_ids",
]
