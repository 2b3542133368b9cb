"""RetrievalDataset: questions, what is relevant to them, and the corpus to look in."""

from llama_index_rag_metrics.dataset.retrieval_dataset import RetrievalDataset

__all__ = ["RetrievalDataset"]
