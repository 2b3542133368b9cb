"""Judging: a ranking and its relevance become hits at ranks. No metric ever sees an id."""

from llama_index_rag_metrics.judging.judged import (
    BoolArray,
    FloatArray,
    GroupHits,
    Hits,
    IntArray,
    JudgedRankings,
    Ranked,
    ratio,
)
from llama_index_rag_metrics.judging.lists import judge, judge_one

__all__ = [
    "BoolArray",
    "FloatArray",
    "GroupHits",
    "Hits",
    "IntArray",
    "JudgedRankings",
    "Ranked",
    "judge",
    "judge_one",
    "ratio",
]
