"""How many tokens a text has: its cost in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.runtime.arrays import IntArray
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

    def last_characters(self, text: str) -> IntArray:
        """(tokens,) the place of each token's last character in a text."""
        owner = _owner(self._tokenizer)
        if getattr(owner, "is_fast", False) and callable(owner):  # of Hugging Face's transformers
            encoding = owner(text, return_offsets_mapping=True, add_special_tokens=False)
            return _last_of(encoding["offset_mapping"])
        tokens = self._encode(text)
        if hasattr(tokens, "offsets"):  # of Hugging Face's tokenizers
            return _last_of(tokens.offsets)
        if hasattr(owner, "decode_tokens_bytes"):  # tiktoken, whose tokens may part a character
            ends = np.cumsum([len(token) for token in owner.decode_tokens_bytes(tokens)])
            sizes = [len(character.encode("utf-8", "surrogatepass")) for character in text]
            return np.searchsorted(np.cumsum(sizes), ends)
        place, places = 0, []
        for token in tokens:
            place = text.find(token, place) if isinstance(token, str) and token else -1
            if place < 0:
                known = "tiktoken's, or one that returns their texts"
                expected = f"one that says where its tokens are: {known}"
                raise InvalidInput("tokenizer", self.name, expected)
            place += len(token)
            places.append(place - 1)
        return np.array(places, np.int64)

    def _count(self, text: str) -> int:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key not in self._counts:
            self._counts[key] = _length(self._encode(text))
        return self._counts[key]


class DocumentTokens:
    """Where the tokens of documents end; a document is parted into tokens when it is asked for."""

    def __init__(
        self, documents: Mapping[str, str], tokenizer: Tokenizer | TokenCounter | None = None
    ) -> None:
        self._documents = documents
        self._tokenizer = tokenizer
        self._known: dict[str, IntArray] = {}

    def __call__(self, document_id: str) -> IntArray:
        if document_id not in self._known:
            text = self._documents.get(document_id)
            if text is None:
                expected = "the text of every document that a span is in"
                remedy = "Give the dataset a corpus, or score_rankings() documents={id: text}."
                raise InvalidInput("documents", f"none called {document_id!r}", expected, remedy)
            self._tokenizer = TokenCounter.of(self._tokenizer)
            self._known[document_id] = self._tokenizer.last_characters(text)
        return self._known[document_id]


def n_fitting(tokens: Iterable[int], budget: int) -> int:
    """How many items fit, one after another, until the first that doesn't."""
    return sum(spent <= budget for spent in accumulate(tokens))


def _length(tokens: Any) -> int:
    """How many tokens: those of Hugging Face come as a mapping, or as an encoding with ids."""
    ids = tokens.get("input_ids", tokens) if hasattr(tokens, "get") else tokens
    return len(getattr(ids, "ids", ids))


def _last_of(pairs: Iterable[tuple[int, int]]) -> IntArray:
    """The last characters of tokens from their ends; special tokens hold no text."""
    return np.array([end - 1 for start, end in pairs if end > start], np.int64)


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
