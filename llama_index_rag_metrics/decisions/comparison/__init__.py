"""Comparison: from scores to decisions, with the uncertainty beside every number."""

from llama_index_rag_metrics.decisions.comparison.comparing import compare
from llama_index_rag_metrics.decisions.comparison.comparison import Comparison
from llama_index_rag_metrics.decisions.comparison.holes import judgement_holes

__all__ = ["Comparison", "compare", "judgement_holes"]
