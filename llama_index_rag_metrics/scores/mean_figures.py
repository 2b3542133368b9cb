"""Figures of scores: means with their intervals, and latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import hover
from llama_index_rag_metrics.scores.systems import System

Intervals: TypeAlias = Callable[[int, str], Any]
"""(position of a system, metric) to its `MeanInterval`; None where there is no mean."""

_QUANTILES = 201


def means_figure(
    systems: Sequence[System], metrics: Sequence[str], interval_of: Intervals
) -> Figure:
    series = []
    for number, system in enumerate(systems):
        intervals = {name: interval_of(number, name) for name in metrics}
        known = {name: interval for name, interval in intervals.items() if interval is not None}
        series.append(
            Series(
                system.name,
                number,
                [interval.mean for interval in known.values()],
                list(known),
                [interval.low for interval in known.values()],
                [interval.high for interval in known.values()],
            )
        )
    said = f"%{{y}}: {hover('x')} %{{customdata}}"
    return Figure("points", Axis("mean"), Axis(), series, said)


def latency_figure(systems: Sequence[System]) -> Figure | None:
    """The share of the queries that was answered within a time."""
    series = []
    for number, system in enumerate(systems):
        seconds = [
            ranking.latency
            for ranking in system.run.values()
            if ranking.latency is not None and ranking.error is None
        ]
        if seconds:
            share = np.linspace(0, 1, min(_QUANTILES, max(2, len(seconds))))
            quantiles = np.quantile(seconds, share) * 1e3
            series.append(Series(system.name, number, quantiles.tolist(), share.tolist()))
    if not series:
        return None
    return Figure(
        "lines",
        Axis("milliseconds", is_log=True),
        Axis("share of queries answered", ends=(0, 1.02), is_share=True),
        series,
        f"{hover('y', 'share')} within {hover('x', 'milliseconds')} ms",
        markers=False,
    )
