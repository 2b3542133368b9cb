"""The rows of tables in which every system has a column: means, counts, latency, usage, slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import Cell, Row, Tone
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.numbers import score, shown
from llama_index_rag_metrics.scores.mean_figures import Intervals
from llama_index_rag_metrics.scores.scores import Counts
from llama_index_rag_metrics.scores.systems import System

_COUNTS: Mapping[str, Tone] = {
    "queries": "normal",
    "scored": "normal",
    "no relevant": "normal",
    "unjudged": "normal",
    "empty": "alarm",
    "failed": "alarm",
}
"""The counts in the order of reports, and their tone when they aren't 0."""

_USAGE = {
    "requests sent": "requests",
    "texts asked": "fresh",
    "texts cached": "cached",
    "units billed": "units",
    "tokens read by an LLM": "tokens_in",
    "tokens written by it": "tokens_out",
}
_ALWAYS = ("requests", "fresh", "cached")


def query_rows(systems: Sequence[System], metric: str) -> list[Row]:
    columns = [system.by_query(metric) for system in systems]
    query_ids = dict.fromkeys(
        query_id for system in systems for query_id in system.scores.query_ids
    )
    return [
        Row(query_id, marked(metric, [score_cell(column.get(query_id)) for column in columns]))
        for query_id in query_ids
    ]


def count_rows(systems: Sequence[System]) -> Iterator[Row]:
    return counts_rows([system.scores.counts for system in systems])


def counts_rows(counts: Sequence[Counts]) -> Iterator[Row]:
    for label, tone in _COUNTS.items():
        numbers = [getattr(of_system, label.replace(" ", "_")) for of_system in counts]
        yield Row(label, [Cell(n, "count", tone if n else "quiet") for n in numbers])


def slice_rows(systems: Sequence[System], key: str, metric: str) -> list[Row]:
    """The mean of one metric by a value of the queries' metadata; the label says of how many."""
    by_value = [system.scores.slices(key) for system in systems]
    rows = []
    for value in dict.fromkeys(value for slices in by_value for value in slices):
        members = [slices.get(value) for slices in by_value]
        n = max(scores.counts.scored for scores in members if scores is not None)
        label = "without" if value is None else plain(str(value))
        means = [None if member is None else System.of(member).mean(metric) for member in members]
        rows.append(Row(f"{label} ({n})", marked(metric, [score_cell(mean) for mean in means])))
    return rows


def marked(metric: str, cells: Sequence[Cell]) -> list[Cell]:
    """Scores by one metric as cells; the best is marked, unless all look the same."""
    texts = {shown(cell, interval=False) for cell in cells if cell.value is not None}
    if len(texts) < 2:
        return list(cells)
    choose = min if lower_is_better(metric) else max
    best = score(choose(cell.value for cell in cells if isinstance(cell.value, float)))
    return [
        cell._replace(tone="best") if shown(cell, interval=False) == best else cell
        for cell in cells
    ]


def mean_rows(
    systems: Sequence[System], metrics: Sequence[str], interval_of: Intervals | None
) -> Iterator[Row]:
    for metric in metrics:
        cells = [score_cell(system.mean(metric)) for system in systems]
        for number, cell in enumerate(cells):
            if interval_of is not None and cell.value is not None:
                interval = interval_of(number, metric)
                cells[number] = cell._replace(low=interval.low, high=interval.high)
        yield Row(metric, marked(metric, cells))


def score_cell(value: float | None) -> Cell:
    return Cell(value, "score", "quiet" if value is None else "normal")


def latency_rows(systems: Sequence[System]) -> Iterator[Row]:
    latencies = [system.run.latency for system in systems]
    if not any(latencies):
        return
    for percentile in ("p50", "p95", "p99"):
        seconds = [
            None if latency is None else getattr(latency, percentile) for latency in latencies
        ]
        yield Row(f"latency {percentile}", [time_cell(value) for value in seconds])
    at_once = [None if latency is None else latency.concurrency for latency in latencies]
    if any(at_once):
        yield Row("queries at once", [Cell(n, "count") for n in at_once])


def cost_rows(systems: Sequence[System]) -> Iterator[Row]:
    """Tokens a query and their price, where they are known."""
    tokens = [system.run.mean_tokens for system in systems]
    if any(number is not None for number in tokens):
        yield Row("tokens a query", [cost_cell(number) for number in tokens])
    prices = [system.price for system in systems]
    if any(number is not None for number in prices):
        yield Row("price of 1,000 queries", [score_cell(number) for number in prices])


def cost_cell(tokens: float | None) -> Cell:
    return Cell(tokens, "count", "quiet" if tokens is None else "normal")


def time_cell(seconds: float | None) -> Cell:
    return Cell(seconds, "seconds", "quiet" if seconds is None else "normal")


def usage_rows(systems: Sequence[System]) -> Iterator[Row]:
    """Requests to services and models, summed over the metrics."""
    for label, name in _USAGE.items():
        sums = [
            sum(getattr(usage, name) for usage in system.scores.usage.values())
            for system in systems
        ]
        if any(system.scores.usage for system in systems) and (any(sums) or name in _ALWAYS):
            yield Row(label, [Cell(n, "count") for n in sums])
