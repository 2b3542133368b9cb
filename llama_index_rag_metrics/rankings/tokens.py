"""How many tokens a text has: its cost in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import accumulate
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
        self._tokenizer = tokenizer
        self._encode = encode
        self._counts: dict[bytes, int] = {}

    def count(self, texts: Iterable[str]) -> list[int]:
        return [self._count(text) for text in texts]

    @classmethod
    def of(cls, tokenizer: Tokenizer | TokenCounter | None) -> TokenCounter:
        return tokenizer if isinstance(tokenizer, cls) else cls(tokenizer)

    def _count(self, text: str) -> int:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key not in self._counts:
            self._counts[key] = _length(self._encode(text))
        return self._counts[key]


def n_fitting(tokens: Iterable[int], budget: int) -> int:
    """How many items fit, one after another, until the first that doesn't."""
    return sum(spent <= budget for spent in accumulate(tokens))


def _length(tokens: Any) -> int:
    """How many tokens: those of Hugging Face come as a mapping, or as an encoding with ids."""
    ids = tokens.get("input_ids", tokens) if hasattr(tokens, "get") else tokens
    return len(getattr(ids, "ids", ids))


def _unwrapped(tokenizer: Any) -> Any:
    while isinstance(tokenizer, partial):
        tokenizer = tokenizer.func
    return tokenizer


def _owner(tokenizer: Any) -> Any:
    tokenizer = _unwrapped(tokenizer)
    return getattr(tokenizer, "__self__", tokenizer)


def _name(tokenizer: Any) -> str:
    tokenizer = _unwrapped(tokenizer)
    owner = _owner(tokenizer)
    for attribute in ("name", "name_or_path"):
        if isinstance(name := getattr(owner, attribute, None), str) and name:
            return name
    return str(getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__))
