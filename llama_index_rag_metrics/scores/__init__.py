"""Scores: query ids × metric names; what they mean together with what was retrieved."""

from llama_index_rag_metrics.scores.counts import Counts, Reason
from llama_index_rag_metrics.scores.scores import Scores, listed_means

__all__ = ["Counts", "Reason", "Scores", "listed_means"]
