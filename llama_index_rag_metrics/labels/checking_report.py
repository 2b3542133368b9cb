"""The report of a check of labels: a table of all kinds, coverage, and examples of each kind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from llama_index_rag_metrics.labels import grouped
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

_ERRORS, _FINE = m.Cell("errors", "outcome", "alarm"), m.Cell("fine", "outcome", "best")
_EMPTY = [m.Cell("", tone="quiet")] * 2
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_MOST_DOCUMENTS = 10
_FIELDS = ("kind", "level", "id", "query_ids", "others", "score", "text")


def findings_report(findings: LabelFindings, *, full: bool = False) -> m.Report:
    labels, asked = findings.coverage.labels, findings.questions or {}
    remarks = [
        (first, asked.get(first, ""), _remarks(finding))
        for finding in findings.findings
        for first in finding.query_ids[:1]
    ]
    by_kind = grouped(zip((finding.kind for finding in findings.findings), remarks, strict=True))
    most = _MOST_ON_PAGE if full else _MOST_SHOWN
    outcome = m.Cell("warnings", "outcome", "open") if len(findings) else _FINE
    head = ("found", "of", "level", "what to do")
    table = m.Table("", head, [_kind_rows(findings)], first="")
    return m.Report(
        title=f"Labels of {findings.name}" if findings.name else "Labels",
        lead=f"{questions(len(labels))}, {counted(sum(labels.values()), 'label', 'labels')}",
        outcome=_ERRORS if findings.errors else outcome,
        decision=[_decision(findings)],
        sections=[
            m.Section("Labels", [table]),
            m.Section("Coverage", _coverage_tables(findings.coverage)),
        ],
        listings=[m.Listing.of(_title(kind), by_kind.get(kind, ()), most) for kind in KINDS],
        notes=list(findings.notes),
        records=m.Records.of_fields(findings.findings, _FIELDS),
    )


def _decision(findings: LabelFindings) -> m.Statement:
    n_errors, n_labels = len(findings.errors), sum(findings.coverage.labels.values())
    if n_errors:
        errors = counted(n_errors, "error makes", "errors make")
        # errors come in the order of kinds
        ((kind, n),) = Counter(finding.kind for finding in findings.errors).most_common(1)
        most = "" if n == n_errors else f"{n:,} of them "
        text = f"{errors} scores wrong, {most}{KINDS[kind].meaning}: {KINDS[kind].advice}."
        return m.Statement(text, "alarm", evidence=f"{_title(kind)}: {n:,}")
    if not n_labels:
        return m.Statement("Nothing was checked: there are no labels.", "open")
    more = f"; {counted(len(findings), 'warning', 'warnings')}" if len(findings) else ""
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
        counts = [m.Cell(n, "count", tone), m.Cell(n_checked, "count", "quiet")]
        texts = [m.Cell(level, tone=tone), m.Cell(advice, tone="quiet")]
        rows.append(m.Row(meaning, [*counts, *(texts if n else _EMPTY)]))
    return rows


def _coverage_tables(coverage: Coverage) -> list[m.Table]:
    counts: Sequence[Any] = sorted(coverage.labels.values()) or [None]
    documents, overlaps = coverage.by_document, coverage.overlaps.values()
    asked_about = sum(1 for share in documents.values() if share.labelled)
    overlap = math.fsum(overlaps) / len(overlaps) if overlaps else None
    cells = {
        "passages with a question": _asked(coverage.total),
        "documents with a question": m.Cell((asked_about, len(documents)), "share"),
        "questions without a label": m.Cell((counts.count(0), len(coverage.labels)), "share"),
        "labels a question, least": m.Cell(counts[0], "count"),
        "labels a question, median": m.Cell(median(counts), "count"),
        "labels a question, most": m.Cell(counts[-1], "count"),
        "question's words in passage": mean_of(m.Cell(overlap, "score"), len(overlaps)),
    }
    rows = [m.Row(label, [cell]) for label, cell in cells.items()]
    tables = [m.Table("Coverage", ("",), [rows], first="")]
    worst = sorted(documents.items(), key=lambda each: (each[1].share, -each[1].passages))
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


def _remarks(finding: Finding) -> list[str]:
    others = counted(len(finding.query_ids) - 1, "more question", "more questions")
    is_of_several = len(finding.query_ids) > 1 and finding.id
    remarks = [f"{finding.text} (also a label of {others})" if is_of_several else finding.text]
    if finding.kind == "lost" and finding.old_text:
        remarks.append(f"before: “{excerpt(finding.old_text)}”")
    elif finding.kind == "changed" and finding.old_text and finding.new_text:
        was, now = difference(finding.old_text, finding.new_text)
        remarks += [f"before: “{was}”", f"now: “{now}”"]
    return remarks
