"""A figure as SVG: on a page as wide as its place, elsewhere as a picture of its own.

Across, places are shares of the plot's width; down, pixels: text keeps its size on every screen.
Lines and texts have the colour of the text around them, in light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len

from llama_index_rag_metrics.report import drawing
from llama_index_rag_metrics.report.elements import Element, element, render
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import NO_VALUE, count, score
from llama_index_rag_metrics.report.svg_parts import (
    LINE,
    QUIET,
    RULE,
    AxisScale,
    centred,
    mark_of,
    notes_above,
    num,
    placed,
    polyline,
    rect,
    segment,
    svg_text,
    x_axis,
    x_title,
    y_axis,
)

Numbered: TypeAlias = Mapping[str, int]

_CHARACTER, _ROW, _CELL = 7.4, 20, 30
_PLANE, _BARS, _BELOW = 230, 96, 40
_NAME_CHARACTERS, _END_CHARACTERS, _LABEL_CHARACTERS = 20, 17, 32
_LABELLED_WIDTH = 430
"""The width by which the labels of points are kept apart."""

_PICTURE_WIDTH = 640
_MOST_NAMED_LINES = 10


class _Drawn(NamedTuple):
    """What is drawn, how high it is, and what room it needs on the other sides."""

    parts: Sequence[Element]
    height: float
    left: float = 12
    right: float = 14
    above: float = 8


def picture(figure: Figure, caption: str = "") -> str:
    """The figure as an SVG file, dark on white, for wherever there is no page around it."""
    drawn = _drawn(figure, {})
    heading, remark = (_wrapped(plain(text)) for text in (caption, figure.remark))
    above = drawn.above + LINE * len(heading) + 5
    below = above + drawn.height + _BELOW
    height = below + LINE * len(remark)
    inside = {"width": num(_PICTURE_WIDTH - drawn.left - drawn.right), "height": num(drawn.height)}
    svg = element(
        "svg",
        element("rect", width="100%", height="100%", fill="#fff"),
        *(svg_text(text, 6, LINE * (n + 1), font_weight="600") for n, text in enumerate(heading)),
        placed(num(drawn.left), above, *drawn.parts, **inside),
        *(svg_text(text, 6, below + LINE * n + 10, **QUIET) for n, text in enumerate(remark)),
        xmlns="http://www.w3.org/2000/svg",
        width=num(_PICTURE_WIDTH),
        height=num(height),
        viewBox=f"0 0 {num(_PICTURE_WIDTH)} {num(height)}",
        font_family="system-ui, sans-serif",
        font_size="12",
        fill="currentColor",
        color=drawing.CELL_TEXT,
        role="img",
        aria_label=plain(caption) or "figure",
    )
    return render(svg)


def _wrapped(text: str) -> list[str]:
    """The text in lines as wide as a picture."""
    signs = _PICTURE_WIDTH / _CHARACTER * len(text) / max(1, cell_len(text))
    return wrap(text, max(1, int(signs)))


def on_page(figure: Figure, caption: str, numbers: Numbered) -> Element:
    """The figure for a page; bars carry the numbers of their questions."""
    drawn = _drawn(figure, numbers)
    sides = (drawn.above, drawn.right, _BELOW, drawn.left)
    look = {"fill": "currentColor", "role": "img", "aria_label": plain(caption)}
    svg = placed("0", 0, *drawn.parts, width="100%", height=num(drawn.height), **look)
    padding = f"padding:{' '.join(f'{num(side)}px' for side in sides)}"
    remark = [element("p", plain(figure.remark), class_="quiet")] if figure.remark else []
    return element("div", element("div", svg, class_="plot", style=padding), *remark)


def _drawn(figure: Figure, numbers: Numbered) -> _Drawn:
    return _FORMS[figure.form](drawing.with_known_points(figure), numbers)


_Row: TypeAlias = "tuple[str, str, Series, int]"
"""The heading of its group, its name, and the point of a series that it shows."""


def _points(figure: Figure, _: Numbered) -> _Drawn:
    """A row for each point, in a group for each name of y where series have several."""
    names, systems = drawing.rows_of(figure), figure.series
    x = AxisScale.of(figure.x, _numbers(figure, "x", "low", "high"))
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
            yield segment(x.across(low), y, x.across(high), y, **_stroke(series))
        title = _titles(figure, series)[at]
        yield mark_of(x.across(float(series.x[at])), y, series, at, title)

    return _rows(figure, x, rows, mark)


def _boxes(figure: Figure, _: Numbered) -> _Drawn:
    x = AxisScale.of(figure.x, [*_numbers(figure, "x"), 0.0])

    def mark(series: Series, _: int, y: float) -> Iterator[Element]:
        low, first, median, third, high = map(float, series.x)
        title = element("title", *_titles(figure, series))
        whiskers = segment(x.across(low), y, x.across(high), y, **_stroke(series))
        width = max(100 * (x.at(third) - x.at(first)), 0.3)
        fill = drawing.colour_of(series)
        box = rect(100 * x.at(first), y - 6, width, 12, fill=fill)
        dark = {"stroke": "currentColor", "stroke_width": "2"}
        middle = segment(x.across(median), y - 7, x.across(median), y + 7, **dark)
        yield element("g", title, whiskers, box, middle)

    return _rows(figure, x, [("", series.name, series, 0) for series in figure.series], mark)


def _rows(
    figure: Figure,
    x: AxisScale,
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
    parts, y, last = notes_above(left, prefix, *baseline), 0.0, ""
    above = 12 + LINE * len(parts) if parts else 8
    for heading, name, series, at in rows:
        if heading != last:
            parts.append(svg_text(plain(heading), 2 - left, y + 14, font_weight="600"))
            y, last = y + _ROW, heading
        y += LINE if is_above else 0
        label = short[names.index(plain(name))]
        middle = y + _ROW / 2
        across, down, anchor = (2 - left, y - 1, "start") if is_above else (-8, middle + 4, "end")
        look = {"text_decoration": "underline"} if series.is_baseline else {}
        parts.append(svg_text(label, across, down, text_anchor=anchor, **look))
        parts.append(segment("0", middle, "100%", middle, **RULE))
        parts += mark(series, at, middle)
        y += _ROW
    return _Drawn([*x_axis(figure, x, y), *parts], y, left, above=above)


def _lines(figure: Figure, _: Numbered) -> _Drawn:
    """Curves with their names at their ends; of many, the last ones are grey and have no name."""
    shown = [series for series in figure.series if len(series.x)]
    named = shown[:_MOST_NAMED_LINES]
    x, y = (AxisScale.of(getattr(figure, axis), _numbers(figure, axis)) for axis in ("x", "y"))
    prefix, names = drawing.without_prefix([plain(series.name) for series in named])
    labels = drawing.shortened(names, _END_CHARACTERS)
    height = max(_PLANE, LINE * len(named))
    grey = {"stroke": "currentColor", "stroke_opacity": ".4"}
    parts = [polyline(series, x, y, height, grey) for series in shown[len(named) :]]
    ends = [y.down(float(series.y[-1]), height) for series in named]
    places = drawing.spread(ends, LINE, height)
    for series, label, end, place in reversed([*zip(named, labels, ends, places, strict=True)]):
        parts.append(polyline(series, x, y, height, _stroke(series)))
        for at, title in enumerate(_titles(figure, series) if figure.markers else ()):
            across, down = x.across(float(series.x[at])), y.down(float(series.y[at]), height)
            parts.append(mark_of(across, down, series, at, title, transform="scale(.75)"))
        thin = {"stroke": drawing.colour_of(series), "stroke_opacity": ".5"}
        parts.append(segment(x.across(float(series.x[-1])), end, "100%", end, **thin))
        leader = segment("0", end, "10", place, **thin)
        parts.append(placed("100%", 0, leader, svg_text(label, 14, place + 4)))
    right = max(map(cell_len, labels), default=0) * _CHARACTER + 26
    more = len(shown) - len(named)
    note = f"grey: {more} more" if more else ""
    return _plane(figure, x, y, height, parts, right=right, prefix=prefix, note=note)


def _marks(figure: Figure, _: Numbered) -> _Drawn:
    """Points of two numbers, a third one by colour, their names where there is room; lines."""
    x, y = (
        AxisScale.of(getattr(figure, axis), _numbers(figure, axis), 0.08) for axis in ("x", "y")
    )
    height = _PLANE + 70
    known = [value for series in figure.series for value in series.z if value is not None]
    dashed = {**RULE, "stroke_opacity": ".6", "stroke_width": "2", "stroke_dasharray": "4 3"}
    parts = [polyline(each, x, y, height, dashed) for each in figure.series if each.is_line]
    taken: list[tuple[float, float, float]] = []
    for series in figure.series:
        for at, title in enumerate(() if series.is_line else _titles(figure, series)):
            across, down = x.at(float(series.x[at])), y.down(float(series.y[at]), height)
            place = f"{num(100 * across)}%"
            fill = _mixed(drawing.POINT_SCALE, series.z[at], known) if series.z else ""
            parts.append(mark_of(place, down, series, at, title, fill=fill))
            if series.labels:
                label = _label(plain(series.labels[at]), across * _LABELLED_WIDTH, down, taken)
                parts += [placed(place, down, *label)]
    note = ""
    if figure.z is not None and known:
        note = f"{plain(figure.z.title)}: blue {count(min(known))}, red {count(max(known))}"
    return _plane(figure, x, y, height, parts, note=note)


def _label(
    name: str, across: float, down: float, taken: list[tuple[float, float, float]]
) -> Iterator[Element]:
    """The name of a point above it, to its right or left, unless it would run into another one."""
    (label,) = drawing.shortened([name], _LABEL_CHARACTERS)
    width = cell_len(label) * _CHARACTER
    for begin, anchor, shift in ((across + 8, "start", 8), (across - 8 - width, "end", -8)):
        end = begin + width
        is_free = all(
            abs(down - other) > LINE - 2 or begin > right or end < left
            for left, right, other in taken
        )
        if is_free and begin > -8 and end < _LABELLED_WIDTH + 8:
            taken.append((begin, end, down))
            yield svg_text(label, shift, -5, text_anchor=anchor)
            return


def _bars(figure: Figure, numbers: Numbered) -> _Drawn:
    """The bars of each series, one below the other."""
    step = max(float(b) - float(a) for series in figure.series for a, b in [series.x[:2]])
    middles = _numbers(figure, "x")
    x = AxisScale.of(figure.x, [min(middles) - step / 2, max(middles) + step / 2], 0.01)
    y = AxisScale.of(Axis(from_zero=True), [*_numbers(figure, "y"), 1.0])
    width = 92 * step / (x.high - x.low)
    height = _BARS if len(figure.series) > 1 else 2 * _BARS
    parts, top = [svg_text(plain(figure.y.title), "100%", 12, text_anchor="end", **QUIET)], 0.0
    for series in figure.series:
        parts.append(svg_text(plain(series.name), 0, top + 12, font_weight="600"))
        top += _ROW
        parts += y_axis(y, height, top)
        titles = _titles(figure, series)
        for at, n in enumerate(map(float, series.y)):
            members = series.members[at] if series.members else ()
            known = ",".join(str(numbers[name]) for name in members if name in numbers)
            left, high = 100 * x.at(float(series.x[at])) - width / 2, height - y.down(n, height)
            bar = rect(left, top + height - high, width, high, fill=drawing.colour_of(series))
            if known:
                bar.set("data-questions", known)
            bar.append(element("title", titles[at]))
            parts += [bar] if n else []
        top += height + 8
    return _Drawn([*x_axis(figure, x, top), *parts], top, 36)


def _cells(figure: Figure, _: Numbered) -> _Drawn:
    """A grid of numbers; the more, the darker."""
    (series,) = figure.series
    columns, rows, cells = drawing.cells_of(series)
    known = [value for value in cells.values() if value is not None]
    width, height = 100 / len(columns), float(_CELL * len(rows))
    names = drawing.shortened([plain(name) for name in rows], _NAME_CHARACTERS)
    left = max(map(cell_len, names)) * _CHARACTER + 14
    parts = [*notes_above(left, "", figure.y.title), x_title(figure, height)]
    for row, name in enumerate(rows):
        middle = row * _CELL + _CELL / 2 + 4
        parts.append(svg_text(names[row], -8, middle, text_anchor="end"))
        for column, across in enumerate(columns):
            value = cells.get((across, name))
            fill = _mixed(drawing.CELL_SCALE, value, known)
            cell = rect(column * width, row * _CELL, width, _CELL - 2, fill=fill)
            text = NO_VALUE if value is None else score(value)
            title = plain(f"{figure.x.title} {across}, {figure.y.title} {name}: {text}")
            look = {} if value is None else {"fill": drawing.CELL_TEXT}
            number = centred(text, (column + 0.5) * width, middle, **look)
            parts.append(element("g", element("title", title), cell, number))
    short = drawing.shortened([plain(name) for name in columns], _NAME_CHARACTERS)
    for column, name in enumerate(short):
        parts.append(centred(name, (column + 0.5) * width, height + 14))
    return _Drawn(parts, height, left, above=26)


_FORMS: Mapping[str, Callable[[Figure, Numbered], _Drawn]] = {
    "points": _points,
    "lines": _lines,
    "bars": _bars,
    "boxes": _boxes,
    "marks": _marks,
    "cells": _cells,
}


def _plane(
    figure: Figure,
    x: AxisScale,
    y: AxisScale,
    height: float,
    parts: Sequence[Element],
    *,
    right: float = 14,
    prefix: str = "",
    note: str = "",
) -> _Drawn:
    left = max((cell_len(y.label(tick)) for tick in y.ticks), default=0) * _CHARACTER + 12
    notes = notes_above(left, prefix, note, figure.y.title)
    axes = [*y_axis(y, height), *x_axis(figure, x, height)]
    return _Drawn([*notes, *axes, *parts], height, left, right, 12 + LINE * len(notes))


def _titles(figure: Figure, series: Series) -> list[str]:
    """What each point shows under the pointer: the name of its series, and its remark."""
    name = "" if figure.form in ("marks", "bars") else series.name
    remarks = series.remarks or [""] * max(1, len(series.y))
    return [plain(": ".join(filter(None, (name, remark)))) for remark in remarks]


def _mixed(colours: Sequence[str], value: float | None, known: Sequence[float]) -> str:
    """The colour of a number on a scale from the least to the greatest that is known."""
    if value is None:
        return "none"
    low, high = min(known), max(known)
    place = (value - low) / (high - low) * (len(colours) - 1) if high > low else 0.0
    first = min(int(place), len(colours) - 2)
    ends = (bytes.fromhex(colour[1:]) for colour in colours[first : first + 2])
    mixed = [round(a + (b - a) * (place - first)) for a, b in zip(*ends, strict=True)]
    return f"#{bytes(mixed).hex()}"


def _numbers(figure: Figure, *columns: str) -> list[float]:
    values = (value for each in figure.series for name in columns for value in getattr(each, name))
    known = (float(value) for value in values if value is not None)
    return [value for value in known if math.isfinite(value)]


def _stroke(series: Series) -> dict[str, str]:
    return {"stroke": drawing.colour_of(series), "stroke_width": "2"}
