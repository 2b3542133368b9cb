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
from llama_index_rag_metrics.evaluation.retrieved.match_explanation import (
    MatchExplanation,
    explain_match,
)
from llama_index_rag_metrics.evaluation.retrieved.run_matching import match_run
from llama_index_rag_metrics.evaluation.stages import (
    StageChange,
    StageResults,
    aevaluate_stages,
    evaluate_stages,
)
from llama_index_rag_metrics.rankings.matching.matcher_names import Matched

__all__ = [
    "DEFAULT_METRICS",
    "EvaluateOptions",
    "EvaluationResults",
    "MatchExplanation",
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
    "explain_match",
    "match_run",
]
