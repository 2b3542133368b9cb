"""The report of a check of labels: a table of all kinds, coverage, and examples of each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from llama_index_rag_metrics.labels.checking.findings import (
    KINDS,
    Coverage,
    Finding,
    Kind,
    LabelFindings,
    Share,
)
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
    Tone,
)
from llama_index_rag_metrics.report.numbers import counted

_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_MOST_DOCUMENTS = 10


def findings_report(found: LabelFindings, *, full: bool = False) -> Report:
    """The report of a check of labels.

    Args:
        found: the findings.
        full: with as many examples as a page holds.
    """
    errors, n = found.errors, len(found)
    outcome = "errors" if errors else "warnings" if n else "fine"
    return Report(
        title=f"Labels of {found.name}" if found.name else "Labels",
        lead=_lead(found),
        outcome=Cell(outcome, "outcome", "alarm" if errors else "open" if n else "best"),
        decision=[_decision(found)],
        sections=[
            Section("Labels", [_kinds(found)]),
            Section("Coverage", _coverage_tables(found.coverage)),
        ],
        listings=list(_listings(found, _MOST_ON_PAGE if full else _MOST_SHOWN)),
        notes=list(found.notes),
        records=_records(found.findings),
    )


def _lead(found: LabelFindings) -> str:
    labels = sum(found.coverage.labels.values())
    return f"{counted(len(found.coverage.labels))}, {counted(labels, 'label', 'labels')}"


def _decision(found: LabelFindings) -> Statement:
    n_errors = len(found.errors)
    n_warnings = len(found) - n_errors
    if not n_errors:
        more = f"; {counted(n_warnings, 'warning', 'warnings')}" if n_warnings else ""
        return Statement(f"Every label is where it was, as it was{more}.")
    errors = counted(n_errors, "error makes", "errors make")
    return Statement(f"{errors} scores wrong: see the list below.", "alarm")


def _kinds(found: LabelFindings) -> Table:
    rows = [_kind_row(kind, *found.counts[kind]) for kind in KINDS]
    return Table("", ("found", "of", "level", "what to do"), [rows], first="", text_columns=0)


def _kind_row(kind: Kind, n: int, of: int) -> Row:
    entry = KINDS[kind]
    alarm: Tone = "alarm" if entry.level == "error" else "open"
    return Row(
        entry.meaning,
        [
            Cell(n, "count", alarm if n else "quiet"),
            Cell(of, "count", "quiet"),
            Cell(entry.level if n else "", tone=alarm if n else "quiet"),
            Cell(entry.advice if n else "", tone="quiet"),
        ],
    )


def _coverage_tables(coverage: Coverage) -> list[Table]:
    counts = sorted(coverage.labels.values())
    overlaps = list(coverage.overlaps.values())
    mean = math.fsum(overlaps) / len(overlaps) if overlaps else None
    rows = [
        Row("passages asked about", [_asked(coverage.total)]),
        Row(
            "documents asked about",
            [
                Cell(
                    (
                        sum(1 for one in coverage.by_document.values() if one.labelled),
                        len(coverage.by_document),
                    ),
                    "share",
                )
            ],
        ),
        Row("questions without a label", [Cell((counts.count(0), len(counts)), "share")]),
        Row("labels a question, least", [Cell(counts[0] if counts else None, "count")]),
        Row("labels a question, median", [Cell(median(counts) if counts else None, "count")]),
        Row("labels a question, most", [Cell(counts[-1] if counts else None, "count")]),
        Row("question's words in passage", [Cell(mean, "score")]),
    ]
    tables = [Table("Coverage", ("",), [rows], first="")]
    worst = sorted(
        coverage.by_document.items(),
        key=lambda pair: (pair[1].labelled / pair[1].passages, -pair[1].passages),
    )
    if 1 < len(worst) < coverage.total.passages:
        remark = "the least covered" if len(worst) > _MOST_DOCUMENTS else ""
        shown = dict(worst[:_MOST_DOCUMENTS])
        tables.append(_shares("By document", "document", shown, remark))
    by_slice = {f"{key} = {value}": one for (key, value), one in coverage.by_slice.items()}
    if by_slice and len(by_slice) <= _MOST_ON_PAGE:
        tables.append(_shares("By slice", "slice", by_slice))
    return tables


def _shares(title: str, first: str, shares: Mapping[str, Share], remark: str = "") -> Table:
    rows = [Row(name, [_asked(one), Cell(one.questions, "count")]) for name, one in shares.items()]
    head = ("passages asked about", "questions")
    return Table(title, head, [rows], first=first, place="detail", remark=remark)


def _asked(share: Share) -> Cell:
    return Cell((share.labelled, share.passages), "share")


def _listings(found: LabelFindings, most: int) -> list[Listing]:
    questions = found.questions or {}
    listings = []
    for kind, entry in KINDS.items():
        of_kind = found.of(kind)
        shown = [
            QueryAnswers(
                one.query_ids[0] if one.query_ids else one.id,
                questions.get(one.query_ids[0], "") if one.query_ids else "",
                remarks=[_remark(one)],
            )
            for one in of_kind[:most]
        ]
        if shown:
            title = f"{entry.meaning[0].upper()}{entry.meaning[1:]}: {len(of_kind):,}"
            listings.append(Listing(title, shown, more=len(of_kind) - len(shown)))
    return listings


def _remark(finding: Finding) -> str:
    further = len(finding.query_ids) - 1
    is_question = finding.kind in ("contradicting", "repeated")
    more = f" ({counted(further, 'further question', 'further questions')})"
    return finding.text + (more if further and not is_question else "")


def _records(findings: Sequence[Finding]) -> Records:
    """One row a finding."""
    return Records(
        {
            "kind": [one.kind for one in findings],
            "level": [one.level for one in findings],
            "id": [one.id for one in findings],
            "query_ids": [list(one.query_ids) for one in findings],
            "others": [list(one.others) for one in findings],
            "score": [one.score for one in findings],
            "text": [one.text for one in findings],
        }
    )
