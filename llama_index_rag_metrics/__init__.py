"""Retrieval evaluation for LlamaIndex: exact metrics, datasets, and an evaluator that loses nothing.

Importing the package adds its names to LlamaIndex's METRIC_REGISTRY, so that its own
`RetrieverEvaluator.from_metric_names(["ndcg@10"], retriever=...)` knows them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.registration import register

if TYPE_CHECKING:
    from llama_index_rag_metrics.dataset import RetrievalDataset
    from llama_index_rag_metrics.errors import RagMetricsError
    from llama_index_rag_metrics.evaluation import (
        EvaluationResults,
        RetrieverEvaluator,
        aevaluate,
        evaluate,
    )
    from llama_index_rag_metrics.metrics import (
        DCG,
        ERR,
        MRR,
        NDCG,
        RBP,
        Accuracy,
        AveragePrecision,
        BinaryMetric,
        BPref,
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
        Precision,
        RankingMetric,
        Recall,
        RPrecision,
    )
    from llama_index_rag_metrics.naming import METRICS, metric, metrics
    from llama_index_rag_metrics.questions import generate_question_context_pairs
    from llama_index_rag_metrics.registration import unregister
    from llama_index_rag_metrics.relevance import Relevance
    from llama_index_rag_metrics.run import Ranking, Run
    from llama_index_rag_metrics.scores import Scores
    from llama_index_rag_metrics.scoring import score_rankings

__version__ = "0.1.0"

_HOMES = {
    "dataset": ["RetrievalDataset"],
    "errors": ["RagMetricsError"],
    "evaluation": ["EvaluationResults", "RetrieverEvaluator", "aevaluate", "evaluate"],
    "metrics": [
        "DCG",
        "ERR",
        "MRR",
        "NDCG",
        "RBP",
        "Accuracy",
        "AveragePrecision",
        "BPref",
        "BinaryMetric",
        "FScore",
        "GainMetric",
        "GroupAP",
        "GroupF1",
        "GroupMRR",
        "GroupMetric",
        "GroupRecall",
        "HitRate",
        "InfAP",
        "Judged",
        "Precision",
        "RPrecision",
        "RankingMetric",
        "Recall",
    ],
    "naming": ["METRICS", "metric", "metrics"],
    "questions": ["generate_question_context_pairs"],
    "registration": ["register", "unregister"],
    "relevance": ["Relevance"],
    "run": ["Ranking", "Run"],
    "scores": ["Scores"],
    "scoring": ["score_rankings"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
