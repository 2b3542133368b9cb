"""What moving labels came to: the new dataset, and a record of every label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llama_index_rag_metrics.labels.likeness import Piece
from llama_index_rag_metrics.labels.locating import By, Fate
from llama_index_rag_metrics.report.reportable import Reportable

if TYPE_CHECKING:
    from llama_index_rag_metrics.dataset import RetrievalDataset
    from llama_index_rag_metrics.report import Report


@dataclass(frozen=True, slots=True)
class Move:
    """What became of one label of one question.

    Attributes:
        query_id: the question.
        item: the id that it was labelled with.
        grade: its grade, which the new ids keep.
        fate: "kept": its id still has its text; "moved": one node holds it whole; "split": it lies
            over several; "changed": its text was edited; "lost": less than the threshold of it is
            left, and no new id has its label.
        pieces: the new ids, that with the largest share of the label's text first.
        others: nodes with a smaller share, which aren't labelled.
        score: the share of the label's text that the new nodes hold together, in [0, 1]; None where
            the dataset has no more than a hash of the text, and no new node has the whole text.
        by: whether it was found by its "id", its "place" in the document or its "text"; "" if not.
    """

    query_id: str
    item: str
    grade: float
    fate: Fate
    pieces: tuple[Piece, ...] = ()
    others: tuple[Piece, ...] = ()
    score: float | None = 0.0
    by: By = ""

    def __str__(self) -> str:
        if self.fate == "lost":
            left = "its text isn't known, or by a hash that no node has"
            if self.score is not None:
                left = f"{self.score:.0%} of its text is left"
            return f"{self.item!r} is lost: {left}"
        to = ", ".join(map(str, self.pieces))
        return f"{self.item!r} is {self.fate}: {to}"


@dataclass(frozen=True)
class MovedLabels(Reportable):
    """What `move_labels` made.

    Attributes:
        dataset: the dataset with the new ids, whose corpus is the new nodes.
        moves: what became of every label, in the order of the questions.
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
        fates: tuple[Fate, ...] = ("kept", "moved", "split", "changed", "lost")
        return {fate: counts[fate] for fate in fates}

    def of(self, *fates: Fate) -> list[Move]:
        """The labels with these fates."""
        return [move for move in self.moves if move.fate in fates]

    def report(self, *, full: bool = False) -> Report:
        """A table of what became of the labels, and those that deserve a look."""
        from llama_index_rag_metrics.labels.moving.report import moves_report

        return moves_report(self, full=full)
