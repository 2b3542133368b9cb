"""The report of one or several systems: means, counts, figures, hardest queries, a page's data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import cleandoc
from operator import attrgetter
from typing import Any

from llama_index_rag_metrics.metrics.base import NamedMetric
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.figure import Draw
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.statistics.intervals import MeanInterval

from . import rows
from .first_line import first_lines
from .label_view import System, metrics_of
from .story import query_answers
from .whereabouts import Losses, losses, losses_sentence
from .worst import hardest, listing_title

_MOST_ERRORS = 10  # how many different ones are listed
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
        lead = losses_sentence(counted_losses) if stories else ""
        title_of_worst = listing_title(primary)
        if len(systems) > 1:
            title_of_worst += " on average"
        listings = [m.Listing(title_of_worst, stories, on_request=True, lead=lead)]
    if decision is None:
        decision = first_lines(systems, primary, counted_losses)
    drawn = dict(figures or {})
    if all(system.invalid(primary) for system in systems):
        drawn = {}  # no number is shown that somebody could take for a score
    counts = max((system.scores.counts for system in systems), key=attrgetter("scored"))
    means = [rows.means_table(systems, metrics, intervals), *rows.counts_tables(systems)]
    slices = [rows.slice_table(systems, key, primary) for key in slice_by]
    runs = with_runs(systems)
    return m.Report(
        title=title,
        lead="; ".join([f"{questions(counts.scored)} scored", *counts.left_out]),
        decision=decision,
        about=about(systems),
        tables=[*means, *slices],
        listings=listings,
        failures=failures(systems),
        notes=unsaid(remarks(systems), decision),
        glossary=glossary(metrics),
        figures=drawn,
        queries=partial(queries_of, runs, list(filter(None, [primary])), stages=stages),
        records=_records(systems),
    )


def _valid_intervals(system: System) -> dict[str, MeanInterval]:
    """Metric to its mean, where it has a valid one."""
    metrics = [name for name in system.scores if system.valid_mean(name) is not None]
    intervals = system.scores.intervals() if metrics else {}
    return {name: intervals[name] for name in metrics}


def with_runs(systems: Sequence[System]) -> Sequence[System]:
    """The means of one system without rankings, and its runs beside them; several as they are."""
    if len(systems) > 1 or not systems[0].scores.repeats or not systems[0].run:
        return systems
    [system] = systems
    means = system.scores.replace(retrieval=None, repeats=())
    return [System.of(means, system.name), *system.repeats]


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
        lines.append((label, "; ".join(_with_holders(pairs, len(systems)))))
    return lines


def failures(systems: Sequence[System]) -> list[m.Failure]:
    """The errors of every run with their questions, the most frequent first."""
    query_ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for system in systems:
        for scores in system.scores.repeats or [system.scores]:
            for query_id, error in scores.failed.items():
                query_ids[system.name, error].append(query_id)
    failed = [m.Failure(*pair, ids) for pair, ids in query_ids.items()]
    failed.sort(key=lambda failure: -len(failure.query_ids))
    rare_ids = [query_id for failure in failed[_MOST_ERRORS:] for query_id in failure.query_ids]
    remainder = [m.Failure("", "other errors", rare_ids)] if rare_ids else []
    return failed[:_MOST_ERRORS] + remainder


def remarks(systems: Sequence[System]) -> list[str]:
    """The notes of all systems, each once, with the systems that it holds for."""
    pairs = []
    for system in systems:
        scores, scored = system.scores, system.scores.counts.scored
        notes = list(scores.notes)
        for metric in scores:
            n = scores.n(metric)
            if n != scored:
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
    columns: dict[str, Any] = {metric: scores.column(metric) for metric in scores}
    if len(systems) == 1:
        return m.Records({"query_id": scores.query_ids, **columns}, index="query_id")
    columns = {"run": [], "query_id": [], **{metric: [] for metric in metrics_of(systems)}}
    for system in systems:
        query_ids = system.scores.query_ids
        columns["run"] += [system.scores.name] * len(query_ids)
        columns["query_id"] += query_ids
        for metric in metrics_of(systems):
            is_known = system.scores.is_measured and metric in system.scores
            values = system.scores.by_query(metric) if is_known else {}
            columns[metric] += map(values.get, query_ids)
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
