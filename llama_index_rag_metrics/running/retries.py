"""Sending a request again: when the service says so, else after twice as long each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.stop import stop_after_attempt, stop_base
from tenacity.wait import wait_base, wait_exponential, wait_random

LONGEST_PAUSE = 60.0
"""Seconds; who is told to come back later than that gives up."""


def attempts(
    most: int, first_pause: float, again: Callable[[BaseException], bool]
) -> AsyncRetrying:
    """The attempts at one request; the last one's error is raised as it is.

    Args:
        most: how many attempts there are.
        first_pause: seconds before the second attempt, doubled for each further one, where the
            service doesn't say how long.
        again: whether an error may pass.
    """
    return AsyncRetrying(
        sleep=asyncio.sleep,
        stop=stop_after_attempt(most) | _AskedForTooLong(),
        wait=_AsAsked(first_pause),
        retry=retry_if_exception(lambda error: isinstance(error, Exception) and again(error)),
        reraise=True,
    )


def seconds_asked(error: BaseException | None) -> float | None:
    """How long the service asks to wait, in the `Retry-After` of the answer that an error holds.

    Args:
        error: has `headers`, or a `response` that has them, as those of httpx and OpenAI's client.

    Returns:
        Seconds, 0 for a moment that has passed; None where nothing, or nothing legible, is asked.
    """
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        headers = getattr(error, "headers", None)
    if not isinstance(headers, Mapping):
        return None
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    return None if asked is None else _seconds(str(asked))


def _seconds(asked: str) -> float | None:
    """RFC 9110, 10.2.3: a number of seconds, or a moment."""
    try:
        seconds = float(asked)
    except ValueError:
        pass
    else:
        return seconds if seconds >= 0 else None
    try:
        # a moment without a zone is in UTC, and naive: `timestamp` would take it for local time
        moment = parsedate_to_datetime(asked.replace("-0000", "+0000"))
    except (TypeError, ValueError):
        return None
    return max(0.0, moment.timestamp() - time.time())


class _AsAsked(wait_base):
    def __init__(self, first_pause: float) -> None:
        self._else = wait_exponential(multiplier=first_pause, max=LONGEST_PAUSE) + wait_random(
            0, first_pause / 10
        )

    def __call__(self, retry_state: RetryCallState) -> float:
        asked = seconds_asked(_error(retry_state))
        return self._else(retry_state) if asked is None else asked


class _AskedForTooLong(stop_base):
    def __call__(self, retry_state: RetryCallState) -> bool:
        return (seconds_asked(_error(retry_state)) or 0) > LONGEST_PAUSE


def _error(retry_state: RetryCallState) -> BaseException | None:
    return retry_state.outcome.exception() if retry_state.outcome is not None else None
