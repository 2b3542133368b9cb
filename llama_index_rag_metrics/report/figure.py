"""Figure: a figure as plain data, and the kinds of figures that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

# up to this many systems stand side by side; of more each has a row, the best first
MOST_ABREAST = 4


class Mark(NamedTuple):
    """A point of a figure; the interval is around x."""

    x: float
    y: float | str  # in "points", the metric whose row it is
    title: str = ""  # shown under the pointer
    low: float | None = None
    high: float | None = None
    label: str = ""  # written beside it


class Series(NamedTuple):
    """The points of one system in a figure."""

    name: str
    number: int  # the system's position, for its colour and symbol
    marks: Sequence[Mark]


class Figure(NamedTuple):
    """A figure as data."""

    form: Literal["points", "lines", "marks"]
    x: str  # the title of the axis
    y: str
    series: Sequence[Series]
    has_zero_line: bool = False  # whether a line marks x = 0


# the captions of figures by their kind
CAPTIONS: Mapping[str, str] = {
    "differences": "Differences from the baseline",
    "by_cutoff": "By cutoff k",
    "tradeoff": "Quality against tokens",
}

# makes a figure; None where there is nothing to draw
Draw: TypeAlias = Callable[[], "Figure | None"]
