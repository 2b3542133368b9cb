"""A figure as SVG, as wide as its place.

Across, places are shares of the plot's width; down, pixels: text keeps its size on every screen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len

from llama_index_rag_metrics.report import drawing
from llama_index_rag_metrics.report.escape import Element, element
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import on_axis

_CHARACTER, _ROW = 7.4, 20
_PLANE, _BELOW = 230, 40
_NAME_CHARACTERS, _END_CHARACTERS, _LABEL_CHARACTERS = 20, 17, 32
_LABELLED_WIDTH = 430  # the width by which the labels of points are kept apart
_MOST_NAMED_LINES = 10
_LINE = 15
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
_QUIET = {"fill_opacity": ".75"}
_RULE = {"stroke": "currentColor", "stroke_opacity": ".18"}


class _Drawn(NamedTuple):
    """What is drawn, how high it is, and what room it needs on the other sides."""

    parts: Sequence[Element]
    height: float
    left: float = 12
    right: float = 14
    above: float = 8


def on_page(figure: Figure, caption: str) -> Element:
    """The figure for a page, as wide as its place."""
    drawn = _drawn(figure)
    sides = (drawn.above, drawn.right, _BELOW, drawn.left)
    look = {"fill": "currentColor", "role": "img", "aria_label": plain(caption)}
    svg = _placed("0", 0, *drawn.parts, width="100%", height=_num(drawn.height), **look)
    padding = f"padding:{' '.join(f'{_num(side)}px' for side in sides)}"
    return element("div", svg, class_="plot", style=padding)


def _drawn(figure: Figure) -> _Drawn:
    known = [*map(drawing.with_known_points, figure.series)]
    return _FORMS[figure.form](replace(figure, series=known))


# the heading of its group, its name, and the point of a series that it shows
_Row: TypeAlias = "tuple[str, str, Series, int]"


def _points(figure: Figure) -> _Drawn:
    """A row for each point, in a group for each name of y where series have several."""
    systems = figure.series
    names = list(dict.fromkeys(str(name) for series in systems for name in series.y))
    x = _Scale.of(figure.x, _numbers(figure, "x", "low", "high"))
    rows: list[_Row] = [
        (
            name if len(names) > 1 < len(systems) else "",
            series.name if len(systems) > 1 else name,
            series,
            list(series.y).index(name),
        )
        for name in names
        for series in systems
        if name in series.y
    ]

    def mark(series: Series, at: int, y: float) -> Iterator[Element]:
        low, high = series.low[at], series.high[at]
        if low is not None and high is not None and math.isfinite(low):
            yield _segment(x.across(low), y, x.across(high), y, **_stroke(series))
        title = _titles(figure, series)[at]
        yield _symbol(x.across(float(series.x[at])), y, series, at, title)

    return _rows(figure, x, rows, mark)


def _rows(
    figure: Figure,
    x: _Scale,
    rows: Sequence[_Row],
    mark: Callable[[Series, int, float], Iterator[Element]],
) -> _Drawn:
    """Names left of their rows; where one is long, above them, with room on every screen."""
    names = list(dict.fromkeys(plain(name) for _, name, _, _ in rows))
    prefix, short = drawing.without_prefix(names)
    widest = max(map(cell_len, short), default=0)
    is_above = widest > _NAME_CHARACTERS
    left = 12 if is_above else widest * _CHARACTER + 14
    baseline = ["underlined: the baseline" for series in figure.series if series.is_baseline]
    parts, y, last = _notes_above(left, prefix, *baseline), 0.0, ""
    above = 12 + _LINE * len(parts) if parts else 8
    for heading, name, series, at in rows:
        if heading != last:
            parts.append(_svg_text(plain(heading), 2 - left, y + 14, font_weight="600"))
            y, last = y + _ROW, heading
        y += _LINE if is_above else 0
        label = short[names.index(plain(name))]
        middle = y + _ROW / 2
        across, down, anchor = (2 - left, y - 1, "start") if is_above else (-8, middle + 4, "end")
        look = {"text_decoration": "underline"} if series.is_baseline else {}
        parts.append(_svg_text(label, across, down, text_anchor=anchor, **look))
        parts.append(_segment("0", middle, "100%", middle, **_RULE))
        parts += mark(series, at, middle)
        y += _ROW
    return _Drawn([*_x_axis(figure, x, y), *parts], y, left, above=above)


def _lines(figure: Figure) -> _Drawn:
    """Curves with their names at their ends; of many, the last ones are grey and have no name."""
    shown = [series for series in figure.series if len(series.x)]
    named = shown[:_MOST_NAMED_LINES]
    x, y = _scales(figure)
    prefix, names = drawing.without_prefix([plain(series.name) for series in named])
    labels = drawing.shortened(names, _END_CHARACTERS)
    height = max(_PLANE, _LINE * len(named))
    grey = {"stroke": "currentColor", "stroke_opacity": ".4"}
    parts = [_polyline(series, x, y, height, grey) for series in shown[len(named) :]]
    ends = [y.down(float(series.y[-1]), height) for series in named]
    places = drawing.spread(ends, _LINE, height)
    for series, label, end, place in reversed([*zip(named, labels, ends, places, strict=True)]):
        parts.append(_polyline(series, x, y, height, _stroke(series)))
        for at, title in enumerate(_titles(figure, series)):
            across, down = x.across(float(series.x[at])), y.down(float(series.y[at]), height)
            parts.append(_symbol(across, down, series, at, title, transform="scale(.75)"))
        thin = {"stroke": drawing.colour_of(series), "stroke_opacity": ".5"}
        parts.append(_segment(x.across(float(series.x[-1])), end, "100%", end, **thin))
        leader = _segment("0", end, "10", place, **thin)
        parts.append(_placed("100%", 0, leader, _svg_text(label, 14, place + 4)))
    right = max(map(cell_len, labels), default=0) * _CHARACTER + 26
    note = f"grey: {more} more" if (more := len(shown) - len(named)) else ""
    return _plane(figure, x, y, height, parts, right=right, prefix=prefix, note=note)


def _marks(figure: Figure) -> _Drawn:
    """Points of two numbers, with their names where there is room."""
    x, y = _scales(figure, 0.08)
    height = _PLANE + 70
    parts: list[Element] = []
    taken: list[tuple[float, float, float]] = []
    for series in figure.series:
        for at, title in enumerate(_titles(figure, series)):
            across, down = x.at(float(series.x[at])), y.down(float(series.y[at]), height)
            place = f"{_num(100 * across)}%"
            parts.append(_symbol(place, down, series, at, title))
            if series.labels:
                label = _label(plain(series.labels[at]), across * _LABELLED_WIDTH, down, taken)
                parts += [_placed(place, down, *label)]
    return _plane(figure, x, y, height, parts)


def _label(
    name: str, across: float, down: float, taken: list[tuple[float, float, float]]
) -> Iterator[Element]:
    """The name of a point above it, to its right or left, unless it would run into another one."""
    (label,) = drawing.shortened([name], _LABEL_CHARACTERS)
    width = cell_len(label) * _CHARACTER
    beside = [(left, right) for left, right, other in taken if abs(down - other) <= _LINE - 2]
    for begin, anchor, shift in ((across + 8, "start", 8), (across - 8 - width, "end", -8)):
        end = begin + width
        is_free = all(begin > right or end < left for left, right in beside)
        if is_free and begin > -8 and end < _LABELLED_WIDTH + 8:
            taken.append((begin, end, down))
            yield _svg_text(label, shift, -5, text_anchor=anchor)
            return


_FORMS: Mapping[str, Callable[[Figure], _Drawn]] = {
    "points": _points,
    "lines": _lines,
    "marks": _marks,
}


def _plane(
    figure: Figure,
    x: _Scale,
    y: _Scale,
    height: float,
    parts: Sequence[Element],
    *,
    right: float = 14,
    prefix: str = "",
    note: str = "",
) -> _Drawn:
    left = max((cell_len(y.label(tick)) for tick in y.ticks), default=0) * _CHARACTER + 12
    notes = _notes_above(left, prefix, note, figure.y.title)
    axes = [*_y_axis(y, height), *_x_axis(figure, x, height)]
    return _Drawn([*notes, *axes, *parts], height, left, right, 12 + _LINE * len(notes))


def _scales(figure: Figure, room: float = 0.04) -> tuple[_Scale, _Scale]:
    return (
        _Scale.of(figure.x, _numbers(figure, "x"), room),
        _Scale.of(figure.y, _numbers(figure, "y"), room),
    )


def _titles(figure: Figure, series: Series) -> list[str]:
    """What each point shows under the pointer: the name of its series, and its remark."""
    name = "" if figure.form == "marks" else series.name
    remarks = series.remarks or [""] * max(1, len(series.y))
    return [plain(": ".join(filter(None, (name, remark)))) for remark in remarks]


def _numbers(figure: Figure, *columns: str) -> list[float]:
    values = (value for each in figure.series for name in columns for value in getattr(each, name))
    known = (float(value) for value in values if value is not None)
    return [value for value in known if math.isfinite(value)]


def _stroke(series: Series) -> dict[str, str]:
    return {"stroke": drawing.colour_of(series), "stroke_width": "2"}


@dataclass(frozen=True)
class _Scale:
    """From the numbers of an axis to places between 0 and 1."""

    axis: Axis
    low: float
    high: float
    ticks: Sequence[float]

    @classmethod
    def of(cls, axis: Axis, values: Sequence[float], room: float = 0.04) -> _Scale:
        low, high = axis.ends or (min(values, default=0.0), max(values, default=1.0))
        if axis.ends is None:
            low = min(0.0, low) if axis.from_zero else low
            pad = room * (high - low) or 0.5 * abs(high) or 0.5
            low, high = low if axis.from_zero and not low else low - pad, high + pad
        return cls(axis, low, high, drawing.ticks(low, high, least=int(axis.is_count)))

    def at(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def across(self, value: float) -> str:
        return f"{_num(100 * self.at(value))}%"

    def down(self, value: float, height: float) -> float:
        return height * (1 - self.at(value))

    def label(self, value: float) -> str:
        return on_axis(value)


def _notes_above(left: float, prefix: str, *others: str) -> list[Element]:
    """Lines above the plot: what all names begin with, and whatever else there is to be said."""
    begun = f"all names begin with {prefix}" if prefix else ""
    lines = [plain(line) for line in (begun, *others) if line]
    return [
        _svg_text(line, 2 - left, -8 - _LINE * above, **_QUIET)
        for above, line in enumerate(reversed(lines))
    ]


def _x_axis(figure: Figure, x: _Scale, height: float) -> Iterator[Element]:
    """Rules and numbers; where these are many, every other one is left out on narrow screens."""
    for number, tick in enumerate(x.ticks):
        is_minor = number % 2 and len(x.ticks) > _LABELLED_TICKS
        yield _segment(x.across(tick), 0, x.across(tick), height, **_RULE)
        look = {"class_": "minor"} if is_minor else {}
        yield _centred(x.label(tick), 100 * x.at(tick), height + 15, **look)
    if figure.zero_line:
        dashed = {"stroke": "currentColor", "stroke_dasharray": "2 2"}
        zero = x.across(0.0)
        yield _segment(zero, 0, zero, height, **dashed)
    yield _x_title(figure, height)


def _x_title(figure: Figure, height: float) -> Element:
    (title,) = drawing.shortened([plain(figure.x.title)], _TITLE_CHARACTERS)
    return _svg_text(title, "100%", height + 32, text_anchor="end", **_QUIET)


def _y_axis(y: _Scale, height: float, top: float = 0.0) -> Iterator[Element]:
    for tick in y.ticks[:: 1 if height > _LOW else 2]:
        place = top + y.down(tick, height)
        yield _segment("0", place, "100%", place, **_RULE)
        yield _svg_text(y.label(tick), -6, place + 4, text_anchor="end")


def _polyline(
    series: Series, x: _Scale, y: _Scale, height: float, look: Mapping[str, str]
) -> Element:
    """A line through the points, stretched with the plot, though not its width."""
    across, down = map(float, series.x), map(float, series.y)
    places = zip(map(x.at, across), down, strict=True)
    points = " ".join(f"{_num(1000 * a)},{_num(y.down(b, height))}" for a, b in places)
    dash = _DASHES[series.number // len(drawing.COLOURS) % len(_DASHES)]
    shape = {"points": points, "fill": "none", "vector_effect": "non-scaling-stroke"}
    line = element("polyline", **shape, **{"stroke_dasharray": dash, **look})
    line.append(element("title", plain(series.name)))
    box = {"viewBox": f"0 0 1000 {_num(height)}", "preserveAspectRatio": "none"}
    return _placed("0", 0, line, width="100%", height=_num(height), **box)


def _symbol(across: str, y: float, series: Series, at: int, title: str, **look: str) -> Element:
    """The series' mark, hollow or not: another one each time that a colour comes again."""
    shape = _SHAPES[(series.number + series.number // len(drawing.COLOURS)) % len(_SHAPES)]
    colour = drawing.colour_of(series)
    if series.hollow and series.hollow[at]:
        look |= {"fill": "transparent", "stroke": colour, "stroke_width": "1.6"}
    else:
        look["fill"] = colour
    return _placed(across, y, element("path", element("title", title), d=shape, **look))


def _placed(x: str, y: float, *children: Element, **look: str) -> Element:
    return element("svg", *children, x=x, y=_num(y), overflow="visible", **look)


def _segment(x1: str, y1: float, x2: str, y2: float, **look: str) -> Element:
    return element("line", x1=x1, y1=_num(y1), x2=x2, y2=_num(y2), **look)


def _svg_text(text: str, x: float | str, y: float, **look: str) -> Element:
    return element("text", text, x=x if isinstance(x, str) else _num(x), y=_num(y), **look)


def _centred(text: str, across: float, y: float, **look: str) -> Element:
    return _svg_text(text, f"{_num(across)}%", y, text_anchor="middle", **look)


def _num(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
