"""What is put off: imports of slow or optional libraries, and the search for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class Lazy:
    """A module that isn't always needed or there, imported when something of it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by whoever walks through a module
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Don't search for cycles while many small objects are made that all stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
