"""What is made of mappings: other values, some of the keys, what isn't None; many at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


def map_values(function: Callable[[V], W], mapping: Mapping[K, V]) -> dict[K, W]:
    """Each key to what a function makes of its value."""
    return {key: function(value) for key, value in mapping.items()}


def picked(mapping: Mapping[K, V], keys: Iterable[K]) -> dict[K, V]:
    """What a mapping has of these keys, in their order."""
    return {key: mapping[key] for key in keys if key in mapping}


def present(mapping: Mapping[K, V | None]) -> dict[K, V]:
    """What a mapping has without None."""
    return {key: value for key, value in mapping.items() if value is not None}


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
