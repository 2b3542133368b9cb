"""Intervals once more, slowly and plainly: an oracle of the tests that shares nothing with them."""

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Any, Protocol

import numpy.typing as npt


def pseudo_change(differences: Sequence[float] | npt.NDArray[Any], widest: float = 1.0) -> float:
    """M: by how much each of the two pseudo-queries changes, one up and one down.

    M² = (Σd² + R²) / (k + 1), of R, the widest difference there can be, and k = (Σ|d|)² / Σd², the
    effective number of changes.
    """
    squares = fsum(d * d for d in differences)
    changes = fsum(abs(d) for d in differences) ** 2 / squares if squares else 0.0
    return sqrt((squares + widest * widest) / (changes + 1))


class Ended(Protocol):
    """An interval, whose ends may be missing."""

    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...


def ends(interval: Ended) -> tuple[float, float]:
    """The ends of an interval that has some."""
    return known(interval.low), known(interval.high)


def width(interval: Ended) -> float:
    """How far its ends lie apart."""
    low, high = ends(interval)
    return high - low


def known(number: float | None) -> float:
    """A number that must be there."""
    assert number is not None
    return number
