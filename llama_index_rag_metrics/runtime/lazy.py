"""Libraries that take time to import, or belong to an extra."""

from __future__ import annotations

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
