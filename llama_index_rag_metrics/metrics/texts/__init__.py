"""The metrics of texts: how well what was retrieved fits the query, without any labels."""

from llama_index_rag_metrics.metrics.texts.cohere_rerank import (
    CohereRerankRelevancy,
    CohereRerankRelevancyMetric,
)
from llama_index_rag_metrics.metrics.texts.llm_relevancy import LLMRelevancy
from llama_index_rag_metrics.metrics.texts.rerank import RerankRelevancy
from llama_index_rag_metrics.metrics.texts.semantic import BM25Similarity, EmbeddingSimilarity
from llama_index_rag_metrics.metrics.texts.text_metric import TextMetric, TextScores

__all__ = [
    "BM25Similarity",
    "CohereRerankRelevancy",
    "CohereRerankRelevancyMetric",
    "EmbeddingSimilarity",
    "LLMRelevancy",
    "RerankRelevancy",
    "TextMetric",
    "TextScores",
]
