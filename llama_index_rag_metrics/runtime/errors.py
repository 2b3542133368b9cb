"""The errors and warnings of this package, a class for what somebody may want to catch; checks.

RagMetricsError
├── InvalidInput                       an argument, or what a retriever returned
├── UnknownMetric                      a name
├── MissingExtra, MissingKey
├── FileFormatError, JournalMismatch   a file
├── RetrievalFailed, ScorerFailed
└── GateFailed
UserWarning
└── CacheWarning, LabelWarning, EveryQueryFailed, InconclusiveGate
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import ContextVar
from numbers import Integral, Real
from traceback import walk_stack
from typing import Any, TypeAlias

from .masking import shorten


class RagMetricsError(Exception):
    """Base class of every error that this package raises on purpose.

    Examples:
        >>> from llama_index_rag_metrics import RagMetricsError, metric
        >>> try:
        ...     metric("ngcd@10")
        ... except RagMetricsError as error:
        ...     print(type(error).__name__)
        UnknownMetric
    """

    def __repr__(self) -> str:
        # the arguments may hold a key, which the message masks
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # without __init__, which takes other arguments than the message that is kept
        return type(self).__new__, (type(self), *self.args), vars(self)


class InvalidInput(RagMetricsError, ValueError):
    """An argument can't be used: the message has its name, its value, and what was expected.

    `sentence` says what is wrong where "expected" isn't the word for it; `remedy`, what to do about
    it.
    """

    def __init__(
        self,
        argument: str,
        value: object,
        expected: str = "",
        remedy: str = "",
        *,
        sentence: str = "",
    ) -> None:
        if not remedy and isinstance(value, Coroutine):
            remedy = "It is a coroutine: await it."
        self.argument, self.value, self.expected, self.remedy = argument, value, expected, remedy
        self.sentence = sentence
        super().__init__(self.worded(argument))

    def worded(self, argument: str) -> str:
        sentence = f"{argument}: expected {self.expected}, got {shorten(self.value)}."
        return f"{self.sentence or sentence} {self.remedy}".rstrip()


class UnknownMetric(RagMetricsError, ValueError):
    """No metric has this name, or it has no such parameter; `nearest` are the known ones."""

    def __init__(self, name: str, nearest: Sequence[str] = (), *, kind: str = "metric") -> None:
        self.nearest = tuple(nearest)
        sentences = [f"unknown {kind} {shorten(name)}."]
        if nearest:
            sentences.append(f"Did you mean {' or '.join(map(repr, nearest))}?")
        if kind == "metric":
            sentences.append("`rag-metrics metrics` lists every metric with its parameters.")
        super().__init__(" ".join(sentences))


class MissingExtra(RagMetricsError, ImportError):
    """An optional dependency isn't installed: one of an extra, or a package of no extra."""

    def __init__(self, purpose: str, extra: str = "", *, package: str = "") -> None:
        command = f"an extra: python -m pip install 'llama-index-rag-metrics[{extra}]'"
        if package:
            command = f"{package}: python -m pip install {package}"
        super().__init__(f"{purpose} needs {command}")


class MissingKey(RagMetricsError, ValueError):
    """A service needs an API key, and there is none."""

    def __init__(self, scorer: str, variables: Sequence[str]) -> None:
        names = " or ".join(variables)
        super().__init__(f"{scorer} needs an API key: set {names}, or pass api_key in Python.")


class FileFormatError(RagMetricsError, ValueError):
    """A file can't be read: the message says where, and what was expected there."""

    def __init__(
        self,
        path: str,
        line: int | None = None,
        expected: str = "",
        value: object = "",
        *,
        sentence: str = "",
    ) -> None:
        self.path, self.line = path, line
        location = path if line is None else f"{path}, line {line}"
        message = f"{location}: expected {expected}."
        if not isinstance(value, str) or value:  # an array has no truth, nor equals a text
            message = f"{location}: expected {expected}, got {shorten(value)}."
        super().__init__(sentence or message)


class JournalMismatch(RagMetricsError, ValueError):
    """The journal belongs to another run, or another run is writing it."""


class RetrievalFailed(RagMetricsError):
    """A retriever failed on a query, and `raise_on_error=True` ends the run there."""

    def __init__(self, query_id: str, error: str) -> None:
        self.query_id = query_id
        super().__init__(f"retrieval failed on question {query_id!r}: {error}")


class ScorerFailed(RagMetricsError):
    """A service or a model gave no scores of texts, or no questions."""

    def __init__(
        self, scorer: str, reason: str, request_id: str | None = None, status: int | None = None
    ) -> None:
        self.request_id, self.status = request_id, status
        request = f" (request {request_id})" if request_id else ""
        super().__init__(f"{scorer}: {reason}{request}")


class GateFailed(RagMetricsError, AssertionError):
    """A rule is broken: the message says which, with the numbers and the worst queries."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _gate_failed, self.args


def _gate_failed(message: object) -> GateFailed:
    return GateFailed(message)


# the last line that pytest prints is cut: it begins with the verdict, not with the module's name
GateFailed.__module__ = "builtins"


class CacheWarning(UserWarning):
    """The cache can't be read or written; the run continues without it."""


class EveryQueryFailed(UserWarning):
    """The retriever failed on every query: something is wrong with it or with its setup."""


class LabelWarning(UserWarning):
    """The labels of a dataset don't match what was retrieved."""


class InconclusiveGate(UserWarning):
    """The queries are too few to tell whether a rule is kept."""


def check_integer(argument: str, value: object, least: float = 1, expected: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidInput(argument, value, expected or f"a whole number of at least {least}")


def check_amount(
    argument: str, value: object, expected: str, is_allowed: Callable[[float], bool]
) -> None:
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number beyond all floats
            number = float(value)
    if not is_allowed(number):
        raise InvalidInput(argument, value, expected)


_BETWEEN = {"asyncio", "concurrent", "contextlib", "functools", "threading", "llama_index"}
_OURS = __name__.partition(".")[0]
_BETWEEN |= {"llama_index_instrumentation", _OURS, f"{_OURS}_pytest"}
"""Packages whose frames are between a program and the place that warns."""

_Line: TypeAlias = tuple[str, int, str, dict[Any, Any]]
"""The file, the line, the module and its registry of warnings, as `warn_explicit` takes them."""

_noted: ContextVar[_Line | None] = ContextVar("rag_metrics_caller", default=None)


def note_caller() -> None:
    """Remember the caller, so that warnings from other threads point at it."""
    _noted.set(_calling_line())


def warn(warning: Warning) -> None:
    line = _calling_line()
    if line is None:
        warnings.warn(warning, stacklevel=2)
    else:
        warnings.warn_explicit(warning, type(warning), *line)


def _calling_line() -> _Line | None:
    """The innermost line of this thread outside this package and asyncio, or the noted one."""
    for frame, line in walk_stack(sys._getframe(1)):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _BETWEEN:
            registry = frame.f_globals.setdefault("__warningregistry__", {})
            return frame.f_code.co_filename, line, module, registry
    return _noted.get()
