"""Figures of a comparison: differences with their intervals, and query by query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import p_value

if TYPE_CHECKING:
    from llama_index_rag_metrics.comparison.comparison import Comparison
    from llama_index_rag_metrics.comparison.difference import Difference

_BINS = 31


def difference_figure(comparison: Comparison, metrics: Sequence[str]) -> Figure:
    """Each system's differences from the baseline; hollow where they aren't significant."""
    series = []
    for number, name in enumerate(comparison.others, 1):
        found = [comparison[name, metric] for metric in metrics]
        known = [one for one in found if one.n]
        series.append(
            Series(
                name,
                number,
                [one.difference for one in known],
                [one.metric for one in known],
                [one.low for one in known],
                [one.high for one in known],
                [f"corrected p {p_value(one.p_corrected)}" for one in known],
                [not one.significant for one in known],
            )
        )
    shown = [one for one in comparison if one.metric in metrics]
    return Figure(
        "points",
        Axis(f"difference from {comparison.baseline}", ends=_around_zero(shown)),
        Axis(),
        series,
        "%{y}: %{x:+.4f} %{customdata}",
        zero_line=True,
    )


def distribution_figure(comparison: Comparison, metric: str) -> Figure:
    """How many queries changed by how much."""
    columns = [list(comparison.by_query(name, metric).values()) for name in comparison.others]
    widest = max((abs(value) for column in columns for value in column), default=0.0) or 1.0
    edges = np.linspace(-widest, widest, _BINS + 1)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    series = []
    for number, (name, column) in enumerate(zip(comparison.others, columns, strict=True), 1):
        counts, _ = np.histogram([value for value in column if value], edges)
        remarks = [f"{low:+.3f} to {high:+.3f}" for low, high in ends]
        label = f"{name} ({column.count(0.0)} the same)"
        series.append(Series(label, number, middles, counts.tolist(), remarks=remarks))
    return Figure(
        "bars",
        Axis(f"{metric}, system minus {comparison.baseline}"),
        Axis("queries"),
        series,
        "%{customdata}: %{y} queries",
        zero_line=True,
    )


def _around_zero(found: Sequence[Difference]) -> tuple[float, float]:
    """From the lowest to the highest end, with 0 and some room at both sides."""
    ends = [end for one in found for end in (one.low, one.difference, one.high) if end is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.06 * (high - low) or 0.1
    return low - room, high + room
