"""Nuggets: what a good answer to a question says, which passages say it, and facets of both."""

from llama_index_rag_metrics.labels.nuggets.llm_nuggets import (
    aassign_nuggets,
    acreate_nuggets,
    assign_nuggets,
    create_nuggets,
)
from llama_index_rag_metrics.labels.nuggets.nugget_set import Nuggets
from llama_index_rag_metrics.rankings.nugget import Nugget

__all__ = [
    "Nugget",
    "Nuggets",
    "aassign_nuggets",
    "acreate_nuggets",
    "assign_nuggets",
    "create_nuggets",
]
