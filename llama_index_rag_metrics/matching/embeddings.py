"""Matching by meaning: the embeddings of two texts are near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.matching.base import Memory, TextMatcher
from llama_index_rag_metrics.matching.text import positions

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding

Vector: TypeAlias = npt.NDArray[np.float32]

_KEPT = 2**24
"""How many numbers of embeddings are remembered: 64 MB."""


class EmbeddingMatcher(TextMatcher):
    """The cosine of the two texts' embeddings reaches the threshold.

    Texts are embedded in the model's batches; what was embedded lately isn't embedded again.

    Args:
        embed_model: a LlamaIndex embedding; unless given, `Settings.embed_model`, asked for when it
            is needed.
        threshold: the cosine from which a retrieved text covers an expected one. What is near
            depends on the model: look at a few pairs first.

    Examples:
        >>> from llama_index.core.embeddings import MockEmbedding
        >>> EmbeddingMatcher(MockEmbedding(embed_dim=4)).match(["one", "two"], ["three", ""])
        [[0, 1], []]
    """

    kind = "embedding"
    default = 0.9
    is_pure = False

    def __init__(
        self, embed_model: BaseEmbedding | None = None, threshold: float | None = None
    ) -> None:
        super().__init__(threshold)
        self.embed_model = embed_model
        self._vectors: Memory[Vector] = Memory(_KEPT)
        self._embedded_by: BaseEmbedding | None = None

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        model = self._model()
        known, unknown = self._look_up([*expected, *retrieved])
        vectors = model.get_text_embedding_batch(unknown) if unknown else []
        return self._compare(expected, retrieved, known | self._keep(unknown, vectors))

    async def amatch(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        model = self._model()
        known, unknown = self._look_up([*expected, *retrieved])
        vectors = await model.aget_text_embedding_batch(unknown) if unknown else []
        return self._compare(expected, retrieved, known | self._keep(unknown, vectors))

    def _model(self) -> BaseEmbedding:
        model = self.embed_model
        if model is None:
            from llama_index.core import Settings

            model = Settings.embed_model
        if model is not self._embedded_by:
            self._embedded_by, self._vectors = model, Memory(_KEPT)
        return model

    def _look_up(self, texts: Sequence[str]) -> tuple[dict[str, Vector], list[str]]:
        known: dict[str, Vector] = {}
        unknown: list[str] = []
        for text in dict.fromkeys(texts):
            vector = self._vectors.get(text)
            if vector is not None:
                known[text] = vector
            elif text.strip():
                unknown.append(text)
        return known, unknown

    def _keep(self, texts: list[str], vectors: Sequence[Sequence[float]]) -> dict[str, Vector]:
        kept: dict[str, Vector] = {}
        for text, given in zip(texts, vectors, strict=True):
            vector = np.asarray(given, np.float64)
            length = float(np.linalg.norm(vector)) or 1.0
            kept[text] = (vector / length).astype(np.float32)
            self._vectors.keep(text, kept[text], len(vector))
        return kept

    def _compare(
        self, expected: Sequence[str], retrieved: Sequence[str], vectors: dict[str, Vector]
    ) -> list[list[int]]:
        covers = np.zeros((len(retrieved), len(expected)), np.bool_)
        rows = [at for at, text in enumerate(retrieved) if text in vectors]
        columns = [at for at, text in enumerate(expected) if text in vectors]
        if rows and columns:
            left = np.stack([vectors[retrieved[at]] for at in rows])
            right = np.stack([vectors[expected[at]] for at in columns])
            # a vector with itself may come to a little less than 1 in 32 bits
            covers[np.ix_(rows, columns)] = left @ right.T >= self.threshold - 1e-6
        return positions(covers)
