"""The report of moved labels: what became of them, and those that deserve a look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index_rag_metrics.labels.locating import Fate
from llama_index_rag_metrics.labels.moving import Move, MovedLabels
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

_MEANINGS: Mapping[Fate, str] = {
    "kept": "the same id and text",
    "moved": "whole in one node",
    "split": "over several, a group",
    "changed": "its text was edited",
    "lost": "no text, no label",
}
_TONES: Mapping[Fate, Tone] = {"changed": "open", "lost": "alarm"}
_WAYS = ("id", "place", "text")
_MOST_SHOWN, _MOST_ON_PAGE = 5, 500


def moves_report(moved: MovedLabels, *, full: bool = False) -> Report:
    n, n_lost = len(moved.moves), moved.counts["lost"]
    name = f" of {moved.dataset.name}" if moved.dataset.name else ""
    outcome = "labels are lost" if n_lost else "all labels are there"
    rows = [_row(fate, moved.of(fate), n) for fate in _MEANINGS]
    table = Table(
        "", ("labels", *(f"by {way}" for way in _WAYS), "text left"), [rows], first="label"
    )
    most = _MOST_ON_PAGE if full else _MOST_SHOWN
    nodes = counted(len(moved.dataset.corpus), "node", "nodes")
    return Report(
        title=f"Labels moved{name}",
        lead=f"{counted(n, 'label', 'labels')}, {nodes}",
        outcome=Cell(outcome, "outcome", "alarm" if n_lost else "best"),
        decision=[_decision(moved)],
        sections=[Section("Labels", [table])],
        listings=[
            _listing(moved, fate, most) for fate in ("lost", "changed", "split") if moved.of(fate)
        ],
        notes=list(moved.notes),
        records=_records(moved.moves),
    )


def _decision(moved: MovedLabels) -> Statement:
    lost = moved.of("lost")
    if not lost:
        return Statement("Every label has a new place.")
    empty = {move.query_id for move in lost if not moved.dataset.relevance.get(move.query_id)}
    more = f"; {counted(len(empty))} have none left" if empty else ""
    return Statement(f"{counted(len(lost), 'label is', 'labels are')} lost{more}.", "alarm")


def _row(fate: Fate, moves: Sequence[Move], n: int) -> Row:
    tone = _TONES.get(fate, "normal") if moves else "quiet"
    known = [move.score for move in moves if move.score is not None]
    mean = sum(known) / len(known) if known else None
    return Row(
        f"{fate}: {_MEANINGS[fate]}",
        [
            Cell((len(moves), n), "share", tone),
            *(Cell(sum(1 for move in moves if move.by == way), "count", "quiet") for way in _WAYS),
            Cell(mean, "score"),
        ],
    )


def _listing(moved: MovedLabels, fate: Fate, most: int) -> Listing:
    moves = moved.of(fate)
    shown = [
        QueryAnswers(move.query_id, moved.dataset.queries[move.query_id], remarks=[str(move)])
        for move in moves[:most]
    ]
    return Listing.of(fate.capitalize(), shown, len(moves), on_request=fate == "split")


def _records(moves: Sequence[Move]) -> Records:
    return Records(
        {
            "query_id": [move.query_id for move in moves],
            "item": [move.item for move in moves],
            "grade": [move.grade for move in moves],
            "fate": [move.fate for move in moves],
            "new_ids": [[piece.id for piece in move.pieces] for move in moves],
            "shares": [[piece.share for piece in move.pieces] for move in moves],
            "others": [[piece.id for piece in move.others] for move in moves],
            "score": [move.score for move in moves],
            "by": [move.by for move in moves],
        }
    )
