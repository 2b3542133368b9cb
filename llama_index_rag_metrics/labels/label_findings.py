"""What a check of labels finds: one kind a question that one would ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.report.reportable import Reportable

if TYPE_CHECKING:
    from llama_index_rag_metrics.report import Report

Kind: TypeAlias = Literal[
    "lost",
    "moved",
    "split",
    "changed",
    "contradicting",
    "duplicates",
    "unlabelled",
    "repeated",
    "giveaway",
]
Level: TypeAlias = Literal["error", "warning"]


class KindEntry(NamedTuple):
    """What a kind of finding is: an error makes scores wrong, a warning may."""

    level: Level
    meaning: str
    advice: str


KINDS: Mapping[Kind, KindEntry] = {
    "lost": KindEntry("error", "passages that are gone", "label these questions anew"),
    "moved": KindEntry("error", "passages under another id", "move the labels"),
    "split": KindEntry("error", "passages split over several", "move the labels"),
    "changed": KindEntry("error", "passages whose text changed", "look at them again"),
    "contradicting": KindEntry(
        "error", "contradicting questions", "keep one, with the labels of both"
    ),
    "duplicates": KindEntry(
        "warning", "labels that are alike", "make them a group of alternatives"
    ),
    "unlabelled": KindEntry(
        "warning", "unlabelled near-duplicates", "label the near-duplicates, too"
    ),
    "repeated": KindEntry("warning", "questions that stand twice", "keep one"),
    "giveaway": KindEntry("warning", "questions that give it away", "ask in other words"),
}
"""Every kind, in the order of reports."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that deserves a look.

    Attributes:
        kind: what it is; `KINDS` explains it.
        id: the labelled passage; "" where it is about questions alone.
        query_ids: the questions concerned.
        others: other passages concerned: where the text is now, near-duplicates, what two questions
            disagree about.
        score: the share of the passage's text that is still there, the likeness of the nearest
            duplicate, or the overlap of question and passage, in [0, 1]; None where there is none.
        text: what was found, a sentence.
    """

    kind: Kind
    id: str = ""
    query_ids: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    score: float | None = None
    text: str = ""

    @property
    def level(self) -> Level:
        return KINDS[self.kind].level


@dataclass(frozen=True, slots=True)
class Share:
    """How many passages are relevant to a question, of how many; and to how many questions."""

    labelled: int
    passages: int
    questions: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is asked about, and what isn't.

    Attributes:
        total: over all passages.
        by_document: document id to its share.
        by_slice: (key, value) of the questions' metadata to what the slice's questions ask about.
        labels: query id to how many relevant passages it has; 0 for one that is unjudged.
        overlaps: query id to the share of its words, weighted by how rare they are, that stand in
            a relevant passage, in [0, 1].
    """

    total: Share
    by_document: Mapping[str, Share]
    by_slice: Mapping[tuple[str, str], Share]
    labels: Mapping[str, int]
    overlaps: Mapping[str, float]


@dataclass(frozen=True)
class LabelFindings(Reportable):
    """What `check_labels` found.

    Attributes:
        findings: everything that deserves a look, the errors first.
        counts: kind to how many of what it is about (labelled passages, or questions) have it, and
            of how many.
        coverage: what is asked about, and what isn't.
        notes: what a reader of the numbers should know.
        questions: the text of each question.
        name: the name of the dataset.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset, check_labels
        >>> dataset = RetrievalDataset({"q1": "Which moon?"}, {"q1": ["d1"]}, {"d1": "Enceladus."})
        >>> findings = check_labels(dataset, {"n7": "Enceladus."})
        >>> findings.counts["moved"], [finding.id for finding in findings.of("moved")]
        ((1, 1), ['d1'])
    """

    findings: Sequence[Finding]
    counts: Mapping[Kind, tuple[int, int]]
    coverage: Coverage
    notes: Sequence[str] = ()
    questions: Mapping[str, str] | None = None
    name: str = ""

    @property
    def errors(self) -> list[Finding]:
        """The findings that make scores wrong."""
        return [finding for finding in self.findings if finding.level == "error"]

    def of(self, kind: Kind) -> list[Finding]:
        """The findings of one kind."""
        return [finding for finding in self.findings if finding.kind == kind]

    def __len__(self) -> int:
        return len(self.findings)

    def report(self, *, full: bool = False) -> Report:
        """One table of all kinds, what is covered, and examples of each kind."""
        from llama_index_rag_metrics.labels.checking_report import findings_report

        return findings_report(self, full=full)
