"""Asking LLMs, whatever they can: answers that fit a pydantic model, texts that stay texts."""

from llama_index_rag_metrics.runtime.llms.llm_answers import (
    json_and_text,
    json_answer,
    json_values,
    shortened,
    without_reasoning,
)
from llama_index_rag_metrics.runtime.llms.quoting import Quoted, context_window, quote
from llama_index_rag_metrics.runtime.llms.structured_answers import structured_answer

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
