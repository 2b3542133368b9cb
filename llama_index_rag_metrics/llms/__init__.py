"""Asking LLMs, whatever they can: answers that fit a pydantic model, texts that stay texts."""

from llama_index_rag_metrics.llms.asking import structured_answer
from llama_index_rag_metrics.llms.quoting import Quoted, quote
from llama_index_rag_metrics.llms.reading import (
    json_and_text,
    json_answer,
    json_values,
    shortened,
    without_reasoning,
)
from llama_index_rag_metrics.llms.windows import context_window

__all__ = [
    "Quoted",
    "context_window",
    "json_and_text",
    "json_answer",
    "json_values",
    "quote",
    "shortened",
    "structured_answer",
    "without_reasoning",
]
