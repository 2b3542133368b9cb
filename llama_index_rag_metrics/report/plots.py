"""Figures of a report as plotly's objects, for notebooks.

Names come from data, and plotly reads some HTML in labels, so that every name is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.report.drawing import (
    CELL_SCALE,
    CELL_TEXT,
    POINT_SCALE,
    colour_of,
    dash_number,
    hovers,
    log_ticks,
    mark_number,
    rows_of,
    without_prefix,
)
from llama_index_rag_metrics.report.escape import plotly as escape
from llama_index_rag_metrics.report.figure import FIGURES, MOST_ABREAST, Axis, Figure, Series
from llama_index_rag_metrics.report.html.svg import picture
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.numbers import PLOTLY, hover
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, UnknownMetric

if TYPE_CHECKING:
    import plotly.graph_objects as go

Options: TypeAlias = "dict[str, Any]"

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star", "cross")
_DASHES = ("solid", "dash", "dot", "dashdot")
_HEIGHT = 320

_LAYOUTS: Mapping[str, Options] = {
    "points": {"scattermode": "group", "scattergap": 0.45, "yaxis": {"autorange": "reversed"}},
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
    of_metric = metric or (report.headline if FIGURES[kind].by_metric else "")
    caption = FIGURES[kind].caption + (f": {of_metric}" if of_metric else "")
    drawn = draw(figure)
    from llama_index_rag_metrics.report.pictured import PicturedFigure

    return PicturedFigure.of(drawn, picture(figure, caption), caption)


def draw(figure: Figure) -> go.Figure:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise MissingExtra("plots", "report") from error
    prefix, names = "", [series.name for series in figure.series]
    if len(names) > MOST_ABREAST:
        prefix, names = without_prefix(names)
    drawn = go.Figure(
        data=[
            {"name": escape(name), **_FORMS[figure.form](figure, series)}
            for name, series in zip(names, figure.series, strict=True)
        ],
        layout={
            "template": "none",
            "height": _height(figure),
            "margin": {"l": 60, "r": 16, "t": 12, "b": 44},
            "xaxis": _axis(figure.x, [series.x for series in figure.series]),
            "yaxis": _axis(figure.y, [series.y for series in figure.series]),
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "showlegend": not _is_named(figure),
            "hovermode": "closest",
        },
    )
    drawn.update_layout(_LAYOUTS.get(figure.form, {}))
    if figure.form == "lines" and len(figure.series) > MOST_ABREAST:
        heading = {"text": f"{escape(prefix)}…" if prefix else ""}
        beside = {"orientation": "v", "x": 1.02, "y": 1, "yanchor": "top", "title": heading}
        drawn.update_layout(legend=beside)
    if figure.variants:
        drawn.update_layout(updatemenus=[_choice([figure, *figure.variants])])
    if figure.remark:
        below = {"text": escape(figure.remark), "font": {"size": 12}}
        drawn.update_layout(title={"subtitle": below, "y": 0.98, "yanchor": "top"})
    if figure.zero_line:
        drawn.add_vline(x=0, line={"width": 1, "dash": "dot", "color": "#888888"})
    return drawn


def _points(figure: Figure, series: Series) -> Options:
    """Means with bars from the lower to the upper end; none where there is no interval."""
    ends = list(zip(map(float, series.x), series.low, series.high, strict=True))
    above = [None if high is None else max(0.0, high - mean) for mean, _, high in ends]
    below = [None if low is None else max(0.0, mean - low) for mean, low, _ in ends]
    bars = {"type": "data", "array": above, "arrayminus": below, "thickness": 1.8, "width": 0}
    rows: list[Any] = [escape(str(name)) for name in series.y]
    if _is_named(figure) and len(figure.series) > 1:
        names = [escape(series.name)] * len(rows)
        rows = [rows, names] if len(rows_of(figure)) > 1 else names
    return {
        "type": "scatter",
        "y": rows,
        "x": list(series.x),
        "error_x": bars,
        **_hovers(figure, series, "text+name"),
        "mode": "markers",
        "marker": _marker(series, 9),
        **({} if _is_named(figure) else {"offsetgroup": str(series.number)}),
        "orientation": "h",
    }


def _lines(figure: Figure, series: Series) -> Options:
    dash = _DASHES[dash_number(series, len(_DASHES))]
    return {
        "type": "scatter",
        **_plane(figure, series, "text+name"),
        "mode": "lines+markers" if figure.markers else "lines",
        "line": {"color": colour_of(series), "width": 2, "dash": dash},
        "marker": _marker(series, 7),
    }


def _bars(figure: Figure, series: Series) -> Options:
    return {
        "type": "bar",
        **_plane(figure, series),
        "marker": {"color": colour_of(series)},
        "opacity": 1 if len(figure.series) == 1 else 0.75,
    }


def _boxes(_: Figure, series: Series) -> Options:
    names = ("lowerfence", "q1", "median", "q3", "upperfence")
    return {
        "type": "box",
        "y": [escape(series.name)],
        **{name: [value] for name, value in zip(names, series.x, strict=True)},
        "orientation": "h",
        "marker": {"color": colour_of(series)},
    }


def _marks(figure: Figure, series: Series) -> Options:
    if series.is_line:
        line = {"color": "#888888", "dash": "dash", "width": 1.5}
        plane = {"x": list(series.x), "y": list(series.y), "hoverinfo": "skip"}
        return {"type": "scatter", **plane, "mode": "lines", "line": line}
    marker = _marker(series, 11)
    if series.z and figure.z is not None:
        marker |= {
            "color": [math.nan if value is None else value for value in series.z],
            "colorscale": _scale(POINT_SCALE),
            "colorbar": {"title": {"text": escape(figure.z.title)}},
        }
    return {
        "type": "scatter",
        **_plane(figure, series),
        "mode": "markers+text" if series.labels else "markers",
        "marker": marker,
        "text": list(map(escape, series.labels)) or None,
        "textposition": "top center",
    }


def _cells(figure: Figure, series: Series) -> Options:
    return {
        "type": "heatmap",
        **_grid(figure, series),
        "colorscale": _scale(CELL_SCALE),
        "textfont": {"color": CELL_TEXT},
        "colorbar": {"title": {"text": escape("" if figure.z is None else figure.z.title)}},
        "texttemplate": hover("z"),
    }


def _grid(figure: Figure, series: Series) -> Options:
    x, y = (list(map(escape, map(str, axis))) for axis in (series.x, series.y))
    return {"x": x, "y": y, "z": list(series.z), **_hovers(figure, series)}


def _choice(figures: Sequence[Figure]) -> Options:
    """A menu of grids of cells, which all have the same number of series."""
    buttons = []
    for figure in figures:
        (series,) = figure.series
        drawn = {name: [values] for name, values in _grid(figure, series).items()}
        titles = {
            "xaxis.title.text": escape(figure.x.title),
            "yaxis.title.text": escape(figure.y.title),
            "title.subtitle.text": escape(figure.remark),
        }
        buttons.append({"label": escape(figure.name), "method": "update", "args": [drawn, titles]})
    return {"buttons": buttons, "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"}


def _is_named(figure: Figure) -> bool:
    """Whether names stand at the rows, or there are none, so that no legend is needed."""
    is_long = figure.form == "points" and len(figure.series) > MOST_ABREAST
    return is_long or figure.form in ("boxes", "marks", "cells")


def _scale(colours: Sequence[str]) -> list[tuple[float, str]]:
    return [(number / (len(colours) - 1), colour) for number, colour in enumerate(colours)]


_FORMS: Mapping[str, Callable[[Figure, Series], Options]] = {
    "points": _points,
    "lines": _lines,
    "bars": _bars,
    "boxes": _boxes,
    "marks": _marks,
    "cells": _cells,
}


def _plane(figure: Figure, series: Series, hoverinfo: str = "text") -> Options:
    return {"x": list(series.x), "y": list(series.y), **_hovers(figure, series, hoverinfo)}


def _hovers(figure: Figure, series: Series, hoverinfo: str = "text") -> Options:
    return {"hovertext": hovers(figure, series, escape), "hoverinfo": hoverinfo}


def _marker(series: Series, size: int) -> Options:
    """The series' symbol, open where it is hollow."""
    symbol = _SYMBOLS[mark_number(series, len(_SYMBOLS))]
    symbols = [f"{symbol}-open" if is_hollow else symbol for is_hollow in series.hollow]
    return {"color": colour_of(series), "size": size, "symbol": symbols or symbol}


def _axis(axis: Axis, columns: Iterable[Sequence[Any]]) -> Options:
    options: Options = {
        "title": {"text": escape(axis.title)},
        "automargin": True,
        "zeroline": False,
    }
    if axis.ends is not None:
        options["range"] = list(axis.ends)
    if axis.is_log:
        ticks = log_ticks([value for column in columns for value in column if 0 < value < math.inf])
        options |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
        options["range"] = [math.log10(ticks[0]), math.log10(ticks[-1])]
    if axis.is_share:
        options["tickformat"] = PLOTLY["share"]
    if axis.from_zero:
        options["rangemode"] = "tozero"
    return options


def _height(figure: Figure) -> int:
    if figure.form == "boxes":
        return 80 + 34 * len(figure.series)
    if figure.form != "points":
        return _HEIGHT
    rows = len(rows_of(figure))
    return 110 + 13 * rows * (1 + len(figure.series))
