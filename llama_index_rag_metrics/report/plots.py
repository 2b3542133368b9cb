"""Figures of a report as plotly's objects, for notebooks and for the HTML page.

Names come from data, and plotly reads some HTML in labels, so that every name is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.report.escape import plotly as escape
from llama_index_rag_metrics.report.figure import FIGURES, Axis, Figure, Series
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.numbers import PLOTLY, hover, score
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, UnknownMetric

if TYPE_CHECKING:
    import plotly.graph_objects as go

Options: TypeAlias = "dict[str, Any]"

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
"""Paul Tol's bright scheme: told apart by colour-blind eyes, on white and on black."""

_POINT_SCALE = ((0.0, "#4477aa"), (0.5, "#aa3377"), (1.0, "#ee6677"))
"""From little to much: each end is told from white and from black."""

_CELL_SCALE = ((0.0, "#e8f0fa"), (1.0, "#6ea8e8"))
"""The same for cells, with dark text on them."""

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star", "cross")
_DASHES = ("solid", "dash", "dot", "dashdot")
_HEIGHT = 320
_FINE_TICK_DECADES = 4

_LAYOUTS: Mapping[str, Options] = {
    "points": {
        "scattermode": "group",
        "scattergap": 0.45,
        "yaxis": {"type": "category", "autorange": "reversed"},
    },
    "boxes": {"showlegend": False, "yaxis": {"type": "category", "autorange": "reversed"}},
    "bars": {"barmode": "group", "bargap": 0.06},
    "cells": {"xaxis": {"type": "category"}, "yaxis": {"type": "category"}},
}


def plot(report: Report, kind: str, metric: str | None) -> go.Figure:
    """One figure of a report; for arguments and errors see `Reportable.plot`."""
    if kind not in FIGURES:
        raise InvalidInput("kind", kind, " or ".join(map(repr, FIGURES)))
    if metric is not None and metric not in report.metrics:
        raise UnknownMetric(metric, tuple(report.metrics))
    figure = report.figures[kind](metric) if kind in report.figures else None
    if figure is None:
        raise InvalidInput("kind", kind, "a figure of what was given", FIGURES[kind].missing)
    return draw(figure)


def draw(figure: Figure) -> go.Figure:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise MissingExtra("plots", "report") from error
    drawn = go.Figure(
        data=[
            {"name": escape(series.name), **_FORMS[figure.form](figure, series)}
            for series in figure.series
        ],
        layout={
            "template": "none",
            "height": _height(figure),
            "margin": {"l": 60, "r": 16, "t": 12, "b": 44},
            "xaxis": _axis(figure.x, [series.x for series in figure.series]),
            "yaxis": _axis(figure.y, [series.y for series in figure.series]),
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "showlegend": len(figure.series) > 1 or figure.form not in ("marks", "cells"),
            "hovermode": "closest",
        },
    )
    drawn.update_layout(_LAYOUTS.get(figure.form, {}))
    if figure.zero_line:
        drawn.add_vline(x=0, line={"width": 1, "dash": "dot", "color": "#888888"})
    return drawn


def _points(figure: Figure, series: Series) -> Options:
    """Means with bars from the lower to the upper end; none where there is no interval."""
    ends = list(zip(map(float, series.x), series.low, series.high, strict=True))
    above = [None if high is None else max(0.0, high - mean) for mean, _, high in ends]
    below = [None if low is None else max(0.0, mean - low) for mean, low, _ in ends]
    bars = {"type": "data", "array": above, "arrayminus": below, "thickness": 1.8, "width": 0}
    remarks = [f", {escape(remark)}" for remark in series.remarks] or [""] * len(ends)
    return {
        "type": "scatter",
        "y": [escape(str(name)) for name in series.y],
        "x": list(series.x),
        "error_x": bars,
        "customdata": [
            _interval(low, high) + remark
            for (_, low, high), remark in zip(ends, remarks, strict=True)
        ],
        "hovertemplate": f"{figure.hover}<extra>%{{fullData.name}}</extra>",
        "mode": "markers",
        "marker": _marker(series, 9),
        "offsetgroup": str(series.number),
        "orientation": "h",
    }


def _lines(figure: Figure, series: Series) -> Options:
    dash = _DASHES[series.number // len(COLOURS) % len(_DASHES)]
    return {
        "type": "scatter",
        "x": list(series.x),
        "y": list(series.y),
        "mode": "lines+markers" if figure.markers else "lines",
        "line": {"color": _colour(series), "width": 2, "dash": dash},
        "marker": _marker(series, 7),
        "hovertemplate": f"{figure.hover}<extra>%{{fullData.name}}</extra>",
    }


def _bars(figure: Figure, series: Series) -> Options:
    return {
        "type": "bar",
        **_plane(figure, series),
        "marker": {"color": _colour(series)},
        "opacity": 1 if len(figure.series) == 1 else 0.75,
    }


def _boxes(_: Figure, series: Series) -> Options:
    names = ("lowerfence", "q1", "median", "q3", "upperfence")
    return {
        "type": "box",
        "y": [escape(series.name)],
        **{name: [value] for name, value in zip(names, series.x, strict=True)},
        "orientation": "h",
        "marker": {"color": _colour(series)},
    }


def _marks(figure: Figure, series: Series) -> Options:
    marker = _marker(series, 11)
    if series.z and figure.z is not None:
        marker |= {
            "color": [math.nan if value is None else value for value in series.z],
            "colorscale": _POINT_SCALE,
            "colorbar": {"title": {"text": escape(figure.z.title)}},
        }
    return {"type": "scatter", **_plane(figure, series), "mode": "markers", "marker": marker}


def _cells(figure: Figure, series: Series) -> Options:
    columns, rows = (list(dict.fromkeys(map(str, axis))) for axis in (series.x, series.y))
    cells = {(str(x), str(y)): z for x, y, z in zip(series.x, series.y, series.z, strict=True)}
    return {
        "type": "heatmap",
        "x": [escape(name) for name in columns],
        "y": [escape(name) for name in rows],
        "z": [[cells.get((column, row)) for column in columns] for row in rows],
        "hovertemplate": f"{figure.hover}<extra></extra>",
        "colorscale": _CELL_SCALE,
        "textfont": {"color": "#111827"},
        "colorbar": {"title": {"text": escape("" if figure.z is None else figure.z.title)}},
        "texttemplate": hover("z"),
    }


_FORMS: Mapping[str, Callable[[Figure, Series], Options]] = {
    "points": _points,
    "lines": _lines,
    "bars": _bars,
    "boxes": _boxes,
    "marks": _marks,
    "cells": _cells,
}


def _plane(figure: Figure, series: Series) -> Options:
    return {
        "x": list(series.x),
        "y": list(series.y),
        "customdata": [escape(remark) for remark in series.remarks],
        "hovertemplate": f"{figure.hover}<extra></extra>",
    }


def _marker(series: Series, size: int) -> Options:
    """Another symbol each time that a colour comes again; open where the series is hollow."""
    symbol = _SYMBOLS[(series.number + series.number // len(COLOURS)) % len(_SYMBOLS)]
    symbols = [f"{symbol}-open" if is_hollow else symbol for is_hollow in series.hollow]
    return {"color": _colour(series), "size": size, "symbol": symbols or symbol}


def _colour(series: Series) -> str:
    return COLOURS[series.number % len(COLOURS)]


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None or math.isnan(low):
        return "(no interval)"
    return f"[{score(low)}, {score(high)}]"


def _axis(axis: Axis, columns: Iterable[Sequence[Any]]) -> Options:
    options: Options = {
        "title": {"text": escape(axis.title)},
        "automargin": True,
        "zeroline": False,
    }
    if axis.ends is not None:
        options["range"] = list(axis.ends)
    if axis.is_log:
        ticks = _log_ticks(
            [value for column in columns for value in column if 0 < value < math.inf]
        )
        options |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
        options["range"] = [math.log10(ticks[0]), math.log10(ticks[-1])]
    if axis.is_share:
        options["tickformat"] = PLOTLY["share"]
    if axis.from_zero:
        options["rangemode"] = "tozero"
    return options


def _log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times the powers of ten around the values; of many decades the powers alone.

    >>> _log_ticks([12.0, 40.0]), _log_ticks([0.3, 4000.0])
    ([10.0, 20.0, 50.0], [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    low, high = min(values, default=1.0), max(values, default=1.0)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first - 1, last + 1)  # a value just below 1000 has the logarithm 3
    steps = (1, 2, 5) if last - first < _FINE_TICK_DECADES else (1,)
    ticks = [float(f"{step}e{power}") for power in decades for step in steps]
    below = max(tick for tick in ticks if tick <= low)
    above = min((tick for tick in ticks if tick >= high and tick > below), default=below * 10)
    return [tick for tick in ticks if below <= tick <= above] or [below, above]


def _height(figure: Figure) -> int:
    if figure.form == "boxes":
        return 80 + 34 * len(figure.series)
    if figure.form != "points":
        return _HEIGHT
    rows = len(dict.fromkeys(name for series in figure.series for name in series.y))
    return 110 + 13 * rows * (1 + len(figure.series))
