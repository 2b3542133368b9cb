"""Labels moved to new nodes: by their places in the documents, or else by their texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from llama_index.core.schema import BaseNode

from llama_index_rag_metrics.evaluation.passages import Passages, PassagesLike
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import excerpt
from llama_index_rag_metrics.report.numbers import counted, questions, whole_percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.errors import check_share

from .finding import By, Fate, Finder, Piece, judged, labels_of

_MEANINGS: Mapping[Fate, str] = {
    "kept": "the same id and text",
    "moved": "whole in one node",
    "split": "over several, a group",
    "changed": "its text was edited",
    "lost": "text not found, label dropped",
}
_TONES: Mapping[Fate, m.Tone] = {"changed": "open", "lost": "alarm"}
_MOST_SHOWN, _MOST_ON_PAGE = 5, 500


@dataclass(frozen=True, slots=True, repr=False)
class Move(Sentence):
    """What became of one label: `pieces` are the new ids, `others` nodes with too small a share.

    `score` is the share of its text that the new nodes hold together, in [0, 1].
    """

    query_id: str
    item: str
    grade: float
    fate: Fate
    pieces: tuple[Piece, ...]
    others: tuple[Piece, ...]
    score: float
    by: By
    old_text: str  # "" if it isn't known

    def __str__(self) -> str:
        remark = ", ".join(map(str, self.pieces))
        if self.fate == "lost":
            remark = f"{whole_percent(self.score)} of its text is left"
            if not self.old_text:
                remark = "its text isn't known"
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
    """

    dataset: RetrievalDataset
    moves: Sequence[Move]
    notes: Sequence[str] = ()

    @property
    def counts(self) -> dict[Fate, int]:
        """How many labels are kept, moved, split, changed and lost."""
        return {fate: len(self.of(fate)) for fate in get_args(Fate)}

    def of(self, *fates: Fate) -> list[Move]:
        """The labels with these fates."""
        return [move for move in self.moves if move.fate in fates]

    def report(self, *, full: bool = False) -> m.Report:
        """A table of what became of the labels, and those to check."""
        return _report(self, _MOST_ON_PAGE if full else _MOST_SHOWN)


def move_labels(
    dataset: RetrievalDataset,
    new_nodes: PassagesLike,
    *,
    old_nodes: Iterable[BaseNode] = (),
    threshold: float = 0.5,
) -> MovedLabels:
    """Move labels to new nodes, after documents were split or ingested again.

    A label goes to every node that holds at least `threshold` of its text: by its place in the
    document where that is known and the texts agree there, or else by its text. Where none holds
    that much, it goes to several that do together. Several new ids of one label become a group of
    alternatives, any of which meets the need. Where the dataset knows which part of a passage
    answers the question, by the place of its label (`Relevance(ids, spans=...)`) or by one of the
    expected texts, that part decides. Grades are kept; of several labels in one node, the best
    grade counts. Lost labels are dropped, and listed.

    Args:
        dataset: the labels. Places are from `Relevance(spans=...)`, `old_nodes`, or the metadata
            "ref_doc_id", "start_char_idx" and "end_char_idx" of its documents; texts from its
            corpus, its expected texts, or `old_nodes`.
        new_nodes: what can be retrieved now; as `check_labels` takes it.
        old_nodes: the labelled nodes, if the dataset doesn't have them.
        threshold: the share of a label's text from which a node holds it, in (0, 1].

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
    labels = labels_of(dataset, old_nodes)
    finder = Finder(passages, labels.values(), threshold)
    moves: list[Move] = []
    relevance: dict[str, Relevance] = {}
    for query_id in dataset.queries:
        old = judged(dataset, query_id)
        if old is None:
            continue
        question_moves = []
        for item, grade in old.grades.items():
            label = labels[query_id, item]
            found_label = finder.find(label)
            pieces = tuple(piece for piece in found_label.pieces if piece.share >= threshold)
            pieces = pieces or found_label.pieces
            small_pieces = tuple(piece for piece in found_label.pieces if piece not in pieces)
            outcome = found_label.fate, pieces, small_pieces, found_label.score, found_label.by
            question_moves.append(Move(query_id, item, grade, *outcome, label.text))
        moves += question_moves
        relevance[query_id] = _relabelled(old, question_moves)
    notes = _notes(moves)
    moved = RetrievalDataset(
        dataset.queries,
        relevance,
        passages.texts,
        dataset.metadata,
        name=dataset.name,
        document_metadata=_stored_places(passages),
        notes=[*dataset.notes, *notes],
    )
    return MovedLabels(moved, moves, notes)


def _stored_places(passages: Passages) -> dict[str, dict[str, Any]]:
    """The places of nodes, as `SpanMatcher` and the next move read them."""
    metadata: dict[str, dict[str, Any]] = {}
    for passage_id in passages.texts:
        place = passages.places.get(passage_id)
        metadata[passage_id] = {}
        if place is not None and place.source != passage_id:
            ends = {"start_char_idx": place.start, "end_char_idx": place.end}
            metadata[passage_id] = {"ref_doc_id": place.source, **ends}
    return metadata


def _relabelled(old: Relevance, moves: Sequence[Move]) -> Relevance:
    new_ids: dict[str, list[str]] = {}
    grades: dict[str, float] = {}
    for move in moves:
        new_ids[move.item] = [piece.id for piece in move.pieces]
        for new_id in new_ids[move.item]:
            grades[new_id] = max(move.grade, grades.get(new_id, move.grade))
    needs = old.alternatives or [(item,) for item in old]
    groups: list[list[str]] = []
    for need in needs:
        group: dict[str, None] = {}
        for item in need:
            group.update(dict.fromkeys(new_ids[item]))
        groups.append(list(group))
    if old.facet_names is not None:
        facets = dict(zip(old.facet_names, groups, strict=True))
        weights = dict(zip(old.facet_names, old.weights or (), strict=True))
        for name, need in zip(old.facet_names, needs, strict=True):
            if need and not facets[name]:  # one that nothing met before stays
                del facets[name], weights[name]
        return Relevance(facets=facets, weights=weights, grades=grades)
    groups = [ids for ids in groups if ids]
    n_single = len({ids[0] for ids in groups if len(ids) == 1})
    if not groups or (old.alternatives is None and n_single == len(groups)):
        return Relevance(grades)
    return Relevance(grades, groups=groups)


def _notes(moves: Sequence[Move]) -> list[str]:
    fates = Counter(move.fate for move in moves)
    n_questions = len({move.query_id for move in moves if move.fate == "lost"})
    labels = counted(len(moves), "label", "labels")
    notes = []
    if fates["lost"]:
        notes.append(f"{fates['lost']:,} of {labels} lost, of {questions(n_questions)}")
    if fates["changed"]:
        notes.append(f"{fates['changed']:,} of {labels} moved to a text that was edited since")
    return notes


def _report(moved: MovedLabels, n_listed: int) -> m.Report:
    rows = []
    remarks: defaultdict[Fate, list[tuple[str, str, list[str]]]] = defaultdict(list)
    for fate, n in moved.counts.items():
        tone = _TONES.get(fate, "normal") if n else "quiet"
        share = m.Cell((n, len(moved.moves)), "share", tone)
        rows.append(m.Row(f"{fate}: {_MEANINGS[fate]}", [share]))
        for move in moved.of(fate):
            lines = [str(move)]
            if fate == "lost" and move.old_text:
                lines.append(f"before: “{excerpt(move.old_text)}”")
            remarks[fate].append((move.query_id, moved.dataset.queries[move.query_id], lines))
    nodes = counted(len(moved.dataset.corpus), "node", "nodes")
    name = f" of {moved.dataset.name}" if moved.dataset.name else ""
    names = ("query_id", "item", "grade", "fate", "score", "by")
    new_ids: list[list[str]] = []
    shares: list[list[float]] = []
    small_ids: list[list[str]] = []
    for move in moved.moves:
        new_ids.append([piece.id for piece in move.pieces])
        shares.append([piece.share for piece in move.pieces])
        small_ids.append([piece.id for piece in move.others])
    columns = dict(m.Records.of_fields(moved.moves, names).columns)
    columns |= {"new_ids": new_ids, "shares": shares, "others": small_ids}
    return m.Report(
        title=f"Labels moved{name}",
        lead=f"{counted(len(moved.moves), 'label', 'labels')}, {nodes}",
        decision=[_decision(moved)],
        sections=[m.Section("Labels", [m.Table("", ("labels",), [rows], first="label")])],
        listings=[
            m.Listing.of("Lost", remarks["lost"], n_listed),
            m.Listing.of("Changed", remarks["changed"], n_listed),
            m.Listing.of("Split", remarks["split"], n_listed, on_request=True),
        ],
        notes=list(moved.notes),
        records=m.Records(columns),
    )


def _decision(moved: MovedLabels) -> m.Statement:
    n_lost, n_changed = moved.counts["lost"], moved.counts["changed"]
    if n_lost:
        labels = counted(n_lost, "label is", "labels are")
        text = f"{labels} lost: label these questions anew."
        return m.Statement(text, "alarm", evidence=f"Lost: {n_lost:,}")
    if n_changed:
        texts = counted(n_changed, "text was", "texts were")
        text = f"Every label has a new place; {texts} edited: look at them again."
        return m.Statement(text, "open", evidence=f"Changed: {n_changed:,}")
    if not moved.moves:
        return m.Statement("Nothing was moved: there are no labels.", "open")
    return m.Statement("Every label has a new place.", "best", evidence="Labels")
