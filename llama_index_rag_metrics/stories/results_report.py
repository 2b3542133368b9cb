"""The report of one or several systems: means, counts, figures, hardest queries, a page's data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from inspect import cleandoc
from operator import attrgetter
from typing import Any

from llama_index_rag_metrics.metrics.base import NamedMetric
from llama_index_rag_metrics.metrics.metric_names import (
    is_of_unanswerable,
    limits_of,
    lower_is_better,
)
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.drawing import short_names
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.numbers import questions, shown
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.scores.scores import Counts, Scores
from llama_index_rag_metrics.scores.scores_export import per_query
from llama_index_rag_metrics.statistics.intervals import UNIT_RANGE, MeanInterval
from llama_index_rag_metrics.stories import rows, runs
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.first_line import MEANS, first_lines, is_unmeasured
from llama_index_rag_metrics.stories.label_view import System, check_systems, metrics_of
from llama_index_rag_metrics.stories.rows import facet_remarks
from llama_index_rag_metrics.stories.worst import (
    Losses,
    hardest,
    listing_title,
    losses,
    losses_line,
)


def means_figure(
    systems: Sequence[System],
    metrics: Sequence[str],
    interval_of: rows.Intervals,
    *,
    compared: bool = False,
) -> Figure:
    """The means; beside metrics from 0 to 1 none of another scale, such as counts, is shown."""
    metrics = [name for name in metrics if limits_of(name) == UNIT_RANGE] or metrics
    series = []
    for number, system in enumerate(systems):
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


def queries_of(
    systems: Sequence[System],
    metrics: Sequence[str],
    *,
    compared: bool = False,
    stages: bool = False,
) -> m.Queries:
    """Every question on the first metric; of `compared` systems the first is the baseline."""
    known: dict[str, None] = {}
    for system in systems:
        known |= dict.fromkeys([*system.scores.queries, *system.run, *system.scores.query_ids])
        known |= dict.fromkeys(system.scores.excluded)
    metric = next(iter(metrics), "")
    columns = [system.valid_by_query(metric) for system in systems]
    remarks_of = facet_remarks(systems)

    def stories() -> Iterator[m.QueryAnswers]:
        for query_id in known:
            story = query_answers(query_id, systems, metric, columns, stages=stages)
            yield story._replace(remarks=[*story.remarks, *remarks_of(query_id)])

    names = [system.name for system in systems]
    return m.Queries(metric, names, stories(), compared, bool(metric) and lower_is_better(metric))


SLICES = "Slices"
_SIGNS = (
    "R: how many passages are relevant to the question. P: precision. n: how many were retrieved."
)


def systems_report(
    systems: Sequence[System],
    *,
    metric: str | None = None,
    worst: int = 5,
    slice_by: Sequence[str] = (),
    figures: Mapping[str, Draw] | None = None,
    decision: Sequence[m.Statement] | None = None,
    stages: bool = False,
) -> m.Report:
    """The report of one or several systems, side by side; without a metric, on the headline."""
    check_systems(systems)
    names = [system.name for system in systems]
    title = "Retrieval evaluation"
    if names != ["score"]:
        title = f"Retrieval of {listed([*short_names(names).values()])}"
    metrics = metrics_of(systems)
    beside = runs.with_runs(systems)
    chosen = metric or m.headline(metrics)
    interval_of = own_intervals(systems)
    lost = losses(systems, chosen, stages=stages) if chosen else []
    of_runs = runs.repeats_decision(systems, chosen)
    said = [*first_lines(systems, chosen, lost), *of_runs] if decision is None else decision
    return m.Report(
        title=title,
        lead=how_many([system.scores.counts for system in systems]),
        decision=said,
        about=about(systems),
        sections=[
            summary_section(systems, metrics, interval_of),
            m.Section(SLICES, slice_tables(systems, slice_by, chosen)),
        ],
        listings=[_hardest(systems, chosen, worst, lost, stages=stages)] if chosen else (),
        failures=failures(systems),
        notes=unsaid(remarks(systems), said),
        glossary=glossary(metrics),
        metrics=metrics,
        figures={}
        if all(system.invalid(chosen) for system in systems)
        else {
            "means": lambda name: means_figure(systems, [name] if name else metrics, interval_of),
            **(figures or {}),
        },
        queries=partial(queries_of, beside, [chosen] if chosen else [], stages=stages),
        records=_records(systems),
    )


def slice_tables(systems: Sequence[System], keys: Sequence[str], metric: str) -> list[m.Table]:
    """A metric by each key of the metadata."""
    return [rows.slice_table(systems, key, metric) for key in keys]


def how_many(counts: Sequence[Counts]) -> str:
    """How many questions are scored, at most, and why the others aren't."""
    most = max(counts, key=attrgetter("scored"))
    return "; ".join([f"{questions(most.scored)} scored", *most.left_out])


def summary_section(
    systems: Sequence[System], metrics: Sequence[str], interval_of: rows.Intervals
) -> m.Section:
    """Means with their intervals, a row a system; then how many questions there are, and costs."""
    apart = [metric for metric in metrics if is_of_unanswerable(metric)]
    others = [metric for metric in metrics if metric not in apart] or metrics
    tables = [rows.means_table(systems, others, interval_of)]
    if apart and others != apart:
        n = max(len(system.scores.unanswerable) for system in systems)
        table = rows.means_table(systems, apart, interval_of)
        tables.append(replace(table, title=f"Without an answer: {questions(n)}"))
    notes = []
    for number, system in enumerate(systems):
        for metric in metrics:
            if interval := interval_of(number, metric):
                notes.append((interval.note, f"{metric} of {system.name}"))
    return m.Section(MEANS, [*tables, *rows.counts_tables(systems)], notes=gathered(notes))


def gathered(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Each note once, after the names that it holds for."""
    holders = _holders((note, holder) for note, holder in notes if note)
    return [f"{listed(where)}: {plain(note)}" for note, where in holders.items()]


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in words, the last ones as a number."""
    words = [plain(str(name)) for name in names]
    if len(words) > most:
        words = [*words[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])


def own_intervals(systems: Sequence[System]) -> rows.Intervals:
    """The intervals of the systems' own means, computed when asked for."""

    @cache
    def intervals(number: int) -> Mapping[str, MeanInterval]:
        return systems[number].scores.intervals()

    return lambda number, metric: (
        None if systems[number].valid_mean(metric) is None else intervals(number)[metric]
    )


def about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What was evaluated and how; a value that isn't everybody's after the systems' names."""
    lines = []
    for label in dict.fromkeys(label for system in systems for label in system.about):
        known = [system for system in systems if label in system.about]
        values = _holders((system.about[label], system.name) for system in known)
        lines.append((label, "; ".join(_of_some(values, len(systems), listed))))
    return lines


def _hardest(
    systems: Sequence[System], metric: str, worst: int, lost: Sequence[Losses], *, stages: bool
) -> m.Listing:
    remarks_of = facet_remarks(systems)
    is_valid = not all(system.invalid(metric) for system in systems)
    queries = [
        story._replace(remarks=[*story.remarks, *remarks_of(story.query_id)])
        for story in hardest(systems, metric, worst if is_valid else min(worst, 1), stages=stages)
    ]
    remark = "on average" if len(systems) > 1 else ""
    lead = runs.in_first_run(systems, losses_line(lost)) if queries and is_valid else ""
    return m.Listing(listing_title(metric), queries, remark, on_request=True, lead=lead)


def failures(systems: Sequence[System]) -> list[m.Failure]:
    return [
        m.Failure(system.name, query_id, error)
        for system in systems
        for scores in system.scores.repeats or [system.scores]
        for query_id, error in scores.failed.items()
    ]


def remarks(
    systems: Sequence[System], listed: Callable[[Sequence[str]], str] = ", ".join
) -> list[str]:
    """The notes of all systems, each once, with the systems that it holds for, as `listed`."""
    holders = _holders(
        (plain(note), system.name)
        for system in systems
        for note in (*system.scores.notes, *_own_denominators(system.scores))
        if not (note in system.scores.counts.notes and is_unmeasured(system.scores))
    )
    return [*_of_some(holders, len(systems), listed)]


def unsaid(notes: Sequence[str], decision: Sequence[m.Statement]) -> list[str]:
    return [note for note in notes if not any(note in each.text for each in decision)]


def glossary(metrics: Iterable[str]) -> list[m.Term]:
    """The meaning of each metric that the package knows, in the metric's own words."""
    terms = []
    for name in metrics:
        try:
            metric = resolve(name)
        except (RagMetricsError, ImportError):
            continue
        if isinstance(metric, NamedMetric):
            terms.append(m.Term(name, " ".join(_meaning(metric))))
    return [*terms, m.Term("Signs", _SIGNS)] if terms else []


def _records(systems: Sequence[System]) -> m.Records:
    """One row a query; of several systems one row a system and query."""
    if len(systems) > 1:
        return per_query([system.scores for system in systems])
    scores = systems[0].scores
    columns: dict[str, Any] = {metric: scores.column(metric) for metric in scores}
    return m.Records({"query_id": scores.query_ids, **columns}, index="query_id")


def _holders(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    holders: dict[str, list[str]] = defaultdict(list)
    for text, holder in pairs:
        holders[text].append(holder)
    return holders


def _of_some(
    holders: Mapping[str, Sequence[str]], n: int, listed: Callable[[Sequence[str]], str]
) -> Iterator[str]:
    """Each text, after the names that it holds for unless these are all n."""
    for text, names in holders.items():
        yield text if len(names) == n else f"{listed(names)}: {text}"


def _own_denominators(scores: Scores) -> Iterator[str]:
    for metric in scores:
        n, scored = scores.n(metric), scores.counts.scored
        if is_of_unanswerable(metric):
            continue  # its table says of how many questions it is
        if n > scored:
            yield f"{metric} needs no labels: it has a value for {questions(n)}, not {scored:,}"
        elif n < scored:
            yield f"{metric} has a value for {n:,} of {scored:,} scored questions"


def _meaning(metric: NamedMetric) -> Iterator[str]:
    yield cleandoc(metric.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    cutoff = getattr(metric, "k", None)
    if cutoff is not None:
        yield f"Only the first {cutoff} passages count."
    for name in sorted(metric.model_fields_set - {"k"}):
        field = type(metric).model_fields[name]
        if field.description:
            yield f"{name} = {getattr(metric, name)}: {field.description}."
    low, high = metric.bounds
    yield f"Range {low:g} to {high:g}.".replace("inf", "∞").replace("-", "−")
