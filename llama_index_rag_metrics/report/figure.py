"""Figure: a figure as plain data, and the kinds of figures that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

MOST_ABREAST = 4
"""Up to this many systems stand side by side; of more each has a row, the best first."""


class Axis(NamedTuple):
    """An axis of a figure; `ends` are None unless they are fixed."""

    title: str = ""
    ends: tuple[float, float] | None = None
    is_log: bool = False
    is_share: bool = False
    from_zero: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one system in a figure.

    Attributes:
        number: the system's position, for its colour and symbol.
        x: of a box its ends, its quartiles and its median, lowest first.
        y: in "points", names of metrics; in "cells", texts, as `x`.
        low: lower ends of intervals around x.
        remarks: what each point, or a box, shows under the pointer beside its name.
        z: a third number of each point, shown by its colour.
        labels: the names of points, written beside them; "" for none.
        is_line: in "marks", whether a line joins the points, which then have no marks.
        members: of each bar, the ids of the questions that it counts.
        is_baseline: whether the others are compared with this one.
    """

    name: str
    number: int
    x: Sequence[float] | Sequence[str]
    y: Sequence[float] | Sequence[str]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    remarks: Sequence[str] = ()
    hollow: Sequence[bool] = ()
    z: Sequence[float | None] = ()
    labels: Sequence[str] = ()
    is_line: bool = False
    members: Sequence[Sequence[str]] = ()
    is_baseline: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as data.

    Attributes:
        form: "points" with intervals, one row a metric; "lines"; "bars"; "boxes", one row a
            series; "marks", points in a plane; or "cells", whose x and y are texts.
        zero_line: whether a line marks x = 0.
        z: what the colour of marks and cells shows.
        remark: a sentence below the figure, such as what its cells average.
        name: what the figure is called among its variants.
        variants: figures to choose from, this one not among them, such as of other pairs of
            parameters.
    """

    form: Literal["points", "lines", "bars", "boxes", "marks", "cells"]
    x: Axis
    y: Axis
    series: Sequence[Series]
    zero_line: bool = False
    markers: bool = True
    z: Axis | None = None
    remark: str = ""
    name: str = ""
    variants: Sequence[Figure] = ()


class FigureKind(NamedTuple):
    """A kind of figure: its caption, whether each metric has its own, and why it may be missing."""

    caption: str
    by_metric: bool
    missing: str


FIGURES: Mapping[str, FigureKind] = {
    "means": FigureKind("Means with their intervals", False, "There are no scores."),
    "differences": FigureKind(
        "Differences from the baseline (hollow: the interval holds 0)",
        False,
        "compare() makes one.",
    ),
    "distribution": FigureKind("Differences, question by question", True, "compare() makes one."),
    "recall_by_call": FigureKind(
        "Recall after each call", True, "Only agents and workflows make several calls per question."
    ),
    "by_cutoff": FigureKind(
        "By cutoff k", True, "Bare scores have no rankings, and not every metric has a cutoff."
    ),
    "by_tokens": FigureKind(
        "By cutoff in tokens", True, "The tokens of what was retrieved weren't counted."
    ),
    "precision_recall": FigureKind("Precision and recall", True, "Bare scores have no rankings."),
    "tradeoff": FigureKind(
        "Quality against tokens; the colour is p95, hollow points are off the Pareto front",
        True,
        "sweep() makes one, where tokens are counted.",
    ),
    "heat_map": FigureKind(
        "Means by two parameters", True, "sweep() makes one, of two or more parameters."
    ),
    "latency": FigureKind("Latency", False, "Stored rankings aren't timed."),
}
"""The kinds of figures, in the order of a page."""

Draw: TypeAlias = Callable[["str | None"], "Figure | None"]
"""Makes a figure of one metric, or of all for None; None where there is nothing to draw."""
