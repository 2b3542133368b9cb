"""How many tokens a text has: its cost in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias

from llama_index_rag_metrics.runtime.errors import InvalidInput

Tokenizer: TypeAlias = "Callable[[str], Sequence[Any]] | Any"
"""A function from a text to its tokens, or an object whose `encode` is one."""


class TokenCounter:
    """Counts the tokens of texts; each distinct text is counted once and kept by its hash."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        if tokenizer is None:
            from llama_index.core.utils import get_tokenizer

            tokenizer = get_tokenizer()
        encode = tokenizer if callable(tokenizer) else getattr(tokenizer, "encode", None)
        if not callable(encode) or isinstance(tokenizer, (str, type)):
            raise InvalidInput("tokenizer", tokenizer, "a function from a text to its tokens")
        self.name = _name(tokenizer)
        self._encode = encode
        self._counts: dict[bytes, int] = {}

    @classmethod
    def of(cls, tokenizer: Tokenizer | TokenCounter | None) -> TokenCounter:
        return tokenizer if isinstance(tokenizer, cls) else cls(tokenizer)

    def count(self, texts: Iterable[str]) -> list[int]:
        counts: list[int] = []
        for text in texts:
            key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if key not in self._counts:
                self._counts[key] = _length(self._encode(text))
            counts.append(self._counts[key])
        return counts


def _length(tokens: Any) -> int:
    """How many tokens: those of Hugging Face come as a mapping, or as an encoding with ids."""
    ids = tokens.get("input_ids", tokens) if hasattr(tokens, "get") else tokens
    return len(getattr(ids, "ids", ids))


def _name(tokenizer: Any) -> str:
    while isinstance(tokenizer, partial):
        tokenizer = tokenizer.func
    owner = getattr(tokenizer, "__self__", tokenizer)
    for attribute in ("name", "name_or_path"):
        name = getattr(owner, attribute, None)
        if isinstance(name, str) and name:
            return name
    return str(getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__))
