"""The first line of what systems scored: what was measured, on how many questions, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report.failures import errors_in_words
from llama_index_rag_metrics.report.model import Statement, Tone
from llama_index_rag_metrics.report.numbers import carried, estimate, questions
from llama_index_rag_metrics.scores.scores import Counts, Scores
from llama_index_rag_metrics.scores.systems import System, metrics_of
from llama_index_rag_metrics.statistics.intervals import exact_mean, mean_interval

MEANS = "Means with 95 % intervals"
"""The heading of the section that the sentences rest on."""


def decisions(systems: Sequence[System], metric: str) -> list[Statement]:
    """What a report of systems that nothing compares begins with."""
    names = [metric, *metrics_of(systems)] if metric else metrics_of(systems)
    known = (name for name in names if any(system.mean(name) is not None for system in systems))
    shown = next(known, None)
    if len(systems) == 1:
        return [_of_one(systems[0], shown)]
    leading = [] if shown is None else [_leading(systems, shown)]
    return [*failing(systems, shown), *leading] or [Statement("Nothing was measured.", "alarm")]


def with_failures(
    verdicts: Sequence[Statement], systems: Sequence[System], metric: str
) -> list[Statement]:
    """The verdicts of systems that were compared, below those of which nothing was measured."""
    failed = failing(systems, metric)
    nothing = [statement for statement in failed if statement.tone == "alarm"]
    return [*nothing, *verdicts, *failed[len(nothing) :]]


def failing(systems: Sequence[System], metric: str | None) -> list[Statement]:
    """What failed of each of several systems; first those of which nothing was measured."""
    nothing, some = [], []
    for system in systems:
        if all(system.mean(name) is None for name in system.scores):
            nothing.append(_nothing(system, f" of {system.name}"))
        elif text := "; ".join(_unanswered(system.scores, metric or "")):
            some.append(Statement(f"{system.name}: {text}.", "open", evidence="questions"))
    return [*nothing, *some]


def nothing_measured(counts: Counts, errors: Sequence[str], of_whom: str = "") -> str:
    """Why nothing was measured, of what has no mean.

    >>> nothing_measured(Counts(queries=63, scored=63, failed=63), ["ConnectionError"] * 63)
    'Nothing was measured: all 63 questions failed (ConnectionError).'
    """
    n, failed, start = counts.queries, counts.failed, f"Nothing was measured{of_whom}"
    if not n:
        return f"{start}: there are no questions."
    why = f" ({errors_in_words(errors)})" if errors else ""
    if failed >= n:
        return f"{start}: {'all ' if n > 1 else ''}{questions(n)} failed{why}."
    parts = {
        f"failed{why}": failed,
        "without labels": counts.unjudged,
        "without anything relevant": counts.no_relevant,
    }
    listed = ", ".join(f"{part:,} {what}" for what, part in parts.items() if part)
    return f"{start} on {questions(n)}{f': {listed}' if listed else ''}."


def _of_one(system: System, metric: str | None) -> Statement:
    scores = system.scores
    if metric is None:
        return _nothing(system)
    mean = mean_interval(scores.column(metric), limits=limits_of(metric))
    value = estimate(metric, mean.mean, mean.low, mean.high, mean.n)
    measured = f"{value} on {questions(mean.n)}"
    parts = [measured, *_unanswered(scores, metric)]
    tone: Tone = "open" if len(parts) > 1 else "normal"
    return Statement(f"{'; '.join(parts)}.", tone, evidence=MEANS)


def _nothing(system: System, of_whom: str = "") -> Statement:
    scores = system.scores
    text = nothing_measured(scores.counts, [*scores.failed.values()], of_whom)
    return Statement(text, "alarm", evidence="questions")


def _unanswered(scores: Scores, metric: str) -> Iterator[str]:
    """How many failed and why, the mean of the others where they count, and how many are empty."""
    if scores.failed:
        yield from _failed(scores, metric)
    if empty := len(scores.empty):
        yield f"nothing was returned for {empty:,} of {scores.counts.queries:,}"


def _failed(scores: Scores, metric: str) -> Iterator[str]:
    by_query = scores.by_query(metric) if metric in scores else {}
    counting = [query_id for query_id in scores.failed if query_id in by_query]
    n, total = len(scores.failed), scores.counts.queries
    start = f"{n:,} of {total:,} failed ({errors_in_words([*scores.failed.values()])})"
    if not counting:
        yield f"{start} and {'is' if n == 1 else 'are'} left out"
        return
    is_zero = not any(by_query[query_id] for query_id in counting)
    count = "count" if len(counting) > 1 else "counts"
    which = "" if len(counting) == n else f"{len(counting):,} of them "
    yield f"{start} and {which}{count} as {'0' if is_zero else 'empty rankings'}"
    others = [value for query_id, value in by_query.items() if query_id not in scores.failed]
    if others:
        mean = exact_mean(np.array(others))
        yield f"without them {metric} is {carried(mean, len(others))}"


def _leading(systems: Sequence[System], metric: str) -> Statement:
    """The system with the best mean, which nothing tested."""
    means = {system.name: mean for system in systems if (mean := system.mean(metric)) is not None}
    n = max(system.scores.n(metric) for system in systems if system.name in means)
    columns = [system.by_query(metric) for system in systems]
    if len(means) == len(systems) and all(column == columns[0] for column in columns):
        same = f"The {len(systems)} systems score the same on {metric} on all {questions(n)}"
        return Statement(f"{same}: {carried(means[systems[0].name], n)}.", evidence=MEANS)
    lower = lower_is_better(metric)
    best = (min if lower else max)(means, key=lambda name: means[name])
    if len(means) == 1:
        only = f"{metric} of {best} is {carried(means[best], n)} on {questions(n)}"
        return Statement(f"{only}; the others have no value.", "open", evidence=MEANS)
    sentence = (
        f"{best} has the {'lowest' if lower else 'highest'} {metric}: {carried(means[best], n)}"
    )
    untested = "compare() tests whether that is more than chance"
    return Statement(f"{sentence} on {questions(n)}; {untested}.", "open", evidence=MEANS)
