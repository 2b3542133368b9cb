"""What a report says of thresholds: which to take, what each does, and a curve over all."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import (
    NO_VALUE,
    between,
    carried,
    digits_of,
    given,
    mean_of,
    on_axis,
    percent,
    questions,
    score,
    signed,
    significant,
)
from llama_index_rag_metrics.scores.scores_report import glossary
from llama_index_rag_metrics.statistics.abstention import FOLDS, shortest_between
from llama_index_rag_metrics.statistics.resampling import NOISE

if TYPE_CHECKING:
    from llama_index_rag_metrics.scores.thresholds import Threshold, Thresholds

_SHOWN, _DRAWN = 11, 400
_CONFIDENCES = {
    "max": "highest score",
    "std": "spread of the scores",
    "diff1": "first score − second",
}
_EXPLAINED = (
    "Passages below a score are left out. answered: questions with an answer that still get any "
    "passage; spared: those without one that get none; a row is the lowest cutoff that spares as "
    "many. The proposal spares the most within the tolerance; it is judged in up to "
    f"{FOLDS} parts of the questions, each by the choice of the others. Scores of another "
    "retriever need a threshold of their own."
)
_TELLING = "Do the scores tell where to abstain?"
_NAUC = (
    "How much of what abstaining on the worst questions would gain is gained by abstaining where "
    "this is lowest: 1 is the best, 0 tells nothing (MTEB's nAUC of abstention)."
)


def thresholds_report(found: Thresholds) -> m.Report:
    of = f" of {plain(found.name)}" if found.name else ""
    telling = [
        m.Row(words, [m.Cell.of(None if math.isnan(value) else value, "score")._replace(digits=2)])
        for key, words in _CONFIDENCES.items()
        for value in [found.nauc[key]]
    ]
    return m.Report(
        title=f"Thresholds on the score{of}",
        lead=f"{questions(found.n_answerable)} with an answer, {found.n_unanswerable:,} without",
        decision=[*_decision(found)],
        sections=[
            m.Section("Thresholds", [_table(found)], _EXPLAINED),
            m.Section(_TELLING, [m.Table(_TELLING, ["nAUC"], [telling], first="by")], _NAUC),
        ],
        notes=found.notes,
        glossary=glossary([found.metric]),
        metrics=[found.metric],
        figures={"by_threshold": lambda _: _figure(found)},
        records=m.Records.of_fields(found, ("min_score", "mean", "answered", "spared")),
    )


def _decision(found: Thresholds) -> Iterator[m.Statement]:
    metric, n, others = found.metric, found.n_answerable, found.n_unanswerable
    if not others:
        text = "No question is without an answer, so there is nothing to spare: label some"
        yield m.Statement(f"{text} with an empty list.", "open")
        return
    if (proposed := found.proposed) is None:
        text = f"No cutoff within the tolerance, {given(found.tolerance)} of {metric}, spares "
        text += "a further question without an answer"
        sparing = [_lost(found, row) for row in found if row.spared > found.without.spared]
        text += f"; the cheapest costs {carried(min(sparing), n)}" if sparing else ""
        yield m.Statement(f"{text}.", "open")
        return
    spared, already = (_count(row.spared, others) for row in (proposed.seen, found.without))
    text = f"nothing is returned for {spared:,} of {questions(others)} without an answer"
    text += f" ({already:,} without a cutoff)" if already else ""
    now, was = carried(proposed.seen.mean, n), carried(found.without.mean, n)
    moves = "falls" if proposed.seen.mean < found.without.mean else "rises"
    text += f"; {metric} " + (f"stays {now}" if now == was else f"{moves} from {was} to {now}")
    text = f"With a cutoff of {proposed.min_score!r}, {text}."
    yield m.Statement(text, evidence="Thresholds", command=proposed.line)
    loss, share = proposed.loss, proposed.spared
    if not loss.n:
        text = "There are too few questions to judge it on others than those that chose it."
        yield m.Statement(text, "open")
        return
    low, high = (None if end is None else -end for end in (loss.high, loss.low))
    digits = digits_of(loss.n)
    changes = f"{signed(-loss.mean, digits=digits)} ({between(low, high, digits)})"
    ends = " to ".join(map(_percent, (share.low, share.high)))
    text = (
        f"On other questions, expect {_percent(share.mean)} of those without an answer to get "
        f"nothing ({ends}) and {metric} to change by {changes}: cross-validated, with 95 % "
        "confidence."
    )
    yield m.Statement(text, evidence="Thresholds")


def _percent(share: float | None) -> str:
    if share is None:
        return NO_VALUE
    return percent(significant(share, 2 if share < 0.99 else 3))


def _table(found: Thresholds) -> m.Table:
    """The lowest threshold for each share that is spared, or of many some, and the proposal."""
    lowest = {row.spared: row for row in reversed(found)} if found.n_unanswerable else {}
    shown = _spread([*lowest.values()] or found, _SHOWN)
    proposed = None if found.proposed is None else found.proposed.seen
    if proposed is not None:
        shown = [proposed, *(row for row in shown if row.spared != proposed.spared)]
    rows = [
        m.Row(
            on_axis(_shortest(found, row)) + " (proposed)" * (row is proposed),
            [
                mean_of(m.Cell(row.mean, "score"), found.n_answerable),
                mean_of(m.Cell(_lost(found, row), "score"), found.n_answerable),
                _of(row.answered, found.n_answerable),
                _of(row.spared, found.n_unanswerable),
            ],
        )
        for row in sorted(shown, key=lambda row: row.min_score)
    ]
    head = [found.metric, "lost", "answered", "spared"]
    remark = "" if len(found) == len(rows) else f"(some of {len(found):,})"
    return m.Table("Thresholds", head, [rows], first="from a score of", remark=remark)


def _shortest(found: Thresholds, row: Threshold) -> float:
    """The shortest number that does the same as a threshold, to be copied."""
    place = bisect_left(found, row.min_score, key=lambda row: row.min_score)
    return shortest_between(found[place - 1].min_score if place else -math.inf, row.min_score)


def _lost(found: Thresholds, row: Threshold) -> float:
    lost = found.without.mean - row.mean
    return lost if abs(lost) > NOISE else 0.0


def _count(share: float, n: int) -> int:
    return int(share * n + 0.5)


def _of(share: float, n: int) -> m.Cell:
    return m.Cell((_count(share, n), n), "share") if n else m.Cell.of(None, "share")


def _figure(found: Thresholds) -> Figure | None:
    rows = _spread(found, _DRAWN)
    if not rows:
        return None
    scores = [row.min_score for row in rows]
    columns = {found.metric: [row.mean for row in rows]}
    if found.n_unanswerable:
        columns["spared"] = [row.spared for row in rows]
    series = [
        Series(
            name,
            number,
            scores,
            values,
            remarks=[
                f"from {score(at)} on: {score(value)}"
                for at, value in zip(scores, values, strict=True)
            ],
        )
        for number, (name, values) in enumerate(columns.items())
    ]
    remark = "" if found.proposed is None else f"Proposed: {found.proposed.min_score!r}."
    axes = Axis("lowest score that is kept"), Axis("mean, or share of questions")
    return Figure("lines", *axes, series, markers=len(scores) <= _SHOWN, remark=remark)


def _spread(rows: Sequence[Threshold], most: int) -> list[Threshold]:
    """Rows at even distances, the first and the last among them."""
    n = len(rows)
    places = range(n) if n <= most else (at * (n - 1) // (most - 1) for at in range(most))
    return [rows[place] for place in places]
