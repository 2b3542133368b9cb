"""Judging: a ranking and its relevance become hits at ranks. No metric ever sees an id."""

from llama_index_rag_metrics.judging.arrow import (
    EXPECTED,
    FORBIDDEN,
    GRADES,
    QUERY_ID,
    RETRIEVED,
    TOKENS,
    WEIGHTS,
    frame_of,
    judge_table,
)
from llama_index_rag_metrics.judging.forbidden import (
    Forbidden,
    forbidden_ids,
    forbidden_in,
    n_forbidden,
)
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

__all__ = [
    "ALL_RETRIEVED",
    "EXPECTED",
    "FORBIDDEN",
    "GRADES",
    "QUERY_ID",
    "RETRIEVED",
    "TOKENS",
    "WEIGHTS",
    "BoolArray",
    "Cutoff",
    "FloatArray",
    "Forbidden",
    "GroupHits",
    "Hits",
    "IntArray",
    "JudgedRankings",
    "Ranked",
    "Selection",
    "TokenBudget",
    "forbidden_ids",
    "forbidden_in",
    "frame_of",
    "judge",
    "judge_one",
    "judge_table",
    "n_forbidden",
    "ratio",
]
