"""Questions for a corpus, written by an LLM."""

from llama_index_rag_metrics.labels.questions.generation import (
    DEFAULT_PROMPT,
    agenerate_question_context_pairs,
    generate_question_context_pairs,
)
from llama_index_rag_metrics.labels.questions.parsing import questions_in

__all__ = [
    "DEFAULT_PROMPT",
    "agenerate_question_context_pairs",
    "generate_question_context_pairs",
    "questions_in",
]
