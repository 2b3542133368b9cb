"""The first lines of what systems scored: what was measured, on how many questions, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from llama_index_rag_metrics.files.conversations import conversations_of
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report.failures import errors_in_words
from llama_index_rag_metrics.report.model import Statement
from llama_index_rag_metrics.report.numbers import (
    carried,
    estimate,
    questions,
    score,
    two_digits_up,
)
from llama_index_rag_metrics.scores.notes import GRADED
from llama_index_rag_metrics.scores.repeats import runs_of
from llama_index_rag_metrics.scores.scores import Counts, Scores
from llama_index_rag_metrics.statistics import intervals

from .label_view import LabelView, System, metrics_of
from .whereabouts import BELOW, NEVER, Losses, losses

# with a wider interval of a score from 0 to 1 the questions are too few; how many make it narrow
_WIDEST, _NARROW = 0.3, 0.25
NOTHING = "Nothing was measured"  # what such a sentence begins with
MEANS = "Means with 95 % intervals"  # the heading of the section that the sentences rest on
_TOO_FEW = (
    "{asked} are too few: the interval is {width} wide; with about {enough} it would be {narrow}."
)
_REPEATS = (
    "Asked {times} times each, {differing} of {all} {score} differently from run to run "
    "on {metric}."
)


def first_lines(
    systems: Sequence[System], metric: str, lost: Sequence[Losses] | None = None
) -> list[Statement]:
    """What a report begins with, `lost` being on the metric; of several systems, what failed."""
    measured = None
    for name in filter(None, [metric, *metrics_of(systems)]):
        if any(system.mean(name) is not None for system in systems):
            measured = name
            break
    if len(systems) > 1:
        return failing(systems, measured)
    if lost is None or measured != metric:
        lost = losses(systems, measured) if measured else []
    return [*_of_one(systems[0], measured, lost), *_repeats(systems[0], metric)]


def with_failures(
    verdicts: Sequence[Statement], systems: Sequence[System], metric: str
) -> list[Statement]:
    """The verdicts of systems that were compared, below those without a valid score."""
    failed = failing(systems, metric)
    alarms = [statement for statement in failed if statement.tone == "alarm"]
    return [*alarms, *verdicts, *failed[len(alarms) :]]


def failing(systems: Sequence[System], metric: str | None) -> list[Statement]:
    """What failed of each of several systems; first those without a valid score."""
    invalid, incomplete = [], []
    unmeasured: dict[str, list[str]] = {}
    of_labels: dict[str, list[str]] = {}
    for system in systems:
        why = ""
        if metric:
            why = system.invalid(metric)
        if why:
            invalid.append(Statement(f"{system.name}: {why}.", "alarm"))
        for note in system.scores.label_notes:
            if note != why:
                of_labels.setdefault(note, []).append(system.name)
        if is_unmeasured(system.scores):
            unmeasured.setdefault(_nothing(system.scores), []).append(system.name)
            continue
        text = "; ".join(_unanswered(system.scores, metric or ""))
        if text:
            incomplete.append(Statement(f"{system.name}: {text}.", "open", evidence="questions"))
    nothing = []
    for text, names in unmeasured.items():
        of_whom = text.replace(NOTHING, f"{NOTHING} of {', '.join(names)}", 1)
        nothing.append(Statement(of_whom, "alarm", evidence="questions"))
    misfits = []
    for note, names in of_labels.items():
        text = f"{note}."
        if len(names) < len(systems):
            text = f"{', '.join(names)}: {text}"
        misfits.append(Statement(text, "alarm"))
    return [*invalid, *nothing, *misfits, *incomplete]


def nothing_measured(counts: Counts, errors: Sequence[str]) -> str:
    """Why nothing was measured, of what has no mean."""
    n, failed = counts.queries, counts.failed
    if not n:
        return f"{NOTHING}: there are no questions."
    why = ""
    if errors:
        why = f" ({errors_in_words(errors)})"
    if failed >= n > 1:
        return f"{NOTHING}: all {questions(n)} failed{why}."
    if failed >= n:
        return f"{NOTHING}: {questions(n)} failed{why}."
    reasons = [*counts.left_out]
    if failed:
        reasons.insert(0, f"{failed:,} failed{why}")
    if not reasons:
        return f"{NOTHING} on {questions(n)}."
    return f"{NOTHING} on {questions(n)}: {', '.join(reasons)}."


def is_unmeasured(scores: Scores) -> bool:
    """Whether no metric has a value, but what failed questions count as."""
    return not scores.is_measured or not any(scores.n(metric) for metric in scores)


def with_runs(systems: Sequence[System]) -> Sequence[System]:
    """The means of one system without rankings, and its runs beside them; several as they are."""
    if len(systems) > 1 or not systems[0].scores.repeats or not systems[0].run:
        return systems
    [system] = systems
    means = system.scores.replace(retrieval=None, repeats=())
    return [System.of(means, system.name), *system.repeats]


def in_first_run(systems: Sequence[System], text: str) -> str:
    """A sentence of what is counted in rankings, where these are of the first of several runs."""
    if not text or not any(system.scores.repeats for system in systems):
        return text
    return f"In the first run: {text[0].lower()}{text[1:]}"


def _repeats(system: System, metric: str) -> list[Statement]:
    """How many questions differ between their runs."""
    repeats = system.scores.repeats
    if not repeats or metric not in repeats[0]:
        return []
    runs = runs_of(repeats, metric)
    if not runs:
        return []
    differing = sum(len({*scores}) > 1 for scores in runs.values())
    times = f"{len(repeats)}"
    if any(len(scores) < len(repeats) for scores in runs.values()):
        times = f"up to {times}"
    text = _REPEATS.format(
        times=times,
        differing=f"{differing:,}" if differing else "none",
        all=questions(len(runs)),
        score="score" if differing > 1 else "scores",
        metric=metric,
    )
    return [Statement(text)]


def _of_one(system: System, metric: str | None, lost: Sequence[Losses]) -> Iterator[Statement]:
    scores = system.scores
    if metric is None:
        yield Statement(_nothing(scores), "alarm", evidence="questions")
        return
    failed = [*_unanswered(scores, metric)]
    invalid = system.invalid(metric)
    if invalid:
        yield Statement(f"{invalid}.", "alarm", evidence="questions")
        if failed:
            yield Statement(f"{'; '.join(failed)}.", "open", evidence="questions")
        return
    graders = [note for note in scores.label_notes if note.startswith(GRADED)]
    misfits = [note for note in scores.label_notes if note not in graders]
    yield from (Statement(f"{note}.", "alarm") for note in graders)
    mean = scores.replace(columns={metric: scores.column(metric)}).intervals()[metric]
    value = estimate(metric, mean.mean, mean.low, mean.high, mean.n)
    measured = f"{value} on {questions(mean.n)}"
    if mean.n == 1:
        measured += ", too few for an interval"
    sentence = "; ".join([measured, *failed])
    yield Statement(f"{sentence}.", "open" if failed else "normal", evidence=MEANS)
    yield from (Statement(f"{note}.", "alarm") for note in misfits)
    if not lower_is_better(metric) and limits_of(metric) == intervals.UNIT_RANGE:
        for of_system in lost:
            if not of_system.n_wanted:
                continue
            text = in_first_run(
                [system], _lost(system, metric, of_system, has_misfits=bool(misfits))
            )
            yield Statement(f"{text}.", evidence="questions")
    conversations = conversations_of([*scores.by_query(metric)], scores.metadata)
    for remark in _uncertain(mean, limits_of(metric), len({*(conversations or ())})):
        yield Statement(remark, "quiet", evidence=MEANS)


def _lost(system: System, metric: str, lost: Losses, *, has_misfits: bool) -> str:
    """How many questions got no relevant passage, where it was lost, and what could find it."""
    cutoff = LabelView.of(metric).cutoff
    depth = ""
    if cutoff is not None:
        depth = f" in the first {cutoff.at:,}"
    if cutoff is not None and cutoff.unit == "tokens":
        depth += " tokens"
    text = str(lost)
    if lost.n_without:
        get = "gets" if lost.n_without == 1 else "get"
        count = f"{lost.n_without:,} of {questions(lost.n_questions)}"
        text = f"{count} {get} no relevant passage{depth or ' at all'}; {text}"
    elif lost.by_loss and lost.n_questions == system.scores.n(metric) > 1:
        text = f"every question gets a relevant passage{depth}; {text}"
    text = text[0].upper() + text[1:]
    below = lost.by_loss.get(BELOW)
    if below:
        return f"{text}. A reranker could lift {below:,} of them"
    # what isn't there can't be retrieved; with a least score, what lies deeper would be left out
    if has_misfits or lost.min_score is not None or NEVER not in lost.by_loss:
        return text
    deepest = max((len(ranking.ids) for ranking in system.run.values()), default=0)
    if cutoff is not None and 0 < deepest <= cutoff.at:
        text += f". Retrieve more than {deepest:,} to see whether a reranker could lift them"
    return text


def _uncertain(
    mean: intervals.MeanInterval, limits: tuple[float, float], conversations: int
) -> Iterator[str]:
    """Why the interval says little: all scores are the same, or it is wide, or there is none."""
    is_open = mean.low is None or mean.high is None
    if mean.n > 1 and (is_open or mean.note.endswith(intervals.SAME)):
        yield f"{mean.note[:1].upper()}{mean.note[1:]}."
    if mean.low is None or mean.high is None or limits != intervals.UNIT_RANGE:
        return
    width = mean.high - mean.low
    if width <= _WIDEST:
        return
    sample = questions(mean.n)
    needed = two_digits_up((conversations or mean.n) * (width / _NARROW) ** 2)
    if conversations:
        sample, needed = f"{sample} of {conversations:,} conversations", f"{needed} conversations"
    yield _TOO_FEW.format(
        asked=sample, width=score(width, digits=2), enough=needed, narrow=score(_NARROW, digits=2)
    )


def _nothing(scores: Scores) -> str:
    return nothing_measured(scores.counts, [*scores.failed.values()])


def _unanswered(scores: Scores, metric: str) -> Iterator[str]:
    """How many failed and why, the mean of the others where they count, and how many are empty."""
    if scores.failed:
        yield from _failed(scores, metric)
    n_empty = len({*scores.empty} - {*scores.unanswerable})
    if n_empty:
        text = f"nothing was returned for {n_empty:,} of "
        text += f"{scores.counts.queries - len(scores.unanswerable):,}"
        if scores.repeats:
            text += " in any run"
        yield text


def _failed(scores: Scores, metric: str) -> Iterator[str]:
    by_query: Mapping[str, float] = {}
    if metric in scores:
        by_query = scores.by_query(metric)
    counting = [by_query[query_id] for query_id in scores.failed if query_id in by_query]
    n = len(scores.failed)
    why = errors_in_words([*scores.failed.values()])
    start = f"{n:,} of {scores.counts.queries:,} failed ({why})"
    if not counting:
        yield f"{start} and {'is' if n == 1 else 'are'} left out"
        return
    count = "counts" if len(counting) == 1 else "count"
    if len(counting) < n:
        count = f"{len(counting):,} of them {count}"
    counted_as = "empty rankings" if any(counting) else "0"
    yield f"{start} and {count} as {counted_as}"
    answered = [value for query_id, value in by_query.items() if query_id not in scores.failed]
    if answered:
        mean = intervals.exact_mean(np.array(answered))
        yield f"without them {metric} is {carried(mean, len(answered))}"
