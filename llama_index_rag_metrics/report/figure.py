"""Figure: a figure as plain data, and the kinds of figures that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

# up to this many systems stand side by side; of more each has a row, the best first
MOST_ABREAST = 4


class Axis(NamedTuple):
    title: str = ""
    from_zero: bool = False  # whether 0 is on it, whatever the values
    is_count: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one system in a figure."""

    name: str
    number: int  # the system's position, for its colour and symbol
    x: Sequence[float] | Sequence[str]
    y: Sequence[float] | Sequence[str]  # in "points", names of metrics
    low: Sequence[float | None] = ()  # lower ends of intervals around x
    high: Sequence[float | None] = ()
    remarks: Sequence[str] = ()  # what each point shows under the pointer
    hollow: Sequence[bool] = ()
    labels: Sequence[str] = ()  # the names of points, written beside them; "" for none
    is_baseline: bool = False  # whether the others are compared with this one


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as data."""

    form: Literal["points", "lines", "marks"]
    x: Axis
    y: Axis
    series: Sequence[Series]
    zero_line: bool = False  # whether a line marks x = 0


# the captions of figures by their kind
CAPTIONS: Mapping[str, str] = {
    "means": "Means with their intervals",
    "differences": "Differences from the baseline",
    "by_cutoff": "By cutoff k",
    "tradeoff": "Quality against tokens",
}

# makes a figure of one metric, or of all for None; None where there is nothing to draw
Draw: TypeAlias = Callable[["str | None"], "Figure | None"]
