"""Figure: a figure as plain data, and the kinds of figures that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

# up to this many systems stand side by side; of more each has a row, the best first
MOST_ABREAST = 4


class Axis(NamedTuple):
    title: str = ""
    ends: tuple[float, float] | None = None
    from_zero: bool = False
    is_count: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one system in a figure."""

    name: str
    number: int  # the system's position, for its colour and symbol
    x: Sequence[float] | Sequence[str]  # of a box: its ends, quartiles and median, lowest first
    y: Sequence[float] | Sequence[str]  # in "points", names of metrics
    low: Sequence[float | None] = ()  # lower ends of intervals around x
    high: Sequence[float | None] = ()
    remarks: Sequence[str] = ()  # what each point, or a box, shows under the pointer
    hollow: Sequence[bool] = ()
    z: Sequence[float | None] = ()  # a third number of each point, shown by its colour
    labels: Sequence[str] = ()  # the names of points, written beside them; "" for none
    is_line: bool = False  # in "marks", whether a line joins the points, which then have no marks
    members: Sequence[Sequence[str]] = ()  # of each bar, the ids of the questions that it counts
    is_baseline: bool = False  # whether the others are compared with this one


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as data."""

    form: Literal["points", "lines", "bars", "boxes", "marks"]
    x: Axis
    y: Axis
    series: Sequence[Series]
    zero_line: bool = False  # whether a line marks x = 0, or whatever else is the `zero` of a scale
    zero: float = 0.0
    z: Axis | None = None  # what the colour of marks shows
    remark: str = ""  # a sentence below the figure, such as what its cells average
    name: str = ""  # what the figure is called among its variants
    variants: Sequence[Figure] = ()  # others to choose from, such as of other pairs of parameters


class FigureKind(NamedTuple):
    """A kind of figure: its caption, whether each metric has its own, and why it may be missing."""

    caption: str
    by_metric: bool
    missing: str


# the kinds of figures, in the order of a page
FIGURES: Mapping[str, FigureKind] = {
    "means": FigureKind("Means with their intervals", False, "There are no scores."),
    "differences": FigureKind(
        "Differences from the baseline (hollow: the interval holds 0)",
        False,
        "compare() makes one.",
    ),
    "by_cutoff": FigureKind(
        "By cutoff k", True, "Bare scores have no rankings, and not every metric has a cutoff."
    ),
    "tradeoff": FigureKind(
        "Quality against tokens", True, "sweep() makes one, where tokens are counted."
    ),
}

# makes a figure of one metric, or of all for None; None where there is nothing to draw
Draw: TypeAlias = Callable[["str | None"], "Figure | None"]
