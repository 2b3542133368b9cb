"""Plots: the figures of a report as plotly's objects, for notebooks and for the HTML page.

Names come from data, and plotly reads some HTML in labels, so that every name is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llama_index_rag_metrics.comparison import Comparison, Difference, MeanInterval
from llama_index_rag_metrics.errors import InvalidInput, MissingExtra, UnknownMetric
from llama_index_rag_metrics.report.compared import compared_systems, p_text
from llama_index_rag_metrics.report.curves import (
    RECALL_LEVELS,
    cutoffs_of,
    interpolated_precision,
    means_by_cutoff,
)
from llama_index_rag_metrics.report.summary import (
    Reported,
    System,
    headline,
    plain,
    systems_of,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
"""Paul Tol's bright scheme: told apart by colour-blind eyes, on white and on black."""

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star", "cross")
_BINS = 31
_QUANTILES = 201


class Drawn(NamedTuple):
    """What is drawn: systems, the queries compared, and the comparison if there is one."""

    systems: Sequence[System]
    metric_names: Sequence[str]
    query_ids: Sequence[str] | None
    comparison: Comparison | None

    @property
    def keys(self) -> list[str]:
        """The names by which the comparison knows its systems, in this order."""
        assert self.comparison is not None
        baseline = self.comparison.baseline
        return [baseline, *(one for one in self.comparison.systems if one != baseline)]


def plot(
    reported: Comparison | Reported | Sequence[Reported],
    kind: str = "means",
    metric: str | None = None,
) -> go.Figure:
    """One figure.

    Args:
        reported: a comparison, or the results or scores of one or several retrievers.
        kind: "means" with their intervals; "differences" from the baseline with theirs, and their
            "distribution" over the queries (both of a comparison only); a metric "by_cutoff";
            "precision_recall": interpolated, at eleven levels; "latency".
        metric: of which metric; None takes ndcg where there is one, else the first. Means and
            differences show all unless one is given.

    Raises:
        MissingExtra: plotly isn't installed.
        InvalidInput: there is no such figure of what was given.
        UnknownMetric: the metric wasn't computed.

    Examples:
        >>> from llama_index_rag_metrics import Scores
        >>> plot(Scores(["q1", "q2"], {"mrr": [1.0, 0.5]})).data[0].x
        (0.75,)
    """
    drawn = drawn_of(reported)
    if kind not in FIGURES:
        raise InvalidInput("kind", kind, " or ".join(map(repr, FIGURES)))
    if metric is not None and metric not in drawn.metric_names:
        raise UnknownMetric(metric, tuple(drawn.metric_names))
    figure = FIGURES[kind](drawn, metric)
    if figure is None:
        remedy = {
            "differences": "compare() makes one.",
            "distribution": "compare() makes one.",
            "latency": "Stored rankings aren't timed.",
        }.get(kind, "Bare scores know no rankings, and not every metric has a cutoff.")
        raise InvalidInput("kind", kind, "a figure of what was given", remedy)
    return figure


def drawn_of(reported: Comparison | Reported | Sequence[Reported]) -> Drawn:
    """What to draw of a comparison, or of results."""
    if isinstance(reported, Comparison):
        return Drawn(
            compared_systems(reported), reported.metric_names, reported.query_ids, reported
        )
    systems = systems_of(reported)
    names = list(dict.fromkeys(metric for one in systems for metric in one.scores))
    return Drawn(systems, names, None, None)


def _means(drawn: Drawn, metric: str | None) -> go.Figure | None:
    names = list(drawn.metric_names) if metric is None else [metric]
    figure = _figure("mean", "", _height(drawn, names))
    for at, one in enumerate(drawn.systems):
        found = [(name, interval) for name in names if (interval := mean_of(drawn, at, name))]
        figure.add_scatter(
            name=_label(one.name),
            y=[_label(name) for name, _ in found],
            x=[interval.mean for _, interval in found],
            error_x=_errors([(one.mean, one.low, one.high) for _, one in found]),
            customdata=[_interval(one.low, one.high) for _, one in found],
            hovertemplate="%{y}: %{x:.4f} %{customdata}<extra>%{fullData.name}</extra>",
            mode="markers",
            marker=_marker(at, 9),
            offsetgroup=str(at),
            orientation="h",
        )
    figure.update_layout(scattermode="group", scattergap=0.45)
    figure.update_yaxes(type="category", autorange="reversed")
    return figure


def mean_of(drawn: Drawn, at: int, metric: str) -> MeanInterval | None:
    """The mean of one system with its interval, None where there is none."""
    if drawn.comparison is not None:
        return drawn.comparison.means[drawn.keys[at], metric]
    scores = drawn.systems[at].scores
    if metric not in scores or not scores.n(metric):
        return None
    from llama_index_rag_metrics.comparison import mean_interval

    return mean_interval(scores[metric])


def _differences(drawn: Drawn, metric: str | None) -> go.Figure | None:
    if drawn.comparison is None:
        return None
    names = list(drawn.metric_names) if metric is None else [metric]
    others = drawn.keys[1:]
    baseline = _label(plain(drawn.comparison.baseline))
    figure = _figure(f"difference from {baseline}", "", _height(drawn, names))
    for at, key in enumerate(others, 1):
        found = [drawn.comparison[key, name] for name in names]
        found = [one for one in found if one.n]
        figure.add_scatter(
            name=_label(drawn.systems[at].name),
            y=[_label(one.metric) for one in found],
            x=[one.difference for one in found],
            error_x=_errors([(one.difference, one.low, one.high) for one in found]),
            customdata=[
                f"{_interval(one.low, one.high)}, corrected p {escape(p_text(one.p_corrected))}"
                for one in found
            ],
            hovertemplate="%{y}: %{x:+.4f} %{customdata}<extra>%{fullData.name}</extra>",
            mode="markers",
            marker={
                **_marker(at, 10),
                "symbol": [_symbol(at) + ("" if one.significant else "-open") for one in found],
            },
            offsetgroup=str(at),
            orientation="h",
        )
    figure.add_vline(x=0, line={"width": 1, "dash": "dot", "color": "#888888"})
    shown = [one for one in drawn.comparison if one.metric in names]
    figure.update_xaxes(range=_around_zero(shown))
    figure.update_layout(scattermode="group", scattergap=0.45)
    figure.update_yaxes(type="category", autorange="reversed")
    return figure


def _around_zero(found: Sequence[Difference]) -> tuple[float, float]:
    """From the lowest to the highest end, with 0 and some room at both sides."""
    ends = [end for one in found for end in (one.low, one.difference, one.high) if end is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.06 * (high - low) or 0.1
    return low - room, high + room


def _distribution(drawn: Drawn, metric: str | None) -> go.Figure | None:
    if drawn.comparison is None:
        return None
    shown = metric or headline(drawn.systems)
    baseline = _label(plain(drawn.comparison.baseline))
    figure = _figure(f"{_label(shown)}, system minus {baseline}", "queries", 320)
    columns = [list(drawn.comparison.by_query(key, shown).values()) for key in drawn.keys[1:]]
    widest = max((abs(value) for column in columns for value in column), default=0.0) or 1.0
    edges = np.linspace(-widest, widest, _BINS + 1)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    for at, column in enumerate(columns, 1):
        same = column.count(0.0)
        counts, _ = np.histogram([one for one in column if one], edges)
        figure.add_bar(
            name=_label(f"{drawn.systems[at].name} ({same} the same)"),
            x=middles,
            y=counts.tolist(),
            customdata=[
                f"{low:+.3f} to {high:+.3f}"
                for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            ],
            hovertemplate="%{customdata}: %{y} queries<extra></extra>",
            marker={"color": _colour(at)},
            opacity=1 if len(columns) == 1 else 0.75,
        )
    figure.add_vline(x=0, line={"width": 1, "dash": "dot", "color": "#888888"})
    figure.update_layout(barmode="group", bargap=0.06)
    return figure


def _by_cutoff(drawn: Drawn, metric: str | None) -> go.Figure | None:
    shown = metric or headline(drawn.systems)
    cutoffs = cutoffs_of([one.results for one in drawn.systems if one.results is not None])
    curves = {
        at: means_by_cutoff(one.results, shown, cutoffs, drawn.query_ids)
        for at, one in enumerate(drawn.systems)
        if one.results is not None and shown in one.scores
    }
    if not any(curves.values()):
        return None
    figure = _figure("k", f"{_label(shown.partition('@')[0])}@k", 320)
    for at, curve in curves.items():
        _line(figure, drawn, at, list(curve), list(curve.values()), "k = %{x}: %{y:.4f}")
    figure.update_yaxes(rangemode="tozero")
    return figure


def _precision_recall(drawn: Drawn, metric: str | None) -> go.Figure | None:
    shown = metric or headline(drawn.systems)
    curves = {
        at: interpolated_precision(one.results, shown, drawn.query_ids)
        for at, one in enumerate(drawn.systems)
        if one.results is not None and shown in one.scores
    }
    if not any(curves.values()):
        return None
    figure = _figure("recall", "interpolated precision", 320)
    for at, curve in curves.items():
        hover = "recall %{x:.1f}: precision %{y:.4f}"
        _line(figure, drawn, at, RECALL_LEVELS[: len(curve)], curve, hover)
    figure.update_yaxes(range=[0, 1.02])
    figure.update_xaxes(range=[-0.02, 1.02])
    return figure


def _latency(drawn: Drawn, _metric: str | None) -> go.Figure | None:
    columns = {
        at: [
            found.latency
            for found in one.run.values()
            if found.latency is not None and found.error is None
        ]
        for at, one in enumerate(drawn.systems)
    }
    if not any(columns.values()):
        return None
    figure = _figure("milliseconds", "share of queries answered", 320)
    for at, seconds in columns.items():
        if seconds:
            share = np.linspace(0, 1, min(_QUANTILES, max(2, len(seconds))))
            quantiles = np.quantile(seconds, share) * 1e3
            hover = "%{y:.0%} within %{x:.3~g} ms"
            _line(figure, drawn, at, quantiles.tolist(), share.tolist(), hover, markers=False)
    figure.update_xaxes(type="log", dtick="D2")
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    return figure


FIGURES: Mapping[str, Callable[[Drawn, str | None], go.Figure | None]] = {
    "means": _means,
    "differences": _differences,
    "distribution": _distribution,
    "by_cutoff": _by_cutoff,
    "precision_recall": _precision_recall,
    "latency": _latency,
}
"""Each gives None where there is nothing to draw."""


def _figure(x: str, y: str, height: int) -> go.Figure:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise MissingExtra("plots", "report") from error
    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "margin": {"l": 60, "r": 16, "t": 12, "b": 44},
            "xaxis": {"title": {"text": x}, "automargin": True, "zeroline": False},
            "yaxis": {"title": {"text": y}, "automargin": True, "zeroline": False},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "showlegend": True,
            "hovermode": "closest",
        }
    )


def _height(drawn: Drawn, names: Sequence[str]) -> int:
    return 110 + 13 * len(names) * (1 + len(drawn.systems))


def _line(
    figure: go.Figure,
    drawn: Drawn,
    at: int,
    x: Sequence[float],
    y: Sequence[float],
    hover: str,
    *,
    markers: bool = True,
) -> None:
    figure.add_scatter(
        name=_label(drawn.systems[at].name),
        x=list(x),
        y=list(y),
        mode="lines+markers" if markers else "lines",
        line={"color": _colour(at), "width": 2},
        marker=_marker(at, 7),
        hovertemplate=f"{hover}<extra>%{{fullData.name}}</extra>",
    )


def _errors(found: Sequence[tuple[float, float | None, float | None]]) -> dict[str, Any]:
    """Bars from the lower to the upper end; none where there is no interval."""
    above = [None if high is None else max(0.0, high - mean) for mean, _, high in found]
    below = [None if low is None else max(0.0, mean - low) for mean, low, _ in found]
    return {"type": "data", "array": above, "arrayminus": below, "thickness": 1.8, "width": 0}


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None or math.isnan(low):
        return "(no interval)"
    return f"[{low:.4f}, {high:.4f}]"


def _label(text: str) -> str:
    """A name as plotly shows it letter by letter."""
    return escape(text, quote=False)


def _marker(at: int, size: int) -> dict[str, Any]:
    return {"color": _colour(at), "size": size, "symbol": _symbol(at)}


def _colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def _symbol(at: int) -> str:
    return _SYMBOLS[at % len(_SYMBOLS)]
