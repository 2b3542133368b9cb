"""Scores: query ids × metric names; what they mean together with what was retrieved."""

from llama_index_rag_metrics.scores.scores import Counts, Reason, Scores, listed_means

__all__ = ["Counts", "Reason", "Scores", "listed_means"]
