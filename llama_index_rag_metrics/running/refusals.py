"""Which status of HTTP an error stands for, and what follows where a service refuses the key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

UNAUTHORIZED, FORBIDDEN = 401, 403

_REFUSALS = {
    # gRPC's status codes
    "UNAUTHENTICATED": UNAUTHORIZED,
    "PERMISSION_DENIED": FORBIDDEN,
    # AWS's, which come with status 400 or 403, by service
    "ExpiredToken": UNAUTHORIZED,
    "ExpiredTokenException": UNAUTHORIZED,
    "InvalidAccessKeyId": UNAUTHORIZED,
    "InvalidClientTokenId": UNAUTHORIZED,
    "InvalidSignatureException": UNAUTHORIZED,
    "MissingAuthenticationToken": UNAUTHORIZED,
    "MissingAuthenticationTokenException": UNAUTHORIZED,
    "SignatureDoesNotMatch": UNAUTHORIZED,
    "UnrecognizedClientException": UNAUTHORIZED,
    "AccessDenied": FORBIDDEN,
    "AccessDeniedException": FORBIDDEN,
    "UnauthorizedOperation": FORBIDDEN,
}
"""What services without the statuses of HTTP call a refused key, as the status that it is."""


class Refusal:
    """Has a service that refuses the key asked once, and not again: the others get its error.

    The first request goes alone.
    """

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
    """The status of the HTTP answer that an error, or what it came from, speaks of.

    What gRPC and AWS refuse by a code of their own has the status that HTTP has for it.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if (status := _status(error)) is not None:
            return status
        error = error.__cause__ or error.__context__
    return None


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    # botocore's errors hold a plain dict
    answer = response if isinstance(response, Mapping) else {}
    codes = (_grpc_code(error), _member(answer, "Error", "Code"))
    for code in codes:
        if isinstance(code, str) and code in _REFUSALS:
            return _REFUSALS[code]
    for holder in (error, response):
        status = getattr(holder, "status_code", None) or getattr(holder, "status", None)
        if type(status) is int:
            return status
    status = _member(answer, "ResponseMetadata", "HTTPStatusCode")
    return status if type(status) is int else None


def _grpc_code(error: BaseException) -> object:
    """The name of the status of a gRPC call, whose errors have a method that tells it."""
    code = getattr(error, "code", None)
    try:
        return getattr(code() if callable(code) else code, "name", None)
    except Exception:  # noqa: BLE001 - another library's method of that name
        return None


def _member(answer: Mapping[Any, Any], *keys: str) -> object:
    part: object = answer
    for key in keys:
        part = part.get(key) if isinstance(part, Mapping) else None
    return part
