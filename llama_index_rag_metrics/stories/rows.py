"""Tables with a row a system: means, counts, costs, slices; and the facets that were missed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Cell, Row, Table, Tone
from llama_index_rag_metrics.report.numbers import mean_of
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.scores import Counts, Scores

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
_NOT_VALID = Cell("not valid", tone="quiet")


def means_table(systems: Sequence[System], metrics: Sequence[str], interval_of: Intervals) -> Table:
    """The mean of each metric with its interval, in the digits that its questions carry."""
    rows = []
    for number, system in enumerate(systems):
        cells = []
        for metric in metrics:
            interval = interval_of(number, metric)
            if system.invalid(metric):
                cells.append(_NOT_VALID)
            elif interval is None:
                cells.append(Cell.of(None, "score"))
            else:
                cell = Cell(interval.mean, "score", low=interval.low, high=interval.high)
                cells.append(mean_of(cell, interval.n))
        rows.append(Row(system.name, cells))
    return Table("", metrics, [rows], first="system")


def slice_table(systems: Sequence[System], key: str, metric: str) -> Table:
    """The mean of one metric by a value of the queries' metadata; the head says of how many."""
    slices = [system.scores.slices(key) for system in systems]
    values = ordered(value for parts in slices for value in parts)
    heads = []
    for value in values:
        n = max(parts[value].counts.scored for parts in slices if value in parts)
        label = "without" if value is None else plain(value)
        heads.append(f"{label} ({n})")
    rows = []
    for system, parts in zip(systems, slices, strict=True):
        cells = [Cell(None, "score", "quiet")] * len(values)
        for number, value in enumerate(values):
            if value in parts and system.valid_mean(metric) is not None:
                mean = Cell.of(parts[value].means[metric], "score")
                cells[number] = mean_of(mean, parts[value].n(metric))
        rows.append(Row(system.name, cells))
    title = f"{metric} by {plain(key)}"
    return Table(title, heads, [rows], first="system", remark="(scored questions)")


def ordered(slices: Iterable[str | None]) -> list[str | None]:
    """Slices: numbers, such as turns, ascending, with None last; others as they come."""
    values = list(dict.fromkeys(slices))
    try:
        return sorted(values, key=lambda value: math.inf if value is None else float(value))
    except ValueError:
        return values


def counts_tables(systems: Sequence[System]) -> list[Table]:
    """How many questions count, and what they cost, without what is 0; none if all count."""
    of_runs = any(system.scores.repeats for system in systems)
    counts = [
        row
        for row in count_rows([system.scores.counts for system in systems], of_runs=of_runs)
        if any(cell.value for cell in row.cells)
    ]
    if len({cell.value for row in counts for cell in row.cells}) == 1:
        counts = []
    columns = [*counts, *cost_rows(systems), *latency_rows(systems)]
    if not columns:
        return []
    rows = []
    for number, system in enumerate(systems):
        rows.append(Row(system.name, [column.cells[number] for column in columns]))
    heads = [column.label for column in columns]
    table = Table("Questions and latency", heads, [rows], first="system", place="detail")
    return [replace(table, remark=_workers(systems))]


def _workers(systems: Sequence[System]) -> str:
    """How many questions were asked at once, where all systems were asked alike."""
    latencies = [system.run.latency for system in systems]
    workers = {latency.concurrency for latency in latencies if latency is not None}
    if len(workers) != 1 or None in workers:
        return ""
    return f"({max(filter(None, workers)):,} at once)"


def count_rows(counts: Sequence[Counts], *, of_runs: bool = False) -> Iterator[Row]:
    """How many questions there are of each kind, a cell a system."""
    for label, name in _COUNTS.items():
        is_of_answers = name in ("empty", "failed")
        tone: Tone = "alarm" if is_of_answers else "normal"
        cells = [Cell.of(getattr(of_system, name), "count", tone) for of_system in counts]
        yield Row(f"{label} in some run" if of_runs and is_of_answers else label, cells)


def cost_rows(systems: Sequence[System]) -> Iterator[Row]:
    """Tokens a question, where they are known."""
    tokens = [Cell.of(system.run.mean_tokens, "count") for system in systems]
    if any(cell.value is not None for cell in tokens):
        yield Row("tokens a question", tokens)


def latency_rows(systems: Sequence[System]) -> Iterator[Row]:
    latencies = [system.run.latency for system in systems]
    if not any(latencies):
        return
    for percentile, fewest in _FEWEST_TIMED.items():
        if max(latency.n for latency in latencies if latency) < fewest:
            continue
        seconds = [getattr(latency, percentile, None) for latency in latencies]
        yield Row(f"latency {percentile}", [Cell.of(value, "seconds") for value in seconds])


_SHOWN_FACETS = 20  # of a question, that are named


def facet_metric(scores: Scores) -> str | None:
    """The first metric that names the facets it found, or None."""
    rows_of = ((metric, scores.details.get(metric, {}).values()) for metric in scores)
    return next((metric for metric, rows in rows_of if any("missed" in row for row in rows)), None)


def facet_remarks(systems: Sequence[System]) -> Callable[[str], list[str]]:
    """A function from query id to one line a system: the facets that it missed."""
    metrics = [facet_metric(system.scores) for system in systems]

    def remarks(query_id: str) -> list[str]:
        lines = []
        for system, metric in zip(systems, metrics, strict=True):
            row = system.scores.details[metric].get(query_id, {}) if metric else {}
            if missed := row.get("missed"):
                lines.append(f"{system.name}: {_quoted(missed)} not found, on {metric}")
        return lines

    return remarks


def _quoted(names: Sequence[str]) -> str:
    return join_first([f"'{plain(name)}'" for name in names], _SHOWN_FACETS)
