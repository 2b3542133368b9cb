"""The report of a judge's check: how often grades change, and by what."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llama_index_rag_metrics.labels.judge_check import GradeChange, JudgeCheck, SelfPreference
from llama_index_rag_metrics.report import Cell, Records, Report, Row, Section, Statement, Table
from llama_index_rag_metrics.report.numbers import (
    between,
    counted,
    hundredths,
    percent,
    score,
    signed,
)
from llama_index_rag_metrics.statistics.intervals import MeanInterval, excludes_0

_CHANGES_EXPLAINED = (
    "The same texts graded twice. Changed: the share with another grade. Mean change: the second "
    "grade minus the first, and its interval. What changes at another place, beyond what changes "
    "when the same call is asked again, is due to the place."
)
_PLACES_EXPLAINED = (
    "How much higher the same texts are graded at a place in the call than at other places."
)
_PREFERENCE_EXPLAINED = (
    "Texts that the judge's model wrote beside others of the same queries: the judge's grade minus "
    "people's, averaged by query."
)
_PREFERENCE_UNCONTROLLED = (
    "Texts that the judge's model wrote beside others of the same queries, without people's "
    "grades: a difference may be one of quality."
)


def judge_check_report(check: JudgeCheck) -> Report:
    """The report of what `check_judge` found."""
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
    """What was compared, in words, and what came of it."""
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
        yield _of_places(check, check.moved)
    if check.together is not None:
        yield _of_calls(check, check.together)
    if check.preference is not None:
        yield _of_preference(check.preference)
    if check.kappa is not None and not math.isnan(check.kappa.kappa):
        ends = ""
        if check.kappa.low is not None and check.kappa.high is not None:
            ends = f" (interval {score(check.kappa.low)} to {score(check.kappa.high)})"
        yield Statement(
            f"With people's grades it agrees beyond chance by a kappa of "
            f"{score(check.kappa.kappa)}{ends}, over {counted(check.kappa.n, 'text', 'texts')}."
        )


def _of_places(check: JudgeCheck, moved: GradeChange) -> Statement:
    grades = counted(moved.n, "grade", "grades")
    said = (
        f"At another place in the call, {moved.n_changed:,} of {grades} change"
        f"{_share(check, moved)}"
    )
    extra = check.due_to_place
    if extra is None or extra.low is None:
        return Statement(f"{said}.", "open")
    if extra.low > 0:
        due = f"{score(extra.mean)} {_interval(extra)} is due to the place"
        return Statement(f"The place in a call matters. {said}; a share of {due}.", "alarm")
    return Statement(
        f"{said}; that is not clearly more than asking the same again changes "
        f"(difference in share {between(extra.low, extra.high)}).",
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


def _of_preference(preference: SelfPreference) -> Statement:
    difference = preference.difference
    measured = ", measured against people's grades" if preference.is_controlled else ""
    said = (
        f"Texts of its own get {signed(difference.mean)} more than others of the same "
        f"{counted(difference.n)}{measured}"
    )
    if difference.low is None:
        return Statement(f"{said}; too few to tell.", "open")
    if not preference.is_controlled:
        doubt = "without people's grades that may be quality"
        return Statement(f"{said} {_interval(difference)}; {doubt}.", "open")
    if difference.low > 0:
        return Statement(f"It prefers its own texts. {said} {_interval(difference)}.", "alarm")
    return Statement(f"{said} {_interval(difference)}.")


def _sections(check: JudgeCheck) -> Iterator[Section]:
    level = f"{percent(check.confidence)} intervals, with queries as units."
    rows = [
        Row(label, [Cell(change.n, "count"), _share_cell(change), *_difference(change.difference)])
        for label, change in _changes(check).items()
    ]
    head = ("grades", "changed", "mean change", "interval")
    table = Table("", head, [rows], first="the same texts")
    yield Section("Steadiness", [table], f"{_CHANGES_EXPLAINED} {level}")
    if check.places:
        rows = [
            Row(str(place), [Cell(effect.n, "count"), *_difference(effect)])
            for place, effect in check.places.items()
        ]
        table = Table("", ("grades", "effect", "interval"), [rows], first="place in the call")
        yield Section("Places", [table], _PLACES_EXPLAINED)
    if check.preference is not None:
        preference = check.preference
        rows = [
            Row("its own", [Cell(preference.n_own, "count"), Cell(preference.own, "signed")]),
            Row("others", [Cell(preference.n_others, "count"), Cell(preference.others, "signed")]),
        ]
        text = _PREFERENCE_EXPLAINED if preference.is_controlled else _PREFERENCE_UNCONTROLLED
        yield Section(
            "Its own texts", [Table("", ("texts", "mean"), [rows], first="written by")], text
        )


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
    """One row a comparison."""
    rows: list[tuple[str, int, MeanInterval | None, MeanInterval]] = [
        (label, change.n, change.changed, change.difference)
        for label, change in _changes(check).items()
    ]
    rows += [(f"place {place}", effect.n, None, effect) for place, effect in check.places.items()]
    if check.due_to_place is not None:
        rows.append(("changes due to the place", check.due_to_place.n, None, check.due_to_place))
    if check.preference is not None:
        difference = check.preference.difference
        rows.append(("its own texts against others", difference.n, None, difference))
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
        }
    )
