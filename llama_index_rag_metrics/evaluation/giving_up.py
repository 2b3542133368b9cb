"""When to stop asking: a run that is hopeless costs time and money, query by query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from llama_index_rag_metrics.errors import InvalidInput

_UNAUTHORIZED, _FORBIDDEN = 401, 403

_REFUSALS = {
    # gRPC's status codes
    "UNAUTHENTICATED": _UNAUTHORIZED,
    "PERMISSION_DENIED": _FORBIDDEN,
    # AWS's, which come with status 400 or 403, by service
    "ExpiredToken": _UNAUTHORIZED,
    "ExpiredTokenException": _UNAUTHORIZED,
    "InvalidAccessKeyId": _UNAUTHORIZED,
    "InvalidClientTokenId": _UNAUTHORIZED,
    "InvalidSignatureException": _UNAUTHORIZED,
    "MissingAuthenticationToken": _UNAUTHORIZED,
    "MissingAuthenticationTokenException": _UNAUTHORIZED,
    "SignatureDoesNotMatch": _UNAUTHORIZED,
    "UnrecognizedClientException": _UNAUTHORIZED,
    "AccessDenied": _FORBIDDEN,
    "AccessDeniedException": _FORBIDDEN,
    "UnauthorizedOperation": _FORBIDDEN,
}
"""What services without the statuses of HTTP call a refused key, as the status that it is."""

RETRIEVER = "the retriever"
"""Who failed, beside the names of metrics."""


class FailureLimit:
    """Counts failures, of the retriever and of each metric, and says when to stop asking.

    A service that refuses the key refuses it on every query. One that forbids a query may allow
    others, so that counts only as long as none was answered.

    Args:
        max_failures: how many queries may fail, or which share of them; None: any.
        total: how many queries there are.
    """

    def __init__(self, max_failures: float | None, total: int) -> None:
        self._max_failures = max_failures
        self._most = max_failures
        if isinstance(max_failures, float):
            self._most = max_failures * total
        self._failures: Counter[str] = Counter()
        self._answered: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._unasked: Counter[str] = Counter()

    def succeeded(self, who: str) -> None:
        """A query was answered."""
        self._answered.add(who)

    def failed(self, who: str, error: str, status: int | None = None) -> None:
        """A query failed.

        Args:
            who: the metric, or `RETRIEVER`.
            error: how, as it is recorded.
            status: the status of the HTTP answer, where there was one.
        """
        self._failures[who] += 1
        if status == _UNAUTHORIZED or (status == _FORBIDDEN and who not in self._answered):
            reason = f"the service refuses the key: {error}"
        elif self._most is not None and self._failures[who] > self._most:
            n = self._failures[who]
            reason = f"{n} failed (max_failures={self._max_failures:g}), the last with {error}"
        else:
            return
        self._reasons.setdefault(who, reason)

    def unasked(self, who: str) -> str | None:
        """The error of a query that isn't asked any more; None where it is to be asked."""
        reason = self._reasons.get(who)
        if reason is None:
            return None
        self._unasked[who] += 1
        return f"not asked: {reason}"

    @property
    def notes(self) -> Iterator[str]:
        """Who wasn't asked to the end, and why."""
        for who, reason in self._reasons.items():
            if n := self._unasked[who]:
                yield f"{who} wasn't asked for {n} queries, since {reason}"


def check_limits(timeout: object, max_failures: object) -> None:
    """Whether the arguments of those names can be used.

    Raises:
        InvalidInput: they can't.
    """
    if timeout is not None and (not _is_number(timeout) or not timeout > 0):  # type: ignore[operator]
        raise InvalidInput("timeout", timeout, "seconds above 0, or None")
    if max_failures is None:
        return
    is_count = type(max_failures) is int and max_failures >= 0
    if not is_count and not (isinstance(max_failures, float) and 0 < max_failures < 1):
        expected = "a number of queries from 0 on, or a share of them between 0 and 1"
        raise InvalidInput("max_failures", max_failures, expected)


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


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
