"""How relevant Cohere's reranker finds what was retrieved."""

from __future__ import annotations

import inspect
import math
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, field_validator
from typing_extensions import Self

from llama_index_rag_metrics.runtime.cache import Cache, cache_key
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    MissingExtra,
    MissingKey,
    ScorerFailed,
)
from llama_index_rag_metrics.runtime.masking import mask_and_cut, register_secret
from llama_index_rag_metrics.runtime.retries import attempts
from llama_index_rag_metrics.runtime.sync import in_thread

from .text_metric import HasCorpus, TextMetric, service

if TYPE_CHECKING:
    import httpx

__all__ = ["CohereRerankRelevancy", "CohereRerankRelevancyMetric"]

KEY_VARIABLES = ("CO_API_KEY", "COHERE_API_KEY")
_ENDPOINT = "https://api.cohere.com"
_MOST_TEXTS = 1_000  # of one request: Cohere advises against more
_RETRIED = frozenset({408, 409, 429})  # as is 5xx: the others stay as they are
_MOST_CHARACTERS = 300  # the longest message of a service that an error shows
_FIRST_PAUSE = 0.5  # seconds before the second attempt


class _Clients:
    """Cohere's clients, by key and address, as threads share them; copies and pickles are empty."""

    def __init__(self) -> None:
        self._by_service: dict[tuple[str, str, float], Any] = {}
        self._connections: list[httpx.Client] = []
        self._opening = threading.Lock()

    def rerank(
        self, key: SecretStr, endpoint: str, timeout: float, request: Mapping[str, Any]
    ) -> Any:
        service_key = (key.get_secret_value(), endpoint, timeout)
        with self._opening:
            if service_key not in self._by_service:
                self._by_service[service_key] = self._open(*service_key)
        # the SDK asks again after a minute where it is told to come back in ten
        once = {"max_retries": 0}
        return self._by_service[service_key].rerank(**request, request_options=once)

    def _open(self, key: str, endpoint: str, timeout: float) -> Any:
        _check_sdk()
        import httpx
        from cohere import ClientV2

        # a redirect isn't followed: another host would get the question and the texts
        connection = httpx.Client(
            timeout=timeout, follow_redirects=False, event_hooks={"response": [_raise_for_status]}
        )
        self._connections.append(connection)
        return ClientV2(
            api_key=key,
            base_url=endpoint,
            timeout=timeout,
            httpx_client=connection,
            log_warning_experimental_features=False,
        )

    def __del__(self) -> None:
        for connection in self._connections:
            connection.close()

    def __deepcopy__(self, memo: object) -> _Clients:
        return _Clients()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Clients, ()


class CohereRerankRelevancy(TextMetric):
    """Relevance of the retrieved texts to the question by Cohere's reranker, max over the texts.

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
        rate_limiter: asked before every request: an object with `async_acquire` or `acquire`, such
            as LlamaIndex's TokenBucketRateLimiter.
        max_tokens_per_doc: where Cohere cuts a text; None: its default.

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
    max_tokens_per_doc: int | None = Field(
        default=None, gt=0, strict=True, description="where a text is cut; None: Cohere's default"
    )
    base_url: str | None = service("where to ask")
    timeout: float = service("seconds to wait", 60.0, gt=0)
    max_retries: int = service("further attempts", 2, ge=0)
    rate_limiter: Any = service("asked before requests")
    _api_key: SecretStr | None = PrivateAttr(None)
    _clients: _Clients = PrivateAttr(default_factory=_Clients)

    def __init__(
        self, model: str = "rerank-v3.5", api_key: str | SecretStr | None = None, **parameters: Any
    ) -> None:
        super().__init__(**{"model": model, **parameters})
        if api_key is not None:
            self._api_key = _read_key(api_key)

    @field_validator("rate_limiter")
    @classmethod
    def _can_be_asked(cls, limiter: Any) -> Any:
        methods = [getattr(limiter, method, None) for method in ("async_acquire", "acquire")]
        if limiter is not None and not any(map(callable, methods)):
            expected = "an object with async_acquire or acquire, such as a TokenBucketRateLimiter"
            raise InvalidInput("rate_limiter", limiter, expected)
        return limiter

    def prepare(self, dataset: HasCorpus, cache: Cache) -> Self:
        _check_sdk()
        self._endpoint()
        self._key()
        return super().prepare(dataset, cache)

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        endpoint = self._endpoint()
        parameters = {"service": "cohere", "max_tokens_per_doc": self.max_tokens_per_doc}
        shared = {"endpoint": endpoint, "parameters": parameters, "query": query}
        keys = [cache_key("rerank", self.model, text=text, **shared) for text in texts]  # type: ignore[arg-type]

        async def ask(positions: list[int]) -> list[float]:
            return await self._rerank(query, [texts[position] for position in positions])

        fetched = await self._cache.fetch(keys, ask, batch_size=_MOST_TEXTS, is_valid=_is_score)
        self.spend(self.model, cached=fetched.cached)
        return list(map(float, fetched.values))

    async def _rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        key, endpoint = self._key(), self._endpoint()
        register_secret(key)
        request: dict[str, Any] = {"model": self.model, "query": query, "documents": list(texts)}
        if self.max_tokens_per_doc is not None:
            request["max_tokens_per_doc"] = self.max_tokens_per_doc
        self.spend(self.model, fresh=len(texts))

        async def attempt() -> Any:
            await self._admission()
            self.spend(self.model, requests=1)
            return await in_thread(self._clients.rerank, key, endpoint, self.timeout, request)

        try:
            answer: Any = await attempts(self.max_retries + 1, _FIRST_PAUSE, _may_pass)(attempt)
        except MissingExtra:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the client raises is worded
            failure = self._failure(error)
        else:
            self.spend(self.model, units=_units(answer))
            return self._scores(answer, len(texts))
        raise failure  # without the error it comes from, whose text may hold the key

    async def _admission(self) -> None:
        acquire = getattr(self.rate_limiter, "async_acquire", None)
        if inspect.iscoroutinefunction(acquire):
            await acquire()
        elif self.rate_limiter is not None:
            await in_thread(self.rate_limiter.acquire)

    def _scores(self, answer: Any, n: int) -> list[float]:
        """The scores of the answer, in the order of the texts; the SDK checks none of them."""
        request_id = getattr(answer, "id", None)
        results = getattr(answer, "results", None)
        if not isinstance(results, list):
            raise self._bad("the answer has no results", request_id)
        if len(results) != n:
            raise self._bad(f"{len(results)} scores for {n} texts", request_id)
        scores: dict[int, float] = {}
        for result in results:
            index = getattr(result, "index", None)
            score: Any = getattr(result, "relevance_score", None)
            if type(index) is not int or not 0 <= index < n or index in scores:
                expected = f"each index from 0 to {n - 1} once"
                raise self._bad(f"index {index!r} instead of {expected}", request_id)
            if not _is_score(score):
                raise self._bad(f"score {score!r} instead of a number from 0 to 1", request_id)
            scores[index] = float(score)
        return [scores[index] for index in range(n)]

    def _failure(self, error: Exception) -> ScorerFailed:
        import httpx
        from cohere.core.api_error import ApiError

        if isinstance(error, httpx.TimeoutException):
            return self._bad(f"no answer within {self.timeout:g} s")
        if isinstance(error, httpx.TransportError):
            return self._bad(f"the connection failed: {type(error).__name__} {error}")
        if isinstance(error, UnicodeEncodeError):
            return self._bad(f"the request can't be sent: {error}")
        if isinstance(error, httpx.HTTPStatusError):
            status = error.response.status_code
            body = _decoded(error.response)
            return self._bad(f"status {status}: {body.get('message')}", body.get("id"), status)
        if isinstance(error, ApiError):
            return self._bad(f"the answer isn't JSON; status {error.status_code}: {error.body}")
        return self._bad(f"the answer can't be read: {type(error).__name__} {error}")

    def _bad(
        self, reason: str, request_id: object = None, status: int | None = None
    ) -> ScorerFailed:
        """The error; a service may echo the key anywhere, so all of it is masked, then cut."""
        masked_id = mask_and_cut(str(request_id), _MOST_CHARACTERS) if request_id else None
        return ScorerFailed(self.name, mask_and_cut(reason, _MOST_CHARACTERS), masked_id, status)

    def _endpoint(self) -> str:
        endpoint = self.base_url or os.environ.get("CO_API_URL") or _ENDPOINT
        expected = "an address such as https://api.cohere.com, without a user and a password"
        try:
            parts = urlsplit(endpoint)
        except ValueError:
            raise InvalidInput("base_url", endpoint, expected) from None
        # httpx logs addresses, and would send a user and a password instead of the key
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise InvalidInput("base_url", endpoint, expected)
        return endpoint

    def _key(self) -> SecretStr:
        if self._api_key:
            return self._api_key
        for variable in KEY_VARIABLES:
            if key := _read_key(os.environ.get(variable, "")):
                return key
        raise MissingKey(self.name, KEY_VARIABLES)

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        private = {**(state["__pydantic_private__"] or {}), "_api_key": None}
        return {**state, "__pydantic_private__": private}


CohereRerankRelevancyMetric = CohereRerankRelevancy
"""LlamaIndex core's name."""


def _raise_for_status(response: httpx.Response) -> None:
    """The errors of old SDKs have no headers, and so no Retry-After."""
    if not response.is_success:
        response.read()
        response.raise_for_status()


def _may_pass(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status in _RETRIED or status >= 500
    is_broken = isinstance(error, httpx.TransportError)
    return is_broken and not isinstance(error, httpx.TimeoutException)


def _is_score(score: Any) -> bool:
    return type(score) in (int, float) and math.isfinite(score) and 0 <= score <= 1


def _decoded(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = response.text
    return body if isinstance(body, dict) else {"message": body}


def _read_key(api_key: str | SecretStr) -> SecretStr:
    """The key, which an error of the client would show if it didn't fit into a header."""
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
    if not isinstance(key, str) or not re.fullmatch("[ -~]*", key.strip()):
        value = SecretStr("hidden") if isinstance(key, str) else type(key)
        raise InvalidInput("api_key", value, "a text of ASCII characters in one line")
    return SecretStr(key.strip())


def _units(answer: Any) -> float:
    billed = getattr(getattr(answer, "meta", None), "billed_units", None)
    units = getattr(billed, "search_units", None)
    return float(units) if isinstance(units, (int, float)) else 0.0


def _check_sdk() -> None:
    try:
        import cohere  # noqa: F401
    except ImportError as error:
        raise MissingExtra("cohere_rerank_relevancy", "cohere") from error
