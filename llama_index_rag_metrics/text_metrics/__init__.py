"""The metrics of texts: how well what was retrieved fits the query, without any labels."""

from llama_index_rag_metrics.text_metrics.base import TextMetric, TextScores
from llama_index_rag_metrics.text_metrics.cohere import (
    CohereRerankRelevancy,
    CohereRerankRelevancyMetric,
)
from llama_index_rag_metrics.text_metrics.llm import LLMRelevancy
from llama_index_rag_metrics.text_metrics.rerank import RerankRelevancy
from llama_index_rag_metrics.text_metrics.semantic import BM25Similarity, EmbeddingSimilarity

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
