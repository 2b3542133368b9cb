"""Types of arrays, and a division in which nothing of nothing is 0."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def none_of_them() -> IntArray:
    """(0,) the positions of nothing."""
    return np.array([], np.int64)


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> FloatArray:
    """part / whole by element, and 0 where the whole is 0.

    >>> ratio([1, 0], [2, 0])
    array([0.5, 0. ])
    """
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    share = np.zeros(np.broadcast(part, whole).shape)
    np.divide(part, whole, out=share, where=whole != 0)
    return share
