"""Types of arrays, a division in which nothing of nothing is 0, and what is put off."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> FloatArray:
    """part / whole by element, and 0 where the whole is 0.

    >>> ratio([1, 0], [2, 0])
    array([0.5, 0. ])
    """
    share = np.zeros(np.broadcast(part, whole).shape)
    return np.divide(part, whole, out=share, where=np.not_equal(whole, 0))


class Lazy:
    """A module that isn't always needed or there, imported when something of it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by whoever walks through a module
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
