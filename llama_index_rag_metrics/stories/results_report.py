"""The report of one or several systems: means, counts, figures, hardest queries, a page's data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.rankings.matching.matched import BY_ID
from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.numbers import mean_of, questions
from llama_index_rag_metrics.report.text import by_holder, listed, one_line

from .first_line import first_lines, is_unmeasured, meaning_of
from .label_view import System, metrics_of
from .story import hardest, largest_loss_first, listing_title, stories_of, worst_first
from .whereabouts import Losses, losses, losses_sentence

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
_FEWEST_TIMED = {"p50": 3, "p95": 20}  # questions that a percentile of their times takes
_WHY = "Why: results.worst(), or results.to_html(path)."


def systems_report(
    systems: Sequence[System],
    *,
    worst: int = 5,
    slice_by: Sequence[str] = (),
    figures: Mapping[str, model.Draw] | None = None,
    decision: Sequence[model.Statement] | None = None,
) -> model.Report:
    names = list(map(attrgetter("name"), systems))
    title = "Retrieval evaluation"
    if names != ["score"]:
        title = f"Retrieval of {listed(names)}"
    metrics = metrics_of(systems)
    primary = next(iter(metrics), "")
    listings, counted_losses = [], list[Losses]()
    if primary:
        counted_losses = losses(systems, primary)
        stories = hardest(systems, primary, worst)
        title_of_worst = listing_title(primary) + " on average" * (len(systems) > 1)
        sentences = losses_sentence(counted_losses)
        listings = [model.Listing(title_of_worst, stories, on_request=_WHY, lead=sentences)]
    if decision is None:
        decision = first_lines(systems, primary, counted_losses)
    if figures is None or all(system.invalid(primary) or system.is_in_doubt for system in systems):
        figures = {}  # no number is shown that somebody could take for a score
    slices = map(partial(slice_table, systems, metric=primary), slice_by)
    return model.Report(
        title=title,
        lead=_lead(systems, primary),
        decision=decision,
        about=about(systems),
        tables=[means_table(systems, metrics), *counts_tables(systems), *slices],
        listings=listings,
        failures=failures(systems),
        notes=unsaid(remarks(systems), decision),
        glossary=glossary(metrics),
        figures=figures,
        queries=partial(queries_of, systems, primary),
        records=_records(systems),
    )


def _lead(systems: Sequence[System], metric: str) -> str:
    sizes = []
    for system in systems:  # metrics without labels score questions that aren't counted
        n = system.scores.counts.scored or max(map(system.scores.n, system.scores), default=0)
        sizes.append(n * (not system.invalid(metric)))
    if len(set(sizes)) > 1:
        return f"{min(sizes):,} to {questions(max(sizes))} scored"
    return with_left_out(f"{questions(sizes[0])} scored", systems[0])


def with_left_out(lead: str, system: System) -> str:
    counts, matcher = system.scores.counts, system.about.get("matched by", BY_ID)
    if matcher != BY_ID:
        lead += f", matched by {matcher}"
    if counts.scored:
        return "; ".join([lead, *counts.left_out])
    return f"{lead}, without labels"


def with_runs(systems: Sequence[System]) -> Sequence[System]:
    if len(systems) > 1 or not systems[0].scores.repeats or not systems[0].run:
        return systems
    means = systems[0].scores.replace(retrieval=None, repeats=(), failed={})
    return [*systems[0].repeats, System.of(means, "mean")]


def means_table(systems: Sequence[System], metrics: Sequence[str]) -> model.Table:
    rows, label_head = [], "system"
    if all(map(is_unmeasured, map(attrgetter("scores"), systems))):
        systems = []
    elif list(map(attrgetter("name"), systems)) == ["score"]:
        systems, label_head = [systems[0]._replace(name="mean")], ""
    for system in systems:
        intervals = system.scores.intervals()
        cells = []
        for metric in metrics:
            cell = model.Cell.of(None, "score")
            if system.invalid(metric):
                cell = model.Cell("not valid", tone="quiet")
            elif system.mean(metric) is not None:
                mean = intervals[metric]
                tone: model.Tone = "open" if system.is_in_doubt else "normal"
                cell = mean_of(model.Cell(mean.mean, "score", tone, mean.low, mean.high), mean.n)
            cells.append(cell)
        rows.append(model.Row(system.name, cells))
    return model.Table("Means with 95 % intervals", metrics, rows, label_head)


def slice_table(systems: Sequence[System], key: str, metric: str) -> model.Table:
    slices = [system.scores.slices(key) for system in systems]
    sizes: dict[str | None, int] = {}
    for parts in slices:
        for value, part in parts.items():
            sizes[value] = max(sizes.get(value, 0), part.counts.scored)
    rows = []
    for system, parts in zip(systems, slices, strict=True):
        cells = []
        for value in sizes:
            cell = model.Cell(None, "score", "quiet")
            if value in parts and system.mean(metric) is not None:
                mean = model.Cell.of(parts[value].means[metric], "score")
                cell = mean_of(mean, parts[value].n(metric))
            cells.append(cell)
        rows.append(model.Row(system.name, cells))
    heads = [f"{one_line(value or 'without')} ({n})" for value, n in sizes.items()]
    title = f"{metric} by {one_line(key)} (scored questions)"
    return model.Table(title, heads, rows, is_detail=True)


def counts_tables(systems: Sequence[System]) -> list[model.Table]:
    counts: dict[str, list[model.Cell]] = defaultdict(list)
    costs: dict[str, list[model.Cell]] = defaultdict(list)
    workers = set()
    for system in systems:
        for heading, name in _COUNTS.items():
            tone: model.Tone = "alarm" if name in ("empty", "failed") else "normal"
            n = getattr(system.scores.counts, name)
            if name == "scored" and {None}.issuperset(map(system.mean, system.scores)):
                n = 0
            counts[heading].append(model.Cell.of(n, "count", tone))
        costs["tokens a question"].append(model.Cell.of(system.run.mean_tokens, "count"))
        latency = system.run.latency
        if latency:
            workers.add(latency.concurrency)
        for percentile, fewest in _FEWEST_TIMED.items():
            seconds = None
            if latency and latency.n >= fewest:
                seconds = getattr(latency, percentile)
            costs[f"latency {percentile}"].append(model.Cell.of(seconds, "seconds"))
    counts = _with_values(counts)
    if len(set(map(attrgetter("value"), chain(*counts.values())))) == 1:
        counts = {}
    columns = {**counts, **_with_values(costs)}
    if not columns:
        return []
    heads = " ".join(columns)
    subjects = [word for word in ("questions", "tokens", "latency") if word in heads]
    title = listed(subjects).capitalize()
    if "latency" in heads and len(workers) == 1 and None not in workers:
        title += f" (workers {workers.pop()})"
    rows = []
    for system, *cells in zip(systems, *columns.values(), strict=True):
        rows.append(model.Row({"score": "this run"}.get(system.name, system.name), cells))
    return [model.Table(title, list(columns), rows, is_detail=True)]


def _with_values(columns: Mapping[str, list[model.Cell]]) -> dict[str, list[model.Cell]]:
    return {head: cells for head, cells in columns.items() if any(map(attrgetter("value"), cells))}


def queries_of(
    systems: Sequence[System], metric: str, *, compared: bool = False, stages: bool = False
) -> model.Queries:
    n, systems = len(systems), with_runs(systems)
    query_ids: dict[str, None] = {}
    for system in systems:
        scores = system.scores
        for part in (scores.queries, system.run, scores.query_ids, scores.excluded):
            query_ids |= dict.fromkeys(part)
    places: dict[str, int] = {}
    valid = [system for system in systems if system.mean(metric) is not None]
    is_compared = compared and len(valid) > 1 and valid[0] is systems[0]
    if valid:
        places = dict(zip(query_ids, range(len(query_ids)), strict=True))
        order = largest_loss_first if is_compared else worst_first
        query_ids = dict.fromkeys(order(valid, metric)) | query_ids
    stories = stories_of(query_ids, systems, metric, stages=stages)
    details = compared, stages, lower_is_better(metric), len(systems) > n, places
    return model.Queries(metric, list(map(attrgetter("name"), systems)), stories, *details)


def about(systems: Sequence[System]) -> list[tuple[str, str]]:
    values: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for system in systems:
        for label, value in system.about.items():
            if label != "matched by" or system.scores.counts.scored:
                values[label].append((value, system.name))
    return [(label, "; ".join(by_holder(pairs, len(systems)))) for label, pairs in values.items()]


def failures(systems: Sequence[System]) -> list[model.Failure]:
    query_ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for system in systems:
        for scores in system.scores.repeats or [system.scores]:
            for query_id, error in scores.failed.items():
                query_ids[system.name, error].append(query_id)
    errors = sorted(query_ids, key=lambda error: -len(query_ids[error]))
    failed = [model.Failure(*error, query_ids[error]) for error in errors[:_MOST_ERRORS]]
    rare_ids = list(chain.from_iterable(map(query_ids.__getitem__, errors[_MOST_ERRORS:])))
    if rare_ids:
        failed.append(model.Failure("", "other errors", rare_ids))
    return failed


def remarks(systems: Sequence[System]) -> list[str]:
    pairs = []
    for system in systems:
        scores, scored = system.scores, system.scores.counts.scored
        for note in scores.notes:
            pairs.append((one_line(note), system.name))
        for metric in scores:
            n = scores.n(metric)
            if scored and n != scored:
                note = f"{one_line(metric)} has a value for {questions(n)}, not {scored:,}"
                pairs.append((note, system.name))
    return by_holder(pairs, len(systems))


def unsaid(notes: Sequence[str], decision: Sequence[model.Statement]) -> list[str]:
    text = "\n".join(map(attrgetter("text"), decision))
    return [note for note in notes if note not in text]


def glossary(metrics: Iterable[str]) -> list[tuple[str, str]]:
    terms: list[tuple[str, str]] = []
    for name in metrics:
        if meaning_of(name):
            low, high = limits_of(name)
            limits = f"{low:g} to {high:g}".replace("inf", "∞").replace("-", "−")
            terms.append((name, f"{meaning_of(name)} Range {limits}."))
    return terms


def _records(systems: Sequence[System]) -> model.Records:
    scores = systems[0].scores
    if len(systems) == 1:
        return model.Records({"query_id": scores.query_ids, **scores.columns}, index="query_id")
    columns: dict[str, list[Any]] = defaultdict(list)
    for system in systems:
        query_ids = system.scores.query_ids
        columns["run"] += [system.scores.name] * len(query_ids)
        columns["query_id"] += query_ids
        for metric in metrics_of(systems):
            columns[metric] += map(system.by_query(metric).get, query_ids)
    return model.Records(columns)
