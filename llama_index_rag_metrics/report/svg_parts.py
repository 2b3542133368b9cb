"""What drawings are made of: scales, axes, curves, marks, and the elements of SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llama_index_rag_metrics.report import drawing
from llama_index_rag_metrics.report.elements import Element, element
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import on_axis

LINE = 15
_LOW = 100
_TITLE_CHARACTERS = 46
_LABELLED_TICKS = 5
_DASHES = ("none", "6 4", "2 3", "8 3 2 3")
_SHAPES = (
    "M-4.5 0A4.5 4.5 0 1 1 4.5 0A4.5 4.5 0 1 1 -4.5 0Z",
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
    "M-4 -4H4V4H-4Z",
    "M0 -5L5 4H-5Z",
    "M0 5L5 -4H-5Z",
    "M-5 -1.5H-1.5V-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5Z",
    "M0 -6L1.6 -2L6 -1.6L2.6 1.2L3.7 5.5L0 3.2L-3.7 5.5L-2.6 1.2L-6 -1.6L-1.6 -2Z",
)
QUIET = {"fill_opacity": ".75"}
RULE = {"stroke": "currentColor", "stroke_opacity": ".18"}


@dataclass(frozen=True)
class AxisScale:
    """From the numbers of an axis to places between 0 and 1."""

    axis: Axis
    low: float
    high: float
    ticks: Sequence[float]

    @classmethod
    def of(cls, axis: Axis, values: Sequence[float], room: float = 0.04) -> AxisScale:
        if axis.is_log:
            ticks = drawing.log_ticks([value for value in values if 0 < value < math.inf])
            return cls(axis, math.log10(ticks[0]), math.log10(ticks[-1]), ticks)
        low, high = axis.ends or (min(values, default=0.0), max(values, default=1.0))
        if axis.ends is None:
            low = min(0.0, low) if axis.from_zero else low
            pad = room * (high - low) or 0.5 * abs(high) or 0.5
            low, high = low if axis.from_zero and not low else low - pad, high + pad
        return cls(axis, low, high, drawing.ticks(low, high))

    def at(self, value: float) -> float:
        if self.axis.is_log:
            value = math.log10(value) if value > 0 else self.low
        return (value - self.low) / (self.high - self.low)

    def across(self, value: float) -> str:
        return f"{num(100 * self.at(value))}%"

    def down(self, value: float, height: float) -> float:
        return height * (1 - self.at(value))

    def label(self, value: float) -> str:
        return on_axis(value, is_share=self.axis.is_share)


def notes_above(left: float, prefix: str, *others: str) -> list[Element]:
    """Lines above the plot: what all names begin with, and whatever else there is to be said."""
    begun = f"all names begin with {prefix}" if prefix else ""
    lines = [plain(line) for line in (begun, *others) if line]
    return [
        svg_text(line, 2 - left, -8 - LINE * above, **QUIET)
        for above, line in enumerate(reversed(lines))
    ]


def x_axis(figure: Figure, x: AxisScale, height: float) -> Iterator[Element]:
    """Rules and numbers; where these are many, every other one is left out on narrow screens."""
    for number, tick in enumerate(x.ticks):
        is_minor = number % 2 and len(x.ticks) > _LABELLED_TICKS
        yield segment(x.across(tick), 0, x.across(tick), height, **RULE)
        look = {"class_": "minor"} if is_minor else {}
        yield centred(x.label(tick), 100 * x.at(tick), height + 15, **look)
    if figure.zero_line:
        dashed = {"stroke": "currentColor", "stroke_dasharray": "2 2"}
        yield segment(x.across(0.0), 0, x.across(0.0), height, **dashed)
    yield x_title(figure, height)


def x_title(figure: Figure, height: float) -> Element:
    (title,) = drawing.shortened([plain(figure.x.title)], _TITLE_CHARACTERS)
    return svg_text(title, "100%", height + 32, text_anchor="end", **QUIET)


def y_axis(y: AxisScale, height: float, top: float = 0.0) -> Iterator[Element]:
    for tick in y.ticks[:: 1 if height > _LOW else 2]:
        place = top + y.down(tick, height)
        yield segment("0", place, "100%", place, **RULE)
        yield svg_text(y.label(tick), -6, place + 4, text_anchor="end")


def polyline(
    series: Series, x: AxisScale, y: AxisScale, height: float, look: Mapping[str, str]
) -> Element:
    """A line through the points, stretched with the plot, though not its width."""
    across, down = map(float, series.x), map(float, series.y)
    places = zip(map(x.at, across), down, strict=True)
    points = " ".join(f"{num(1000 * a)},{num(y.down(b, height))}" for a, b in places)
    dash = _DASHES[drawing.dash_number(series, len(_DASHES))]
    shape = {"points": points, "fill": "none", "vector_effect": "non-scaling-stroke"}
    line = element("polyline", **shape, **{"stroke_dasharray": dash, **look})
    line.append(element("title", plain(series.name)))
    box = {"viewBox": f"0 0 1000 {num(height)}", "preserveAspectRatio": "none"}
    return placed("0", 0, line, width="100%", height=num(height), **box)


def mark_of(
    across: str, y: float, series: Series, at: int, title: str, *, fill: str = "", **look: str
) -> Element:
    """The series' mark, hollow or not."""
    shape = _SHAPES[drawing.mark_number(series, len(_SHAPES))]
    colour = fill or drawing.colour_of(series)
    if series.hollow and series.hollow[at]:
        look |= {"fill": "transparent", "stroke": colour, "stroke_width": "1.6"}
    else:
        look["fill"] = colour
    return placed(across, y, element("path", element("title", title), d=shape, **look))


def placed(x: str, y: float, *children: Element, **look: str) -> Element:
    return element("svg", *children, x=x, y=num(y), overflow="visible", **look)


def segment(x1: str, y1: float, x2: str, y2: float, **look: str) -> Element:
    return element("line", x1=x1, y1=num(y1), x2=x2, y2=num(y2), **look)


def rect(left: float, top: float, width: float, height: float, **look: str) -> Element:
    place = {"x": f"{num(left)}%", "y": num(top), "width": f"{num(width)}%", "height": num(height)}
    return element("rect", **place, **look)


def svg_text(text: str, x: float | str, y: float, **look: str) -> Element:
    return element("text", text, x=x if isinstance(x, str) else num(x), y=num(y), **look)


def centred(text: str, across: float, y: float, **look: str) -> Element:
    return svg_text(text, f"{num(across)}%", y, text_anchor="middle", **look)


def num(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
