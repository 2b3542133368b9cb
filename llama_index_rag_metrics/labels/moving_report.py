"""The report of moved labels: what became of them, and those to check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from llama_index_rag_metrics.labels.locating import By, Fate
from llama_index_rag_metrics.labels.moving import Move, MovedLabels
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import excerpt
from llama_index_rag_metrics.report.numbers import counted, whole_percent

_MEANINGS: Mapping[Fate, str] = {
    "kept": "the same id and text",
    "moved": "whole in one node",
    "split": "over several, a group",
    "changed": "its text was edited",
    "lost": "text not found, label dropped",
}
_TONES: Mapping[Fate, m.Tone] = {"changed": "open", "lost": "alarm"}
_FOUND_BY: tuple[By, ...] = ("id", "place", "text")
_FIELDS = ("query_id", "item", "grade", "fate", "new_ids", "shares", "others", "score", "by")
_MOST_SHOWN, _MOST_ON_PAGE = 5, 500


def moves_report(moved: MovedLabels, *, full: bool = False) -> m.Report:
    moves, queries, n_lost = moved.moves, moved.dataset.queries, moved.counts["lost"]
    name = f" of {moved.dataset.name}" if moved.dataset.name else ""
    outcome = "labels are lost" if n_lost else "all labels are there"
    head = ("labels", *(f"by {by}" for by in _FOUND_BY), "text left")
    rows = [_row(fate, moved.of(fate), len(moves)) for fate in _MEANINGS]
    nodes = counted(len(moved.dataset.corpus), "node", "nodes")
    fates: tuple[Fate, ...] = ("lost", "changed", "split")
    return m.Report(
        title=f"Labels moved{name}",
        lead=f"{counted(len(moves), 'label', 'labels')}, {nodes}",
        outcome=m.Cell(outcome, "outcome", "alarm" if n_lost else "best"),
        decision=[_decision(moved)],
        sections=[m.Section("Labels", [m.Table("", head, [rows], first="label")])],
        listings=[
            m.Listing.of(
                fate.capitalize(),
                [
                    (move.query_id, queries[move.query_id], _remarks(move))
                    for move in moved.of(fate)
                ],
                _MOST_ON_PAGE if full else _MOST_SHOWN,
                on_request=fate == "split",
            )
            for fate in fates
        ],
        notes=list(moved.notes),
        records=m.Records.of([_record(move) for move in moves], _FIELDS),
    )


def _remarks(move: Move) -> list[str]:
    said = f"before: “{excerpt(move.old_text)}”"
    return [str(move), said] if move.fate == "lost" and move.old_text else [str(move)]


def _record(move: Move) -> dict[str, Any]:
    new_ids, shares = [piece.id for piece in move.pieces], [piece.share for piece in move.pieces]
    others = [piece.id for piece in move.others]
    return {**asdict(move), "new_ids": new_ids, "shares": shares, "others": others}


def _decision(moved: MovedLabels) -> m.Statement:
    if not moved.moves:
        return m.Statement("Nothing was moved: there are no labels.", "open")
    lost, changed = moved.of("lost"), moved.of("changed")
    if not lost:
        edited = counted(len(changed), "text was", "texts were")
        more = f"; {edited} edited: look at them again" if changed else ""
        listing = f"Changed: {len(changed):,}" if changed else "Labels"
        text = f"Every label has a new place{more}."
        return m.Statement(text, "open" if changed else "best", evidence=listing)
    empty = {move.query_id for move in lost if not moved.dataset.relevance.get(move.query_id)}
    more = f"; {counted(len(empty), 'question has', 'questions have')} none left" if empty else ""
    text = f"{counted(len(lost), 'label is', 'labels are')} lost{more}: label these questions anew."
    return m.Statement(text, "alarm", evidence=f"Lost: {len(lost):,}")


def _row(fate: Fate, moves: Sequence[Move], n: int) -> m.Row:
    tone = _TONES.get(fate, "normal") if moves else "quiet"
    known = [move.score for move in moves if move.score is not None]
    found_by = [move.by for move in moves]
    cells = [
        m.Cell((len(moves), n), "share", tone),
        *(m.Cell(found_by.count(by), "count", "quiet") for by in _FOUND_BY),
        m.Cell(whole_percent(sum(known) / len(known)) if known else None, tone="quiet"),
    ]
    return m.Row(f"{fate}: {_MEANINGS[fate]}", cells)
