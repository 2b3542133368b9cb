"""Figures of a report as plotly's objects, for notebooks and for the HTML page.

Names come from data, and plotly reads some HTML in labels, so that every name is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.report.escape import plotly as escape
from llama_index_rag_metrics.report.figure import FIGURES, Axis, Figure, Series
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.numbers import PLOTLY, hover, score
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, UnknownMetric

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
"""Paul Tol's bright scheme: told apart by colour-blind eyes, on white and on black."""

_SCALE = ((0.0, "#4477aa"), (0.5, "#aa3377"), (1.0, "#ee6677"))
"""From little to much, for points: each end is told from white and from black."""

_CELLS = ((0.0, "#e8f0fa"), (1.0, "#6ea8e8"))
"""The same for cells, with dark text on them."""

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star", "cross")
_DASHES = ("solid", "dash", "dot", "dashdot")
_HEIGHT = 320
_MOST_DECADES = 4


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
    made = go.Figure(
        layout={
            "template": "none",
            "height": _height(figure),
            "margin": {"l": 60, "r": 16, "t": 12, "b": 44},
            "xaxis": _axis(figure.x, [series.x for series in figure.series]),
            "yaxis": _axis(figure.y, [series.y for series in figure.series]),
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "showlegend": len(figure.series) > 1 or figure.form not in ("marks", "cells"),
            "hovermode": "closest",
        }
    )
    for series in figure.series:
        _FORMS[figure.form](made, figure, series)
    if figure.form == "points":
        made.update_layout(scattermode="group", scattergap=0.45)
        made.update_yaxes(type="category", autorange="reversed")
    if figure.form == "boxes":
        made.update_layout(showlegend=False)
        made.update_yaxes(type="category", autorange="reversed")
    if figure.form == "bars":
        made.update_layout(barmode="group", bargap=0.06)
    if figure.zero_line:
        made.add_vline(x=0, line={"width": 1, "dash": "dot", "color": "#888888"})
    return made


def _points(made: go.Figure, figure: Figure, series: Series) -> None:
    hollow = series.hollow or [False] * len(series.x)
    symbol = _symbol(series)
    made.add_scatter(
        name=escape(series.name),
        y=[escape(str(name)) for name in series.y],
        x=list(series.x),
        error_x=_errors(series),
        customdata=_remarks(series),
        hovertemplate=f"{figure.hover}<extra>%{{fullData.name}}</extra>",
        mode="markers",
        marker={
            "color": _colour(series),
            "size": 9,
            "symbol": [f"{symbol}-open" if is_hollow else symbol for is_hollow in hollow],
        },
        offsetgroup=str(series.number),
        orientation="h",
    )


def _lines(made: go.Figure, figure: Figure, series: Series) -> None:
    made.add_scatter(
        name=escape(series.name),
        x=list(series.x),
        y=list(series.y),
        mode="lines+markers" if figure.markers else "lines",
        line={"color": _colour(series), "width": 2, "dash": _dash(series)},
        marker={
            "color": _colour(series),
            "size": 7,
            "symbol": _symbol(series),
        },
        hovertemplate=f"{figure.hover}<extra>%{{fullData.name}}</extra>",
    )


def _bars(made: go.Figure, figure: Figure, series: Series) -> None:
    made.add_bar(
        name=escape(series.name),
        x=list(series.x),
        y=list(series.y),
        customdata=[escape(remark) for remark in series.remarks],
        hovertemplate=f"{figure.hover}<extra></extra>",
        marker={"color": _colour(series)},
        opacity=1 if len(figure.series) == 1 else 0.75,
    )


def _boxes(made: go.Figure, _: Figure, series: Series) -> None:
    low, first, median, third, high = series.x
    made.add_box(
        name=escape(series.name),
        y=[escape(series.name)],
        lowerfence=[low],
        q1=[first],
        median=[median],
        q3=[third],
        upperfence=[high],
        orientation="h",
        marker={"color": _colour(series)},
    )


def _marks(made: go.Figure, figure: Figure, series: Series) -> None:
    symbol = _symbol(series)
    colour: dict[str, Any] = {"color": _colour(series)}
    if series.z and figure.z is not None:
        colour = {
            "color": [math.nan if value is None else value for value in series.z],
            "colorscale": _SCALE,
            "colorbar": {"title": {"text": escape(figure.z.title)}},
        }
    made.add_scatter(
        name=escape(series.name),
        x=list(series.x),
        y=list(series.y),
        customdata=[escape(remark) for remark in series.remarks],
        hovertemplate=f"{figure.hover}<extra></extra>",
        mode="markers",
        marker={
            **colour,
            "size": 11,
            "symbol": [f"{symbol}-open" if is_hollow else symbol for is_hollow in series.hollow]
            or symbol,
        },
    )


def _cells(made: go.Figure, figure: Figure, series: Series) -> None:
    columns, rows = (list(dict.fromkeys(map(str, axis))) for axis in (series.x, series.y))
    cells = {(str(x), str(y)): z for x, y, z in zip(series.x, series.y, series.z, strict=True)}
    made.add_heatmap(
        name=escape(series.name),
        x=[escape(name) for name in columns],
        y=[escape(name) for name in rows],
        z=[[cells.get((column, row)) for column in columns] for row in rows],
        hovertemplate=f"{figure.hover}<extra></extra>",
        colorscale=_CELLS,
        textfont={"color": "#111827"},
        colorbar={"title": {"text": escape("" if figure.z is None else figure.z.title)}},
        texttemplate=hover("z"),
    )
    made.update_xaxes(type="category")
    made.update_yaxes(type="category")


_FORMS: Mapping[str, Callable[[Any, Figure, Series], None]] = {
    "points": _points,
    "lines": _lines,
    "bars": _bars,
    "boxes": _boxes,
    "marks": _marks,
    "cells": _cells,
}


def _axis(axis: Axis, columns: Iterable[Sequence[Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "title": {"text": escape(axis.title)},
        "automargin": True,
        "zeroline": False,
    }
    if axis.ends is not None:
        made["range"] = list(axis.ends)
    if axis.is_log:
        ticks = _log_ticks(
            [value for column in columns for value in column if 0 < value < math.inf]
        )
        made |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
        made["range"] = [math.log10(ticks[0]), math.log10(ticks[-1])]
    if axis.is_share:
        made["tickformat"] = PLOTLY["share"]
    if axis.from_zero:
        made["rangemode"] = "tozero"
    return made


def _log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times the powers of ten around the values; of many decades the powers alone.

    >>> _log_ticks([12.0, 40.0]), _log_ticks([0.3, 4000.0])
    ([10.0, 20.0, 50.0], [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    low, high = min(values, default=1.0), max(values, default=1.0)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first - 1, last + 1)  # a value just below 1000 has the logarithm 3
    steps = (1, 2, 5) if last - first < _MOST_DECADES else (1,)
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


def _errors(series: Series) -> dict[str, Any]:
    """Bars from the lower to the upper end; none where there is no interval."""
    ends = list(zip(map(float, series.x), series.low, series.high, strict=True))
    above = [None if high is None else max(0.0, high - mean) for mean, _, high in ends]
    below = [None if low is None else max(0.0, mean - low) for mean, low, _ in ends]
    return {"type": "data", "array": above, "arrayminus": below, "thickness": 1.8, "width": 0}


def _remarks(series: Series) -> Sequence[str]:
    intervals = [_interval(low, high) for low, high in zip(series.low, series.high, strict=True)]
    if not series.remarks:
        return intervals
    return [
        f"{interval}, {escape(remark)}"
        for interval, remark in zip(intervals, series.remarks, strict=True)
    ]


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None or math.isnan(low):
        return "(no interval)"
    return f"[{score(low)}, {score(high)}]"


def _colour(series: Series) -> str:
    return COLOURS[series.number % len(COLOURS)]


def _symbol(series: Series) -> str:
    """Another one each time that a colour comes again."""
    return _SYMBOLS[(series.number + series.number // len(COLOURS)) % len(_SYMBOLS)]


def _dash(series: Series) -> str:
    return _DASHES[series.number // len(COLOURS) % len(_DASHES)]
