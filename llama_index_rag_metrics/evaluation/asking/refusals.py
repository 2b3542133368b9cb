"""Which status of HTTP an error stands for: whether a service refused the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
