"""The report of two reviewers: kappa, the agreement by grade, and where they differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.files.judgements import format_grade
from llama_index_rag_metrics.labels.review.review_items import ItemKey
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, kappa_in_words, mean_of, percent
from llama_index_rag_metrics.statistics.kappa import MODERATE

if TYPE_CHECKING:
    from llama_index_rag_metrics.labels.review.review_judgements import Grade
    from llama_index_rag_metrics.labels.review.reviewers import (
        Disagreement,
        ReviewerAgreement,
        ScaleAgreement,
    )

_AGREEMENT = "Agreement"
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_EXPLAINED = (
    "Kappa is the agreement beyond chance: 1 where they always agree, 0 where as often as by "
    "chance; weighted, a disagreement counts by its squared distance in grades. Specific "
    "agreement: the probability that one gives a grade when the other did."
)


def reviewers_report(agreement: ReviewerAgreement, *, full: bool = False) -> m.Report:
    first, second = agreement.names
    scales, disagreements = agreement.scales.values(), agreement.disagreements
    level = f"{percent(agreement.confidence)} intervals."
    only = zip(agreement.names, agreement.only, strict=True)
    lead = [
        f"{counted(agreement.n, 'item', 'items')} judged by both",
        *(f"{n:,} by {name} alone" for name, n in only if n),
    ]
    remarks = [(pair.key.query_id, "", [_remark(agreement.names, pair)]) for pair in disagreements]
    records: dict[str, list[Any]] = {
        **{name: [getattr(pair.key, name) for pair in disagreements] for name in ItemKey._fields},
        "scale": [pair.first.scale for pair in disagreements],
        "first": [pair.first.grade for pair in disagreements],
        "second": [pair.second.grade for pair in disagreements],
        "first_note": [pair.first.note for pair in disagreements],
        "second_note": [pair.second.note for pair in disagreements],
    }
    return m.Report(
        title=f"{first} and {second}",
        lead=", ".join(lead),
        decision=[_sentence(scale, is_one=len(scales) == 1) for scale in scales],
        sections=[
            m.Section(
                _AGREEMENT,
                [_table(scale, is_one=len(scales) == 1) for scale in scales],
                f"Rows: {first}; columns: {second}. {level} {_EXPLAINED}",
            )
        ],
        listings=[
            m.Listing.of("For a third pass", remarks, _MOST_ON_PAGE if full else _MOST_SHOWN)
        ],
        records=m.Records(records),
    )


def _sentence(scale: ScaleAgreement, *, is_one: bool) -> m.Statement:
    of_scale = "" if is_one else f" by {scale.scale}"
    n, kappa, weighted = scale.n, scale.kappa, scale.weighted_kappa
    agreed = f"agree on {scale.n_agreed:,} of {counted(n, 'item', 'items')}{of_scale}"
    if math.isnan(kappa.kappa):
        text = f"They {agreed}; all grades are the same, so that kappa has no value."
        return m.Statement(text, evidence=_AGREEMENT)
    more = "" if weighted is None else f"; weighted {kappa_in_words(weighted)}"
    found = f"{agreed}: {kappa_in_words(kappa)}{more}"
    if kappa.is_moderate:
        return m.Statement(f"They {found}.", "best", evidence=_AGREEMENT)
    if kappa.is_moderate is False:
        advice = "Make the rubric clearer, and judge what they disagree on again."
        return m.Statement(f"They hardly {found}. {advice}", "alarm", evidence=_AGREEMENT)
    text = f"They {found}. From {MODERATE} on that is moderate; more grades would decide it."
    return m.Statement(text, "open", evidence=_AGREEMENT)


def _table(scale: ScaleAgreement, *, is_one: bool) -> m.Table:
    rows = []
    for grade in scale.grades:
        counts = {other: scale.counts.get((grade, other), 0) for other in scale.grades}
        cells = [
            m.Cell(n, "count", "best" if other == grade else "normal")
            for other, n in counts.items()
        ]
        rows.append(
            m.Row(_text(grade), [*cells, mean_of(m.Cell(scale.specific(grade), "score"), scale.n)])
        )
    head = [*map(_text, scale.grades), "specific agreement"]
    return m.Table("" if is_one else scale.scale, head, [rows], first="grade")


def _text(grade: Grade | None) -> str:
    if grade is None or isinstance(grade, str):
        return grade or ""
    return format_grade(float(grade))


def _remark(names: tuple[str, str], disagreement: Disagreement) -> str:
    item = " ".join(filter(None, disagreement.key[1:]))
    grades = []
    for name, judgement in zip(names, (disagreement.first, disagreement.second), strict=True):
        note = f" ({judgement.note})" if judgement.note else ""
        grades.append(f"{name} {_text(judgement.grade)}{note}")
    return f"{item}: {', '.join(grades)}"
