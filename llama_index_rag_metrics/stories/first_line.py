"""The first lines of what systems scored: what was measured, on how many questions, what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from inspect import cleandoc
from itertools import repeat
from operator import attrgetter

import numpy as np

from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.base import NamedMetric
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.model import VARIES, Cell, Statement, Tone
from llama_index_rag_metrics.report.text import by_holder, one_line, sentence
from llama_index_rag_metrics.runtime.containers import picked
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.runtime.masking import truncated
from llama_index_rag_metrics.scores.notes import GRADED
from llama_index_rag_metrics.scores.score_rankings import runs_of
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.statistics import intervals

from .label_view import LabelView, System
from .story import joined
from .whereabouts import BELOW, Losses

# with a wider interval of a score from 0 to 1 the questions are too few; how many make it narrow
_WIDEST, _NARROW = 0.3, 0.25
_DOUBT = "in doubt"
_FAILED = "{n:,} of {queries:,} failed ({error}), {fate}"
_WITHOUT_FAILED = "without them {metric} is {mean}"
_EMPTY = "{n:,} of {queries:,} got no passages"
_WITHOUT_PASSAGE = "{n:,} of {questions} got no relevant passage{depth}; {losses}"
_TOO_FEW = (
    "{questions} are too few: the interval is {width} wide; with about {enough} it would be "
    "{narrow}."
)
_UNLABELLED = (
    "None of {questions} has labels. Label some (rag-metrics labels pool), generate questions with "
    "labels (rag-metrics labels ask), or use a metric without labels (llm_relevancy)."
)
_REPEATS = "Asked {times} times, {n:,} of {questions} score differently from run to run on "


def first_lines(
    systems: Sequence[System], metric: str, losses: Sequence[Losses] = ()
) -> list[Statement]:
    """What a report begins with: what is wrong; of one system its mean, and what it lost."""
    system = systems[0]
    if len(systems) > 1 or is_unmeasured(system.scores) or system.invalid(metric):
        return with_failures([], systems, metric)
    measured = next(name for name in [metric, *system.scores] if system.mean(name) is not None)
    mean, *remarks = _of_one(system, measured, losses)
    return [*with_failures([mean], systems, metric), *remarks]


def with_failures(
    verdicts: Sequence[Statement], systems: Sequence[System], metric: str
) -> list[Statement]:
    notices: dict[Tone, list[tuple[str, str]]] = {"open": [], "alarm": []}
    gaps: list[tuple[str, str]] = []
    for system in systems:
        scores, name = system.scores, system.name
        if is_unmeasured(scores):
            notices["alarm"].append((nothing_measured(scores), name))
            continue
        for note in filter(None, dict.fromkeys([system.invalid(metric), *scores.label_notes])):
            tone: Tone = "open" if note.startswith(GRADED) else "alarm"
            notices[tone].append((f"{note}.", name))
        gaps += zip(_unanswered(system, metric), repeat(name))
    statements: list[Statement] = []
    for tone, pairs in notices.items():
        for text in by_holder(pairs, len(systems)):
            statements.append(Statement(text, tone))
    lines = by_holder(joined(gaps, "; "), len(systems))
    unanswered = [Statement(f"{text}.", "open") for text in lines]
    if any(map(attrgetter("is_in_doubt"), systems)):
        verdicts = [Statement(f"{_DOUBT}: {text}", "open", _DOUBT) for text, *_ in verdicts]
    if LabelView.of(metric).of_texts and verdicts:
        meaning, _, caution = meaning_of(metric).partition(" It favours ")
        cautions = [Statement(f"{metric} favours {caution}", "open")] * bool(caution)
        verdicts = [*cautions, *verdicts, Statement(meaning, "quiet")]
    return [*statements, *verdicts, *unanswered]


def meaning_of(name: str) -> str:
    with suppress(RagMetricsError, ImportError):
        metric = metric_names.metric(name)
        if isinstance(metric, NamedMetric):
            return cleandoc(metric.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return ""


def nothing_measured(scores: Scores) -> str:
    counts, reasons = scores.counts, []
    if counts.unjudged == counts.queries and len(scores.failed) < counts.queries:
        without_value = [note for note in scores.notes if " has no value " in note]
        if notes := [*without_value, *scores.label_notes]:  # such as that they are texts
            return f"{notes[0]}."
        return _UNLABELLED.format(questions=numbers.questions(counts.queries))
    if scores.failed:
        reasons.append(f"{len(scores.failed):,} failed ({_errors(scores)})")
    if len(scores.failed) < counts.queries:
        reasons += counts.left_out
    text = f"Nothing was measured on {numbers.questions(counts.queries)}"
    if reasons:
        text += f": {', '.join(reasons)}"
    return f"{text}."


def is_unmeasured(scores: Scores) -> bool:
    return not scores.is_measured or not any(map(scores.n, scores))


def _of_one(system: System, metric: str, losses: Sequence[Losses]) -> Iterator[Statement]:
    scores, mean = system.scores, system.scores.intervals()[metric]
    value = numbers.estimate(metric, mean.mean, mean.low, mean.high, mean.n)
    yield Statement(f"{value} on {numbers.questions(mean.n)}.")
    is_of_hits = not lower_is_better(metric) and limits_of(metric) == intervals.UNIT_RANGE
    for of_system in losses:
        if is_of_hits and of_system.n_wanted and not system.is_in_doubt:
            yield Statement(_lost(of_system, metric))
    if mean.n > 1 and (mean.low is None or mean.high is None or mean.note.endswith(intervals.SAME)):
        yield Statement(sentence(mean.note), "quiet")
    elif is_of_hits and mean.low is not None and mean.high is not None:
        width = mean.high - mean.low
        if width > _WIDEST:
            n_enough = numbers.two_digits_up(mean.n * (width / _NARROW) ** 2)
            sizes = {"width": numbers.score(width, digits=2), "enough": n_enough}
            text = _TOO_FEW.format(questions=numbers.questions(mean.n), narrow=_NARROW, **sizes)
            yield Statement(text, "quiet")
    if scores.repeats:
        runs = runs_of(scores.repeats, metric)
        n = sum(len(set(values)) > 1 for values in runs.values())
        sizes = {"times": str(len(scores.repeats)), "questions": numbers.questions(len(runs))}
        text = f"{_REPEATS.format(n=n, **sizes)}{metric}."
        yield Statement(text, losses=VARIES * bool(n))


def _lost(losses: Losses, metric: str) -> str:
    k, depth = LabelView.of(metric).k, ""
    text = str(losses)
    if losses.n_without:
        n = numbers.questions(losses.n_questions)
        if k is not None:
            depth = f" in the first {min(k, losses.depth):,}"
        text = _WITHOUT_PASSAGE.format(n=losses.n_without, questions=n, depth=depth, losses=text)
    if losses.by_loss[BELOW]:
        text += f". A reranker could lift {losses.by_loss[BELOW]:,} of them"
    return sentence(text)


def _unanswered(system: System, metric: str) -> Iterator[str]:
    scores, n_queries = system.scores, system.scores.counts.queries
    if scores.failed:
        values = system.by_query(metric)
        counting = list(picked(values, scores.failed).values())
        answered = [value for name, value in values.items() if name not in scores.failed]
        fate = "left out"
        if any(counting):
            fate = "counted as empty rankings"
        elif counting:
            fate = f"{len(counting):,} counted as 0"
        errors = _errors(scores)
        yield _FAILED.format(n=len(scores.failed), queries=n_queries, error=errors, fate=fate)
        if counting and answered:
            cell = Cell(intervals.exact_mean(np.array(answered)), "score")
            mean = numbers.shown(numbers.mean_of(cell, len(answered)))
            yield _WITHOUT_FAILED.format(metric=metric, mean=mean)
    n_empty = len(set(scores.empty) - set(scores.unanswerable))
    if n_empty:
        yield _EMPTY.format(n=n_empty, queries=n_queries - len(scores.unanswerable))


def _errors(scores: Scores) -> str:
    counts = Counter(scores.failed.values()).most_common()
    words = truncated(one_line(counts[0][0]))
    if len(counts) > 1:
        words += f", and {numbers.counted(len(counts) - 1, 'other error', 'other errors')}"
    return words
