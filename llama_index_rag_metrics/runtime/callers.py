"""Warnings that point at the line of the program that called into this package."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeAlias

_BETWEEN = {__name__.partition(".")[0], "asyncio", "concurrent", "contextlib", "functools"}
_BETWEEN |= {"llama_index_instrumentation", "threading"}
"""Packages whose frames are between a program and the place that warns."""

_Line: TypeAlias = tuple[str, int, str, dict[Any, Any]]
"""The file, the line, the module and its registry of warnings, as `warn_explicit` takes them."""

_noted: ContextVar[_Line | None] = ContextVar("rag_metrics_caller", default=None)


def note_caller() -> None:
    """Remember the caller, so that warnings from other threads point at it."""
    _noted.set(_calling_line())


def warn_caller(warning: Warning) -> None:
    line = _calling_line()
    if line is None:
        warnings.warn(warning, stacklevel=2)
    else:
        warnings.warn_explicit(warning, type(warning), *line)


def _calling_line() -> _Line | None:
    """The innermost line of this thread outside this package and asyncio, or the noted one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _BETWEEN:
            registry = frame.f_globals.setdefault("__warningregistry__", {})
            return frame.f_code.co_filename, frame.f_lineno, module, registry
        frame = frame.f_back
    return _noted.get()
