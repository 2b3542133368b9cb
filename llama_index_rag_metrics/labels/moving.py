"""Labels moved to new nodes: by their places in the documents, or else by their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.corpus import Passages, PassagesLike
from llama_index_rag_metrics.labels.labelled import (
    Label,
    answers_in,
    judged,
    labels_by_id,
    labels_of,
)
from llama_index_rag_metrics.labels.likeness import Piece
from llama_index_rag_metrics.labels.locating import By, Fate, Finder, Located
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report.numbers import counted, questions, whole_percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.amounts import check_share

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode

    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.report.model import Report


@dataclass(frozen=True, slots=True, repr=False)
class Move(Sentence):
    """What became of one label: `pieces` are the new ids, `others` nodes with too small a share.

    `score` is the share of its text, or of the answer in it where that is known, that the new nodes
    hold together, in [0, 1]; None if only a hash of the text is known, which no new node has.
    `old_text` is the labelled text, if known.
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
            remark = "its text isn't known, or only by a hash that no node has"
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
            edited) or "lost"; pieces (the new ids, the largest share first), score (the share of
            the text that is left) and how it was found: by "id", "place" or "text".
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

    def report(self, *, full: bool = False) -> Report:
        """A table of what became of the labels, and those to check."""
        from llama_index_rag_metrics.labels.moving_report import moves_report

        return moves_report(self, full=full)


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
    located = {label_id: finder.find(label) for label_id, label in by_id.items()}
    moves = []
    for (query_id, item), label in labels.items():
        answers = answers_in(label, dataset, query_id) if located[label.id].fate != "kept" else ()
        found = [finder.find(replace(label, answer=answer)) for answer in answers]
        of_answers = _together([each for each in found if each.fate != "lost"], len(found))
        moves.append(_move(query_id, item, label, of_answers or located[label.id], threshold))
    notes = _notes(moves, len(dataset.forbidden))
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


def _move(query_id: str, item: str, label: Label, located: Located, threshold: float) -> Move:
    enough = tuple(piece for piece in located.pieces if (piece.share or 0.0) >= threshold)
    pieces = enough or located.pieces
    others = tuple(piece for piece in located.pieces if piece not in pieces)
    fate, score, by, grade = located.fate, located.score, located.by, label.queries[query_id]
    return Move(query_id, item, grade, fate, pieces, others, score, by, label.text or "")


def _relabelled(
    dataset: RetrievalDataset, moves: Sequence[Move], passages: Passages, notes: Sequence[str]
) -> RetrievalDataset:
    by_query = grouped((move.query_id, move) for move in moves)
    relevance = {
        query_id: _new_relevance(old, {move.item: move for move in by_query.get(query_id, ())})
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
    return RetrievalDataset(
        dataset.queries,
        relevance,
        passages.texts,
        dataset.metadata,
        document_metadata=metadata,
        name=dataset.name,
        mode=dataset.mode,
        notes=[*dataset.notes, *notes],
    )


def _new_relevance(old: Relevance, moves: Mapping[str, Move]) -> Relevance:
    grades: dict[str, float] = {}
    for move in moves.values():
        for piece in move.pieces:
            grades[piece.id] = max(move.grade, grades.get(piece.id, move.grade))
    if old.facet_names is not None:
        facets = {
            name: ids
            for name, group in zip(old.facet_names, old.alternatives or (), strict=True)
            if (ids := _ids(group, moves)) or not group
        }
        weighted = dict(zip(old.facet_names, old.weights or (), strict=True))
        weights = {name: weighted[name] for name in facets}
        return Relevance.facets(facets, weights=weights, grades=grades)
    needs = old.alternatives or [(item,) for item in old]
    groups = [ids for group in needs if (ids := _ids(group, moves))]
    is_plain = old.alternatives is None and all(len(ids) == 1 for ids in groups)
    if is_plain and len({ids[0] for ids in groups}) == len(groups):
        return Relevance(grades)
    return Relevance.groups(groups, grades) if groups else Relevance(grades)


def _ids(group: Iterable[str], moves: Mapping[str, Move]) -> list[str]:
    return list(dict.fromkeys(piece.id for item in group for piece in moves[item].pieces))


def _notes(moves: Sequence[Move], n_forbidden: int) -> list[str]:
    fates = Counter(move.fate for move in moves)
    lost = {move.query_id for move in moves if move.fate == "lost"}
    unsure = sum(1 for move in moves if move.score is None)
    n, of = questions(len(lost)), counted(len(moves), "label", "labels")
    forbidden = questions(n_forbidden)
    notes = {
        f"{fates['lost']:,} of {of} lost, of {n}: the text is gone": lost,
        f"{unsure:,} of {of} can't be followed: the text isn't known, or only by a hash, "
        "which finds no edited or split text": unsure,
        f"{fates['changed']:,} of {of} moved to a text that was edited since": fates["changed"],
        f"forbidden ids of {forbidden} aren't moved: give them anew, or forbidden= by "
        "metadata": n_forbidden,
    }
    return [note for note, is_true in notes.items() if is_true]
