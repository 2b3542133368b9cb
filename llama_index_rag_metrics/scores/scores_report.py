"""The report of one or several systems: means, counts, latency, the hardest queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import (
    Failure,
    Listing,
    Place,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
    headline,
)
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Draw
from llama_index_rag_metrics.report.numbers import counted, score
from llama_index_rag_metrics.runtime.errors import UnknownMetric
from llama_index_rag_metrics.scores.facet_rows import facet_remarks, facet_sections
from llama_index_rag_metrics.scores.glossary import glossary
from llama_index_rag_metrics.scores.mean_figures import Intervals, latency_figure, means_figure
from llama_index_rag_metrics.scores.query_columns import queries_of
from llama_index_rag_metrics.scores.rows import (
    cost_rows,
    count_rows,
    latency_rows,
    mean_rows,
    query_rows,
    score_cell,
    slice_rows,
    usage_rows,
)
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.scores.scores_export import per_query
from llama_index_rag_metrics.scores.systems import System, check_systems, metrics_of, query_answers


def systems_report(
    systems: Sequence[System],
    *,
    metric: str | None = None,
    worst: int = 5,
    slice_by: Sequence[str] = (),
    full: bool = False,
    figures: Mapping[str, Draw] | None = None,
) -> Report:
    """The report of one or several systems, side by side.

    Args:
        metric: of the slices and of the hardest queries; None takes ndcg where there is one, else
            the first.
        worst: how many of the hardest queries to show.
        slice_by: keys of the queries' metadata.
        full: with the intervals of the means.
        figures: further figures.
    """
    check_systems(systems)
    names = [system.name for system in systems]
    metrics = metrics_of(systems)
    chosen = metric or headline(metrics)
    interval_of = own_intervals(systems)
    summary = summary_section(systems, metrics, interval_of if full else None)
    slices = [
        Table(
            f"{chosen} by {plain(key)}",
            names,
            [slice_rows(systems, key, chosen)],
            first=plain(key),
            by_system=True,
            remark="(scored queries)",
        )
        for key in slice_by
    ]
    return Report(
        title="Retrieval evaluation" if names == ["score"] else f"Retrieval of {listed(names)}",
        lead=lead(systems, metrics),
        decision=_leading(systems, chosen) if full else (),
        about=about(systems),
        sections=[
            summary,
            *facet_sections(systems),
            *([Section("Slices", slices)] if slices else []),
        ],
        listings=hardest(systems, chosen, worst) if chosen else (),
        failures=failures(systems),
        notes=remarks(systems),
        glossary=glossary(metrics),
        metrics=metrics,
        figures={
            "means": lambda name: means_figure(
                systems, metrics if name is None else [name], interval_of
            ),
            **(figures or {}),
            "latency": lambda _: latency_figure(systems),
        },
        queries=partial(queries_of, systems, metrics),
        records=records(systems),
    )


def scores_report(scores: Scores, *, full: bool = False) -> Report:
    return systems_report([System.of(scores)], full=full)


def queries_report(systems: Sequence[System]) -> Report:
    """Every query's scores: the metrics of one system side by side, or the systems."""
    check_systems(systems)
    metrics = metrics_of(systems)
    if len(systems) == 1:
        columns = [systems[0].by_query(metric) for metric in metrics]
        rows = [
            Row(query_id, [score_cell(column.get(query_id)) for column in columns])
            for query_id in systems[0].scores.query_ids
        ]
        tables = [Table("By query", metrics, [rows], first="query", by_system=True)]
    else:
        names = [system.name for system in systems]
        tables = [
            Table(
                f"{metric} by query",
                names,
                [query_rows(systems, metric)],
                first="query",
                by_system=True,
            )
            for metric in metrics
        ]
    return Report("Scores by query", sections=[Section("Scores by query", tables)])


def summary_section(
    systems: Sequence[System],
    metrics: Sequence[str],
    interval_of: Intervals | None = None,
    *,
    title: str = "",
    place: Place = "summary",
) -> Section:
    """Means, counts, and where they are known, tokens, latency and usage."""
    parts = [
        list(mean_rows(systems, metrics, interval_of)),
        list(count_rows(systems)),
        list(cost_rows(systems)),
        list(latency_rows(systems)),
        list(usage_rows(systems)),
    ]
    names = [system.name for system in systems]
    shown = [part for part in parts if part]
    table = Table(title, names, shown, fold="Counts and latency", by_system=True, place=place)
    notes = [] if interval_of is None else interval_notes(systems, metrics, interval_of)
    return Section("Means with 95 % intervals", [table], notes=notes)


def interval_notes(
    systems: Sequence[System], metrics: Sequence[str], interval_of: Intervals
) -> list[str]:
    return gathered(
        (interval.note, f"{metric} of {system.name}")
        for number, system in enumerate(systems)
        for metric in metrics
        if (interval := interval_of(number, metric)) is not None
    )


def gathered(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Each note once, after the names that it holds for."""
    holders = _holders((note, holder) for note, holder in notes if note)
    return [f"{listed(where)}: {plain(note)}" for note, where in holders.items()]


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in words, the last ones as a number.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d"])
    ('a and b', 'a, b and 2 more')
    """
    shown_names = [plain(str(name)) for name in names]
    if len(shown_names) > most:
        shown_names = [*shown_names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join([*filter(None, [", ".join(shown_names[:-1])]), *shown_names[-1:]])


def own_intervals(systems: Sequence[System]) -> Intervals:
    """The intervals of the systems' own means, computed when asked for."""
    known: dict[int, Mapping[str, Any]] = {}

    def interval_of(number: int, metric: str) -> Any:
        system = systems[number]
        if system.mean(metric) is None:
            return None
        if number not in known:
            known[number] = system.scores.intervals()
        return known[number][metric]

    return interval_of


def lead(systems: Sequence[System], metrics: Sequence[str]) -> str:
    scored = max(system.scores.counts.scored for system in systems)
    total = max(system.scores.counts.queries for system in systems)
    of = f" of {total:,}" if total != scored else ""
    return f"{scored:,}{of} queries scored by {counted(len(metrics), 'metric', 'metrics')}"


def about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What was evaluated and how; a value that isn't everybody's after the systems' names."""
    lines = []
    for label in dict.fromkeys(label for system in systems for label in system.about):
        known = [system for system in systems if label in system.about]
        holders = _holders((system.about[label], system.name) for system in known)
        text = "; ".join(
            value if len(names) == len(systems) else f"{listed(names)}: {value}"
            for value, names in holders.items()
        )
        lines.append((label, text))
    return lines


def hardest(systems: Sequence[System], metric: str, worst: int) -> list[Listing]:
    """The queries with the worst scores, averaged over the systems; ties keep their order."""
    if not any(metric in system.scores for system in systems):
        raise UnknownMetric(metric, systems[0].scores.metric_names)
    columns = [system.by_query(metric) for system in systems]
    known: dict[str, list[float]] = {}
    for column in columns:
        for query_id, value in column.items():
            known.setdefault(query_id, []).append(value)
    lower = lower_is_better(metric)
    means = {query_id: math.fsum(column) / len(column) for query_id, column in known.items()}
    ids = sorted(means, key=means.__getitem__ if not lower else lambda query_id: -means[query_id])
    remarks_of = facet_remarks(systems)
    queries = [
        query_answers(query_id, systems, metric, columns)._replace(remarks=remarks_of(query_id))
        for query_id in ids[:worst]
    ]
    average = "on average; " if len(systems) > 1 else ""
    remark = f"{average}what came first [its grade]"
    worst_end = "Highest" if lower else "Lowest"
    return [Listing(f"{worst_end} {metric}", queries, remark, on_request=True)] if queries else []


def failures(systems: Sequence[System]) -> list[Failure]:
    return [
        Failure(system.name, query_id, error)
        for system in systems
        for query_id, error in system.scores.failed.items()
    ]


def remarks(systems: Sequence[System]) -> list[str]:
    """The notes of all systems, each once, with the systems that it holds for."""
    holders = _holders(
        (plain(note), system.name)
        for system in systems
        for note in (*system.scores.notes, *_own_denominators(system.scores))
    )
    return [
        note if len(names) == len(systems) else f"{', '.join(names)}: {note}"
        for note, names in holders.items()
    ]


def records(systems: Sequence[System]) -> Records:
    """One row a query; of several systems one row a system and query."""
    if len(systems) > 1:
        return per_query([system.scores for system in systems])
    scores = systems[0].scores
    columns: dict[str, Any] = {metric: scores.column(metric) for metric in scores}
    return Records({"query_id": scores.query_ids, **columns}, index="query_id")


def _holders(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    holders: dict[str, list[str]] = {}
    for text, holder in pairs:
        holders.setdefault(text, []).append(holder)
    return holders


def _leading(systems: Sequence[System], metric: str) -> list[Statement]:
    """The system with the best mean."""
    means = {system.name: mean for system in systems if (mean := system.mean(metric)) is not None}
    if len(systems) < 2 or not means:
        return []
    lower = lower_is_better(metric)
    best = (min if lower else max)(means, key=lambda name: means[name])
    if len({score(mean) for mean in means.values()}) == 1:
        return [Statement(f"All have the same mean of {metric}: {score(means[best])}.")]
    sentence = (
        f"{best} has the {'lowest' if lower else 'highest'} mean of {metric}: {score(means[best])}."
    )
    return [Statement(f"{sentence} compare() tells whether that is more than chance.")]


def _own_denominators(scores: Scores) -> Iterator[str]:
    for metric in scores:
        n, scored = scores.n(metric), scores.counts.scored
        if n > scored:
            yield f"{metric} needs no labels: it has a value for {n} queries, not only {scored}"
        elif n < scored:
            yield f"{metric} has a value for {n} of {scored} scored queries"
