"""Nuggets: what a good answer to a question says, which passages say it, and facets of both."""

from llama_index_rag_metrics.nugget import Nugget
from llama_index_rag_metrics.nuggets.assigning import aassign_nuggets, assign_nuggets
from llama_index_rag_metrics.nuggets.creating import acreate_nuggets, create_nuggets
from llama_index_rag_metrics.nuggets.result import Nuggets

__all__ = [
    "Nugget",
    "Nuggets",
    "aassign_nuggets",
    "acreate_nuggets",
    "assign_nuggets",
    "create_nuggets",
]
