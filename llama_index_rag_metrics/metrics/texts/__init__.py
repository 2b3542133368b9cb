"""The metrics of texts: how well what was retrieved fits the query, without any labels."""

from llama_index_rag_metrics.metrics.texts import (
    cohere_rerank,
    llm_relevancy,
    rerank,
    semantic,
    text_metric,
)
from llama_index_rag_metrics.metrics.texts.cohere_rerank import *
from llama_index_rag_metrics.metrics.texts.llm_relevancy import *
from llama_index_rag_metrics.metrics.texts.rerank import *
from llama_index_rag_metrics.metrics.texts.semantic import *
from llama_index_rag_metrics.metrics.texts.text_metric import *

__all__: list[str] = []
__all__ += cohere_rerank.__all__
__all__ += llm_relevancy.__all__
__all__ += rerank.__all__
__all__ += semantic.__all__
__all__ += text_metric.__all__
