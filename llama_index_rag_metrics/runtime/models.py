"""LlamaIndex's models: those of its Settings, and embeddings through the cache."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Tally, Usage
from llama_index_rag_metrics.runtime.digests import Request, settings_of
from llama_index_rag_metrics.runtime.errors import BadAnswer, InvalidInput
from llama_index_rag_metrics.runtime.sync import in_thread

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding


def instance_of(module: str, name: str) -> Any:
    """The type of a pydantic field that takes instances of a class, imported for the first one."""

    def check(value: Any) -> Any:
        if not isinstance(value, getattr(import_module(module), name)):
            message = "Input should be an instance of {name}"
            raise PydanticCustomError("is_instance_of", message, {"name": name})
        return value

    return Annotated[Any, AfterValidator(check)]


class Embedder:
    """An embedding model behind a cache."""

    def __init__(self, model: BaseEmbedding, cache: Cache, scorer: str, label: str = "") -> None:
        self.model = model
        self.scorer = scorer
        self.tally = Tally(Usage(label or model.model_name))
        self._cache = cache
        self._settings = settings_of(model)

    async def embed(
        self, texts: Iterable[str] = (), queries: Iterable[str] = ()
    ) -> tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]:
        """The embeddings of texts, and of queries, which many models embed otherwise."""
        model = self.model
        of_queries = await self._fetch(
            "embedding of a question",
            queries,
            lambda batch: [model.get_query_embedding(text) for text in batch],
            batch_size=1,
        )
        of_texts = await self._fetch(
            "embedding", texts, model.get_text_embedding_batch, model.embed_batch_size
        )
        lengths = {len(vector) for vectors in (of_queries, of_texts) for vector in vectors.values()}
        if len(lengths) > 1:
            raise BadAnswer(self.scorer, "the embeddings have different lengths")
        return of_texts, of_queries

    async def _fetch(
        self,
        kind: str,
        texts: Iterable[str],
        embed: Callable[[list[str]], Sequence[Sequence[float]]],
        batch_size: int,
    ) -> dict[str, FloatArray]:
        asked = list(dict.fromkeys(texts))
        requests = [
            Request(kind, self.tally.usage.model, parameters=self._settings, text=text)
            for text in asked
        ]

        async def ask(positions: list[int]) -> list[str]:
            self.tally.usage += Usage(requests=1, fresh=len(positions))
            embedded = await in_thread(embed, [asked[position] for position in positions])
            if len(embedded) != len(positions):
                reason = f"{len(embedded)} embeddings for {len(positions)} texts"
                raise BadAnswer(self.scorer, reason)
            return [self._packed(vector) for vector in embedded]

        fetched = await self._cache.fetch(requests, ask, batch_size=batch_size, is_valid=_is_packed)
        self.tally.usage += Usage(cached=fetched.cached)
        vectors = [np.frombuffer(base64.b64decode(value), "<f8") for value in fetched.values]
        return dict(zip(asked, vectors, strict=True))

    def _packed(self, vector: Sequence[float]) -> str:
        """An embedding for the cache: 64-bit floats in base64."""
        numbers = np.asarray(vector, "<f8")
        if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
            raise BadAnswer(self.scorer, "an embedding isn't a list of finite numbers")
        return base64.b64encode(numbers.tobytes()).decode()


def _is_packed(value: object) -> bool:
    try:
        numbers = np.frombuffer(base64.b64decode(value, validate=True), "<f8")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return bool(len(numbers)) and bool(np.isfinite(numbers).all())


def model_of_settings(kind: Literal["llm", "embed_model"], wanted_by: str) -> Any:
    """`Settings.llm` or `Settings.embed_model`, or an error that names what needs it."""
    from llama_index.core import Settings

    try:
        return getattr(Settings, kind)
    except (ImportError, ValueError) as error:
        lines = (line for line in str(error).splitlines() if re.search(r"\w", line))
        reason = " ".join(next(lines, type(error).__name__).split()).rstrip(".:")
        model = "an LLM" if kind == "llm" else "an embedding model"
        raise InvalidInput(
            f"{kind} of {wanted_by}",
            None,
            sentence=f"{wanted_by} needs {model}, and LlamaIndex's default fails: {reason}.",
            remedy=f"Pass {kind}=..., or set Settings.{kind}.",
            lacks=kind,
        ) from error


def embed_model_or_default(embed_model: BaseEmbedding | None) -> BaseEmbedding:
    if embed_model is None:
        embed_model = model_of_settings("embed_model", "comparing embeddings")
    return embed_model


def dots(vector: FloatArray, others: FloatArray) -> FloatArray:
    """(others,) the dot product with each row, row by row: a product of matrices has other bits."""
    return np.asarray((others * vector).sum(axis=1))


def cosines(vector: FloatArray, others: FloatArray) -> FloatArray:
    """(others,) the cosine of a vector with each row, in [-1, 1]; 0 where one has no direction."""
    norms = np.sqrt(dots(vector, vector[None]) * (others * others).sum(axis=1))
    return np.clip(dots(vector, others) / np.where(norms > 0, norms, np.inf), -1.0, 1.0)
