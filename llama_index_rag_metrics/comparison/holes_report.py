"""The report of holes in judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from llama_index_rag_metrics.comparison.holes import Holes
from llama_index_rag_metrics.report import Cell, Records, Report, Row, Section, Table

EXPLAINED = (
    "What each mean would be if the unjudged items that it counts had been judged. Bounds hold "
    "whatever the judgements are; the two cases are examples."
)
_HEAD = ("unjudged within k", "as scored", "if not relevant", "if relevant", "")


def holes_report(holes: Sequence[Holes]) -> Report:
    """The report of the holes under some metrics; as a table, one row a metric."""
    table = Table("", _HEAD, [[_row(hole.metric, hole) for hole in holes]])
    rows = [asdict(hole) for hole in holes]
    return Report(
        title="Unjudged items",
        sections=[Section("Unjudged items", [table], EXPLAINED)],
        metrics=[hole.metric for hole in holes],
        records=Records({field.name: [row[field.name] for row in rows] for field in fields(Holes)}),
    )


def hole_tables(by_system: Mapping[str, Sequence[Holes]]) -> list[Table]:
    """One table for all systems with unjudged items within k; none where nobody has any."""
    rows = [
        _row(f"{hole.metric} of {name}", hole)
        for name, holes in by_system.items()
        for hole in holes
        if hole.unjudged
    ]
    return [Table("Unjudged items", _HEAD, [rows], place="detail")] if rows else []


def _row(label: str, holes: Holes) -> Row:
    return Row(
        label,
        [
            Cell((holes.unjudged, holes.retrieved), "share"),
            Cell(holes.mean, "score"),
            Cell(holes.not_relevant, "score"),
            Cell(holes.relevant, "score"),
            Cell("bounds" if holes.bounds else "two cases", tone="quiet"),
        ],
    )
