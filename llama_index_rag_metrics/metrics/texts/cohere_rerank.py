"""How relevant Cohere's reranker finds what was retrieved."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import warnings
import weakref
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pydantic import Field, PrivateAttr, SecretStr, field_validator

from llama_index_rag_metrics.metrics.texts.rerank import RerankerMetric
from llama_index_rag_metrics.metrics.texts.text_metric import HasCorpus, TextScores, service
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Tally, Usage
from llama_index_rag_metrics.runtime.digests import Request
from llama_index_rag_metrics.runtime.errors import (
    BadAnswer,
    InvalidInput,
    MissingExtra,
    MissingKey,
    ScorerFailed,
)
from llama_index_rag_metrics.runtime.masking import MASK, mask_and_cut, register_secret
from llama_index_rag_metrics.runtime.retries import admission, attempts
from llama_index_rag_metrics.runtime.sync import in_thread

if TYPE_CHECKING:
    import httpx

__all__ = ["CohereRerankRelevancy", "CohereRerankRelevancyMetric"]

Self = TypeVar("Self", bound="CohereRerankRelevancy")
Closer: TypeAlias = Callable[[], Awaitable[None]]

KEY_VARIABLES = ("CO_API_KEY", "COHERE_API_KEY")
# the largest answer that is read, unzipped; a thousand scores take a hundredth of it
MOST_BYTES = 16 << 20
# requests of one client. httpcore looks through all of a client's connections, squared, whenever a
# request begins or ends: 32 of them would take more time than all the rest; opening clients takes
# time, too
_AT_ONCE = 8
_ENDPOINT = "https://api.cohere.com"
# tried again, as is 5xx: the others stay as they are, however often one asks
_RETRIED = frozenset({408, 409, 429})
_MOST_CHARACTERS = 300  # the longest message of a service that an error shows
_FIRST_PAUSE = 0.5  # seconds before the second attempt


class AnswerRefused(Exception):
    """An answer that isn't read on, or a redirect that isn't followed: asking again is no use."""


class OpenConnection(UserWarning):
    """A key and texts would travel unencrypted: the scorer, and the host."""

    def __str__(self) -> str:
        scorer, host = self.args
        return f"{scorer}: the key and the texts go to {host} over plain http. Use https."


def guarded_client(**options: Any) -> httpx.AsyncClient:
    """A client that follows redirects within one host only, and reads answers up to a size."""
    import httpx

    class Guarded(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            try:
                _check_redirect(request, response)
                body = await _read(response)
            finally:
                await response.aclose()
            headers = httpx.Headers(response.headers)
            for name in ("content-encoding", "content-length", "transfer-encoding"):
                headers.pop(name, None)
            extensions, status = response.extensions, response.status_code
            return httpx.Response(
                status, headers=headers, content=body, extensions=extensions, request=request
            )

    verify = options.pop("verify", True)
    return httpx.AsyncClient(transport=Guarded(verify=verify), follow_redirects=True, **options)


def is_loopback(host: str) -> bool:
    """Whether what is sent to that host never leaves this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _check_redirect(request: httpx.Request, response: httpx.Response) -> None:
    if not response.has_redirect_location:
        return
    url = request.url
    target = url.join(response.headers["location"])
    same_place = (target.host, target.scheme, target.port) == (url.host, url.scheme, url.port)
    upgraded = target.host == url.host and (url.scheme, target.scheme) == ("http", "https")
    if not same_place and not upgraded:
        where = f"{target.scheme}://{target.host}"
        raise AnswerRefused(f"a redirect to {where}, which would get the question and the texts")


async def _read(response: httpx.Response) -> bytes:
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "deflate", ""):
        raise AnswerRefused(f"an answer in the coding {coding!r}")
    # gzip and zlib are told apart by the header of the data
    unzipped = zlib.decompressobj(zlib.MAX_WBITS | 32) if coding in ("gzip", "deflate") else None
    body = bytearray()
    async for chunk in response.stream:  # type: ignore[union-attr]
        body += chunk if unzipped is None else unzipped.decompress(chunk, MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise AnswerRefused(f"an answer of more than {MOST_BYTES >> 20} MB")
    return bytes(body)


class ClientPool:
    """Opens a client for every few requests at once, and keeps it for the next ones.

    Connections can't be used in another event loop, so each loop has clients of its own. They are
    closed when the pool is no longer used, or when the loop shuts down: `asyncio.run` and its like
    close asynchronous generators, and one holds them. Copies and pickles start empty.
    """

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()

    @asynccontextmanager
    async def client(self, open_one: Callable[[], tuple[Any, Closer]]) -> AsyncIterator[Any]:
        """A client for one request; `open_one` makes a new one, and what closes it."""
        loop = asyncio.get_running_loop()
        clients = self._by_loop.setdefault(loop, _Clients())
        if not clients.idle:
            async with clients.opening:
                if clients.holder is None:
                    clients.holder = _hold(clients.closers)
                    await clients.holder.__anext__()
                    weakref.finalize(self, _close_soon, loop, clients.closers).atexit = False
                if not clients.idle:
                    # in a thread: importing and reading certificates would hold up the loop
                    client, close = await in_thread(open_one)
                    clients.idle.extend([client] * _AT_ONCE)
                    clients.closers.append(close)
        client = clients.idle.pop()
        try:
            yield client
        finally:
            clients.idle.append(client)

    def __deepcopy__(self, memo: object) -> ClientPool:
        return ClientPool()

    def __reduce__(self) -> tuple[Any, ...]:
        return ClientPool, ()


class _Clients:
    def __init__(self) -> None:
        self.idle: list[Any] = []  # as often as it may take a further request
        self.closers: list[Closer] = []
        self.opening = asyncio.Lock()  # one at a time: threads that open hold up the loop
        self.holder: AsyncGenerator[None, None] | None = None


async def _close(closers: list[Closer]) -> None:
    while closers:
        await closers.pop()()


async def _hold(closers: list[Closer]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await _close(closers)


def _close_soon(loop: asyncio.AbstractEventLoop, closers: list[Closer]) -> None:
    """Close clients in their loop, from whatever thread collects garbage."""
    if closers and not loop.is_closed():
        loop.call_soon_threadsafe(lambda: loop.create_task(_close(closers)))


class CohereRerankRelevancy(RerankerMetric):
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
        ScorerFailed: Cohere refused, or didn't answer; BadAnswer: it answered something else.

    Examples:
        >>> cohere = CohereRerankRelevancy(api_key="secret", agg="mean", k=5)
        >>> cohere.metric_name
        'cohere_rerank_relevancy(agg=mean)@5'
        >>> cohere.compute("who?", retrieved_texts=[]).score
        0.0
    """

    name = "cohere_rerank_relevancy"
    alone: ClassVar[bool] = True
    most_texts: ClassVar[int | None] = 1_000
    """Cohere advises against more."""

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
    _clients: ClientPool = PrivateAttr(default_factory=ClientPool)

    def __init__(
        self, model: str = "rerank-v3.5", api_key: str | SecretStr | None = None, **parameters: Any
    ) -> None:
        super().__init__(**{"model": model, **parameters})
        if api_key is not None:
            self._api_key = _read_key(api_key)

    @field_validator("rate_limiter")
    @classmethod
    def _can_be_asked(cls, limiter: Any) -> Any:
        ways = [getattr(limiter, method, None) for method in ("async_acquire", "acquire")]
        if limiter is not None and not any(map(callable, ways)):
            expected = "an object with async_acquire or acquire, such as a TokenBucketRateLimiter"
            raise InvalidInput("rate_limiter", limiter, expected)
        return limiter

    def prepare(self: Self, dataset: HasCorpus, cache: Cache) -> Self:
        _sdk()
        self._check_endpoint()
        return super().prepare(dataset, cache)

    async def ascore(self, query: str, texts: Sequence[str]) -> TextScores:
        self._check_endpoint()
        return await super().ascore(query, texts)

    @property
    def _model(self) -> str:
        return self.model

    def _request(self, query: str, texts: str | Sequence[str]) -> Request:
        parameters = {"service": "cohere", "max_tokens_per_doc": self.max_tokens_per_doc}
        return Request("rerank", self.model, self._endpoint, parameters, query, texts)

    async def _rerank(self, query: str, texts: Sequence[str], tally: Tally) -> list[float]:
        cut = self.max_tokens_per_doc
        request: dict[str, Any] = {"model": self.model, "query": query, "documents": list(texts)}
        # the SDK asks again after a minute where it is told to come back in ten
        request |= {"request_options": {"max_retries": 0}}
        request |= {} if cut is None else {"max_tokens_per_doc": cut}
        tries = attempts(self.max_retries + 1, _FIRST_PAUSE, _may_pass)
        try:
            answer: Any = await tries(self._attempt, request, tally)
        except _Unanswered as unanswered:
            failure = self._failure(unanswered.error)
        else:
            tally.usage += Usage(units=_units(answer))
            return self._scores(answer, len(texts))
        raise failure  # without the error it comes from, whose text may hold the key

    async def _attempt(self, request: dict[str, Any], tally: Tally) -> Any:
        await admission(self.rate_limiter)
        tally.usage += Usage(requests=1)
        try:
            async with self._clients.client(self._open) as client:
                return await asyncio.wait_for(client.rerank(**request), self.timeout)
        except MissingExtra:
            raise
        except Exception as error:
            raise _Unanswered(error) from error

    def _scores(self, answer: Any, n: int) -> list[float]:
        results, request_id = (getattr(answer, field, None) for field in ("results", "id"))

        def wrong(reason: str) -> BadAnswer:
            return BadAnswer(self.name, self._masked(reason), self._request_id(request_id))

        if not isinstance(results, list):
            raise wrong("the answer has no results")
        if len(results) != n:
            raise wrong(f"{len(results)} scores for {n} texts")
        scores: dict[int, float] = {}
        for result in results:  # the SDK checks neither
            index, score = (getattr(result, field, None) for field in ("index", "relevance_score"))
            if type(index) is not int or not 0 <= index < n or index in scores:
                raise wrong(f"index {index!r} instead of each index from 0 to {n - 1} once")
            if not self._is_score(score):
                raise wrong(f"score {score!r} instead of a number from 0 to 1")
            scores[index] = float(score)
        return [scores[index] for index in range(n)]

    def _failure(self, error: Exception) -> Exception:
        import httpx
        from cohere.core.api_error import ApiError

        if isinstance(error, (asyncio.TimeoutError, httpx.TimeoutException)):
            return ScorerFailed(self.name, f"no answer within {self.timeout:g} s")
        if isinstance(error, (AnswerRefused, zlib.error)):
            return BadAnswer(self.name, self._masked(f"refused: {error}"))
        kind = type(error).__name__
        if isinstance(error, httpx.TransportError):
            return ScorerFailed(self.name, self._masked(f"the connection failed: {kind} {error}"))
        if isinstance(error, UnicodeEncodeError):
            return ScorerFailed(self.name, f"the request can't be sent: {error}")
        if isinstance(error, httpx.HTTPStatusError):
            status = error.response.status_code
            body = _decoded(error.response)
            answer = body if isinstance(body, dict) else {"message": body}
            reason = self._masked(f"status {status}: {answer.get('message')}")
            return ScorerFailed(self.name, reason, self._request_id(answer.get("id")), status)
        if isinstance(error, ApiError):
            reason = self._masked(f"status {error.status_code}: {error.body}")
            return BadAnswer(self.name, f"the answer isn't JSON; {reason}")
        return BadAnswer(self.name, self._masked(f"the answer can't be read: {kind} {error}"))

    def _masked(self, text: str) -> str:
        """A service may echo the key anywhere: masked first, and only then cut."""
        return mask_and_cut(text.replace(self._key().get_secret_value(), MASK), _MOST_CHARACTERS)

    def _request_id(self, request_id: object) -> str | None:
        return None if request_id is None else self._masked(str(request_id))

    def _open(self) -> tuple[Any, Closer]:
        _sdk()
        import httpx
        from cohere import AsyncClientV2

        # httpx logs the URLs of requests: a user and a password go another way
        url = httpx.URL(self._endpoint)
        http = guarded_client(
            verify=_certificates(),
            timeout=self.timeout,
            auth=httpx.BasicAuth(url.username, url.password) if url.userinfo else None,
            event_hooks={"response": [_raise_for_status]},
        )
        client = AsyncClientV2(
            api_key=self._key().get_secret_value(),
            base_url=str(url.copy_with(userinfo=b"")),
            timeout=self.timeout,
            httpx_client=http,
            log_warning_experimental_features=False,
        )
        return client, http.aclose

    @property
    def _endpoint(self) -> str:
        return self.base_url or os.environ.get("CO_API_URL") or _ENDPOINT

    def _check_endpoint(self) -> None:
        """Have the secrets masked in every error, and warn where they would travel in the open."""
        parts = urlsplit(self._endpoint)
        register_secret(self._key())
        register_secret(parts.password)
        host = parts.hostname or ""
        if parts.scheme == "http" and not is_loopback(host):
            warnings.warn(OpenConnection(self.name, host), stacklevel=2)

    def _key(self) -> SecretStr:
        keys = (_read_key(os.environ.get(variable, "")) for variable in KEY_VARIABLES)
        for key in (self._api_key, *keys):
            if key:
                return key
        raise MissingKey(self.name, KEY_VARIABLES)

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        private = {**(state["__pydantic_private__"] or {}), "_api_key": None}
        return {**state, "__pydantic_private__": private}


class _Unanswered(Exception):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.response = getattr(error, "response", None)


def _may_pass(unanswered: BaseException) -> bool:
    import httpx

    error = getattr(unanswered, "error", None)
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status in _RETRIED or status >= 500
    is_broken = isinstance(error, httpx.TransportError)
    return is_broken and not isinstance(error, httpx.TimeoutException)


async def _raise_for_status(response: httpx.Response) -> None:
    """The errors of old SDKs have no headers, and so no Retry-After."""
    if not response.is_success and not response.has_redirect_location:
        response.raise_for_status()


def _decoded(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text


CohereRerankRelevancyMetric = CohereRerankRelevancy
"""LlamaIndex core's name."""


def _read_key(api_key: str | SecretStr) -> SecretStr:
    """The key, which an error of the client would show if it didn't fit into a header."""
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
    if not isinstance(key, str) or not re.fullmatch("[ -~]*", key.strip()):
        shown = SecretStr("hidden") if isinstance(key, str) else type(key)
        raise InvalidInput("api_key", shown, "a text of ASCII characters in one line")
    return SecretStr(key.strip())


def _units(answer: Any) -> float:
    billed = getattr(getattr(answer, "meta", None), "billed_units", None)
    units = getattr(billed, "search_units", None)
    return float(units) if isinstance(units, (int, float)) else 0.0


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: that takes far longer than all else about a client."""
    import httpx

    return httpx.create_ssl_context()


def _sdk() -> None:
    try:
        import cohere  # noqa: F401
    except ImportError as error:
        raise MissingExtra("cohere_rerank_relevancy", "cohere") from error
