"""The first line of what systems scored: what was measured, on how many questions, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from llama_index_rag_metrics.files.conversations import conversations_of
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report.failures import errors_in_words
from llama_index_rag_metrics.report.model import Statement, Tone
from llama_index_rag_metrics.report.numbers import (
    carried,
    estimate,
    questions,
    score,
    two_digits_up,
)
from llama_index_rag_metrics.report.whereabouts import BELOW, NEVER
from llama_index_rag_metrics.scores.graders import GRADED
from llama_index_rag_metrics.scores.scores import Counts, Scores
from llama_index_rag_metrics.statistics import intervals
from llama_index_rag_metrics.stories.label_view import Reading, System, metrics_of
from llama_index_rag_metrics.stories.runs import in_first_run
from llama_index_rag_metrics.stories.worst import Losses, losses

# with a wider interval of a score from 0 to 1 the questions are too few; how many make it narrow
_WIDEST, _NARROW = 0.3, 0.25
NOTHING = "Nothing was measured"  # what such a sentence begins with
MEANS = "Means with 95 % intervals"  # the heading of the section that the sentences rest on


def first_lines(
    systems: Sequence[System], metric: str, lost: Sequence[Losses] | None = None
) -> list[Statement]:
    """What a report begins with, `lost` being on the metric; of several systems, what failed."""
    names = [metric, *metrics_of(systems)] if metric else metrics_of(systems)
    known = (name for name in names if any(system.mean(name) is not None for system in systems))
    shown = next(known, None)
    if len(systems) > 1:
        return failing(systems, shown)
    return [*_of_one(systems[0], shown, lost if shown == metric else None)]


def with_failures(
    verdicts: Sequence[Statement], systems: Sequence[System], metric: str
) -> list[Statement]:
    """The verdicts of systems that were compared, below those without a valid score."""
    failed = failing(systems, metric)
    nothing = [statement for statement in failed if statement.tone == "alarm"]
    return [*nothing, *verdicts, *failed[len(nothing) :]]


def failing(systems: Sequence[System], metric: str | None) -> list[Statement]:
    """What failed of each of several systems; first those without a valid score."""
    nothing, some = [], []
    alike: dict[str, list[str]] = {}
    of_labels: dict[str, list[str]] = {}
    for system in systems:
        for note in system.scores.label_notes:
            if metric and note == system.invalid(metric):
                continue
            of_labels.setdefault(note, []).append(system.name)
        if metric and (invalid := system.invalid(metric)):
            nothing.append(Statement(f"{system.name}: {invalid}.", "alarm"))
        if is_unmeasured(system.scores):
            alike.setdefault(_nothing(system.scores), []).append(system.name)
        elif text := "; ".join(_unanswered(system.scores, metric or "")):
            some.append(Statement(f"{system.name}: {text}.", "open", evidence="questions"))
    for text, names in alike.items():
        of_whom = text.replace(NOTHING, f"{NOTHING} of {', '.join(names)}", 1)
        nothing.append(Statement(of_whom, "alarm", evidence="questions"))
    for note, names in of_labels.items():
        whose = "" if len(names) == len(systems) else f"{', '.join(names)}: "
        nothing.append(Statement(f"{whose}{note}.", "alarm"))
    return [*nothing, *some]


def nothing_measured(counts: Counts, errors: Sequence[str]) -> str:
    """Why nothing was measured, of what has no mean."""
    n, failed = counts.queries, counts.failed
    if not n:
        return f"{NOTHING}: there are no questions."
    why = f" ({errors_in_words(errors)})" if errors else ""
    if failed >= n:
        return f"{NOTHING}: {'all ' if n > 1 else ''}{questions(n)} failed{why}."
    listed = ", ".join([*([f"{failed:,} failed{why}"] if failed else []), *counts.left_out])
    return f"{NOTHING} on {questions(n)}{f': {listed}' if listed else ''}."


def _of_one(
    system: System, metric: str | None, lost: Sequence[Losses] | None
) -> Iterator[Statement]:
    scores = system.scores
    if metric is None:
        yield Statement(_nothing(scores), "alarm", evidence="questions")
        return
    if invalid := system.invalid(metric):
        yield Statement(f"{invalid}.", "alarm", evidence="questions")
        if failed := "; ".join(_unanswered(scores, metric)):
            yield Statement(f"{failed}.", "open", evidence="questions")
        return
    mean = scores.replace(columns={metric: scores.column(metric)}).intervals()[metric]
    value = estimate(metric, mean.mean, mean.low, mean.high, mean.n)
    few = ", too few for an interval" if mean.n == 1 else ""
    graders = [note for note in scores.label_notes if note.startswith(GRADED)]
    for sentence in graders:
        yield Statement(f"{sentence}.", "alarm")
    measured = f"{value} on {questions(mean.n)}{few}"
    parts = [measured, *_unanswered(scores, metric)]
    tone: Tone = "open" if len(parts) > 1 else "normal"
    yield Statement(f"{'; '.join(parts)}.", tone, evidence=MEANS)
    for note in scores.label_notes:
        if note not in graders:
            yield Statement(f"{note}.", "alarm")
    yield from _lost(system, metric, lost)
    conversations = conversations_of([*scores.by_query(metric)], scores.metadata)
    for remark in _uncertain(mean, limits_of(metric), len({*(conversations or ())})):
        yield Statement(f"{remark}.", "quiet", evidence=MEANS)


def _lost(system: System, metric: str, known: Sequence[Losses] | None) -> Iterator[Statement]:
    """How many questions got no relevant passage, where it was lost, and what could find it."""
    if lower_is_better(metric) or limits_of(metric) != intervals.UNIT_RANGE:
        return
    cutoff = Reading.of(metric).cutoff
    for lost in losses([system], metric) if known is None else known:
        where = "at all"
        if cutoff is not None:
            where = f"in the first {cutoff.at:,}{'' if cutoff.unit == 'items' else ' tokens'}"
        parts = [str(lost)]
        if lost.without:
            get = "gets" if lost.without == 1 else "get"
            some = f"{lost.without:,} of {questions(lost.questions)}"
            parts.insert(0, f"{some} {get} no relevant passage {where}")
        elif lost.by_loss and lost.questions == system.scores.n(metric) > 1:
            every = f"every question gets a relevant passage {where}".removesuffix(" at all")
            parts.insert(0, every)
        text = "; ".join(parts)
        text = text[0].upper() + text[1:]
        deepest = max((len(ranking.ids) for ranking in system.run.values()), default=0)
        if below := lost.by_loss.get(BELOW):
            text += f". A reranker could lift {below:,} of them"
        elif any(not note.startswith(GRADED) for note in system.scores.label_notes):
            pass  # what isn't there can't be retrieved
        elif lost.min_score is not None or NEVER not in lost.by_loss:
            pass  # what lies deeper would be left out
        elif cutoff is not None and 0 < deepest <= cutoff.at:
            text += f". Retrieve more than {deepest:,} to see whether a reranker could lift them"
        yield Statement(f"{in_first_run([system], text)}.", evidence="questions")


def _uncertain(
    mean: intervals.MeanInterval, limits: tuple[float, float], conversations: int
) -> Iterator[str]:
    """Why the interval says little: all scores are the same, or it is wide, or there is none."""
    if mean.n > 1 and (mean.low is None or mean.high is None or mean.note.endswith(intervals.SAME)):
        yield mean.note[:1].upper() + mean.note[1:]
    if mean.low is None or mean.high is None or limits != intervals.UNIT_RANGE:
        return
    if (width := mean.high - mean.low) > _WIDEST:
        enough = two_digits_up((conversations or mean.n) * (width / _NARROW) ** 2)
        now, then = (score(each, digits=2) for each in (width, _NARROW))
        few = questions(mean.n)
        if conversations:
            few, enough = f"{few} of {conversations:,} conversations", f"{enough} conversations"
        too_few = f"{few} are too few: the interval is {now} wide"
        yield f"{too_few}; with about {enough} it would be {then}"


def is_unmeasured(scores: Scores) -> bool:
    """Whether no metric has a value, but what failed questions count as."""
    return not scores.is_measured or not any(scores.n(metric) for metric in scores)


def _nothing(scores: Scores) -> str:
    return nothing_measured(scores.counts, [*scores.failed.values()])


def _unanswered(scores: Scores, metric: str) -> Iterator[str]:
    """How many failed and why, the mean of the others where they count, and how many are empty."""
    if scores.failed:
        yield from _failed(scores, metric)
    if empty := len({*scores.empty} - {*scores.unanswerable}):
        asked = scores.counts.queries - len(scores.unanswerable)
        of_runs = " in any run" if scores.repeats else ""
        yield f"nothing was returned for {empty:,} of {asked:,}{of_runs}"


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
        mean = intervals.exact_mean(np.array(others))
        yield f"without them {metric} is {carried(mean, len(others))}"
