"""Retrieval evaluation for LlamaIndex: exact metrics, datasets, an evaluator that loses nothing.

Importing the package adds its names to LlamaIndex's METRIC_REGISTRY, so that its own
`RetrieverEvaluator.from_metric_names(["ndcg@10"], retriever=...)` knows them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.calls import combine_calls
from llama_index_rag_metrics.errors import RagMetricsError
from llama_index_rag_metrics.matching import (
    ContainmentMatcher,
    EditMatcher,
    EmbeddingMatcher,
    ExactMatcher,
    GroupMatcher,
    Matcher,
    SpanMatcher,
    TextMatcher,
    TokenOverlapMatcher,
    register_matcher,
    unregister_matcher,
)
from llama_index_rag_metrics.metrics import (
    DCG,
    ERR,
    ERRIA,
    MRR,
    NDCG,
    RBP,
    Accuracy,
    AlphaNDCG,
    AveragePrecision,
    BinaryMetric,
    BPref,
    Calls,
    Complete,
    FacetRecall,
    FScore,
    GainMetric,
    GroupAP,
    GroupF1,
    GroupMetric,
    GroupMRR,
    GroupRecall,
    HitRate,
    InfAP,
    Judged,
    Leak,
    Leaked,
    NewRelevant,
    PermittedRecall,
    Precision,
    RankingMetric,
    Recall,
    RepeatedCalls,
    RPrecision,
    SpanF1,
    SpanIoU,
    SpanPrecision,
    SpanRecall,
    Tokens,
    WastedCalls,
)
from llama_index_rag_metrics.naming import METRICS, metric, metrics
from llama_index_rag_metrics.registration import register, unregister
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Call, Ranking, Run
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scoring import (
    ScoreTotals,
    score_files,
    score_rankings,
    score_schema,
    score_table,
    table_totals,
)
from llama_index_rag_metrics.span import Span
from llama_index_rag_metrics.text_metrics import (
    BM25Similarity,
    CohereRerankRelevancy,
    CohereRerankRelevancyMetric,
    EmbeddingSimilarity,
    LLMRelevancy,
    RerankRelevancy,
    TextMetric,
)

if TYPE_CHECKING:
    from llama_index_rag_metrics.cache import Cache, SQLiteKVStore
    from llama_index_rag_metrics.comparison import Comparison, compare, judgement_holes
    from llama_index_rag_metrics.dataset import RetrievalDataset
    from llama_index_rag_metrics.evaluation import (
        EvaluationResults,
        Matched,
        MultiModalRetrieverEvaluator,
        RetrieverEvaluator,
        StageChange,
        StageResults,
        aevaluate,
        aevaluate_stages,
        evaluate,
        evaluate_stages,
        match_run,
    )
    from llama_index_rag_metrics.evaluation.results_report import plot, write_html
    from llama_index_rag_metrics.evaluation.sessions.capturing import capture, record_retrieval
    from llama_index_rag_metrics.formats.registered import register_format, unregister_format
    from llama_index_rag_metrics.formats.runs import (
        Qrels,
        read_qrels,
        read_run,
        write_qrels,
        write_run,
    )
    from llama_index_rag_metrics.formats.traces import read_traces
    from llama_index_rag_metrics.fusion import fuse
    from llama_index_rag_metrics.gate import (
        Baseline,
        GateReport,
        Rule,
        assert_retrieval,
        check_rules,
    )
    from llama_index_rag_metrics.labels import (
        Calibration,
        JudgeCheck,
        LabelFindings,
        MovedLabels,
        Pool,
        acheck_judge,
        agreement,
        calibrate,
        check_judge,
        check_labels,
        move_labels,
        pool,
        remember_texts,
    )
    from llama_index_rag_metrics.observability import as_mlflow_scorer, span_annotations
    from llama_index_rag_metrics.questions import generate_question_context_pairs
    from llama_index_rag_metrics.scores.tracking import register_tracker, unregister_tracker
    from llama_index_rag_metrics.sweeps import Configuration, Sweep, asweep, sweep

__version__ = "0.1.0"

__all__ = [
    "DCG",
    "ERR",
    "ERRIA",
    "METRICS",
    "MRR",
    "NDCG",
    "RBP",
    "Accuracy",
    "AlphaNDCG",
    "AveragePrecision",
    "BM25Similarity",
    "BPref",
    "Baseline",
    "BinaryMetric",
    "Cache",
    "Calibration",
    "Call",
    "Calls",
    "CohereRerankRelevancy",
    "CohereRerankRelevancyMetric",
    "Comparison",
    "Complete",
    "Configuration",
    "ContainmentMatcher",
    "EditMatcher",
    "EmbeddingMatcher",
    "EmbeddingSimilarity",
    "EvaluationResults",
    "ExactMatcher",
    "FScore",
    "FacetRecall",
    "GainMetric",
    "GateReport",
    "GroupAP",
    "GroupF1",
    "GroupMRR",
    "GroupMatcher",
    "GroupMetric",
    "GroupRecall",
    "HitRate",
    "InfAP",
    "JudgeCheck",
    "Judged",
    "LLMRelevancy",
    "LabelFindings",
    "Leak",
    "Leaked",
    "Matched",
    "Matcher",
    "MovedLabels",
    "MultiModalRetrieverEvaluator",
    "NewRelevant",
    "PermittedRecall",
    "Pool",
    "Precision",
    "Qrels",
    "RPrecision",
    "RagMetricsError",
    "Ranking",
    "RankingMetric",
    "Recall",
    "Relevance",
    "RepeatedCalls",
    "RerankRelevancy",
    "RetrievalDataset",
    "RetrieverEvaluator",
    "Rule",
    "Run",
    "SQLiteKVStore",
    "ScoreTotals",
    "Scores",
    "Span",
    "SpanF1",
    "SpanIoU",
    "SpanMatcher",
    "SpanPrecision",
    "SpanRecall",
    "StageChange",
    "StageResults",
    "Sweep",
    "TextMatcher",
    "TextMetric",
    "TokenOverlapMatcher",
    "Tokens",
    "WastedCalls",
    "acheck_judge",
    "aevaluate",
    "aevaluate_stages",
    "agreement",
    "as_mlflow_scorer",
    "assert_retrieval",
    "asweep",
    "calibrate",
    "capture",
    "check_judge",
    "check_labels",
    "check_rules",
    "combine_calls",
    "compare",
    "evaluate",
    "evaluate_stages",
    "fuse",
    "generate_question_context_pairs",
    "judgement_holes",
    "match_run",
    "metric",
    "metrics",
    "move_labels",
    "plot",
    "pool",
    "read_qrels",
    "read_run",
    "read_traces",
    "record_retrieval",
    "register",
    "register_format",
    "register_matcher",
    "register_tracker",
    "remember_texts",
    "score_files",
    "score_rankings",
    "score_schema",
    "score_table",
    "span_annotations",
    "sweep",
    "table_totals",
    "unregister",
    "unregister_format",
    "unregister_matcher",
    "unregister_tracker",
    "write_html",
    "write_qrels",
    "write_run",
]

_LAZY = {
    "Configuration": "sweeps",
    "Sweep": "sweeps",
    "asweep": "sweeps",
    "sweep": "sweeps",
    "Baseline": "gate",
    "Cache": "cache",
    "Calibration": "labels",
    "Comparison": "comparison",
    "EvaluationResults": "evaluation",
    "GateReport": "gate",
    "LabelFindings": "labels",
    "Matched": "evaluation",
    "Pool": "labels",
    "MovedLabels": "labels",
    "Qrels": "formats.runs",
    "RetrievalDataset": "dataset",
    "MultiModalRetrieverEvaluator": "evaluation",
    "RetrieverEvaluator": "evaluation",
    "Rule": "gate",
    "SQLiteKVStore": "cache",
    "StageChange": "evaluation",
    "StageResults": "evaluation",
    "aevaluate": "evaluation",
    "JudgeCheck": "labels",
    "acheck_judge": "labels",
    "agreement": "labels",
    "check_judge": "labels",
    "as_mlflow_scorer": "observability",
    "assert_retrieval": "gate",
    "calibrate": "labels",
    "capture": "evaluation.sessions.capturing",
    "check_labels": "labels",
    "check_rules": "gate",
    "aevaluate_stages": "evaluation",
    "compare": "comparison",
    "evaluate": "evaluation",
    "evaluate_stages": "evaluation",
    "fuse": "fusion",
    "generate_question_context_pairs": "questions",
    "judgement_holes": "comparison",
    "match_run": "evaluation",
    "move_labels": "labels",
    "pool": "labels",
    "read_qrels": "formats.runs",
    "read_run": "formats.runs",
    "read_traces": "formats.traces",
    "record_retrieval": "evaluation.sessions.capturing",
    "remember_texts": "labels",
    "register_format": "formats.registered",
    "register_tracker": "scores.tracking",
    "unregister_format": "formats.registered",
    "unregister_tracker": "scores.tracking",
    "span_annotations": "observability",
    "write_qrels": "formats.runs",
    "write_run": "formats.runs",
    "plot": "evaluation.results_report",
    "write_html": "evaluation.results_report",
}
"""Names whose modules cost time to import, and where they live."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
