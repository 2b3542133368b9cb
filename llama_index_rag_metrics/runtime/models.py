"""LlamaIndex's models: those of its Settings, and embeddings through the cache."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from .arrays import FloatArray
from .cache import Cache, cache_key
from .errors import InvalidInput, ScorerFailed
from .masking import mask, names_secret
from .sync import in_thread
from .usage import Usage

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding

_WITHOUT_EFFECT = frozenset(
    {"embed_batch_size", "num_workers", "timeout", "max_retries", "reuse_client", "verbose"}
    | {"show_progress_bar", "top_n"}
)
"""Fields of LlamaIndex's components that bear on no answer."""

_KEY_OR_HEADER = re.compile(r"(^|[-_])key$|header", re.IGNORECASE)


def instance_of(module: str, name: str) -> Any:
    """The type of a pydantic field that takes instances of a class, imported for the first one."""

    def check(value: Any) -> Any:
        if not isinstance(value, getattr(import_module(module), name)):
            message = "Input should be an instance of {name}"
            raise PydanticCustomError("is_instance_of", message, {"name": name})
        return value

    return Annotated[Any, AfterValidator(check)]


def settings_of(component: object) -> dict[str, Any]:
    """The class of a LlamaIndex component and its fields that are texts, numbers or mappings.

    What is called a secret is left out. Private attributes and objects aren't seen: a metric's
    `label` tells such settings apart.
    """
    kind = type(component)
    settings: dict[str, Any] = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    for name in getattr(kind, "model_fields", {}):
        if name not in _WITHOUT_EFFECT:
            settings |= _plain({name: getattr(component, name)})
    return settings


def _plain(values: dict[Any, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, (int, float)) and math.isfinite(value):
            plain[str(name)] = value
        elif names_secret(str(name)) or _KEY_OR_HEADER.search(str(name)):
            continue
        elif isinstance(value, str):
            plain[str(name)] = mask(value)
        elif isinstance(value, dict):
            plain[str(name)] = _plain(value)
    return plain


class Embedder:
    """An embedding model behind a cache; `usage` counts what it is asked for."""

    def __init__(self, model: BaseEmbedding, cache: Cache, scorer: str, label: str = "") -> None:
        self.model = model
        self.scorer = scorer
        self.usage = Usage(label or model.model_name)
        self._cache = cache
        self._settings = settings_of(model)

    async def query(self, query: str) -> FloatArray:
        """(dimensions,) the embedding of a question, which many models embed otherwise."""

        def embed(queries: list[str]) -> list[list[float]]:
            return [self.model.get_query_embedding(text) for text in queries]

        (vector,) = await self._fetch("embedding of a question", [query], embed, 1)
        return vector

    async def texts(self, texts: Sequence[str]) -> list[FloatArray]:
        """(dimensions,) of each text its embedding."""
        embed = self.model.get_text_embedding_batch
        return await self._fetch("embedding", texts, embed, self.model.embed_batch_size)

    async def _fetch(
        self,
        kind: str,
        texts: Sequence[str],
        embed: Callable[[list[str]], Sequence[Sequence[float]]],
        batch_size: int,
    ) -> list[FloatArray]:
        model = self.usage.model
        keys = [cache_key(kind, model, parameters=self._settings, text=text) for text in texts]

        async def ask(positions: list[int]) -> list[str]:
            self.usage += Usage(requests=1, fresh=len(positions))
            embeddings = await in_thread(embed, [texts[position] for position in positions])
            if len(embeddings) != len(positions):
                reason = f"{len(embeddings)} embeddings for {len(positions)} texts"
                raise ScorerFailed(self.scorer, reason)
            return [self._packed(vector) for vector in embeddings]

        fetched = await self._cache.fetch(keys, ask, batch_size=batch_size, is_valid=_is_packed)
        self.usage += Usage(cached=fetched.cached)
        return [np.frombuffer(base64.b64decode(value), "<f8") for value in fetched.values]

    def _packed(self, vector: Sequence[float]) -> str:
        """An embedding for the cache: 64-bit floats in base64."""
        numbers = np.asarray(vector, "<f8")
        if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
            raise ScorerFailed(self.scorer, "an embedding isn't a list of finite numbers")
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
        lines = [line for line in str(error).splitlines() if re.search(r"\w", line)]
        line = lines[0] if lines else type(error).__name__
        reason = " ".join(line.split()).rstrip(".:")
        model = {"llm": "an LLM", "embed_model": "an embedding model"}[kind]
        raise InvalidInput(
            f"{kind} of {wanted_by}",
            None,
            sentence=f"{wanted_by} needs {model}, and LlamaIndex's default fails: {reason}.",
            remedy=f"Pass {kind}=..., or set Settings.{kind}.",
            lacks=kind,
        ) from error
