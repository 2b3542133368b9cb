"""How much an LLM reads at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW

if TYPE_CHECKING:
    from llama_index.core.llms import LLM


def context_window(llm: LLM) -> int:
    """The tokens that an LLM reads at once; LlamaIndex's default where it says 0 or -1.

    >>> from llama_index.core.llms import MockLLM
    >>> context_window(MockLLM())
    3900
    """
    window: int = llm.metadata.context_window
    return window if window > 0 else DEFAULT_CONTEXT_WINDOW
