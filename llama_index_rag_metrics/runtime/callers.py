"""Warnings that point at the line of the program that called into this package."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple

_BETWEEN = {__name__.partition(".")[0], "asyncio", "concurrent", "contextlib", "functools"}
_BETWEEN |= {"llama_index_instrumentation", "threading"}
"""Packages whose frames are between a program and the place that warns."""


class _Line(NamedTuple):
    filename: str
    lineno: int
    module: str
    registry: dict[Any, Any]


_noted: ContextVar[_Line | None] = ContextVar("rag_metrics_caller", default=None)


def note_caller() -> None:
    """Remember the caller, so that warnings from other threads point at it."""
    _noted.set(_calling_line() or _noted.get())


def warn_caller(warning: Warning) -> None:
    line = _calling_line() or _noted.get()
    if line is None:
        warnings.warn(warning, stacklevel=2)
    else:
        warnings.warn_explicit(warning, type(warning), *line)


def _calling_line() -> _Line | None:
    """The innermost line of this thread outside this package and asyncio."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _BETWEEN:
            registry = frame.f_globals.setdefault("__warningregistry__", {})
            return _Line(frame.f_code.co_filename, frame.f_lineno, module, registry)
        frame = frame.f_back
    return None
