"""A figure as SVG, as wide as its place.

Across, places are shares of the plot's width; down, pixels: text keeps its size on every screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from rich.cells import cell_len

from . import drawing
from .escape import Element, element
from .escape import terminal as one_line
from .figure import Axis, Figure, Series
from .numbers import on_axis

# violet, orange and teal first: told apart in grey and by colour-blind eyes, on white and on black;
# red and green mean worse and better, and no system
COLOURS = ("#7c4dea", "#e07b00", "#0d9488", "#3b82c4", "#b08d1f", "#b5479f", "#7d8590")
_SHAPES = (
    "M-4.5 0A4.5 4.5 0 1 1 4.5 0A4.5 4.5 0 1 1 -4.5 0Z",
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
    "M-4 -4H4V4H-4Z",
    "M0 -5L5 4H-5Z",
    "M0 5L5 -4H-5Z",
)
_CHARACTER, _LINE, _ROW = 7.4, 15, 20  # pixels
_PLOT_HEIGHT, _BELOW = 260, 40
_NAME_CHARACTERS, _TITLE_CHARACTERS = 20, 46
_LABELLED_TICKS = 5
_MOST_LINES = 10
_QUIET = {"fill_opacity": ".75"}
_RULE = {"stroke": "currentColor", "stroke_opacity": ".18"}


def on_page(figure: Figure, caption: str) -> Element:
    """The figure for a page, as wide as its place."""
    forms = {"points": _points, "lines": _lines, "marks": _marks}
    plot = forms[figure.form](figure)
    title = {"role": "img", "aria_label": one_line(caption), "fill": "currentColor"}
    size = {"width": "100%", "height": _pixels(plot.height)}
    sides = (12 + _LINE * plot.n_notes, plot.right, _BELOW, plot.left)
    padding = " ".join(f"{_pixels(side)}px" for side in sides)
    svg = element("svg", *plot.parts, overflow="visible", **title, **size)
    return element("div", svg, class_="plot", style=f"padding:{padding}")


@dataclass(frozen=True)
class _Scale:
    """From the numbers of an axis to places between 0 and 1."""

    low: float
    high: float
    ticks: Sequence[float]

    @classmethod
    def of(cls, axis: Axis, values: Sequence[float], room: float) -> _Scale:
        numbers = [value for value in values if math.isfinite(value)]
        low, high = min(numbers, default=0.0), max(numbers, default=1.0)
        if axis.from_zero:
            low, high = min(0.0, low), max(0.0, high)
        pad = room * (high - low) or 0.5 * abs(high) or 0.5
        begin = low if axis.from_zero and not low else low - pad
        return cls(begin, high + pad, drawing.ticks(begin, high + pad, least=int(axis.is_count)))

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def across(self, value: float) -> str:
        return f"{_pixels(100 * self.share(value))}%"


class _Plot:
    """What is drawn, how high it is, and what room it needs on its sides."""

    def __init__(self, figure: Figure, height: float, left: float = 12, right: float = 14) -> None:
        self.figure, self.height, self.left, self.right = figure, height, left, right
        self.parts: list[Element] = []
        self.n_notes = 0

    def note(self, text: str) -> None:
        """A line above the plot."""
        self.n_notes += 1
        self.text(one_line(text), 2 - self.left, 7 - _LINE * self.n_notes, **_QUIET)

    def note_prefix(self, prefix: str) -> None:
        if prefix:
            self.note(f"all names begin with {prefix}")

    def x_axis(self, x: _Scale) -> None:
        """Rules and numbers; of many, a narrow screen leaves out every other one."""
        for number, tick in enumerate(x.ticks):
            place, look = x.across(tick), {"text_anchor": "middle"}
            if number % 2 and len(x.ticks) > _LABELLED_TICKS:
                look["class_"] = "minor"
            self.segment(place, 0, place, self.height, **_RULE)
            self.text(on_axis(tick), place, self.height + 15, **look)
        if self.figure.zero_line:
            zero = x.across(0.0)
            dashed = {"stroke": "currentColor", "stroke_dasharray": "2 2"}
            self.segment(zero, 0, zero, self.height, **dashed)
        (title,) = drawing.shortened([one_line(self.figure.x.title)], _TITLE_CHARACTERS)
        self.text(title, "100%", self.height + 32, text_anchor="end", **_QUIET)

    def y_axis(self, y: _Scale) -> None:
        labels = [on_axis(tick) for tick in y.ticks]
        self.left = _width(labels) + 12
        for tick, label in zip(y.ticks, labels, strict=True):
            down = self.down(y, tick)
            self.segment("0", down, "100%", down, **_RULE)
            self.text(label, -6, down + 4, text_anchor="end")

    def down(self, y: _Scale, value: float) -> float:
        return self.height * (1 - y.share(value))

    def segment(self, x1: str, y1: float, x2: str, y2: float, **look: str) -> None:
        ends = {"x1": x1, "y1": _pixels(y1), "x2": x2, "y2": _pixels(y2)}
        self.parts.append(element("line", **ends, **look))

    def text(self, text: str, x: float | str, y: float, **look: str) -> None:
        place = x if isinstance(x, str) else _pixels(x)
        self.parts.append(element("text", text, x=place, y=_pixels(y), **look))

    def symbol(self, across: str, down: float, series: Series, point: int) -> None:
        """The series' mark, hollow or not: another one each time that a colour comes again."""
        shape = _SHAPES[(series.number + series.number // len(COLOURS)) % len(_SHAPES)]
        look = {"fill": _colour(series)}
        if series.hollow and series.hollow[point]:
            look = {"fill": "transparent", "stroke": _colour(series), "stroke_width": "1.6"}
        remark = series.remarks[point] if series.remarks else ""
        name = "" if self.figure.form == "marks" else series.name
        title = one_line(": ".join(filter(None, (name, remark))))
        path = element("path", element("title", title), d=shape, **look)
        self.place(across, down, path)

    def place(self, across: str, down: float, *children: Element, **look: str) -> None:
        place = {"x": across, "y": _pixels(down), "overflow": "visible"}
        self.parts.append(element("svg", *children, **place, **look))


def _points(figure: Figure) -> _Plot:
    """A row for each point, in a group for each name of y where series have several."""
    columns = [[str(metric) for metric in series.y] for series in figure.series]
    metrics = list(dict.fromkeys(chain(*columns)))
    is_grouped = len(metrics) > 1 and len(figure.series) > 1
    labels = [one_line(series.name) for series in figure.series]
    if len(figure.series) == 1:
        labels = metrics
    prefix, names = drawing.without_prefix(labels)
    names = drawing.shortened(names, _NAME_CHARACTERS)
    plot = _Plot(figure, 0, _width(names) + 14)
    x = _Scale.of(figure.x, _numbers(figure, "x", "low", "high"), 0.04)
    for metric in metrics:
        if is_grouped:
            plot.text(one_line(metric), 2 - plot.left, plot.height + 14, font_weight="600")
            plot.height += _ROW
        for number, series in enumerate(figure.series):
            if metric in series.y:
                name = names[number] if len(figure.series) > 1 else names[metrics.index(metric)]
                _point(plot, x, name, series, list(series.y).index(metric))
    plot.note_prefix(prefix)
    if any(series.is_baseline for series in figure.series):
        plot.note("underlined: the baseline")
    if any(any(series.hollow) for series in figure.series):
        plot.note("hollow: the interval includes 0")
    plot.x_axis(x)
    return plot


def _point(plot: _Plot, x: _Scale, name: str, series: Series, point: int) -> None:
    """A row with a name, a mark and its interval."""
    middle = plot.height + _ROW / 2
    look = {"text_decoration": "underline"} if series.is_baseline else {}
    plot.text(name, -8, middle + 4, text_anchor="end", **look)
    plot.segment("0", middle, "100%", middle, **_RULE)
    low, high = series.low[point], series.high[point]
    if low is not None and high is not None and math.isfinite(low):
        plot.segment(x.across(low), middle, x.across(high), middle, **_stroke(series))
    plot.symbol(x.across(float(series.x[point])), middle, series, point)
    plot.height += _ROW


def _lines(figure: Figure) -> _Plot:
    """Curves with their names at their ends; of many, the first ones."""
    drawn = [series for series in figure.series if len(series.x)][:_MOST_LINES]
    prefix, names = drawing.without_prefix([one_line(series.name) for series in drawn])
    labels = drawing.shortened(names, _NAME_CHARACTERS)
    plot = _Plot(figure, _PLOT_HEIGHT, right=_width(labels) + 26)
    x, y = _axes(plot)
    ends = [plot.down(y, float(series.y[-1])) for series in drawn]
    places = drawing.spread(ends, _LINE, plot.height)
    for series, label, end, place in zip(drawn, labels, ends, places, strict=True):
        points = [(x.across(k), plot.down(y, mean)) for k, mean in _pairs(series)]
        for (k, mean), (next_k, next_mean) in pairwise(points):
            plot.segment(k, mean, next_k, next_mean, **_stroke(series))
        for point, (k, mean) in enumerate(points):
            plot.symbol(k, mean, series, point)
        thin = {"stroke": _colour(series), "stroke_opacity": ".5"}
        plot.segment(points[-1][0], end, "100%", end, **thin)
        leader = element("line", x1="0", y1=_pixels(end), x2="10", y2=_pixels(place), **thin)
        plot.place("100%", 0, leader, element("text", label, x="14", y=_pixels(place + 4)))
    plot.note_prefix(prefix)
    if len(figure.series) > _MOST_LINES:
        plot.note(f"the first {_MOST_LINES} of {len(figure.series)}")
    return plot


def _marks(figure: Figure) -> _Plot:
    """Points of two numbers, with their names towards the middle."""
    plot = _Plot(figure, _PLOT_HEIGHT)
    x, y = _axes(plot, 0.08)
    for series in figure.series:
        for point, (amount, mean) in enumerate(_pairs(series)):
            if not (math.isfinite(amount) and math.isfinite(mean)):
                continue
            place, down = x.across(amount), plot.down(y, mean)
            plot.symbol(place, down, series, point)
            if series.labels and series.labels[point]:
                (name,) = drawing.shortened([one_line(series.labels[point])], _TITLE_CHARACTERS)
                side = {"x": "8", "text_anchor": "start"}
                if x.share(amount) > 0.5:
                    side = {"x": "-8", "text_anchor": "end"}
                plot.place(place, down, element("text", name, y="-5", **side))
    return plot


def _axes(plot: _Plot, room: float = 0.04) -> tuple[_Scale, _Scale]:
    x = _Scale.of(plot.figure.x, _numbers(plot.figure, "x"), room)
    y = _Scale.of(plot.figure.y, _numbers(plot.figure, "y"), room)
    plot.y_axis(y)
    plot.x_axis(x)
    plot.note(plot.figure.y.title)
    return x, y


def _pairs(series: Series) -> list[tuple[float, float]]:
    return list(zip(map(float, series.x), map(float, series.y), strict=True))


def _numbers(figure: Figure, *columns: str) -> list[float]:
    values: list[float | None] = []
    for series in figure.series:
        for column in columns:
            values += getattr(series, column)
    return [float(value) for value in values if value is not None]


def _width(names: Sequence[str]) -> float:
    return max(map(cell_len, names), default=0) * _CHARACTER


def _colour(series: Series) -> str:
    return COLOURS[series.number % len(COLOURS)]


def _stroke(series: Series) -> dict[str, str]:
    return {"stroke": _colour(series), "stroke_width": "2"}


def _pixels(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
