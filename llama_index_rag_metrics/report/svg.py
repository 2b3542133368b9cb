"""A figure as SVG: across, places are shares of its width; down, pixels: text keeps its size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise, product

from rich.cells import cell_len

from .model import Figure, Mark, Series
from .numbers import given
from .text import element, escape_html, one_line

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
_PLOT_HEIGHT, _SCATTER_HEIGHT, _BELOW = 150, 170, 40
_NAME_CHARACTERS, _TITLE_CHARACTERS = 20, 46
_TICKS, _MOST_LINES = 5, 10
_NARROW = 300  # the width where no label may cover another
_QUIET = {"fill_opacity": ".75"}
_RULE = {"stroke": "currentColor", "stroke_opacity": ".18"}


def on_page(figure: Figure, caption: str) -> str:
    forms = {"points": _points, "lines": _lines, "marks": _marks}
    plot = forms[figure.form](figure)
    look = {"role": "img", "aria_label": caption, "fill": "currentColor", "overflow": "visible"}
    top = 12 + _LINE * bool(figure.y)
    padding = f"padding:{top}px {plot.right}px {_BELOW}px {plot.left}px"
    svg = element("svg", *plot.parts, width="100%", height=_pixels(plot.height), **look)
    return element("div", svg, class_="plot", style=padding)


class _Scale:
    def __init__(self, values: Iterable[float | None], room: float, *, from_0: bool = False):
        numbers = [value for value in values if value is not None and math.isfinite(value)]
        low, high = min(numbers, default=0.0), max(numbers, default=1.0)
        if from_0:
            low = min(low, 0.0)
        pad = room * (high - low) or 0.5 * abs(high) or 0.5
        self.low = low if from_0 and not low else low - pad
        self.high = high + pad

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def across(self, value: float) -> str:
        return f"{_pixels(100 * self.share(value))}%"

    def ticks(self, least: float = 0) -> list[float]:
        width = max(least, (self.high - self.low) / _TICKS)
        power = math.floor(math.log10(width))
        step = next(step for step in (1, 2, 5, 10) if step * 10.0**power >= width * 0.99)
        size = step * 10.0**power
        begin, end = math.ceil(self.low / size - 1e-9), math.floor(self.high / size + 1e-9)
        return [float(f"{number * step}e{power}") for number in range(begin, end + 1)]


class _Plot:
    def __init__(self, figure: Figure, height: float, left: int = 12, right: int = 14) -> None:
        self.figure, self.height, self.left, self.right = figure, height, left, right
        self.parts: list[str] = []

    def x_axis(self, x: _Scale, least: float = 0) -> None:
        ticks = x.ticks(least)
        for number, tick in enumerate(ticks):
            place, look = x.across(tick), {"text_anchor": "middle"}
            if number % 2 and len(ticks) > _TICKS:
                look["class_"] = "minor"
            self.segment(place, 0, place, self.height, **_RULE)
            self.text(given(tick), place, self.height + 15, **look)
        if self.figure.has_zero_line:
            place, dashed = x.across(0.0), {"stroke": "currentColor", "stroke_dasharray": "2 2"}
            self.segment(place, 0, place, self.height, **dashed)
        title = _cut(one_line(self.figure.x), _TITLE_CHARACTERS)
        self.text(title, "100%", self.height + 32, text_anchor="end", **_QUIET)

    def y_axis(self, y: _Scale) -> None:
        ticks = y.ticks()
        self.left = _width(map(given, ticks)) + 12
        for tick in ticks:
            down = self.down(y, tick)
            self.segment("0", down, "100%", down, **_RULE)
            self.text(given(tick), "-6", down + 4, text_anchor="end")
        self.text(self.figure.y, _pixels(2 - self.left), 7 - _LINE, **_QUIET)

    def down(self, y: _Scale, value: float | str) -> float:
        return self.height * (1 - y.share(float(value)))

    def segment(self, x1: str, y1: float, x2: str, y2: float, **look: str) -> None:
        ends = {"x1": x1, "y1": _pixels(y1), "x2": x2, "y2": _pixels(y2)}
        self.parts.append(element("line", **ends, **look))

    def text(self, text: str, x: str, y: float, **look: str) -> None:
        self.parts.append(element("text", escape_html(text), x=x, y=_pixels(y), **look))

    def symbol(self, across: str, down: float, series: Series, mark: Mark) -> None:
        shape = _SHAPES[(series.number + series.number // len(COLOURS)) % len(_SHAPES)]
        title = element("title", escape_html(mark.title))
        self.place(across, down, element("path", title, d=shape, fill=_colour(series)))

    def place(self, across: str, down: float, *children: str) -> None:
        place = {"x": across, "y": _pixels(down), "overflow": "visible"}
        self.parts.append(element("svg", *children, **place))


def _points(figure: Figure) -> _Plot:
    marks = _marks_of(figure)
    metrics = list(dict.fromkeys(str(mark.y) for mark in marks))
    names = [_cut(one_line(series.name)) for series in figure.series]
    if len(names) == 1:
        names = list(map(_cut, metrics))
    plot = _Plot(figure, 0, _width(names) + 14)
    values: list[float | None] = [0.0] * figure.has_zero_line
    for mark in marks:
        values += (mark.x, mark.low, mark.high)
    x = _Scale(values, 0.05)
    for metric in metrics:
        if len(metrics) > 1 and len(figure.series) > 1:
            plot.text(metric, _pixels(2 - plot.left), plot.height + 14, font_weight="600")
            plot.height += _ROW
        for series in figure.series:
            for mark in series.marks:
                if mark.y == metric:
                    name = series.name if len(figure.series) > 1 else metric
                    _point(plot, x, _cut(one_line(name)), series, mark)
    plot.x_axis(x)
    return plot


def _point(plot: _Plot, x: _Scale, name: str, series: Series, mark: Mark) -> None:
    middle = plot.height + _ROW / 2
    plot.text(name, "-8", middle + 4, text_anchor="end")
    plot.segment("0", middle, "100%", middle, **_RULE)
    if mark.low is not None and mark.high is not None and math.isfinite(mark.low):
        plot.segment(x.across(mark.low), middle, x.across(mark.high), middle, **_stroke(series))
    plot.symbol(x.across(mark.x), middle, series, mark)
    plot.height += _ROW


def _lines(figure: Figure) -> _Plot:
    drawn = [series for series in figure.series if series.marks][:_MOST_LINES]
    if len(drawn) < len(figure.series):
        figure = figure._replace(x=f"{figure.x} ({len(drawn)} of {len(figure.series)} are drawn)")
    labels = [_cut(one_line(series.name)) * (len(drawn) > 1) for series in drawn]
    plot = _Plot(figure, _PLOT_HEIGHT, right=_width(labels) + 26)
    x, y = _axes(plot, least=1)
    ends = [plot.down(y, series.marks[-1].y) for series in drawn]
    places = _spread(ends, _LINE, plot.height)
    for series, label, end, place in zip(drawn, labels, ends, places, strict=True):
        points = [(x.across(mark.x), plot.down(y, mark.y)) for mark in series.marks]
        for (k, mean), (next_k, next_mean) in pairwise(points):
            plot.segment(k, mean, next_k, next_mean, **_stroke(series))
        for (k, mean), mark in zip(points, series.marks, strict=True):
            plot.symbol(k, mean, series, mark)
        thin = {"stroke": _colour(series), "stroke_opacity": ".5" if label else "0"}
        plot.segment(points[-1][0], end, "100%", end, **thin)
        leader = element("line", x1="0", y1=_pixels(end), x2="10", y2=_pixels(place), **thin)
        text = element("text", escape_html(label), x="14", y=_pixels(place + 4))
        plot.place("100%", 0, leader, text)
    return plot


def _spread(places: Sequence[float], gap: float, end: float) -> list[float]:
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    for previous, number in pairwise(order):
        moved[number] = max(moved[number], moved[previous] + gap)
    for number in reversed(order):
        moved[number] = min(moved[number], end)
        end = moved[number] - gap
    return moved


def _marks(figure: Figure) -> _Plot:
    plot = _Plot(figure, _SCATTER_HEIGHT)
    x, y = _axes(plot)
    labels: dict[tuple[float, float], list[str]] = {}
    for series in reversed(figure.series):  # the best is drawn above the others
        for mark in series.marks:
            plot.symbol(x.across(mark.x), plot.down(y, mark.y), series, mark)
            labels.setdefault((x.share(mark.x), plot.down(y, mark.y)), []).insert(0, mark.label)
    boxes = [(across * _NARROW, down, 12.0) for across, down in labels]
    for (across, down), texts in reversed(labels.items()):
        label = _cut(one_line(", ".join(texts)), _TITLE_CHARACTERS)
        width, box = _width([label]), (0.0, 0.0, 0.0)
        for below, side in product((-5, 14), (1, -1)):
            box = (across * _NARROW + side * (8 + width / 2), down + below - 4, width)
            is_inside = width / 2 <= box[0] <= _NARROW - width / 2
            if is_inside and not any(_overlap(box, obstacle) for obstacle in boxes):
                break
        boxes.append(box)
        look = {"x": _pixels(8 * side), "text_anchor": "start" if side > 0 else "end"}
        text = element("text", escape_html(label), y=_pixels(below), **look)
        plot.place(f"{_pixels(100 * across)}%", down, text)
    return plot


def _overlap(a: tuple[float, float, float], b: tuple[float, float, float]) -> bool:
    return abs(a[0] - b[0]) < (a[2] + b[2]) / 2 and abs(a[1] - b[1]) < 12


def _axes(plot: _Plot, least: float = 0) -> tuple[_Scale, _Scale]:
    marks = _marks_of(plot.figure)
    x = _Scale([mark.x for mark in marks], 0.06)
    y = _Scale([float(mark.y) for mark in marks], 0.12, from_0=plot.figure.form == "lines")
    plot.y_axis(y)
    plot.x_axis(x, least)
    return x, y


def _marks_of(figure: Figure) -> list[Mark]:
    return list(chain.from_iterable(series.marks for series in figure.series))


def _cut(name: str, most: int = _NAME_CHARACTERS) -> str:
    half = most // 2
    return name if len(name) <= most else f"{name[:half]}…{name[half + 1 - most :]}"


def _width(names: Iterable[str]) -> int:
    return math.ceil(max(map(cell_len, names), default=0) * _CHARACTER)


def _colour(series: Series) -> str:
    return COLOURS[series.number % len(COLOURS)]


def _stroke(series: Series) -> dict[str, str]:
    return {"stroke": _colour(series), "stroke_width": "2"}


def _pixels(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
