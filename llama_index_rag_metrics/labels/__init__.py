"""Labels: checked against what can be retrieved today, and moved to it; what to judge next."""

from llama_index_rag_metrics.labels.checking import check_labels
from llama_index_rag_metrics.labels.findings import Coverage, Finding, LabelFindings
from llama_index_rag_metrics.labels.moves import Move, MovedLabels
from llama_index_rag_metrics.labels.moving import move_labels

__all__ = [
    "Coverage",
    "Finding",
    "LabelFindings",
    "Move",
    "MovedLabels",
    "check_labels",
    "move_labels",
]
