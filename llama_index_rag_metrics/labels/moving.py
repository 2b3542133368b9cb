"""Labels moved to new nodes: by their places in the documents, or else by their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from llama_index.core.schema import BaseNode

from llama_index_rag_metrics.evaluation.passages import Passages, PassagesLike
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.likeness import Piece
from llama_index_rag_metrics.labels.locating import (
    By,
    Fate,
    Finder,
    Located,
    answers_in,
    judged,
    labels_by_id,
    labels_of,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import excerpt
from llama_index_rag_metrics.report.numbers import counted, questions, whole_percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.amounts import check_share


@dataclass(frozen=True, slots=True, repr=False)
class Move(Sentence):
    """What became of one label: `pieces` are the new ids, `others` nodes with too small a share.

    `score` is the share of its text, or of the answer in it, that the new nodes hold together, in
    [0, 1]; None if its text isn't known.
    """

    query_id: str
    item: str
    grade: float
    fate: Fate
    pieces: tuple[Piece, ...] = ()
    others: tuple[Piece, ...] = ()
    score: float | None = 0.0
    by: By = ""
    old_text: str = ""

    def __str__(self) -> str:
        remark = ", ".join(map(str, self.pieces))
        if self.fate == "lost":
            remark = "its text isn't known"
            if self.score is not None:
                remark = f"{whole_percent(self.score)} of its text is left"
        return f"{self.item!r} is {self.fate}: {remark}"


@dataclass(frozen=True, repr=False)
class MovedLabels(Reportable):
    """The result of `move_labels`.

    Attributes:
        dataset: the dataset with the new ids, whose corpus is the new nodes.
        moves: what became of every label, by question: query_id, item, grade; the fate: "kept" (its
            id has its text), "moved" (one node holds it), "split" (several do), "changed" (it was
            edited) or "lost"; pieces (the new ids, the largest share first), score and how it was
            found: by "id", "place" or "text".
        notes: what a user of the new labels should know.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset, move_labels
        >>> dataset = RetrievalDataset({"q1": "Which moon?"}, {"q1": ["d1"]}, {"d1": "Enceladus."})
        >>> moved = move_labels(dataset, {"n7": "Enceladus."})
        >>> moved.counts["moved"], len(moved.of("lost"))
        (1, 0)
    """

    dataset: RetrievalDataset
    moves: Sequence[Move]
    notes: Sequence[str] = ()

    @property
    def counts(self) -> dict[Fate, int]:
        """How many labels are kept, moved, split, changed and lost."""
        counts = Counter(move.fate for move in self.moves)
        return {fate: counts[fate] for fate in get_args(Fate)}

    def of(self, *fates: Fate) -> list[Move]:
        """The labels with these fates."""
        return [move for move in self.moves if move.fate in fates]

    def report(self, *, full: bool = False) -> m.Report:
        """A table of what became of the labels, and those to check."""
        return _moves_report(self, _MOST_ON_PAGE if full else _MOST_SHOWN)


def move_labels(
    dataset: RetrievalDataset,
    new_nodes: PassagesLike,
    *,
    old_nodes: Iterable[BaseNode] = (),
    threshold: float = 0.5,
) -> MovedLabels:
    """Move labels to new nodes, after documents were split or ingested again.

    A label goes to every node that holds at least `threshold` of its text: by its place in the
    document where that is known and the texts agree there, or else by its text. Where the dataset
    knows which part of a passage answers the question, by the place of its label
    (`Relevance.with_spans`) or its expected texts, that part decides. Where none holds
    that much, it goes to several that do together. Several new ids of one label become a group of
    alternatives, any of which meets the need: so metrics of groups score as `matcher="span"` does.
    Grades are kept; of several labels in one node, the best grade counts. Lost labels are dropped,
    and listed.

    Args:
        dataset: the labels. Places are from `Relevance.of_spans`, `old_nodes`, or the metadata
            "ref_doc_id", "start_char_idx" and "end_char_idx" of its documents; texts from its
            corpus, its expected texts, or `old_nodes`.
        new_nodes: what can be retrieved now; as `check_labels` takes it.
        old_nodes: the labelled nodes, if the dataset doesn't have them.
        threshold: the share of a label's text from which a node holds it, as of `SpanMatcher`, in
            (0, 1].

    Raises:
        InvalidInput: `new_nodes` is of another kind, or the threshold is out of range.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset(
        ...     {"q1": "Which moon has geysers?"}, {"q1": ["d1"]}, {"d1": "Enceladus has geysers."}
        ... )
        >>> moved = move_labels(dataset, {"n7": "Saturn has moons. Enceladus has geysers."})
        >>> moved.dataset.relevance["q1"], moved.counts["moved"]
        (Relevance(['n7']), 1)
    """
    check_share("threshold", threshold)
    passages = Passages.of(new_nodes)
    labels = labels_of(dataset, tuple(old_nodes))
    by_id = labels_by_id(labels)
    finder = Finder(passages, by_id.values(), threshold)
    by_label = {label_id: finder.find(label) for label_id, label in by_id.items()}
    moves = []
    for (query_id, item), label in labels.items():
        located = by_label[label.id]
        answers = answers_in(label, dataset, query_id) if located.fate != "kept" else ()
        found = [finder.find(replace(label, answer=answer)) for answer in answers]
        located = _together([each for each in found if each.fate != "lost"], len(found)) or located
        enough = tuple(piece for piece in located.pieces if (piece.share or 0.0) >= threshold)
        pieces = enough or located.pieces
        others = tuple(piece for piece in located.pieces if piece not in pieces)
        became = located.fate, pieces, others, located.score, located.by
        moves.append(Move(query_id, item, label.queries[query_id], *became, label.text or ""))
    notes = _notes(moves)
    return MovedLabels(_relabelled(dataset, moves, passages, notes), moves, notes)


def _together(found: Sequence[Located], n: int) -> Located | None:
    """What became of a passage with several answers, of which these are left; None for none."""
    if not found or len(found) == n == 1:
        return found[0] if found else None
    shares: dict[str, float] = {}
    for piece in (piece for each in found for piece in each.pieces):
        shares[piece.id] = max(piece.share or 0.0, shares.get(piece.id, 0.0))
    pieces = tuple(Piece(*item) for item in sorted(shares.items(), key=lambda item: -item[1]))
    score = sum(each.score or 0.0 for each in found) / n
    fate: Fate = "moved" if len(pieces) == 1 else "split"
    if len(found) < n or any(each.fate == "changed" for each in found):
        fate = "changed"
    return Located(fate, score, pieces, found[0].by)


def _relabelled(
    dataset: RetrievalDataset, moves: Sequence[Move], passages: Passages, notes: Sequence[str]
) -> RetrievalDataset:
    by_query = grouped((move.query_id, move) for move in moves)
    relevance = {
        query_id: _new_relevance(old, by_query.get(query_id, ()))
        for query_id in dataset.queries
        if (old := judged(dataset, query_id)) is not None
    }
    # the place of a node, as `SpanMatcher` and the next move read it
    metadata: dict[str, dict[str, Any]] = {
        key: {"ref_doc_id": place.source, "start_char_idx": place.start, "end_char_idx": place.end}
        if (place := passages.places.get(key)) is not None and place.source != key
        else {}
        for key in passages.texts
    }
    about: dict[str, Any] = {"name": dataset.name}
    about |= {"document_metadata": metadata, "notes": [*dataset.notes, *notes]}
    labels = dataset.queries, relevance, passages.texts, dataset.metadata
    return RetrievalDataset(*labels, **about)


def _new_relevance(old: Relevance, moves: Sequence[Move]) -> Relevance:
    pieces = {move.item: [piece.id for piece in move.pieces] for move in moves}
    grades: dict[str, float] = {}
    for move in moves:
        for item in pieces[move.item]:
            grades[item] = max(move.grade, grades.get(item, move.grade))
    needs = old.alternatives or [(item,) for item in old]
    groups = [list(dict.fromkeys(new for item in need for new in pieces[item])) for need in needs]
    if old.facet_names is not None:
        # a facet that nothing met before stays
        kept = [place for place, ids in enumerate(groups) if ids or not needs[place]]
        facets = {old.facet_names[place]: groups[place] for place in kept}
        weights = dict(zip(old.facet_names, old.weights or (), strict=True))
        weights = {name: weights[name] for name in facets}
        return Relevance.facets(facets, weights=weights, grades=grades)
    groups = [ids for ids in groups if ids]
    is_plain = old.alternatives is None and all(len(ids) == 1 for ids in groups)
    if not groups or (is_plain and len({ids[0] for ids in groups}) == len(groups)):
        return Relevance(grades)
    return Relevance.groups(groups, grades)


def _notes(moves: Sequence[Move]) -> list[str]:
    fates = Counter(move.fate for move in moves)
    lost = {move.query_id for move in moves if move.fate == "lost"}
    unsure = sum(1 for move in moves if move.score is None)
    n, of = questions(len(lost)), counted(len(moves), "label", "labels")
    notes = {
        f"{fates['lost']:,} of {of} lost, of {n}: the text is gone": lost,
        f"{unsure:,} of {of} can't be followed: the text isn't known": unsure,
        f"{fates['changed']:,} of {of} moved to a text that was edited since": fates["changed"],
    }
    return [note for note, is_true in notes.items() if is_true]


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


def _moves_report(moved: MovedLabels, most: int) -> m.Report:
    moves, queries, n_lost = moved.moves, moved.dataset.queries, moved.counts["lost"]
    name = f" of {moved.dataset.name}" if moved.dataset.name else ""
    outcome = "labels are lost" if n_lost else "all labels are there"
    head = ("labels", *(f"by {by}" for by in _FOUND_BY), "text left")
    rows = [_row(fate, moved.of(fate), len(moves)) for fate in _MEANINGS]
    nodes = counted(len(moved.dataset.corpus), "node", "nodes")
    fates: tuple[Fate, ...] = ("lost", "changed", "split")
    remarks = [(move.query_id, queries[move.query_id], _remarks(move)) for move in moves]
    by_fate = grouped(zip((move.fate for move in moves), remarks, strict=True))
    return m.Report(
        title=f"Labels moved{name}",
        lead=f"{counted(len(moves), 'label', 'labels')}, {nodes}",
        outcome=m.Cell(outcome, "outcome", "alarm" if n_lost else "best"),
        decision=[_decision(moved)],
        sections=[m.Section("Labels", [m.Table("", head, [rows], first="label")])],
        listings=[
            m.Listing.of(fate.capitalize(), by_fate.get(fate, ()), most, on_request=fate == "split")
            for fate in fates
        ],
        notes=list(moved.notes),
        records=m.Records.of([_record(move) for move in moves], _FIELDS),
    )


def _remarks(move: Move) -> list[str]:
    said = f"before: “{excerpt(move.old_text)}”"
    return [str(move), said] if move.fate == "lost" and move.old_text else [str(move)]


def _record(move: Move) -> dict[str, Any]:
    new_ids, shares = zip(*move.pieces, strict=True) if move.pieces else ((), ())
    others = [piece.id for piece in move.others]
    return {**asdict(move), "new_ids": [*new_ids], "shares": [*shares], "others": others}


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
