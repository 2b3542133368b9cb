"""Sending a request again: when the service says so, else after twice as long each time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_exponential, wait_random

from llama_index_rag_metrics.runtime.sync import in_thread

T = TypeVar("T")

UNAUTHORIZED, FORBIDDEN = 401, 403

_UNAUTHORIZED_CODES = (
    "UNAUTHENTICATED ExpiredToken ExpiredTokenException InvalidAccessKeyId InvalidClientTokenId "
    "InvalidSignatureException MissingAuthenticationToken MissingAuthenticationTokenException "
    "SignatureDoesNotMatch UnrecognizedClientException"
)
_FORBIDDEN_CODES = "PERMISSION_DENIED AccessDenied AccessDeniedException UnauthorizedOperation"
_REFUSALS = {
    **dict.fromkeys(_UNAUTHORIZED_CODES.split(), UNAUTHORIZED),
    **dict.fromkeys(_FORBIDDEN_CODES.split(), FORBIDDEN),
}
"""The HTTP status of what gRPC and AWS, with status 400 or 403, call a refused key."""


class Refusal:
    """Sends the first request alone; once a service refuses the key, all others get its error."""

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._has_answered = self._was_asked = False
        self._first = asyncio.Lock()

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        if not self._was_asked:
            async with self._first:
                if not self._was_asked:
                    return await self._noted(request)
        return await self._noted(request)

    async def _noted(self, request: Callable[[], Awaitable[T]]) -> T:
        if self._error is not None:
            raise self._error
        try:
            answer = await request()
        except Exception as error:
            if refuses_key(http_status(error), has_answered=self._has_answered):
                self._error = error
            raise
        finally:
            self._was_asked = True
        self._has_answered = True
        return answer


def refuses_key(status: int | None, *, has_answered: bool) -> bool:
    """Whether asking again is of no use; a service that forbids one query may allow others."""
    return status == UNAUTHORIZED or (status == FORBIDDEN and not has_answered)


def http_status(error: BaseException | None) -> int | None:
    """The HTTP status in an error or its causes, also for the codes of gRPC and AWS."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if (status := _status(error)) is not None:
            return status
        error = error.__cause__ or error.__context__
    return None


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    # the response in botocore's errors is a plain dict
    codes = (_grpc_code(error), _member(response, "Error", "Code"))
    statuses: list[object] = [_REFUSALS.get(code) for code in codes if isinstance(code, str)]
    for holder in (error, response):
        statuses.append(getattr(holder, "status_code", None) or getattr(holder, "status", None))
    statuses.append(_member(response, "ResponseMetadata", "HTTPStatusCode"))
    return next((status for status in statuses if type(status) is int), None)


def _grpc_code(error: BaseException) -> object:
    code = getattr(error, "code", None)
    try:
        return getattr(code() if callable(code) else code, "name", None)
    except Exception:  # noqa: BLE001 - another library's method of that name
        return None


def _member(part: object, *keys: str) -> object:
    for key in keys:
        part = part.get(key) if isinstance(part, Mapping) else None
    return part


LONGEST_PAUSE = 60.0
"""Seconds; a service that asks for a longer one isn't asked again."""


async def admission(limiter: Any, *tokens: int) -> None:
    """Wait until a rate limiter, such as LlamaIndex's, admits a request of about so many tokens."""
    if limiter is None:
        return
    acquire = getattr(limiter, "async_acquire", None)
    if inspect.iscoroutinefunction(acquire):
        await acquire(*tokens)
    else:
        await in_thread(limiter.acquire, *tokens)


def attempts(
    most: int, first_pause: float, again: Callable[[BaseException], bool]
) -> AsyncRetrying:
    """The attempts at a request, while `again` says that the error may pass; pauses double."""
    jitter = wait_random(0, first_pause / 10)
    pause = wait_exponential(multiplier=first_pause, max=LONGEST_PAUSE) + jitter

    def wait(state: RetryCallState) -> float:
        asked = _asked(state)
        return pause(state) if asked is None else asked

    return AsyncRetrying(
        sleep=asyncio.sleep,
        stop=lambda state: state.attempt_number >= most or (_asked(state) or 0) > LONGEST_PAUSE,
        wait=wait,
        retry=retry_if_exception(lambda error: isinstance(error, Exception) and again(error)),
        reraise=True,
    )


def seconds_asked(error: BaseException | None) -> float | None:
    """Seconds to wait by the `Retry-After` of an error or its `response`; None without one."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        headers = getattr(error, "headers", None)
    if not isinstance(headers, Mapping):
        return None
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    return None if asked is None else _seconds(str(asked))


def _seconds(asked: str) -> float | None:
    """RFC 9110, 10.2.3: a number of seconds, or a moment."""
    with suppress(ValueError):
        seconds = float(asked)
        return seconds if seconds >= 0 else None
    try:
        # a moment without a zone is in UTC, and naive: `timestamp` would take it for local time
        moment = parsedate_to_datetime(asked.replace("-0000", "+0000"))
    except (TypeError, ValueError):
        return None
    return max(0.0, moment.timestamp() - time.time())


def _asked(state: RetryCallState) -> float | None:
    return seconds_asked(state.outcome.exception() if state.outcome is not None else None)
