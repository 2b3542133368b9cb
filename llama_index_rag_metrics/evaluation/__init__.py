"""Evaluation: asks a retriever every question of a dataset and scores what it returns."""

from llama_index_rag_metrics.evaluation.asking.run_options import EvaluateOptions, StageOptions
from llama_index_rag_metrics.evaluation.evaluator import (
    DEFAULT_METRICS,
    MultiModalRetrieverEvaluator,
    RetrieverEvaluator,
    aevaluate,
    evaluate,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.evaluation.retrieved.run_matching import match_run
from llama_index_rag_metrics.evaluation.stages import (
    StageChange,
    StageResults,
    aevaluate_stages,
    evaluate_stages,
)
from llama_index_rag_metrics.rankings.matching import Matched

__all__ = [
    "DEFAULT_METRICS",
    "EvaluateOptions",
    "EvaluationResults",
    "Matched",
    "MultiModalRetrieverEvaluator",
    "RetrieverEvaluator",
    "StageChange",
    "StageOptions",
    "StageResults",
    "aevaluate",
    "aevaluate_stages",
    "evaluate",
    "evaluate_stages",
    "match_run",
]
