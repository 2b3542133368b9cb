"""The metrics of rankings, each defined once: a name and a formula over the judged hits."""

from llama_index_rag_metrics.metrics.base import (
    BinaryMetric,
    GainMetric,
    GroupMetric,
    NamedMetric,
    RankingMetric,
    WholeRankingMetric,
)
from llama_index_rag_metrics.metrics.costs import (
    CallMetric,
    Calls,
    NewRelevant,
    RepeatedCalls,
    Tokens,
    WastedCalls,
)
from llama_index_rag_metrics.metrics.facets import ERRIA, AlphaNDCG, Complete, FacetRecall
from llama_index_rag_metrics.metrics.gains import DCG, ERR, NDCG
from llama_index_rag_metrics.metrics.groups import GroupAP, GroupF1, GroupMRR, GroupRecall
from llama_index_rag_metrics.metrics.leaks import Leak, Leaked, LeakMetric, PermittedRecall
from llama_index_rag_metrics.metrics.ranks import (
    MRR,
    RBP,
    AveragePrecision,
    BPref,
    InfAP,
    RPrecision,
)
from llama_index_rag_metrics.metrics.sets import (
    Accuracy,
    FScore,
    HitRate,
    Judged,
    Precision,
    Recall,
)
from llama_index_rag_metrics.metrics.spans import (
    SpanF1,
    SpanIoU,
    SpanMetric,
    SpanPrecision,
    SpanRecall,
)

__all__ = [
    "DCG",
    "ERR",
    "ERRIA",
    "MRR",
    "NDCG",
    "RBP",
    "Accuracy",
    "AlphaNDCG",
    "AveragePrecision",
    "BPref",
    "BinaryMetric",
    "CallMetric",
    "Calls",
    "Complete",
    "FScore",
    "FacetRecall",
    "GainMetric",
    "GroupAP",
    "GroupF1",
    "GroupMRR",
    "GroupMetric",
    "GroupRecall",
    "HitRate",
    "InfAP",
    "Judged",
    "Leak",
    "LeakMetric",
    "Leaked",
    "NamedMetric",
    "NewRelevant",
    "PermittedRecall",
    "Precision",
    "RPrecision",
    "RankingMetric",
    "Recall",
    "RepeatedCalls",
    "SpanF1",
    "SpanIoU",
    "SpanMetric",
    "SpanPrecision",
    "SpanRecall",
    "Tokens",
    "WastedCalls",
    "WholeRankingMetric",
]
