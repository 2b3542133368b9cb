"""Comparison: from scores to decisions, with the uncertainty beside every number."""

from llama_index_rag_metrics.decisions.comparison.all_pairs import SystemPair
from llama_index_rag_metrics.decisions.comparison.comparing import compare
from llama_index_rag_metrics.decisions.comparison.comparison import Comparison
from llama_index_rag_metrics.decisions.comparison.difference import Difference, Settings
from llama_index_rag_metrics.decisions.comparison.holes import Holes, judgement_holes
from llama_index_rag_metrics.rankings.fusion import fuse
from llama_index_rag_metrics.statistics import (
    MeanInterval,
    correct,
    detectable_difference,
    mean_interval,
    queries_to_decide,
)

__all__ = [
    "Comparison",
    "Difference",
    "Holes",
    "MeanInterval",
    "Settings",
    "SystemPair",
    "compare",
    "correct",
    "detectable_difference",
    "fuse",
    "judgement_holes",
    "mean_interval",
    "queries_to_decide",
]
