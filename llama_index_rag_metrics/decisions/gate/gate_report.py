"""The report of a gate: its verdicts, and the queries that count most against a rule."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from llama_index_rag_metrics.report import model as m

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.gate.verdicts import (
        GateReport,
        Outcome,
        Verdict,
        WorstQuery,
    )

_HEAD = ("verdict", "now", "baseline", "difference", "bounds", "queries")
_TONES: dict[Outcome, m.Tone] = {"pass": "best", "fail": "alarm", "inconclusive": "open"}
_MOST_ITEMS = 5


def gate_report(gate: GateReport) -> m.Report:
    name = f" of {gate.name}" if gate.name else ""
    broken = gate.broken(strict=True)
    return m.Report(
        title=f"Retrieval gate{name}",
        outcome=_outcome(gate.outcome),
        decision=[
            m.Statement(
                f"{verdict.outcome}: {verdict.sentence}", _TONES[verdict.outcome], verdict.outcome
            )
            for verdict in broken
        ]
        or [m.Statement("Every rule is kept.")],
        sections=[m.Section("Verdicts", [m.Table("", _HEAD, [[*map(_row, gate)]], first="rule")])],
        listings=[
            m.Listing(
                f"Worst queries by {verdict.metric}",
                [_query(query, gate.name) for query in verdict.worst],
                most=_MOST_ITEMS,
            )
            for verdict in gate.with_worst()
        ],
        notes=gate.notes,
        records=_records(gate),
    )


def _outcome(outcome: Outcome) -> m.Cell:
    return m.Cell(outcome, "outcome", _TONES[outcome])


def _row(verdict: Verdict) -> m.Row:
    rule, limit = verdict.rule, verdict.rule.value
    has_bounds = rule.confidence is not None
    is_count = isinstance(verdict.value, int)
    return m.Row(
        str(rule),
        [
            _outcome(verdict.outcome),
            m.Cell(
                verdict.value if verdict.n or is_count else None,
                "count" if is_count else "score",
                limit=None if rule.baseline else limit,
            ),
            m.Cell(verdict.baseline if verdict.n else None, "score"),
            m.Cell(verdict.difference, "signed", limit=limit),
            m.Cell(
                "signed" if rule.baseline else "score",
                "bounds",
                low=verdict.lower if has_bounds else None,
                high=verdict.upper if has_bounds else None,
                limit=limit,
            ),
            m.Cell(verdict.n, "count"),
        ],
    )


def _query(query: WorstQuery, name: str) -> m.QueryAnswers:
    before = () if query.baseline is None else (query.baseline,)
    answer = m.Answer(
        name or "now",
        m.Cell((*before, query.score), "change"),
        [m.ReportedItem(item, None) for item in query.got] or None,
        query.error or None,
    )
    wanted = [[m.Item(item, 1.0)] for item in query.wanted]
    leaked = [f"forbidden: {item}, at rank {rank}" for rank, item in query.leaked]
    return m.QueryAnswers(query.query_id, query.question, wanted, [answer], leaked)


def _records(gate: GateReport) -> m.Records:
    rows = [{**asdict(verdict), "rule": str(verdict.rule)} for verdict in gate]
    columns = [name for name in (rows[0] if rows else {}) if name != "worst"]
    return m.Records.of(rows, columns)
