"""Types of arrays and a ratio of them, what is made of mappings, and what is put off."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> FloatArray:
    """part / whole by element, and 0 where the whole is 0."""
    divisor: FloatArray = np.asarray(whole)
    if np.count_nonzero(divisor) == divisor.size:
        return np.divide(part, divisor)
    share = np.zeros(np.broadcast(part, divisor).shape)
    return np.divide(part, divisor, out=share, where=np.not_equal(divisor, 0))


class Lazy:
    """A module that isn't always needed or there, imported when something of it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by tools that inspect modules
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


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
