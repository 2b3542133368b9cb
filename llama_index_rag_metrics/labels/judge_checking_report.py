"""The report of a judge's check: how often grades change, and by what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from llama_index_rag_metrics.labels.judge_checking import GradeChange, JudgeCheck, PlaceEffect
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import (
    between,
    counted,
    digits_for,
    kappa_in_words,
    mean_of,
    percent,
    questions,
    score,
    signed,
    whole_percent,
)
from llama_index_rag_metrics.statistics.intervals import MeanInterval, excludes_0
from llama_index_rag_metrics.statistics.kappa import MODERATE

_EXPLAINED = (
    "The same passages graded twice. Changed: the share with another grade. Mean change: the "
    "second grade minus the first, and its interval."
)
_STEADINESS = "Steadiness"
_UNKNOWN = "Whether this judge agrees with people is unknown"
_HEAD = ("grades", "changed", "mean change", "interval")


def judge_check_report(check: JudgeCheck) -> m.Report:
    changes = {
        "alone, asked again": check.repeated,
        f"same call of {check.texts_per_call}, asked again": check.repeated_together,
        "at another place in the call": check.moved,
        "in the call instead of alone": check.together,
    }
    known = {label: change for label, change in changes.items() if change is not None}
    table = m.Table("", _HEAD, [[_row(*change) for change in known.items()]], "the same passages")
    level = f"{percent(check.confidence)} intervals, with questions as units."
    passages = counted(check.repeated.n, "passage", "passages")
    requests = counted(check.usage.requests, "request", "requests")
    records = [
        _record(label, change.difference, change.changed, n=change.n)
        for label, change in known.items()
    ]
    if extra := check.due_to_place:
        records.append(_record("changes due to the place", extra, n=extra.n))
    if (place := check.place) is not None:
        slope, p_value = place.slope, place.p_value
        records.append(_record("each place further back", slope, n=slope.n, p_value=p_value))
    return m.Report(
        title=f"Check of the judge {check.model}".rstrip(),
        lead=f"{questions(check.n_queries)}, {passages}, {requests}",
        decision=[_decision(check), *_statements(check)],
        sections=[m.Section(_STEADINESS, [table], f"{_EXPLAINED} {level}")],
        notes=[*check.notes, str(check.usage)],
        records=m.Records.of(records, records[0]),
    )


def _row(label: str, change: GradeChange) -> m.Row:
    changed, difference, digits = change.changed, change.difference, _digits(change.difference)
    share = mean_of(m.Cell(changed.mean, "score", low=changed.low, high=changed.high), change.n)
    mean = m.Cell(difference.mean, "signed", digits=digits)
    bounds = m.Cell(None, "range", low=difference.low, high=difference.high, digits=digits)
    return m.Row(label, [m.Cell(change.n, "count"), share, mean, bounds])


def _record(
    label: str, difference: MeanInterval, changed: MeanInterval | None = None, **named: float
) -> dict[str, Any]:
    columns = {
        f"{name}{suffix}": interval and getattr(interval, field)
        for name, interval in {"changed": changed, "difference": difference}.items()
        for suffix, field in {"": "mean", "_low": "low", "_high": "high"}.items()
    }
    return {"check": label, "n": 0, **columns, "p_value": None, **named}


def _decision(check: JudgeCheck) -> m.Statement:
    kappa, own = check.kappa, check.own_kappa
    if kappa is None and own is not None and own.is_moderate is False:
        found = f"{kappa_in_words(own)} on {counted(own.n, 'passage', 'passages')}"
        text = f"Don't use this judge: asked twice, it hardly agrees with itself, {found}."
        return m.Statement(text, "alarm", evidence=_STEADINESS)
    if kappa is None:
        how = "give people's grades of some of the passages, as human= or --human FILE"
        return m.Statement(f"{_UNKNOWN}: {how}.", "open")
    if not check.is_on_scale:
        return m.Statement(f"{_UNKNOWN}: their grades are on another scale.", "open")
    passages = counted(kappa.n, "passage", "passages")
    if math.isnan(kappa.kappa) or kappa.low is None or kappa.high is None:
        return m.Statement(f"{_UNKNOWN}: {passages} that they graded can't tell.", "open")
    found = f"{kappa_in_words(kappa)} on {passages}"
    if kappa.is_moderate:
        return m.Statement(f"This judge agrees with people, {found}.", "best")
    if kappa.is_moderate is False:
        refused = "Don't use this judge uncalibrated: it hardly agrees with people"
        return m.Statement(
            f"{refused}, {found}. calibrate() corrects its scores by theirs.", "alarm"
        )
    unsure = f"Whether this judge agrees with people isn't certain, {found}"
    advice = "Let people grade more passages, or calibrate() its scores."
    return m.Statement(f"{unsure}; from {MODERATE} on it is moderate. {advice}", "open")


def _statements(check: JudgeCheck) -> Iterator[m.Statement]:
    repeated, moved, together = check.repeated, check.moved, check.together
    passages = counted(repeated.n, "passage", "passages")
    yield m.Statement(
        f"Asked twice, the judge changed its grade on {repeated.n_changed:,} of {passages}"
        f"{_share(repeated, check.confidence)}.",
        "open" if repeated.n_changed else "best",
    )
    if moved is not None:
        text, extra = f"{_changed(moved)}{_share(moved, check.confidence)}", check.due_to_place
        tone: m.Tone = "open"
        if extra is not None and extra.low is not None:
            text += f": a share of {_signed(extra)} ({_ends(extra)}) compared with asking again"
            tone = "open" if excludes_0(extra) else "normal"
        yield m.Statement(f"At another place in the call, {text}.", tone)
    if check.place is not None:
        yield _of_place(check.place)
    if together is not None:
        shift = together.difference
        ends = "" if shift.low is None else f" ({_ends(shift)})"
        yield m.Statement(
            f"In calls of {check.texts_per_call} instead of alone, {_changed(together)}, on "
            f"average by {_signed(shift)}{ends}.",
            "alarm" if excludes_0(shift) else "normal",
        )


def _of_place(place: PlaceEffect) -> m.Statement:
    slope = place.slope
    if slope.low is None:
        texts = f"{questions(slope.n)} with texts at several places"
        return m.Statement(f"Too few to tell whether the place matters: {texts}.", "open")
    found, verb, by = "No trend over the places is shown", "changes", _signed(slope)
    if excludes_0(slope):
        found, verb = "The place in a call matters", "raises" if slope.mean > 0 else "lowers"
        by = score(abs(slope.mean), digits=_digits(slope))
    what = f"each place further back {verb} the grade of the same text by {by} ({_ends(slope)})"
    return m.Statement(f"{found}: {what}.", "alarm" if excludes_0(slope) else "normal")


def _changed(change: GradeChange) -> str:
    return f"{change.n_changed:,} of {counted(change.n, 'grade', 'grades')} change"


def _share(change: GradeChange, confidence: float) -> str:
    share = change.changed
    if share.low is None or share.high is None:
        return ""
    ends = f"{whole_percent(share.low)} to {whole_percent(share.high)}"
    return f" ({whole_percent(share.mean)}; {percent(confidence)} interval {ends})"


def _ends(interval: MeanInterval) -> str:
    return f"interval {between(interval.low, interval.high, _digits(interval))}"


def _signed(interval: MeanInterval) -> str:
    return signed(interval.mean, digits=_digits(interval))


def _digits(interval: MeanInterval) -> int:
    return digits_for(interval.n, interval)
