"""The metrics, each defined once: a name and a formula over the judged hits, or over the texts."""

from llama_index_rag_metrics.metrics import (
    base,
    costs,
    gains,
    groups,
    leaks,
    ranks,
    sets,
    spans,
    texts,
)
from llama_index_rag_metrics.metrics.base import *
from llama_index_rag_metrics.metrics.costs import *
from llama_index_rag_metrics.metrics.gains import *
from llama_index_rag_metrics.metrics.groups import *
from llama_index_rag_metrics.metrics.leaks import *
from llama_index_rag_metrics.metrics.ranks import *
from llama_index_rag_metrics.metrics.sets import *
from llama_index_rag_metrics.metrics.spans import *
from llama_index_rag_metrics.metrics.texts import *

__all__: list[str] = []
__all__ += base.__all__
__all__ += costs.__all__
__all__ += gains.__all__
__all__ += groups.__all__
__all__ += leaks.__all__
__all__ += ranks.__all__
__all__ += sets.__all__
__all__ += spans.__all__
__all__ += texts.__all__
