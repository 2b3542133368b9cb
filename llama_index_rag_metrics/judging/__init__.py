"""Judging: a ranking and its relevance become hits at ranks. No metric ever sees an id."""

from llama_index_rag_metrics.judging.arrow import (
    EXPECTED,
    GRADES,
    QUERY_ID,
    RETRIEVED,
    TOKENS,
    WEIGHTS,
    frame_of,
    judge_table,
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
    "GRADES",
    "QUERY_ID",
    "RETRIEVED",
    "TOKENS",
    "WEIGHTS",
    "BoolArray",
    "Cutoff",
    "FloatArray",
    "GroupHits",
    "Hits",
    "IntArray",
    "JudgedRankings",
    "Ranked",
    "Selection",
    "TokenBudget",
    "frame_of",
    "judge",
    "judge_one",
    "judge_table",
    "ratio",
]
