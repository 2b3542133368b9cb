"""The report of a check of labels: a table of all kinds, coverage, and examples of each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from llama_index_rag_metrics.labels.checking import (
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


def findings_report(findings: LabelFindings, *, full: bool = False) -> Report:
    errors, n = findings.errors, len(findings)
    queries, labels = findings.coverage.labels, sum(findings.coverage.labels.values())
    kinds = [_kind_row(kind, *findings.counts[kind]) for kind in KINDS]
    head = ("found", "of", "level", "what to do")
    outcome = "errors" if errors else "warnings" if n else "fine"
    return Report(
        title=f"Labels of {findings.name}" if findings.name else "Labels",
        lead=f"{counted(len(queries))}, {counted(labels, 'label', 'labels')}",
        outcome=Cell(outcome, "outcome", "alarm" if errors else "open" if n else "best"),
        decision=[_decision(findings)],
        sections=[
            Section("Labels", [Table("", head, [kinds], first="", text_columns=0)]),
            Section("Coverage", _coverage_tables(findings.coverage)),
        ],
        listings=list(_listings(findings, _MOST_ON_PAGE if full else _MOST_SHOWN)),
        notes=list(findings.notes),
        records=_records(findings.findings),
    )


def _decision(findings: LabelFindings) -> Statement:
    n_errors = len(findings.errors)
    n_warnings = len(findings) - n_errors
    if not n_errors:
        more = f"; {counted(n_warnings, 'warning', 'warnings')}" if n_warnings else ""
        return Statement(f"Every label is where it was, as it was{more}.")
    errors = counted(n_errors, "error makes", "errors make")
    return Statement(f"{errors} scores wrong: see the list below.", "alarm")


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
    documents = coverage.by_document
    asked_about = sum(1 for share in documents.values() if share.labelled)
    overlaps = list(coverage.overlaps.values())
    mean = math.fsum(overlaps) / len(overlaps) if overlaps else None
    rows = [
        Row("passages asked about", [_asked(coverage.total)]),
        Row("documents asked about", [Cell((asked_about, len(documents)), "share")]),
        Row("questions without a label", [Cell((counts.count(0), len(counts)), "share")]),
        Row("labels a question, least", [Cell(counts[0] if counts else None, "count")]),
        Row("labels a question, median", [Cell(median(counts) if counts else None, "count")]),
        Row("labels a question, most", [Cell(counts[-1] if counts else None, "count")]),
        Row("question's words in passage", [Cell(mean, "score")]),
    ]
    tables = [Table("Coverage", ("",), [rows], first="")]
    worst = sorted(
        documents.items(),
        key=lambda pair: (pair[1].labelled / pair[1].passages, -pair[1].passages),
    )
    if 1 < len(worst) < coverage.total.passages:
        remark = "the least covered" if len(worst) > _MOST_DOCUMENTS else ""
        shown = dict(worst[:_MOST_DOCUMENTS])
        tables.append(_shares("By document", "document", shown, remark))
    by_slice = {f"{key} = {value}": share for (key, value), share in coverage.by_slice.items()}
    if by_slice and len(by_slice) <= _MOST_ON_PAGE:
        tables.append(_shares("By slice", "slice", by_slice))
    return tables


def _shares(title: str, first: str, shares: Mapping[str, Share], remark: str = "") -> Table:
    rows = [
        Row(name, [_asked(share), Cell(share.questions, "count")]) for name, share in shares.items()
    ]
    head = ("passages asked about", "questions")
    return Table(title, head, [rows], first=first, place="detail", remark=remark)


def _asked(share: Share) -> Cell:
    return Cell((share.labelled, share.passages), "share")


def _listings(findings: LabelFindings, most: int) -> list[Listing]:
    questions = findings.questions or {}
    listings = []
    for kind, entry in KINDS.items():
        of_kind = findings.of(kind)
        shown = [
            QueryAnswers(
                finding.query_ids[0] if finding.query_ids else finding.id,
                questions.get(finding.query_ids[0], "") if finding.query_ids else "",
                remarks=[_remark(finding)],
            )
            for finding in of_kind[:most]
        ]
        if shown:
            title = f"{entry.meaning[0].upper()}{entry.meaning[1:]}"
            listings.append(Listing.of(title, shown, len(of_kind)))
    return listings


def _remark(finding: Finding) -> str:
    further = len(finding.query_ids) - 1
    is_question = finding.kind in ("contradicting", "repeated")
    more = f" ({counted(further, 'further question', 'further questions')})"
    return finding.text + (more if further and not is_question else "")


def _records(findings: Sequence[Finding]) -> Records:
    return Records(
        {
            "kind": [finding.kind for finding in findings],
            "level": [finding.level for finding in findings],
            "id": [finding.id for finding in findings],
            "query_ids": [list(finding.query_ids) for finding in findings],
            "others": [list(finding.others) for finding in findings],
            "score": [finding.score for finding in findings],
            "text": [finding.text for finding in findings],
        }
    )
