"""The rows of tables in which every system has a column: means, counts, costs, slices, facets."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Cell, Row, Section, Table, Tone
from llama_index_rag_metrics.report.numbers import mean_of, shown
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.scores import Counts, Scores
from llama_index_rag_metrics.scores.systems import System

# (position of a system, metric) to its `MeanInterval`; None where there is no mean
Intervals: TypeAlias = Callable[[int, str], Any]
_COUNTS = {
    "questions": "queries",
    "scored": "scored",
    "no relevant label": "no_relevant",
    "without labels": "unjudged",
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


_SHOWN_FACETS = 20  # facets in the table: the ones least found
_CALL_COLUMNS = 6  # calls that have a column of their own


def facet_metric(scores: Scores) -> str | None:
    """The first metric that names the facets it found, or None."""
    rows_of = ((metric, scores.details.get(metric, {}).values()) for metric in scores)
    return next((metric for metric, rows in rows_of if any("missed" in row for row in rows)), None)


def facet_sections(systems: Sequence[System]) -> list[Section]:
    """How often each facet of several queries was found, the least found first."""
    tallies = [_Tally(system.scores) for system in systems]
    wanted = Counter[str]()
    for tally in tallies:
        wanted |= Counter({name: len(query_ids) for name, query_ids in tally.asked.items()})
    names = [name for name, n in wanted.items() if n > 1]
    if not names:
        return []
    names.sort(key=lambda name: max(tally.share(name) or 0.0 for tally in tallies))
    shown = names[:_SHOWN_FACETS]
    metrics = list(dict.fromkeys(tally.metric for tally in tallies if tally.metric))
    left_out = f"; {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    rows = []
    for name in shown:
        asked = [tally.asked[name] for tally in tallies]
        cells = mark_best(metrics[0], [tally.share(name) for tally in tallies], asked)
        rows.append(Row(f"{plain(name)} ({wanted[name]})", cells))
    table = Table(
        f"Facets on {', '.join(metrics)}",
        [system.name for system in systems],
        [rows],
        first="facet",
        by_system=True,
        remark=f"(share of the questions with it in which it was found{left_out})",
    )
    tables, sentences = [table], []
    for system, tally in zip(systems, tallies, strict=True):
        tables += _by_call(system, shown, f" of {system.name}" if len(systems) > 1 else "")
        several = [name for name, asked in tally.asked.items() if len(asked) > 1]
        if never := [name for name in several if not tally.share(name)]:
            is_or_are = "is" if len(never) == 1 else "are"
            sentences.append(f"{plain(system.name)}: {_quoted(never)} {is_or_are} never found.")
    return [Section("Facets", tables, text=" ".join(sentences))]


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


def _by_call(system: System, names: Sequence[str], of_system: str) -> Iterator[Table]:
    """How often each facet had been found after each call, if calls are known."""
    first_calls = _first_calls(system)
    most = max((len(ranking.calls or ()) for ranking in system.run.values()), default=0)
    if not first_calls or most == 0:
        return
    ends = {f"call {number}": number for number in range(1, min(most, _CALL_COLUMNS) + 1)}
    if most > _CALL_COLUMNS:
        ends["all calls"] = most
    rows = []
    for name in names:
        counts = first_calls.get(name, Counter[int]())
        total = counts.total()
        found_by = [sum(counts[number] for number in range(1, end + 1)) for end in ends.values()]
        shares = (Cell.of(n / total if total else None, "score") for n in found_by)
        cells = [mean_of(share, total) for share in shares]
        rows.append(Row(f"{plain(name)} ({total})", cells))
    yield Table(
        f"Facets by call{of_system}",
        list(ends),
        [rows],
        first="facet",
        remark="(share of the sessions with it in which it had been found by then, at any rank"
        + ("; of the first run)" if system.scores.repeats else ")"),
    )


def _first_calls(system: System) -> dict[str, Counter[int]]:
    """Facet to the number of the call that found it first, 0 for none, to how many sessions."""
    first: dict[str, Counter[int]] = defaultdict(Counter)
    metric = facet_metric(system.scores)
    if metric is None:
        return first
    try:
        min_grade = getattr(resolve(metric), "min_grade", 1.0)
    except RagMetricsError:  # a metric that isn't registered: nobody knows which grade it wants
        return first
    matched = system.judged_by(metric)
    for query_id in system.scores.details[metric]:
        judged, ranking = matched.relevance.get(query_id), matched.run.get(query_id)
        if judged is None or judged.facet_names is None or ranking is None or ranking.calls is None:
            continue
        for name, members in zip(judged.facet_names, judged.alternatives or (), strict=True):
            wanted = {item for item in members if judged.grades[item] >= min_grade}
            brought = (n for n, call in enumerate(ranking.calls, 1) if wanted & {*call.ids})
            first[name][next(brought, 0)] += 1
    return first


class _Tally:
    """The questions of a system that ask for each facet, and in how many it was found."""

    def __init__(self, scores: Scores) -> None:
        self.metric = facet_metric(scores)
        self.asked: dict[str, set[str]] = defaultdict(set)
        self._found = Counter[str]()
        for query_id, row in scores.details[self.metric].items() if self.metric else ():
            self._found.update(row.get("found", ()))
            for name in (*row.get("found", ()), *row.get("missed", ())):
                self.asked[name].add(query_id)

    def share(self, name: str) -> float | None:
        return self._found[name] / len(self.asked[name]) if self.asked[name] else None


def _quoted(names: Sequence[str]) -> str:
    return join_first([f"'{plain(name)}'" for name in names], _SHOWN_FACETS)
