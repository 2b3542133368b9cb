"""The report of a check of labels: a table of all kinds, coverage, and examples of each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from llama_index_rag_metrics.labels.checking import (
    KINDS,
    Coverage,
    Finding,
    Kind,
    LabelFindings,
    Share,
)
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import difference, excerpt
from llama_index_rag_metrics.report.numbers import counted, mean_of, questions

_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_MOST_DOCUMENTS = 10
_FIELDS = ("kind", "level", "id", "query_ids", "others", "score", "text")


def findings_report(findings: LabelFindings, *, full: bool = False) -> m.Report:
    n_errors, n = len(findings.errors), len(findings)
    labels = findings.coverage.labels
    outcome = "errors" if n_errors else "warnings" if n else "fine"
    n_labels = counted(sum(labels.values()), "label", "labels")
    head = ("found", "of", "level", "what to do")
    table = m.Table("", head, [_kind_rows(findings)], first="", text_columns=0)
    return m.Report(
        title=f"Labels of {findings.name}" if findings.name else "Labels",
        lead=f"{questions(len(labels))}, {n_labels}",
        outcome=m.Cell(outcome, "outcome", "alarm" if n_errors else "open" if n else "best"),
        decision=[_decision(findings)],
        sections=[
            m.Section("Labels", [table]),
            m.Section("Coverage", _coverage_tables(findings.coverage)),
        ],
        listings=_listings(findings, _MOST_ON_PAGE if full else _MOST_SHOWN),
        notes=list(findings.notes),
        records=m.Records.of_fields(findings.findings, _FIELDS),
    )


def _decision(findings: LabelFindings) -> m.Statement:
    """How many errors there are, and what to do about the most frequent kind."""
    n_errors = len(findings.errors)
    n_warnings, n_labels = len(findings) - n_errors, sum(findings.coverage.labels.values())
    if n_errors:
        errors = counted(n_errors, "error makes", "errors make")
        kinds = [kind for kind, entry in KINDS.items() if entry.level == "error"]
        kind = max(kinds, key=lambda kind: len(findings.of(kind)))
        _, meaning, advice = KINDS[kind]
        n = len(findings.of(kind))
        most = "" if n == n_errors else f"{n:,} of them "
        text = f"{errors} scores wrong, {most}{meaning}: {advice}."
        return m.Statement(text, "alarm", evidence=f"{_title(kind)}: {n:,}")
    if not n_labels:
        return m.Statement("Nothing was checked: there are no labels.", "open")
    more = f"; {counted(n_warnings, 'warning', 'warnings')}" if n_warnings else ""
    still = "The label still matches" if n_labels == 1 else f"All {n_labels:,} labels still match"
    return m.Statement(f"{still}{more}.", "open" if more else "best")


def _title(kind: Kind) -> str:
    meaning = KINDS[kind].meaning
    return f"{meaning[0].upper()}{meaning[1:]}"


def _kind_rows(findings: LabelFindings) -> list[m.Row]:
    rows = []
    for kind, (level, meaning, advice) in KINDS.items():
        n, n_checked = findings.counts[kind]
        tone: m.Tone = "quiet" if not n else "alarm" if level == "error" else "open"
        cells = [
            m.Cell(n, "count", tone),
            m.Cell(n_checked, "count", "quiet"),
            m.Cell(level if n else "", tone=tone),
            m.Cell(advice if n else "", tone="quiet"),
        ]
        rows.append(m.Row(meaning, cells))
    return rows


def _coverage_tables(coverage: Coverage) -> list[m.Table]:
    counts: Sequence[Any] = sorted(coverage.labels.values()) or [None]
    documents = coverage.by_document
    asked_about = sum(1 for share in documents.values() if share.labelled)
    overlaps = coverage.overlaps.values()
    cells = {
        "passages with a question": _asked(coverage.total),
        "documents with a question": m.Cell((asked_about, len(documents)), "share"),
        "questions without a label": m.Cell((counts.count(0), len(coverage.labels)), "share"),
        "labels a question, least": m.Cell(counts[0], "count"),
        "labels a question, median": m.Cell(median(counts), "count"),
        "labels a question, most": m.Cell(counts[-1], "count"),
        "question's words in passage": mean_of(
            m.Cell(math.fsum(overlaps) / len(overlaps) if overlaps else None, "score"),
            len(overlaps),
        ),
    }
    rows = [m.Row(label, [cell]) for label, cell in cells.items()]
    tables = [m.Table("Coverage", ("",), [rows], first="")]
    worst = sorted(
        documents.items(),
        key=lambda pair: (pair[1].labelled / pair[1].passages, -pair[1].passages),
    )
    if 1 < len(worst) < coverage.total.passages:
        remark = "the least covered" if len(worst) > _MOST_DOCUMENTS else ""
        tables.append(_shares("By document", "document", dict(worst[:_MOST_DOCUMENTS]), remark))
    by_slice = {f"{key} = {value}": share for (key, value), share in coverage.by_slice.items()}
    if by_slice and len(by_slice) <= _MOST_ON_PAGE:
        tables.append(_shares("By slice", "slice", by_slice))
    return tables


def _shares(title: str, first: str, shares: Mapping[str, Share], remark: str = "") -> m.Table:
    rows = [
        m.Row(name, [_asked(share), m.Cell(share.questions, "count")])
        for name, share in shares.items()
    ]
    head = ("passages with a question", "questions")
    return m.Table(title, head, [rows], first=first, place="detail", remark=remark)


def _asked(share: Share) -> m.Cell:
    return m.Cell((share.labelled, share.passages), "share")


def _listings(findings: LabelFindings, most: int) -> list[m.Listing]:
    questions = findings.questions or {}
    listings = []
    for kind in KINDS:
        remarks = [
            (finding.query_ids[0], questions.get(finding.query_ids[0], ""), _remarks(finding))
            for finding in findings.of(kind)
        ]
        listings.append(m.Listing.of(_title(kind), remarks, most))
    return listings


def _remarks(finding: Finding) -> list[str]:
    """What was found; what a passage that is gone said; of an edited one where it differs."""
    further = len(finding.query_ids) - 1
    remarks = [finding.text]
    if further > 0 and finding.kind not in ("contradicting", "repeated"):
        others = counted(further, "more question", "more questions")
        remarks = [f"{finding.text} (also a label of {others})"]
    if finding.kind == "lost" and finding.old_text:
        remarks.append(f"before: “{excerpt(finding.old_text)}”")
    elif finding.kind == "changed" and finding.old_text and finding.new_text:
        was, now = difference(finding.old_text, finding.new_text)
        remarks += [f"before: “{was}”", f"now: “{now}”"]
    return remarks
