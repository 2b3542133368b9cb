"""Sending a request again: when the service says so, else after twice as long each time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_exponential, wait_random

from .sync import in_thread

T = TypeVar("T")

UNAUTHORIZED, FORBIDDEN = 401, 403

LONGEST_PAUSE = 60.0
"""Seconds; a service that asks for a longer one isn't asked again."""


def attempts(
    most: int, first_pause: float, again: Callable[[BaseException], bool]
) -> AsyncRetrying:
    """The attempts at a request, while `again` says that the error may pass; pauses double."""
    jitter = wait_random(0, first_pause / 10)
    pause = wait_exponential(multiplier=first_pause, max=LONGEST_PAUSE) + jitter

    def wait(state: RetryCallState) -> float:
        seconds = _seconds_asked_in(state)
        return pause(state) if seconds is None else seconds

    def stop(state: RetryCallState) -> bool:
        return state.attempt_number >= most or (_seconds_asked_in(state) or 0) > LONGEST_PAUSE

    return AsyncRetrying(
        sleep=asyncio.sleep,
        stop=stop,
        wait=wait,
        retry=retry_if_exception(lambda error: isinstance(error, Exception) and again(error)),
        reraise=True,
    )


def _seconds_asked_in(state: RetryCallState) -> float | None:
    return seconds_asked(None if state.outcome is None else state.outcome.exception())


def seconds_asked(error: BaseException | None) -> float | None:
    """Seconds to wait by the `Retry-After` of an error or its `response`; None without one."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        headers = getattr(error, "headers", None)
    if not isinstance(headers, Mapping):
        return None
    for name, value in headers.items():
        if name.lower() == "retry-after":
            return _seconds(str(value))
    return None


def _seconds(retry_after: str) -> float | None:
    """RFC 9110, 10.2.3: a number of seconds, or a moment."""
    try:
        seconds = float(retry_after)
    except ValueError:
        pass
    else:
        return seconds if seconds >= 0 else None
    try:
        # a moment without a zone is in UTC, and naive: `timestamp` would take it for local time
        moment = parsedate_to_datetime(retry_after.replace("-0000", "+0000"))
    except (TypeError, ValueError):
        return None
    return max(0.0, moment.timestamp() - time.time())


async def admission(limiter: Any, *tokens: int) -> None:
    """Wait until a rate limiter, such as LlamaIndex's, admits a request of about so many tokens."""
    if limiter is None:
        return
    acquire = getattr(limiter, "async_acquire", None)
    if inspect.iscoroutinefunction(acquire):
        await acquire(*tokens)
    else:
        await in_thread(limiter.acquire, *tokens)


def http_status(error: BaseException | None) -> int | None:
    """The HTTP status that an error, its response or its causes have."""
    looked_at: set[int] = set()
    while error is not None and id(error) not in looked_at:
        looked_at.add(id(error))
        for holder in (error, getattr(error, "response", None)):
            for name in ("status_code", "status"):
                status = getattr(holder, name, None)
                if type(status) is int:
                    return status
        error = error.__cause__ or error.__context__
    return None


def refuses_key(status: int | None, *, has_answered: bool) -> bool:
    """Whether asking again is of no use; a service that forbids one query may allow others."""
    return status == UNAUTHORIZED or (status == FORBIDDEN and not has_answered)


class Refusal:
    """Asks until a service refuses the key; whoever asks later gets that error."""

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._has_answered = False

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        if self._error is not None:
            raise self._error
        try:
            answer = await request()
        except Exception as error:
            if refuses_key(http_status(error), has_answered=self._has_answered):
                self._error = error
            raise
        self._has_answered = True
        return answer
