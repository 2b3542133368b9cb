"""The report of one or several systems: means, counts, figures, hardest queries, a page's data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import cleandoc
from itertools import chain
from operator import attrgetter
from typing import Any

from llama_index_rag_metrics.metrics.base import NamedMetric
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.figure import Draw
from llama_index_rag_metrics.report.numbers import mean_of, questions
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.runtime.mappings import picked
from llama_index_rag_metrics.statistics.intervals import MeanInterval

from .first_line import first_lines
from .label_view import System, columns_of, metrics_of
from .story import query_answers
from .whereabouts import Losses, losses, losses_sentence
from .worst import hardest, listing_title

_MOST_ERRORS = 10  # how many different ones are listed
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
    primary = metric or next(iter(metrics), "")
    intervals = [_valid_intervals(system) for system in systems]
    counted_losses: list[Losses] = []
    listings = []
    if primary and not stages:
        counted_losses = losses(systems, primary)
        stories = hardest(systems, primary, worst)
        lead = losses_sentence(counted_losses)
        title_of_worst = listing_title(primary) + " on average" * (len(systems) > 1)
        listings = [m.Listing(title_of_worst, stories, on_request=True, lead=lead)]
    if decision is None:
        decision = first_lines(systems, primary, counted_losses)
    drawn = dict(figures or {})
    if all(system.invalid(primary) for system in systems):
        drawn = {}  # no number is shown that somebody could take for a score
    counts = max((system.scores.counts for system in systems), key=attrgetter("scored"))
    n_values = [interval.n for interval in chain(*map(dict.values, intervals))]
    n_scored = counts.scored or max(n_values, default=0)  # metrics may need no labels
    means = [means_table(systems, metrics, intervals), *counts_tables(systems)]
    slices = [slice_table(systems, key, primary) for key in slice_by]
    runs = with_runs(systems)
    return m.Report(
        title=title,
        lead="; ".join([f"{questions(n_scored)} scored", *counts.left_out]),
        decision=decision,
        about=about(systems),
        tables=[*means, *slices],
        listings=listings,
        failures=failures(systems),
        notes=unsaid(remarks(systems), decision),
        glossary=glossary(metrics),
        figures=drawn,
        queries=partial(queries_of, runs, primary, stages=stages),
        records=_records(systems),
    )


def _valid_intervals(system: System) -> dict[str, MeanInterval]:
    """Metric to its mean, where it has a valid one."""
    metrics = [name for name in system.scores if system.mean(name) is not None]
    if not metrics:
        return {}
    return picked(system.scores.intervals(), metrics)


def with_runs(systems: Sequence[System]) -> Sequence[System]:
    """The means of one system without rankings, and its runs beside them; several as they are."""
    if len(systems) > 1 or not systems[0].scores.repeats or not systems[0].run:
        return systems
    [system] = systems
    means = system.scores.replace(retrieval=None, repeats=())
    return [System.of(means, system.name), *system.repeats]


def means_table(
    systems: Sequence[System],
    metrics: Sequence[str],
    intervals: Sequence[Mapping[str, MeanInterval]],
) -> m.Table:
    """The mean of each metric with its interval, in the digits that its questions carry."""
    rows = []
    for system, of_system in zip(systems, intervals, strict=True):
        cells = []
        for metric in metrics:
            interval = of_system.get(metric)
            cell = m.Cell.of(None, "score")
            if system.invalid(metric):
                cell = m.Cell("not valid", tone="quiet")
            elif interval is not None:
                cell = m.Cell(interval.mean, "score", low=interval.low, high=interval.high)
                cell = mean_of(cell, interval.n)
            cells.append(cell)
        rows.append(m.Row(system.name, cells))
    return m.Table("Means with 95 % intervals", metrics, rows)


def slice_table(systems: Sequence[System], key: str, metric: str) -> m.Table:
    """The mean of one metric by a value of the queries' metadata; the head says of how many."""
    slices = [system.scores.slices(key) for system in systems]
    values = list(dict.fromkeys(chain.from_iterable(slices)))
    heads = []
    for value in values:
        n = max(parts[value].counts.scored for parts in slices if value in parts)
        heads.append(f"{terminal(value or 'without')} ({n})")
    rows = []
    for system, parts in zip(systems, slices, strict=True):
        cells = [m.Cell(None, "score", "quiet")] * len(values)
        for number, value in enumerate(values):
            if value in parts and system.mean(metric) is not None:
                mean = m.Cell.of(parts[value].means[metric], "score")
                cells[number] = mean_of(mean, parts[value].n(metric))
        rows.append(m.Row(system.name, cells))
    title = f"{metric} by {terminal(key)} (scored questions)"
    return m.Table(title, heads, rows, is_detail=True)


def counts_tables(systems: Sequence[System]) -> list[m.Table]:
    """How many questions count, and what they cost, without what is 0; none if all count."""
    columns: dict[str, list[m.Cell]] = {}
    for heading, name in _COUNTS.items():
        numbers = [getattr(system.scores.counts, name) for system in systems]
        tone: m.Tone = "alarm" if name in ("empty", "failed") else "normal"
        if any(numbers):
            columns[heading] = [m.Cell.of(number, "count", tone) for number in numbers]
    if len({cell.value for cell in chain(*columns.values())}) == 1:
        columns = {}
    tokens = [m.Cell.of(system.run.mean_tokens, "count") for system in systems]
    if any(cell.value is not None for cell in tokens):
        columns["tokens a question"] = tokens
    latencies = [system.run.latency for system in systems]
    n_timed = max((latency.n for latency in latencies if latency), default=0)
    for percentile, fewest in _FEWEST_TIMED.items():
        if n_timed >= fewest:
            cells = columns[f"latency {percentile}"] = []
            for latency in latencies:
                cells.append(m.Cell.of(getattr(latency, percentile, None), "seconds"))
    if not columns:
        return []
    workers = {latency.concurrency for latency in latencies if latency}
    title = "Questions and latency"
    if len(workers) == 1 and None not in workers:
        title += f" ({workers.pop()} at once)"
    rows = []
    for system, *cells in zip(systems, *columns.values(), strict=True):
        rows.append(m.Row(system.name, cells))
    return [m.Table(title, list(columns), rows, is_detail=True)]


def queries_of(
    systems: Sequence[System], metric: str, *, compared: bool = False, stages: bool = False
) -> m.Queries:
    """Every question on a metric; of `compared` systems the first is the baseline."""
    query_ids: dict[str, None] = {}
    for system in systems:
        scores = system.scores
        names = [*scores.queries, *system.run, *scores.query_ids, *scores.excluded]
        query_ids |= dict.fromkeys(names)
    columns = columns_of(systems, metric)
    stories = (
        query_answers(query_id, systems, metric, columns, stages=stages) for query_id in query_ids
    )
    names = [system.name for system in systems]
    is_lower_better = bool(metric) and lower_is_better(metric)
    return m.Queries(metric, names, stories, compared, is_lower_better)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in words, the last ones as a number."""
    words = [*map(terminal, map(str, names))]
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
    n = len(systems)
    return [(label, "; ".join(_with_holders(pairs, n))) for label, pairs in values.items()]


def failures(systems: Sequence[System]) -> list[m.Failure]:
    """The errors of every run with their questions, the most frequent first."""
    query_ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for system in systems:
        for scores in system.scores.repeats or [system.scores]:
            for query_id, error in scores.failed.items():
                query_ids[system.name, error].append(query_id)
    failed = [m.Failure(*pair, ids) for pair, ids in query_ids.items()]
    failed.sort(key=lambda failure: -len(failure.query_ids))
    if len(failed) > _MOST_ERRORS:
        rare_ids = list(chain(*(failure.query_ids for failure in failed[_MOST_ERRORS:])))
        failed[_MOST_ERRORS:] = [m.Failure("", "other errors", rare_ids)]
    return failed


def remarks(systems: Sequence[System]) -> list[str]:
    """The notes of all systems, each once, with the systems that it holds for."""
    pairs = []
    for system in systems:
        scores, scored = system.scores, system.scores.counts.scored
        notes = list(scores.notes)
        for metric in scores:
            n = scores.n(metric)
            if 0 < scored != n:
                notes.append(f"{metric} has a value for {questions(n)}, not {scored:,}")
        pairs += [(terminal(note), system.name) for note in notes]
    return _with_holders(pairs, len(systems))


def unsaid(notes: Sequence[str], decision: Sequence[m.Statement]) -> list[str]:
    """The notes that no statement of the decision has."""
    text = "\n".join(statement.text for statement in decision)
    return [note for note in notes if note not in text]


def glossary(metrics: Iterable[str]) -> list[tuple[str, str]]:
    """The meaning of each metric that the package knows, in the metric's own words."""
    terms = [("Signs", _SIGNS)]
    for name in metrics:
        with suppress(RagMetricsError, ImportError):
            metric = resolve(name)
            if isinstance(metric, NamedMetric):
                low, high = metric.bounds
                meaning = cleandoc(metric.__doc__ or "").split("\n\n")[0].replace("\n", " ")
                limits = f"{low:g} to {high:g}".replace("inf", "∞").replace("-", "−")
                terms.append((name, f"{meaning} Range {limits}."))
    return terms


def _records(systems: Sequence[System]) -> m.Records:
    """One row a query; of several systems one row a system and query."""
    scores = systems[0].scores
    if len(systems) == 1:
        return m.Records({"query_id": scores.query_ids, **scores.columns}, index="query_id")
    columns: dict[str, list[Any]] = defaultdict(list)
    for system in systems:
        query_ids = system.scores.query_ids
        columns["run"] += [system.scores.name] * len(query_ids)
        columns["query_id"] += query_ids
        for metric in metrics_of(systems):
            columns[metric] += map(system.by_query(metric).get, query_ids)
    return m.Records(columns)


def _with_holders(pairs: Iterable[tuple[str, str]], n: float) -> list[str]:
    """Each text once, after the names that it holds for unless these are all n."""
    holders: dict[str, list[str]] = defaultdict(list)
    for text, holder in pairs:
        holders[text].append(holder)
    lines = []
    for text, names in holders.items():
        lines.append(text if len(names) == n else f"{listed(names)}: {text}")
    return lines
