"""The report of a judge's check: how often grades change, and by what."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llama_index_rag_metrics.labels.judge_checking import GradeChange, JudgeCheck, PlaceEffect
from llama_index_rag_metrics.report import Cell, Records, Report, Row, Section, Statement, Table
from llama_index_rag_metrics.report.numbers import (
    between,
    counted,
    hundredths,
    p_value,
    percent,
    score,
    signed,
)
from llama_index_rag_metrics.statistics.intervals import MeanInterval, excludes_0

_CHANGES_EXPLAINED = (
    "The same texts graded twice. Changed: the share with another grade. Mean change: the second "
    "grade minus the first, and its interval."
)


_EACH_PLACE = "each place further back"


def judge_check_report(check: JudgeCheck) -> Report:
    return Report(
        title=f"Check of the judge {check.model}".rstrip(),
        lead=f"{counted(check.n_queries)}, {counted(check.repeated.n, 'text', 'texts')}, "
        f"{counted(check.usage.requests, 'request', 'requests')}",
        decision=[*_statements(check)],
        sections=[*_sections(check)],
        notes=[*check.notes, str(check.usage)],
        records=_records(check),
    )


def _changes(check: JudgeCheck) -> dict[str, GradeChange]:
    """What was compared, in words, and how the grades changed."""
    changes = {
        "alone, asked again": check.repeated,
        f"same call of {check.texts_per_call}, asked again": check.repeated_together,
        "at another place in the call": check.moved,
        "in the call instead of alone": check.together,
    }
    return {label: change for label, change in changes.items() if change is not None}


def _statements(check: JudgeCheck) -> Iterator[Statement]:
    repeated = check.repeated
    texts = counted(repeated.n, "text", "texts")
    yield Statement(
        f"Asked again, it changes {repeated.n_changed:,} of {texts}{_share(check, repeated)}.",
        "open" if repeated.n_changed else "best",
    )
    if check.moved is not None:
        yield _of_moved(check, check.moved)
    if check.place is not None:
        yield _of_place(check.place)
    if check.together is not None:
        yield _of_calls(check, check.together)
    if check.kappa is not None and not math.isnan(check.kappa.kappa):
        ends = ""
        if check.kappa.low is not None and check.kappa.high is not None:
            ends = f" (interval {score(check.kappa.low)} to {score(check.kappa.high)})"
        yield Statement(
            f"With people's grades it agrees beyond chance by a kappa of "
            f"{score(check.kappa.kappa)}{ends}, over {counted(check.kappa.n, 'text', 'texts')}."
        )


def _of_moved(check: JudgeCheck, moved: GradeChange) -> Statement:
    grades = counted(moved.n, "grade", "grades")
    said = (
        f"At another place in the call, {moved.n_changed:,} of {grades} change"
        f"{_share(check, moved)}"
    )
    extra = check.due_to_place
    if extra is None or extra.low is None:
        return Statement(f"{said}.", "open")
    beyond = f"a share of {signed(extra.mean)} {_interval(extra)} compared with asking again"
    return Statement(f"{said}: {beyond}.", "open" if excludes_0(extra) else "normal")


def _of_place(place: PlaceEffect) -> Statement:
    slope = place.slope
    if slope.low is None:
        texts = f"{counted(slope.n)} with texts at several places"
        return Statement(f"Too few to tell whether the place matters: {texts}.", "open")
    said = f"{_interval(slope)[:-1]}, p {p_value(place.p_value)})"
    if excludes_0(slope):
        verb = "raises" if slope.mean > 0 else "lowers"
        size = score(abs(slope.mean))
        return Statement(
            f"The place in a call matters: each place further back {verb} the grade of the same "
            f"text by {size} {said}.",
            "alarm",
        )
    return Statement(
        f"No trend over the places is shown: each place further back changes the grade of the "
        f"same text by {signed(slope.mean)} {said}.",
        "normal",
    )


def _of_calls(check: JudgeCheck, together: GradeChange) -> Statement:
    difference = together.difference
    said = (
        f"In calls of {check.texts_per_call} instead of alone, {together.n_changed:,} of "
        f"{counted(together.n, 'grade', 'grades')} change, on average by {signed(difference.mean)}"
    )
    ends = "" if difference.low is None else f" {_interval(difference)}"
    is_shifted = excludes_0(difference)
    return Statement(f"{said}{ends}.", "alarm" if is_shifted else "normal")


def _sections(check: JudgeCheck) -> Iterator[Section]:
    level = f"{percent(check.confidence)} intervals, with queries as units."
    rows = [
        Row(label, [Cell(change.n, "count"), _share_cell(change), *_difference(change.difference)])
        for label, change in _changes(check).items()
    ]
    head = ("grades", "changed", "mean change", "interval")
    table = Table("", head, [rows], first="the same texts")
    yield Section("Steadiness", [table], f"{_CHANGES_EXPLAINED} {level}")


def _share_cell(change: GradeChange) -> Cell:
    return Cell(change.changed.mean, "score", low=change.changed.low, high=change.changed.high)


def _difference(interval: MeanInterval) -> list[Cell]:
    return [
        Cell(interval.mean, "signed"),
        Cell(None, "range", low=interval.low, high=interval.high),
    ]


def _share(check: JudgeCheck, change: GradeChange) -> str:
    low, high = change.changed.low, change.changed.high
    if low is None or high is None:
        return ""
    ends = f"{hundredths(low)} to {hundredths(high)}"
    return f" ({percent(check.confidence)} interval of the share {ends})"


def _interval(interval: MeanInterval) -> str:
    return f"(interval {between(interval.low, interval.high)})"


def _records(check: JudgeCheck) -> Records:
    rows: list[tuple[str, int, MeanInterval | None, MeanInterval]] = [
        (label, change.n, change.changed, change.difference)
        for label, change in _changes(check).items()
    ]
    if check.due_to_place is not None:
        rows.append(("changes due to the place", check.due_to_place.n, None, check.due_to_place))
    if check.place is not None:
        rows.append((_EACH_PLACE, check.place.slope.n, None, check.place.slope))
    return Records(
        {
            "check": [label for label, *_ in rows],
            "n": [n for _, n, *_ in rows],
            "changed": [changed and changed.mean for *_, changed, _ in rows],
            "changed_low": [changed and changed.low for *_, changed, _ in rows],
            "changed_high": [changed and changed.high for *_, changed, _ in rows],
            "difference": [difference.mean for *_, difference in rows],
            "difference_low": [difference.low for *_, difference in rows],
            "difference_high": [difference.high for *_, difference in rows],
            "p_value": [
                check.place.p_value if check.place is not None and label == _EACH_PLACE else None
                for label, *_ in rows
            ],
        }
    )
