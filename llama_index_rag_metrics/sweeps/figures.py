"""Figures of a sweep: quality against cost, and the means by two parameters."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import TYPE_CHECKING

from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import score, seconds
from llama_index_rag_metrics.sweeps.grid import varied

if TYPE_CHECKING:
    from llama_index_rag_metrics.sweeps.result import Configuration, Sweep


def tradeoff_figure(sweep: Sweep, metric: str) -> Figure | None:
    """Every configuration by its tokens and its quality, coloured by p95; hollow off the front."""
    known = {
        configuration: (configuration.tokens, mean)
        for configuration in sweep.finished
        if configuration.tokens is not None and (mean := configuration.mean(metric)) is not None
    }
    if not known:
        return None
    front = {configuration.name for configuration in sweep.front}
    series = Series(
        "configurations",
        0,
        [tokens for tokens, _ in known.values()],
        [mean for _, mean in known.values()],
        remarks=[_remark(configuration, metric) for configuration in known],
        hollow=[configuration.name not in front for configuration in known],
        z=[configuration.p95 and configuration.p95 * 1e3 for configuration in known]
        if sweep.is_timed
        else (),
    )
    return Figure(
        "marks",
        Axis("tokens a query"),
        Axis(metric),
        [series],
        "%{customdata}",
        z=Axis("p95, ms"),
    )


def heat_map_figure(sweep: Sweep, metric: str) -> Figure | None:
    """The means by the first two parameters that vary, over the values of all others."""
    names = varied([configuration.shown for configuration in sweep])
    if len(names) < 2:
        return None
    first, second = names[:2]
    cells: dict[tuple[str, str], list[float]] = {}
    for configuration in sweep:
        key = configuration.shown.get(first, ""), configuration.shown.get(second, "")
        mean = configuration.mean(metric)
        cells.setdefault(key, []).extend([] if mean is None else [mean])
    means = {key: fsum(column) / len(column) if column else None for key, column in cells.items()}
    series = Series(
        metric,
        0,
        [x for x, _ in means],
        [y for _, y in means],
        z=list(means.values()),
    )
    return Figure(
        "cells",
        Axis(first),
        Axis(second),
        [series],
        f"{first} %{{x}}, {second} %{{y}}: %{{z:.4f}}",
        z=Axis(metric),
    )


def _remark(configuration: Configuration, metric: str) -> str:
    parts: Mapping[str, float | None] = {
        metric: configuration.mean(metric),
        "tokens": configuration.tokens,
    }
    numbers = [f"{name} {score(value)}" for name, value in parts.items() if value is not None]
    timed = [] if configuration.p95 is None else [f"p95 {seconds(configuration.p95)}"]
    return f"{configuration.name}: {', '.join([*numbers, *timed])}"
