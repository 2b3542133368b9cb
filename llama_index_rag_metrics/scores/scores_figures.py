"""Figures of what systems scored: their means, and how fast they answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llama_index_rag_metrics.metrics.metric_names import limits_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.scores import rows
from llama_index_rag_metrics.scores.systems import System, best_first
from llama_index_rag_metrics.statistics.intervals import UNIT_RANGE

_QUANTILES = 201


def means_figure(
    systems: Sequence[System],
    metrics: Sequence[str],
    interval_of: rows.Intervals,
    *,
    compared: bool = False,
) -> Figure:
    """The means; beside metrics from 0 to 1 none of another scale, such as counts, is shown."""
    metrics = [name for name in metrics if limits_of(name) == UNIT_RANGE] or metrics
    first = [interval_of(number, metrics[0]) if metrics else None for number in range(len(systems))]
    means_of_first = [None if interval is None else interval.mean for interval in first]
    series = []
    for number in best_first(means_of_first, metrics[0] if metrics else ""):
        system = systems[number]
        intervals = {name: interval_of(number, name) for name in metrics}
        known = {name: interval for name, interval in intervals.items() if interval is not None}
        ends = ([getattr(each, end) for each in known.values()] for end in ("mean", "low", "high"))
        means, low, high = ends
        remarks = [
            f"{name}: {shown(m.Cell(each.mean, 'score', low=each.low, high=each.high))}"
            for name, each in known.items()
        ]
        points = Series(system.name, number, means, list(known), low, high, remarks)
        series.append(replace(points, is_baseline=compared and not number))
    return Figure("points", Axis("mean"), Axis(), series)


def latency_figure(systems: Sequence[System]) -> Figure | None:
    """The share of the queries that was answered within a time."""
    series = []
    for number, system in enumerate(systems):
        seconds = [
            ranking.latency
            for ranking in system.run.every_ranking
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
        Axis("share of questions answered", ends=(0, 1.02), is_share=True),
        series,
        markers=False,
    )
