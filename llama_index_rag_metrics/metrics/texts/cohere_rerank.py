"""How relevant Cohere's reranker finds what was retrieved."""

from __future__ import annotations

import math
import os
import re
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr
from typing_extensions import Self

from llama_index_rag_metrics.runtime.cache import Cache, cache_key
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    MissingExtra,
    MissingKey,
    ScorerFailed,
)
from llama_index_rag_metrics.runtime.masking import mask_and_cut, register_secret, shorten
from llama_index_rag_metrics.runtime.retries import attempts, http_status
from llama_index_rag_metrics.runtime.sync import in_thread

from .text_metric import HasCorpus, TextMetric, service

if TYPE_CHECKING:
    import httpx

__all__ = ["CohereRerankRelevancy", "CohereRerankRelevancyMetric"]

_KEY_VARIABLES = ("CO_API_KEY", "COHERE_API_KEY")
_MOST_TEXTS = 1_000  # of one request: Cohere advises against more
_MOST_CHARACTERS = 300  # the longest message of a service that an error shows
_FIRST_PAUSE = 0.5  # seconds before the second attempt

_opening = threading.Lock()


class CohereRerankRelevancy(TextMetric):
    """Relevance of the retrieved texts by Cohere's reranker, max unless the name says otherwise.

    Scores are in [0, 1]. They depend on the model, and those of different models can't be compared.
    Nothing retrieved scores 0. It computes the same as LlamaIndex core's metric of that name, and
    can replace it: https://docs.cohere.com/reference/rerank.

    Args:
        model: the model; part of the name unless it is the default.
        api_key: the key; by default that of the environment, CO_API_KEY or COHERE_API_KEY. It isn't
            shown, logged, stored or pickled: other processes read it from their environment.
        base_url: where to ask; by default CO_API_URL, or Cohere.
        timeout: seconds to wait for an answer.
        max_retries: how often a request is sent again after a temporary refusal (408, 409, 429,
            5xx) or a broken connection. It waits as long as the answer's Retry-After says, unless
            that is over a minute.
        rate_limiter: its `async_acquire` is awaited before every request, as that of LlamaIndex's
            TokenBucketRateLimiter.

    Raises:
        MissingKey: there is no key, and something would have to be sent.
        ScorerFailed: Cohere refused, didn't answer, or answered something else than scores.

    Examples:
        >>> cohere = CohereRerankRelevancy(api_key="secret", agg="mean", k=5)
        >>> cohere.metric_name
        'cohere_rerank_relevancy(agg=mean)@5'
        >>> cohere.compute("who?", retrieved_texts=[]).score
        0.0
    """

    name = "cohere_rerank_relevancy"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    model: str = Field(default="rerank-v3.5", min_length=1, description="Cohere's model")
    base_url: str | None = service("where to ask")
    timeout: float = service("seconds to wait", 60.0, gt=0)
    max_retries: int = service("further attempts", 2, ge=0)
    rate_limiter: Any = service("asked before requests")
    _api_key: SecretStr | None = PrivateAttr(None)
    _clients: dict[tuple[str, str, float], Any] = PrivateAttr(default_factory=dict)

    def __init__(
        self, model: str = "rerank-v3.5", api_key: str | SecretStr | None = None, **parameters: Any
    ) -> None:
        super().__init__(**{"model": model, **parameters})
        if api_key is not None:
            self._api_key = _read_key(api_key)

    def prepare(self, dataset: HasCorpus, cache: Cache) -> Self:
        self._client()
        return super().prepare(dataset, cache)

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        endpoint = f"cohere {self._endpoint()}"
        key = partial(cache_key, "rerank", self.model, endpoint=endpoint, query=query)
        keys = [key(text=text) for text in texts]

        async def ask(positions: list[int]) -> list[float]:
            return await self._rerank(query, [texts[position] for position in positions])

        return await self._cache.fetch(keys, ask, batch_size=_MOST_TEXTS, is_valid=_is_score)

    async def _rerank(self, query: str, texts: list[str]) -> list[float]:
        client = self._client()
        request: dict[str, Any] = {"model": self.model, "query": query, "documents": texts}
        # the SDK would ask again after a minute where it is told to come back in ten
        request["request_options"] = {"max_retries": 0}

        async def attempt() -> Any:
            if self.rate_limiter is not None:
                await self.rate_limiter.async_acquire()
            return await in_thread(lambda: client.rerank(**request))

        try:
            answer: Any = await attempts(self.max_retries + 1, _FIRST_PAUSE, _may_pass)(attempt)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is worded
            failure = self._failure(error)
        else:
            return self._scores(answer, len(texts))
        raise failure  # without the error it comes from, whose text may hold the key

    def _scores(self, answer: Any, n: int) -> list[float]:
        """The scores of the answer, in the order of the texts; the SDK checks none of them."""
        results = getattr(answer, "results", None)
        pairs: list[tuple[Any, Any]] = []
        for result in results if isinstance(results, list) else []:
            pairs.append((getattr(result, "index", None), getattr(result, "relevance_score", None)))
        scores = {index: score for index, score in pairs if type(index) is int and _is_score(score)}
        if len(pairs) != n or scores.keys() != set(range(n)):
            reason = f"expected a score from 0 to 1 of each of {n} texts, got {shorten(pairs)}"
            raise self._bad(reason, getattr(answer, "id", None))
        return [float(scores[index]) for index in range(n)]

    def _failure(self, error: Exception) -> ScorerFailed:
        import httpx

        if isinstance(error, httpx.TimeoutException):
            return self._bad(f"no answer within {self.timeout:g} s")
        if isinstance(error, httpx.HTTPStatusError):
            response = error.response
            try:
                body = response.json()
            except ValueError:
                body = response.text
            record = body if isinstance(body, dict) else {"message": body}
            reason = f"status {response.status_code}: {record.get('message')}"
            return self._bad(reason, record.get("id"), response.status_code)
        # of Cohere's own errors the body, such as a proxy's page
        reason = f"{type(error).__name__}: {getattr(error, 'body', error)} ({self._endpoint()})"
        return self._bad(reason, status=http_status(error))

    def _bad(self, reason: str, request: object = None, status: int | None = None) -> ScorerFailed:
        """Return the error, masked and cut as a whole: a service may echo the key anywhere."""
        masked_id = mask_and_cut(str(request), _MOST_CHARACTERS) if request else None
        return ScorerFailed(self.name, mask_and_cut(reason, _MOST_CHARACTERS), masked_id, status)

    def _client(self) -> Any:
        """Return the client, which threads and copies of the metric share."""
        key = self._key()
        register_secret(key)
        client_key = (key.get_secret_value(), self._endpoint(), self.timeout)
        with _opening:
            if client_key not in self._clients:
                self._clients[client_key] = _open(*client_key)
            return self._clients[client_key]

    def _endpoint(self) -> str:
        endpoint = self.base_url or os.environ.get("CO_API_URL") or "https://api.cohere.com"
        try:
            parts = urlsplit(endpoint)
            # httpx logs addresses, and would send a user and a password instead of the key
            is_address = parts.scheme in ("http", "https") and parts.hostname
        except ValueError:
            is_address = None
        if not is_address or "@" in endpoint:
            expected = "an address such as https://api.cohere.com, without a user and a password"
            raise InvalidInput("base_url", endpoint, expected)
        return endpoint

    def _key(self) -> SecretStr:
        if self._api_key:
            return self._api_key
        for variable in _KEY_VARIABLES:
            if key := _read_key(os.environ.get(variable, "")):
                return key
        raise MissingKey(self.name, _KEY_VARIABLES)

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        private = {**(state["__pydantic_private__"] or {}), "_api_key": None, "_clients": {}}
        return {**state, "__pydantic_private__": private}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.model_copy()


CohereRerankRelevancyMetric = CohereRerankRelevancy  # LlamaIndex core's name


def _open(key: str, endpoint: str, timeout: float) -> Any:
    try:
        import cohere
    except ImportError as error:
        raise MissingExtra("cohere_rerank_relevancy", "cohere") from error
    import httpx

    # a redirect isn't followed: another host would get the question and the texts
    hooks = {"response": [_raise_for_status]}
    connection = httpx.Client(timeout=timeout, follow_redirects=False, event_hooks=hooks)
    client = cohere.ClientV2(
        api_key=key,
        base_url=endpoint,
        timeout=timeout,
        httpx_client=connection,
        log_warning_experimental_features=False,
    )
    weakref.finalize(client, connection.close)
    return client


def _raise_for_status(response: httpx.Response) -> None:
    """Raise httpx's error: those of old SDKs have no headers, and so no Retry-After."""
    if not response.is_success:
        response.read()
        response.raise_for_status()


def _may_pass(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status in (408, 409, 429) or status >= 500
    is_broken = isinstance(error, httpx.TransportError)
    return is_broken and not isinstance(error, httpx.TimeoutException)


def _is_score(score: Any) -> bool:
    return type(score) in (int, float) and math.isfinite(score) and 0 <= score <= 1


def _read_key(api_key: str | SecretStr) -> SecretStr:
    """Return the key; refuse what fits into no header, which the client's error would show."""
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
    if not isinstance(key, str) or not re.fullmatch("[ -~]*", key.strip()):
        raise InvalidInput("api_key", type(key), "a text of ASCII characters in one line")
    return SecretStr(key.strip())
