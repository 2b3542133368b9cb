"""What is measured of retrieved items beside their ranks."""

from __future__ import annotations

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging.judged import IntArray


def check_tokens(tokens: IntArray) -> IntArray:
    """Token counts, if they can be such.

    Raises:
        InvalidInput: one is below 0.
    """
    if tokens.size and tokens.min() < 0:
        raise InvalidInput("tokens", int(tokens.min()), "numbers from 0 on")
    return tokens
