"""Labels: checked against what can be retrieved today, and moved to it; what to judge next."""

from llama_index_rag_metrics.labels.checking import check_labels
from llama_index_rag_metrics.labels.findings import Coverage, Finding, LabelFindings

__all__ = ["Coverage", "Finding", "LabelFindings", "check_labels"]
