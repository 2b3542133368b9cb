"""Sending a request again: when the service says so, else after twice as long each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_exponential, wait_random

T = TypeVar("T")

_LONGEST_PAUSE = 60.0  # seconds; a service that asks for a longer one isn't asked again


def attempts(most: int, pause: float, again: Callable[[BaseException], bool]) -> AsyncRetrying:
    """The attempts at a request, while `again` says that the error may pass; pauses double."""
    doubling = wait_exponential(multiplier=pause, max=_LONGEST_PAUSE) + wait_random(0, pause / 10)

    def asked(state: RetryCallState) -> float | None:
        return seconds_asked(state.outcome.exception() if state.outcome else None)

    def wait(state: RetryCallState) -> float:
        seconds = asked(state)
        return doubling(state) if seconds is None else seconds

    return AsyncRetrying(
        sleep=asyncio.sleep,
        stop=lambda state: state.attempt_number >= most or (asked(state) or 0) > _LONGEST_PAUSE,
        wait=wait,
        retry=retry_if_exception(lambda error: isinstance(error, Exception) and again(error)),
        reraise=True,
    )


def seconds_asked(error: BaseException | None) -> float | None:
    """Seconds to wait by the `Retry-After` of an error or its `response`; None without one."""
    headers: Any = getattr(getattr(error, "response", error), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    by_name = {name.lower(): value for name, value in headers.items()}
    retry_after = str(by_name.get("retry-after", ""))
    with suppress(ValueError):  # RFC 9110, 10.2.3: a number of seconds, or a moment
        seconds = float(retry_after)
        return seconds if seconds >= 0 else None
    with suppress(TypeError, ValueError):
        # a moment without a zone is in UTC, and naive: `timestamp` would take it for local time
        moment = parsedate_to_datetime(retry_after.replace("-0000", "+0000"))
        return max(0.0, moment.timestamp() - time.time())
    return None


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
