"""The report of two reviewers: kappa, the agreement by grade, and where they differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llama_index_rag_metrics.files.judgements import format_grade
from llama_index_rag_metrics.report import (
    Cell,
    Listing,
    QueryAnswers,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
)
from llama_index_rag_metrics.report.numbers import counted, percent, score

if TYPE_CHECKING:
    from llama_index_rag_metrics.labels.review.review_judgements import Grade
    from llama_index_rag_metrics.labels.review.reviewers import (
        Disagreement,
        ReviewerAgreement,
        ScaleAgreement,
    )
    from llama_index_rag_metrics.statistics.kappa import Kappa

_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_EXPLAINED = (
    "Kappa is the agreement beyond chance: 1 where they always agree, 0 where as often as by "
    "chance; weighted, a disagreement counts by its squared distance in grades. Specific "
    "agreement: how likely the one gives a grade where the other does."
)


def reviewers_report(agreement: ReviewerAgreement, *, full: bool = False) -> Report:
    first, second = agreement.names
    tables = [_table(agreement, scale) for scale in agreement.scales.values()]
    return Report(
        title=f"{first} and {second}",
        lead=_lead(agreement),
        decision=[_sentence(scale, agreement) for scale in agreement.scales.values()],
        sections=[
            Section(
                "Agreement",
                tables,
                f"Rows: {first}; columns: {second}. {percent(agreement.confidence)} intervals. "
                f"{_EXPLAINED}",
            )
        ],
        listings=_listings(agreement, _MOST_ON_PAGE if full else _MOST_SHOWN),
        records=_records(agreement),
    )


def _lead(agreement: ReviewerAgreement) -> str:
    parts = [f"{counted(agreement.n, 'item', 'items')} judged by both"]
    for name, n in zip(agreement.names, agreement.only, strict=True):
        if n:
            parts.append(f"{n:,} by {name} alone")
    return ", ".join(parts)


def _sentence(scale: ScaleAgreement, agreement: ReviewerAgreement) -> Statement:
    of_scale = f" by {scale.scale}" if len(agreement.scales) > 1 else ""
    said = f"They agree on {scale.n_agreed:,} of {counted(scale.n, 'item', 'items')}{of_scale}"
    if math.isnan(scale.kappa.kappa):
        return Statement(f"{said}; all grades are the same, so that kappa has no value.")
    weighted = scale.weighted_kappa
    more = "" if weighted is None else f"; weighted kappa {_shown(weighted)}"
    return Statement(f"{said}: kappa {_shown(scale.kappa)}{more}.")


def _shown(kappa: Kappa) -> str:
    if kappa.low is None or kappa.high is None:
        return score(kappa.kappa)
    return f"{score(kappa.kappa)} [{score(kappa.low)}, {score(kappa.high)}]"


def _table(agreement: ReviewerAgreement, scale: ScaleAgreement) -> Table:
    rows = [
        Row(
            _text(grade),
            [
                *(
                    Cell(
                        scale.counts.get((grade, other), 0),
                        "count",
                        "best" if grade == other else "normal",
                    )
                    for other in scale.grades
                ),
                Cell(scale.specific(grade), "score"),
            ],
        )
        for grade in scale.grades
    ]
    head = [*(_text(grade) for grade in scale.grades), "specific agreement"]
    title = scale.scale if len(agreement.scales) > 1 else ""
    return Table(title, head, [rows], first="grade")


def _text(grade: Grade | None) -> str:
    if grade is None or isinstance(grade, str):
        return grade or ""
    return format_grade(float(grade))


def _listings(agreement: ReviewerAgreement, most: int) -> list[Listing]:
    disagreements = agreement.disagreements
    shown = [
        QueryAnswers(differing.key.query_id, "", remarks=[_remark(agreement.names, differing)])
        for differing in disagreements[:most]
    ]
    return [Listing.of("For a third pass", shown, len(disagreements))] if shown else []


def _remark(names: tuple[str, str], disagreement: Disagreement) -> str:
    item = " ".join(part for part in disagreement.key[1:] if part)
    grades = []
    for name, judgement in zip(names, (disagreement.first, disagreement.second), strict=True):
        note = f" ({judgement.note})" if judgement.note else ""
        grades.append(f"{name} {_text(judgement.grade)}{note}")
    return f"{item}: {', '.join(grades)}"


def _records(agreement: ReviewerAgreement) -> Records:
    disagreements = agreement.disagreements
    return Records(
        {
            "query_id": [differing.key.query_id for differing in disagreements],
            "doc_id": [differing.key.doc_id for differing in disagreements],
            "nugget_id": [differing.key.nugget_id for differing in disagreements],
            "scale": [differing.first.scale for differing in disagreements],
            "first": [differing.first.grade for differing in disagreements],
            "second": [differing.second.grade for differing in disagreements],
            "first_note": [differing.first.note for differing in disagreements],
            "second_note": [differing.second.note for differing in disagreements],
        }
    )
