"""The report of one or several systems: means, counts, figures, hardest queries, a page's data."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from inspect import cleandoc
from operator import attrgetter
from typing import Any

from llama_index_rag_metrics.metrics.base import NamedMetric
from llama_index_rag_metrics.metrics.metric_names import is_of_unanswerable, lower_is_better
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.figure import Draw
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.scores.scores_export import per_query
from llama_index_rag_metrics.statistics.intervals import MeanInterval

from . import rows
from .first_line import MEANS, first_lines, is_unmeasured, with_runs
from .label_view import System, metrics_of
from .story import query_answers
from .whereabouts import Losses, losses, losses_sentence
from .worst import hardest, listing_title

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
    """The report of one or several systems, side by side; without a metric, on the first."""
    if not systems:
        raise InvalidInput("results", list(systems), "the results of at least one retriever")
    names = [system.name for system in systems]
    title = "Retrieval evaluation"
    if names != ["score"]:
        title = f"Retrieval of {listed(names)}"
    metrics = metrics_of(systems)
    primary = metric or m.headline(metrics)
    interval_of = _own_intervals(systems)
    is_valid = not all(system.invalid(primary) for system in systems)
    if not is_valid:
        worst = min(worst, 1)
    lost: list[Losses] = []
    listings = []
    if primary:
        lost = losses(systems, primary, stages=stages)
        stories = hardest(systems, primary, worst, stages=stages)
        lead = remark = ""
        if stories and is_valid:
            lead = losses_sentence(lost)
        if len(systems) > 1:
            remark = "on average"
        stories = [*stories]
        title_of = listing_title(primary)
        listings = [m.Listing(title_of, stories, remark, on_request=True, lead=lead)]
    if decision is None:
        decision = first_lines(systems, primary, lost)

    slices = [rows.slice_table(systems, key, primary) for key in slice_by]
    counts = max((system.scores.counts for system in systems), key=attrgetter("scored"))
    runs = with_runs(systems)
    return m.Report(
        title=title,
        lead="; ".join([f"{questions(counts.scored)} scored", *counts.left_out]),
        decision=decision,
        about=about(systems),
        sections=[_summary(systems, metrics, interval_of), m.Section(SLICES, slices)],
        listings=listings,
        failures=failures(systems),
        notes=unsaid(remarks(systems), decision),
        glossary=glossary(metrics),
        metrics=metrics,
        figures=(figures or {}) if is_valid else {},
        queries=partial(queries_of, runs, list(filter(None, [primary])), stages=stages),
        records=_records(systems),
    )


def queries_of(
    systems: Sequence[System],
    metrics: Sequence[str],
    *,
    compared: bool = False,
    stages: bool = False,
) -> m.Queries:
    """Every question on the first metric; of `compared` systems the first is the baseline."""
    query_ids_known: dict[str, None] = {}
    for system in systems:
        scores = system.scores
        for query_ids in (scores.queries, system.run, scores.query_ids, scores.excluded):
            query_ids_known |= dict.fromkeys(query_ids)
    metric = next(iter(metrics), "")
    columns = [system.valid_by_query(metric) for system in systems]
    stories = (
        query_answers(query_id, systems, metric, columns, stages=stages)
        for query_id in query_ids_known
    )
    names = [system.name for system in systems]
    is_lower_better = bool(metric) and lower_is_better(metric)
    return m.Queries(metric, names, stories, compared, is_lower_better)


def _summary(
    systems: Sequence[System], metrics: Sequence[str], interval_of: rows.Intervals
) -> m.Section:
    """Means with their intervals, a row a system; then how many questions there are, and costs."""
    of_unanswerable = [metric for metric in metrics if is_of_unanswerable(metric)]
    of_answerable = [metric for metric in metrics if metric not in of_unanswerable]
    tables = [rows.means_table(systems, of_answerable or metrics, interval_of)]
    if of_unanswerable and of_answerable:
        n = max(len(system.scores.unanswerable) for system in systems)
        table = rows.means_table(systems, of_unanswerable, interval_of)
        tables.append(replace(table, title=f"Without an answer: {questions(n)}"))
    notes = []
    for number, system in enumerate(systems):
        for metric in metrics:
            interval = interval_of(number, metric)
            if interval is not None:
                notes.append((interval.note, f"{metric} of {system.name}"))
    return m.Section(MEANS, [*tables, *rows.counts_tables(systems)], notes=gathered(notes))


def _own_intervals(systems: Sequence[System]) -> rows.Intervals:
    """The intervals of the systems' own means, computed when asked for."""

    @cache
    def intervals(number: int) -> Mapping[str, MeanInterval]:
        return systems[number].scores.intervals()

    def interval_of(number: int, metric: str) -> MeanInterval | None:
        if systems[number].valid_mean(metric) is None:
            return None
        return intervals(number)[metric]

    return interval_of


def gathered(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Each note once, after the names that it holds for."""
    pairs = [(terminal(note), holder) for note, holder in notes if note]
    return _with_holders(pairs, math.inf, listed)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in words, the last ones as a number."""
    words = [terminal(str(name)) for name in names]
    if len(words) > most:
        words = [*words[: most - 1], f"{len(names) - most + 1} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What was evaluated and how; a value that isn't everybody's after the systems' names."""
    values: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for system in systems:
        for label, value in system.about.items():
            values[label].append((value, system.name))
    lines = []
    for label, pairs in values.items():
        lines.append((label, "; ".join(_with_holders(pairs, len(systems), listed))))
    return lines


def failures(systems: Sequence[System]) -> list[m.Failure]:
    """Every error, of each run."""
    failed = []
    for system in systems:
        for scores in system.scores.repeats or [system.scores]:
            failed += [m.Failure(system.name, *pair) for pair in scores.failed.items()]
    return failed


def remarks(systems: Sequence[System]) -> list[str]:
    """The notes of all systems, each once, with the systems that it holds for."""
    pairs = []
    for system in systems:
        scores = system.scores
        repeated = scores.counts.notes if is_unmeasured(scores) else ()
        notes = [note for note in scores.notes if note not in repeated]
        pairs += [(terminal(note), system.name) for note in (*notes, *_own_denominators(scores))]
    return _with_holders(pairs, len(systems), ", ".join)


def unsaid(notes: Sequence[str], decision: Sequence[m.Statement]) -> list[str]:
    """The notes that no statement of the decision has."""
    said = "\n".join(statement.text for statement in decision)
    return [note for note in notes if note not in said]


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
    if terms:
        terms.append(m.Term("Signs", _SIGNS))
    return terms


def _records(systems: Sequence[System]) -> m.Records:
    """One row a query; of several systems one row a system and query."""
    if len(systems) > 1:
        return per_query([system.scores for system in systems])
    scores = systems[0].scores
    columns: dict[str, Any] = {metric: scores.column(metric) for metric in scores}
    return m.Records({"query_id": scores.query_ids, **columns}, index="query_id")


def _with_holders(
    pairs: Iterable[tuple[str, str]], n: float, join: Callable[[Sequence[str]], str]
) -> list[str]:
    """Each text once, after the names that it holds for unless these are all n."""
    holders: dict[str, list[str]] = defaultdict(list)
    for text, holder in pairs:
        holders[text].append(holder)
    lines = []
    for text, names in holders.items():
        if len(names) == n:
            lines.append(text)
        else:
            lines.append(f"{join(names)}: {text}")
    return lines


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
