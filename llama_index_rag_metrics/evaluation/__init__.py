"""Evaluation: asks a retriever every question of a dataset and scores what it returns."""

from llama_index_rag_metrics.evaluation.evaluator import (
    DEFAULT_METRICS,
    RetrieverEvaluator,
    aevaluate,
    evaluate,
)
from llama_index_rag_metrics.evaluation.matching import Matched, match_run
from llama_index_rag_metrics.evaluation.results import EvaluationResults

__all__ = [
    "DEFAULT_METRICS",
    "EvaluationResults",
    "Matched",
    "RetrieverEvaluator",
    "aevaluate",
    "evaluate",
    "match_run",
]
