"""What both drawings of a figure share: colours, ticks, names made short, texts of points."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from llama_index_rag_metrics.report.figure import Figure, Series
from llama_index_rag_metrics.report.numbers import in_template, score

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
"""Paul Tol's bright scheme: told apart by colour-blind eyes, on white and on black."""

POINT_SCALE = ("#4477aa", "#aa3377", "#ee6677")
"""From little to much: each end is told from white and from black."""

CELL_SCALE = ("#e8f0fa", "#6ea8e8")
"""The same for cells, with dark text on them."""

CELL_TEXT = "#111827"

_COLUMNS = ("x", "y", "low", "high", "remarks", "hollow", "z", "labels", "members")
"""What a series has of each point."""

_FINE_TICK_DECADES = 4
_TICKS = 5
_SHORTEST_PREFIX = 4


def colour_of(series: Series) -> str:
    return COLOURS[series.number % len(COLOURS)]


def with_known_points(figure: Figure) -> Figure:
    """Without the points that have no place, such as the mean of a metric without a value."""
    return replace(figure, series=[_known(series) for series in figure.series])


def _known(series: Series) -> Series:
    if not series.y:  # a box
        return series
    points: Iterable[tuple[Any, Any]] = zip(series.x, series.y, strict=True)
    kept = [
        number
        for number, point in enumerate(points)
        if all(isinstance(place, str) or math.isfinite(place) for place in point)
    ]
    columns: dict[str, Any] = {
        name: [column[n] for n in kept] for name in _COLUMNS if (column := getattr(series, name))
    }
    return replace(series, **columns)


def rows_of(figure: Figure) -> list[str]:
    """The rows of "points" that each series may have."""
    return list(dict.fromkeys(str(name) for series in figure.series for name in series.y))


def point_texts(figure: Figure, series: Series, written: Callable[[str], str]) -> list[str]:
    """Of each point what follows its numbers: its interval and remark, or its remark alone."""
    remarks = [written(remark) for remark in series.remarks] or [""] * len(series.x)
    if figure.form != "points":
        return remarks
    ends = zip(series.low, series.high, remarks, strict=True)
    return [_interval(low, high) + (remark and f", {remark}") for low, high, remark in ends]


def hovered(figure: Figure, series: Series, position: int, written: Callable[[str], str]) -> str:
    """What a point shows under the pointer, as plain text."""
    values: dict[str, Any] = {"customdata": point_texts(figure, series, written)[position]}
    for name, column in (("x", series.x), ("y", series.y), ("z", series.z)):
        if len(column) > position:
            value = column[position]
            values[name] = written(value) if isinstance(value, str) else value
    return in_template(figure.hover, values)


def without_prefix(names: Sequence[str]) -> tuple[str, list[str]]:
    """What all names begin with, up to a sign between words, and the names without it.

    >>> without_prefix(["e5-large-k5", "e5-large-k10"])
    ('e5-large-', ['k5', 'k10'])
    >>> without_prefix(["bm25", "lsa"])
    ('', ['bm25', 'lsa'])
    """
    first, last = min(names, default=""), max(names, default="")
    pairs = enumerate(zip(first, last, strict=False))
    n = next((n for n, (one, other) in pairs if one != other), len(first))
    prefix = re.sub(r"[^\W_]*$", "", first[:n])
    if len(prefix) < _SHORTEST_PREFIX or len(names) < 2 or prefix in names:
        return "", list(names)
    return prefix, [name.removeprefix(prefix) for name in names]


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Names of at most this many characters, or of as many as tell them apart.

    >>> shortened(["chunk512-rerank6", "chunk512-rerank12"], 12)
    ['chunk5…rank6', 'chunk5…ank12']
    """
    while True:
        half = most // 2
        short = [
            name if len(name) <= most else f"{name[:half]}…{name[half + 1 - most :]}"
            for name in names
        ]
        if len({*short}) == len({*names}):
            return short
        most += 4


def spread(places: Sequence[float], gap: float, end: float) -> list[float]:
    """Places moved as little as it takes for them to be a gap apart and at most at the end.

    >>> spread([10, 12, 50], 10, 100), spread([98, 99], 10, 100)
    ([10, 20, 50], [90, 100])
    """
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    for before, number in pairwise(order):
        moved[number] = max(moved[number], moved[before] + gap)
    for number in reversed(order):
        moved[number] = min(moved[number], end)
        end = moved[number] - gap
    return moved


def ticks(low: float, high: float) -> list[float]:
    """A few round numbers from one to the other.

    >>> ticks(0.1, 0.93)
    [0.2, 0.4, 0.6, 0.8]
    """
    width = (high - low) / _TICKS
    power = math.floor(math.log10(width))
    step = next(step for step in (1, 2, 5, 10) if step * 10.0**power >= width * 0.99)
    size = step * 10.0**power
    numbers = range(math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9) + 1)
    return [float(f"{number * step}e{power}") for number in numbers]


def log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times the powers of ten around the values; of many decades the powers alone.

    >>> log_ticks([12.0, 40.0]), log_ticks([0.3, 4000.0])
    ([10.0, 20.0, 50.0], [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    low, high = min(values, default=1.0), max(values, default=1.0)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first - 1, last + 1)  # a value just below 1000 has the logarithm 3
    steps = (1, 2, 5) if last - first < _FINE_TICK_DECADES else (1,)
    marks = [float(f"{step}e{power}") for power in decades for step in steps]
    below = max(tick for tick in marks if tick <= low)
    above = min((tick for tick in marks if tick >= high and tick > below), default=below * 10)
    return [tick for tick in marks if below <= tick <= above] or [below, above]


def cells_of(series: Series) -> tuple[list[str], list[str], Mapping[tuple[str, str], float | None]]:
    """Columns and rows in the order that they come in, and the number of each cell."""
    columns, rows = (list(dict.fromkeys(map(str, axis))) for axis in (series.x, series.y))
    cells = {(str(x), str(y)): z for x, y, z in zip(series.x, series.y, series.z, strict=True)}
    return columns, rows, cells


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None or math.isnan(low):
        return "(no interval)"
    return f"[{score(low)}, {score(high)}]"
