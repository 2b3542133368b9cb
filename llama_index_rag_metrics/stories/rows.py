"""Tables with a row a system: means, slices, counts and latency."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.model import Cell, Row, Table, Tone
from llama_index_rag_metrics.report.numbers import mean_of
from llama_index_rag_metrics.statistics.intervals import MeanInterval

from .label_view import System

_COUNTS = {
    "questions": "queries",
    "scored": "scored",
    "nothing relevant": "no_relevant",
    "not labelled": "unjudged",
    "not asked": "not_asked",
    "nothing retrieved": "empty",
    "failed": "failed",
}
_FEWEST_TIMED = {"p50": 1, "p95": 20}


def means_table(
    systems: Sequence[System],
    metrics: Sequence[str],
    intervals: Sequence[Mapping[str, MeanInterval]],
) -> Table:
    """The mean of each metric with its interval, in the digits that its questions carry."""
    rows = []
    for system, of_system in zip(systems, intervals, strict=True):
        cells = []
        for metric in metrics:
            interval = of_system.get(metric)
            cell = Cell.of(None, "score")
            if system.invalid(metric):
                cell = Cell("not valid", tone="quiet")
            elif interval is not None:
                cell = Cell(interval.mean, "score", low=interval.low, high=interval.high)
                cell = mean_of(cell, interval.n)
            cells.append(cell)
        rows.append(Row(system.name, cells))
    return Table("", metrics, rows)


def slice_table(systems: Sequence[System], key: str, metric: str) -> Table:
    """The mean of one metric by a value of the queries' metadata; the head says of how many."""
    slices = [system.scores.slices(key) for system in systems]
    values = ordered(chain.from_iterable(slices))
    heads = []
    for value in values:
        n = max(parts[value].counts.scored for parts in slices if value in parts)
        label = "without" if value is None else terminal(value)
        heads.append(f"{label} ({n})")
    rows = []
    for system, parts in zip(systems, slices, strict=True):
        cells = [Cell(None, "score", "quiet")] * len(values)
        for number, value in enumerate(values):
            if value in parts and system.valid_mean(metric) is not None:
                mean = Cell.of(parts[value].means[metric], "score")
                cells[number] = mean_of(mean, parts[value].n(metric))
        rows.append(Row(system.name, cells))
    title = f"{metric} by {terminal(key)} (scored questions)"
    return Table(title, heads, rows, is_detail=True)


def ordered(slices: Iterable[str | None]) -> list[str | None]:
    """Slices: numbers, such as turns, ascending, with None last; others as they come."""
    values = list(dict.fromkeys(slices))
    try:
        return sorted(values, key=lambda value: math.inf if value is None else float(value))
    except ValueError:
        return values


def counts_tables(systems: Sequence[System]) -> list[Table]:
    """How many questions count, and what they cost, without what is 0; none if all count."""
    columns: dict[str, list[Cell]] = {}
    for heading, name in _COUNTS.items():
        numbers = [getattr(system.scores.counts, name) for system in systems]
        tone: Tone = "alarm" if name in ("empty", "failed") else "normal"
        if any(numbers):
            columns[heading] = [Cell.of(number, "count", tone) for number in numbers]
    if len({cell.value for cell in chain(*columns.values())}) == 1:
        columns = {}
    tokens = [Cell.of(system.run.mean_tokens, "count") for system in systems]
    if any(cell.value is not None for cell in tokens):
        columns["tokens a question"] = tokens
    latencies = [system.run.latency for system in systems]
    n_timed = max((latency.n for latency in latencies if latency), default=0)
    for percentile, fewest in _FEWEST_TIMED.items():
        if n_timed >= fewest:
            seconds = [getattr(latency, percentile, None) for latency in latencies]
            columns[f"latency {percentile}"] = [Cell.of(value, "seconds") for value in seconds]
    if not columns:
        return []
    workers = {latency.concurrency for latency in latencies if latency}
    title = "Questions and latency"
    if len(workers) == 1 and None not in workers:
        title += f" ({workers.pop()} at once)"
    rows = []
    for number, system in enumerate(systems):
        rows.append(Row(system.name, [cells[number] for cells in columns.values()]))
    return [Table(title, list(columns), rows, is_detail=True)]
