"""Tables with a row a system: means, slices, counts and latency."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.model import Cell, Row, Table, Tone
from llama_index_rag_metrics.report.numbers import mean_of

from .label_view import System

# (position of a system, metric) to its `MeanInterval`; None where there is no mean
Intervals: TypeAlias = Callable[[int, str], Any]
_COUNTS = {
    "questions": "queries",
    "scored": "scored",
    "nothing relevant": "no_relevant",
    "not labelled": "unjudged",
    "not asked": "not_asked",
    "nothing retrieved": "empty",
    "failed": "failed",
}
_FEWEST_TIMED = {"p50": 1, "p95": 20, "p99": 100}


def means_table(systems: Sequence[System], metrics: Sequence[str], interval_of: Intervals) -> Table:
    """The mean of each metric with its interval, in the digits that its questions carry."""
    rows = []
    for number, system in enumerate(systems):
        cells = []
        for metric in metrics:
            interval = interval_of(number, metric)
            cell = Cell.of(None, "score")
            if system.invalid(metric):
                cell = Cell("not valid", tone="quiet")
            elif interval is not None:
                cell = Cell(interval.mean, "score", low=interval.low, high=interval.high)
                cell = mean_of(cell, interval.n)
            cells.append(cell)
        rows.append(Row(system.name, cells))
    return Table("", metrics, [rows], first="system")


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
    title = f"{metric} by {terminal(key)}"
    return Table(title, heads, [rows], "system", "detail", remark="(scored questions)")


def ordered(slices: Iterable[str | None]) -> list[str | None]:
    """Slices: numbers, such as turns, ascending, with None last; others as they come."""
    values = list(dict.fromkeys(slices))
    try:
        return sorted(values, key=lambda value: math.inf if value is None else float(value))
    except ValueError:
        return values


def counts_tables(systems: Sequence[System]) -> list[Table]:
    """How many questions count, and what they cost, without what is 0; none if all count."""
    counts = [*_counts(systems)]
    numbers = {cell.value for cell in chain.from_iterable(row.cells for row in counts)}
    if len(numbers) == 1:
        counts = []
    columns = [*counts, *_tokens(systems), *latency_rows(systems)]
    if not columns:
        return []
    rows = []
    for number, system in enumerate(systems):
        rows.append(Row(system.name, [column.cells[number] for column in columns]))
    heads = [column.label for column in columns]
    remark = _workers(systems)
    title = "Questions and latency"
    return [Table(title, heads, [rows], first="system", place="detail", remark=remark)]


def _counts(systems: Sequence[System]) -> Iterator[Row]:
    of_runs = any(system.scores.repeats for system in systems)
    for heading, name in _COUNTS.items():
        label = heading
        is_of_answers = name in ("empty", "failed")
        tone: Tone = "alarm" if is_of_answers else "normal"
        numbers = [getattr(system.scores.counts, name) for system in systems]
        if not any(numbers):
            continue
        if of_runs and is_of_answers:
            label += " in some run"
        yield Row(label, [Cell.of(number, "count", tone) for number in numbers])


def _tokens(systems: Sequence[System]) -> Iterator[Row]:
    """Tokens a question, where they are known."""
    tokens = [Cell.of(system.run.mean_tokens, "count") for system in systems]
    if any(cell.value is not None for cell in tokens):
        yield Row("tokens a question", tokens)


def latency_rows(systems: Sequence[System]) -> Iterator[Row]:
    """Percentiles of latency, as far as enough questions were timed."""
    latencies = [system.run.latency for system in systems]
    timed = max((latency.n for latency in latencies if latency), default=0)
    for percentile, fewest in _FEWEST_TIMED.items():
        if timed >= fewest:
            seconds = [getattr(latency, percentile, None) for latency in latencies]
            yield Row(f"latency {percentile}", [Cell.of(value, "seconds") for value in seconds])


def _workers(systems: Sequence[System]) -> str:
    """How many questions were asked at once, where all systems were asked alike."""
    latencies = [system.run.latency for system in systems]
    workers = {latency.concurrency for latency in latencies if latency is not None}
    if len(workers) != 1 or None in workers:
        return ""
    return f"({max(filter(None, workers)):,} at once)"
