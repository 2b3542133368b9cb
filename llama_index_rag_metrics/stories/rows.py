"""The rows of tables in which every system has a column: means, counts, costs, slices, facets."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Cell, Row, Tone
from llama_index_rag_metrics.report.numbers import mean_of, shown
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.scores import Counts, Scores
from llama_index_rag_metrics.stories.label_view import System

# (position of a system, metric) to its `MeanInterval`; None where there is no mean
Intervals: TypeAlias = Callable[[int, str], Any]
_COUNTS = {
    "questions": "queries",
    "scored": "scored",
    "no relevant label": "no_relevant",
    "without labels": "unjudged",
    "not asked": "not_asked",
    "nothing retrieved": "empty",
    "failed": "failed",
}

_USAGE = {
    "requests sent": "requests",
    "texts asked": "fresh",
    "texts cached": "cached",
    "units billed": "units",
    "tokens read by an LLM": "tokens_in",
    "tokens written by it": "tokens_out",
}
_FEWEST_TIMED = {"p50": 1, "p95": 20, "p99": 100}
_NOT_VALID = Cell("not valid", tone="quiet")
_ALWAYS_SHOWN = ("requests", "fresh", "cached")


def query_rows(systems: Sequence[System], metric: str) -> list[Row]:
    columns = [system.by_query(metric) for system in systems]
    query_ids = (query_id for system in systems for query_id in system.scores.query_ids)
    return [
        Row(query_id, mark_best(metric, [column.get(query_id) for column in columns]))
        for query_id in dict.fromkeys(query_ids)
    ]


def ordered(slices: Iterable[str | None]) -> list[str | None]:
    """Slices: numbers, such as turns, ascending, with None last; others as they come."""
    each = list(dict.fromkeys(slices))
    try:
        return sorted(each, key=lambda value: math.inf if value is None else float(value))
    except ValueError:
        return each


def slice_rows(systems: Sequence[System], key: str, metric: str) -> list[Row]:
    """The mean of one metric by a value of the queries' metadata; the label says of how many."""
    by_value = [system.scores.slices(key) for system in systems]
    rows = []
    for value in ordered(chain(*by_value)):
        n = max(slices[value].counts.scored for slices in by_value if value in slices)
        label = "without" if value is None else plain(value)
        means: list[float | None] = []
        columns: list[dict[str, float]] = []
        for system, slices in zip(systems, by_value, strict=True):
            is_valid = value in slices and system.valid_mean(metric) is not None
            columns.append(slices[value].by_query(metric) if is_valid else {})
            means.append(slices[value].means[metric] if columns[-1] else None)
        rows.append(Row(f"{label} ({n})", mark_best(metric, means, columns)))
    return rows


def mean_rows(
    systems: Sequence[System],
    metrics: Sequence[str],
    interval_of: Intervals,
    digits: Mapping[str, int],
) -> Iterator[Row]:
    """Means in the digits that their questions carry, or in more of a metric."""
    for metric in metrics:
        means = [system.valid_mean(metric) for system in systems]
        columns = [system.by_query(metric) for system in systems]
        cells = mark_best(metric, means, columns, digits.get(metric, 0))
        for number, cell in enumerate(cells):
            if cell.value is not None:
                interval = interval_of(number, metric)
                cells[number] = cell._replace(low=interval.low, high=interval.high)
            elif systems[number].invalid(metric):
                cells[number] = _NOT_VALID
        yield Row(metric, cells)


def mark_best(
    metric: str,
    values: Sequence[float | None],
    asked: Sequence[Collection[str]] = (),
    digits: int = 0,
) -> list[Cell]:
    """Scores as cells, the leading one marked unless the questions differ or all look the same."""
    cells = [Cell.of(value, "score") for value in values]
    if any(asked):
        cells = [mean_of(cell, max(map(len, asked)), digits) for cell in cells]
        if len({frozenset(query_ids) for query_ids in asked if query_ids}) > 1:
            return cells
    pairs = zip(values, cells, strict=True)
    known = {value: shown(cell) for value, cell in pairs if value is not None}
    if len({*known.values()}) < 2:
        return cells
    best = known[(min if lower_is_better(metric) else max)(known)]
    return [cell._replace(tone="leading") if shown(cell) == best else cell for cell in cells]


def count_rows(counts: Sequence[Counts], *, of_runs: bool = False) -> Iterator[Row]:
    for label, name in _COUNTS.items():
        if name == "not_asked" and not any(of_system.not_asked for of_system in counts):
            continue
        is_of_answers = name in ("empty", "failed")
        tone: Tone = "alarm" if is_of_answers else "normal"
        cells = [Cell.of(getattr(of_system, name), "count", tone) for of_system in counts]
        yield Row(f"{label.split()[0]} in some run" if of_runs and is_of_answers else label, cells)


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
    at_once = [None if latency is None else latency.concurrency for latency in latencies]
    if any(at_once):
        yield Row("questions at once", [Cell(n, "count") for n in at_once])


def usage_rows(systems: Sequence[System]) -> Iterator[Row]:
    """Requests to services and models, summed over the metrics."""
    usages = [system.scores.usage.values() for system in systems]
    for label, name in _USAGE.items():
        sums = [sum(getattr(usage, name) for usage in by_metric) for by_metric in usages]
        if any(usages) and (any(sums) or name in _ALWAYS_SHOWN):
            yield Row(label, [Cell(n, "count") for n in sums])


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
