"""Matching by meaning: the embeddings of two texts are near each other."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.rankings.matching.matcher import TextMatcher
from llama_index_rag_metrics.rankings.matching.text_matchers import positions
from llama_index_rag_metrics.runtime.cache import Cache, Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.models import Embedder, cosines, embed_model_or_default
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding

_REMEMBERED = 2**13
"""Texts that a matcher outside an evaluation remembers before it starts anew: about 64 MB."""


class EmbeddingMatcher(TextMatcher):
    """The cosine of the two texts' embeddings reaches the threshold.

    Texts are embedded in the model's batches, each once; an evaluation takes them from its cache.

    Args:
        embed_model: a LlamaIndex embedding; by default `Settings.embed_model`, read when it is
            first needed.
        threshold: the cosine from which a retrieved text covers an expected one. What is near
            depends on the model: look at a few pairs first.
        label: tells apart models of one class and name; part of the cache's key.

    Raises:
        BadAnswer: the model gave embeddings that aren't finite, or of different lengths.

    Examples:
        >>> from llama_index.core.embeddings import MockEmbedding
        >>> EmbeddingMatcher(MockEmbedding(embed_dim=4)).match(["one", "two"], ["three", ""])
        [[0, 1], []]
    """

    kind = "embedding"
    default = 0.9
    is_pure = False

    def __init__(
        self,
        embed_model: BaseEmbedding | None = None,
        threshold: float | None = None,
        *,
        label: str = "",
    ) -> None:
        super().__init__(threshold)
        if embed_model is not None and not hasattr(embed_model, "get_text_embedding_batch"):
            expected = "an embedding of LlamaIndex, or None for Settings.embed_model"
            raise InvalidInput("embed_model", embed_model, expected)
        self.embed_model = embed_model
        self.label = label
        self._embedder: Embedder | None = None
        self._is_prepared = False

    def prepare(self, cache: Cache) -> EmbeddingMatcher:
        mine = copy.copy(self)
        mine._embedder = mine._open(cache)
        mine._is_prepared = True
        return mine

    @property
    def usage(self) -> Usage | None:
        return None if self._embedder is None else self._embedder.tally.usage

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        return run_sync(self.amatch(expected, retrieved))

    async def amatch(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        embedder = await in_thread(self._ready)
        vectors, _ = await embedder.embed(text for text in (*expected, *retrieved) if text.strip())
        covers = np.zeros((len(retrieved), len(expected)), np.bool_)
        rows = [row for row, text in enumerate(retrieved) if text in vectors]
        columns = [column for column, text in enumerate(expected) if text in vectors]
        if rows:
            matrix = np.stack([vectors[retrieved[row]] for row in rows])
            for column in columns:
                # a vector with itself may come to a little less than 1
                covers[rows, column] = (
                    cosines(vectors[expected[column]], matrix) >= self.threshold - 1e-9
                )
        return positions(covers)

    def _ready(self) -> Embedder:
        known = self._embedder
        if known is None or not (self._is_prepared or self._is_current(known)):
            known = self._embedder = self._open(Cache())
        return known

    def _is_current(self, embedder: Embedder) -> bool:
        is_same = embedder.model is embed_model_or_default(self.embed_model)
        return is_same and embedder.tally.usage.fresh < _REMEMBERED

    def _open(self, cache: Cache) -> Embedder:
        model = embed_model_or_default(self.embed_model)
        return Embedder(model, cache, self.name, self.label)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_embedder": None, "_is_prepared": False}
