"""Retrieval evaluation for LlamaIndex: exact metrics, datasets, an evaluator that loses nothing.

Importing the package adds its names to LlamaIndex's METRIC_REGISTRY, so that its own
`RetrieverEvaluator.from_metric_names(["ndcg@10"], retriever=...)` knows them.
"""

from __future__ import annotations

import typing as _typing

from llama_index_rag_metrics.decisions.comparison.comparison import Comparison, compare
from llama_index_rag_metrics.decisions.gate.gate import assert_retrieval, check_rules
from llama_index_rag_metrics.decisions.stages import evaluate_stages
from llama_index_rag_metrics.decisions.sweeps.sweeping import sweep
from llama_index_rag_metrics.evaluation.capturing import capture, record_retrieval
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.evaluation.evaluator import RetrieverEvaluator, aevaluate, evaluate
from llama_index_rag_metrics.files.read_runs import read_qrels, read_run
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.files.trace_reading import read_traces
from llama_index_rag_metrics.files.write_runs import write_qrels, write_run
from llama_index_rag_metrics.labels.question_generation import generate_question_context_pairs
from llama_index_rag_metrics.metrics import base as _base
from llama_index_rag_metrics.metrics import gains as _gains
from llama_index_rag_metrics.metrics import groups as _groups
from llama_index_rag_metrics.metrics import metric_names as _metric_names
from llama_index_rag_metrics.metrics import ranks as _ranks
from llama_index_rag_metrics.metrics import sets as _sets
from llama_index_rag_metrics.metrics import spans as _spans
from llama_index_rag_metrics.metrics import texts as _texts
from llama_index_rag_metrics.metrics.base import *
from llama_index_rag_metrics.metrics.gains import *
from llama_index_rag_metrics.metrics.groups import *
from llama_index_rag_metrics.metrics.metric_names import METRICS, metric, metrics, register
from llama_index_rag_metrics.metrics.ranks import *
from llama_index_rag_metrics.metrics.sets import *
from llama_index_rag_metrics.metrics.spans import *
from llama_index_rag_metrics.metrics.texts.cohere_rerank import *
from llama_index_rag_metrics.metrics.texts.llm_relevancy import *
from llama_index_rag_metrics.metrics.texts.rerank import *
from llama_index_rag_metrics.metrics.texts.semantic import *
from llama_index_rag_metrics.metrics.texts.text_metric import *
from llama_index_rag_metrics.rankings.matching.matched import match_run
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.scores.score_rankings import score_rankings
from llama_index_rag_metrics.scores.score_tables import score_schema, score_table
from llama_index_rag_metrics.scores.scores import Scores

__version__ = "0.1.0"

__all__ = [
    "METRICS",
    "Cache",
    "Comparison",
    "EvaluationResults",
    "RagMetricsError",
    "Ranking",
    "Relevance",
    "RetrievalDataset",
    "RetrieverEvaluator",
    "Run",
    "Scores",
    "Span",
    "aevaluate",
    "assert_retrieval",
    "capture",
    "check_rules",
    "compare",
    "evaluate",
    "evaluate_stages",
    "generate_question_context_pairs",
    "match_run",
    "metric",
    "metrics",
    "read_qrels",
    "read_run",
    "read_traces",
    "record_retrieval",
    "register",
    "score_rankings",
    "score_schema",
    "score_table",
    "sweep",
    "write_qrels",
    "write_run",
]
__all__ += _base.__all__
__all__ += _gains.__all__
__all__ += _groups.__all__
__all__ += _ranks.__all__
__all__ += _sets.__all__
__all__ += _spans.__all__
__all__ += _texts.__all__

register()

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        hint, metric_name = "", _metric_names.ELSEWHERE.get(name.lower(), name.lower())
        if row := METRICS.get(metric_name.partition("(")[0]):
            hint = f". {metric_name!r} is of the class {row.metric_class.__name__}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
