"""Figures of a comparison: differences with their intervals, and query by query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import hover, p_value, span_of_bar

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison.comparison import Comparison
    from llama_index_rag_metrics.decisions.comparison.difference import Difference

_BINS = 31
_MOST_BARS = 3
_BOX = (0.05, 0.25, 0.5, 0.75, 0.95)
"""What a box shows of a system's differences: 9 in 10 of them lie between its ends."""


def difference_figure(comparison: Comparison, metrics: Sequence[str]) -> Figure:
    """Each system's differences from the baseline; hollow where they aren't significant."""
    series = []
    for number, name in enumerate(comparison.others, 1):
        differences = [comparison[name, metric] for metric in metrics]
        known = [difference for difference in differences if difference.n]
        series.append(
            Series(
                name,
                number,
                [difference.difference for difference in known],
                [difference.metric for difference in known],
                [difference.low for difference in known],
                [difference.high for difference in known],
                [f"corrected p {p_value(difference.p_corrected)}" for difference in known],
                [not difference.significant for difference in known],
            )
        )
    shown = [difference for difference in comparison if difference.metric in metrics]
    return Figure(
        "points",
        Axis(f"difference from {comparison.baseline}", ends=_around_zero(shown)),
        Axis(),
        series,
        f"%{{y}}: {hover('x', 'signed')} %{{customdata}}",
        zero_line=True,
    )


def distribution_figure(comparison: Comparison, metric: str) -> Figure:
    """How many queries changed by how much; of many systems the median, quartiles and ends."""
    columns = [list(comparison.by_query(name, metric).values()) for name in comparison.others]
    axis = Axis(f"{metric}, system minus {comparison.baseline}")
    if len(columns) > _MOST_BARS:
        boxes = [
            Series(name, number, np.quantile(column, _BOX).tolist(), [])
            for number, (name, column) in enumerate(zip(comparison.others, columns, strict=True), 1)
            if column
        ]
        return Figure("boxes", axis, Axis(), boxes, "", zero_line=True)
    widest = max((abs(value) for column in columns for value in column), default=0.0) or 1.0
    edges = np.linspace(-widest, widest, _BINS + 1)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    series = []
    for number, (name, column) in enumerate(zip(comparison.others, columns, strict=True), 1):
        counts, _ = np.histogram([value for value in column if value], edges)
        remarks = [span_of_bar(low, high) for low, high in ends]
        label = f"{name} ({column.count(0.0)} the same)"
        series.append(Series(label, number, middles, counts.tolist(), remarks=remarks))
    return Figure(
        "bars",
        axis,
        Axis("queries"),
        series,
        "%{customdata}: %{y} queries",
        zero_line=True,
    )


def _around_zero(differences: Sequence[Difference]) -> tuple[float, float]:
    """From the lowest to the highest end, with 0 and some room at both sides."""
    ends = [
        end
        for difference in differences
        for end in (difference.low, difference.difference, difference.high)
        if end is not None
    ]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.06 * (high - low) or 0.1
    return low - room, high + room
