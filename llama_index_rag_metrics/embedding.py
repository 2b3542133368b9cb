"""Embeddings, fetched through the cache: the one way for metrics and matchers."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.cache import Cache, Request, Tally, Usage, identity
from llama_index_rag_metrics.errors import BadAnswer
from llama_index_rag_metrics.sync import in_thread

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding

Vector: TypeAlias = npt.NDArray[np.float64]

_TEXT, _QUERY = "embedding", "embedding of a query"


class Embedder:
    """An embedding model behind a cache.

    Texts are embedded in the model's batches, in a thread, since most of LlamaIndex's embeddings
    block in the end; what the cache has, or what is under way, isn't asked for.

    Args:
        model: the model.
        cache: keeps the embeddings.
        scorer: who wants them, for errors.
        label: tells models apart that the cache can't; in place of the model's name.

    Attributes:
        tally: what was asked for so far.
    """

    def __init__(self, model: BaseEmbedding, cache: Cache, scorer: str, label: str = "") -> None:
        self.model = model
        self.scorer = scorer
        self.tally = Tally(Usage(label or model.model_name))
        self._cache = cache
        self._settings = identity(model)

    async def embed(
        self, texts: Iterable[str] = (), queries: Iterable[str] = ()
    ) -> tuple[Mapping[str, Vector], Mapping[str, Vector]]:
        """The embeddings of texts, and of queries, which many models embed otherwise.

        Raises:
            BadAnswer: the model gave embeddings that aren't finite, or of different lengths.
        """
        asked = [(_QUERY, one) for one in dict.fromkeys(queries)]
        asked += [(_TEXT, one) for one in dict.fromkeys(texts)]
        requests = [
            Request(kind, self.tally.usage.model, parameters=self._settings, text=text)
            for kind, text in asked
        ]

        async def ask(positions: list[int]) -> list[str]:
            self.tally.add(requests=1, fresh=len(positions))
            return await in_thread(self._ask, [asked[position] for position in positions])

        fetched = await self._cache.fetch(requests, ask, batch_size=self.model.embed_batch_size)
        self.tally.add(cached=fetched.cached)
        vectors = [np.frombuffer(base64.b64decode(one), "<f8") for one in fetched.values]
        if len({len(vector) for vector in vectors}) > 1:
            raise BadAnswer(self.scorer, "the embeddings have different lengths")
        found: dict[str, dict[str, Vector]] = {_TEXT: {}, _QUERY: {}}
        for (kind, text), vector in zip(asked, vectors, strict=True):
            found[kind][text] = vector
        return found[_TEXT], found[_QUERY]

    def _ask(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """The embeddings, as the cache keeps them: 64-bit floats in base64."""
        texts = [text for kind, text in asked if kind == _TEXT]
        embedded = self.model.get_text_embedding_batch(texts) if texts else []
        if len(embedded) != len(texts):
            reason = f"{len(embedded)} embeddings for {len(texts)} texts"
            raise BadAnswer(self.scorer, reason)
        queue = iter(embedded)
        return [
            self._packed(next(queue) if kind == _TEXT else self.model.get_query_embedding(text))
            for kind, text in asked
        ]

    def _packed(self, vector: Sequence[float]) -> str:
        numbers = np.asarray(vector, "<f8")
        if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
            raise BadAnswer(self.scorer, "an embedding isn't a list of finite numbers")
        return base64.b64encode(numbers.tobytes()).decode()


def embed_model_or_default(given: BaseEmbedding | None) -> BaseEmbedding:
    """The model given, or `Settings.embed_model` as it is now."""
    if given is not None:
        return given
    from llama_index.core import Settings

    model: BaseEmbedding = Settings.embed_model
    return model
