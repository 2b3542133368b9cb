"""Labels checked: what is gone, moved, split or changed, and questions that are there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from llama_index.core.schema import NodeWithScore

from llama_index_rag_metrics.evaluation.passages import Passages, PassagesLike
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.locating import (
    Finder,
    Label,
    Located,
    judged,
    labels_by_id,
    labels_of,
)
from llama_index_rag_metrics.rankings.matching.id_matcher import (
    NOT_VALID,
    LabelCheck,
    MatchOn,
    names_of,
)
from llama_index_rag_metrics.rankings.matching.normalisation import letters
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import difference, excerpt
from llama_index_rag_metrics.report.numbers import counted, questions, whole_percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.masking import join_first

ErrorKind: TypeAlias = Literal["lost", "moved", "split", "changed", "contradicting"]
Kind: TypeAlias = ErrorKind | Literal["repeated"]
Level: TypeAlias = Literal["error", "warning"]


class KindEntry(NamedTuple):
    """A kind of finding: an error makes scores wrong, a warning may."""

    level: Level
    meaning: str
    advice: str

    @property
    def title(self) -> str:
        return self.meaning.capitalize()


KINDS: Mapping[Kind, KindEntry] = {
    "lost": KindEntry("error", "passages that are gone", "label these questions anew"),
    "moved": KindEntry("error", "passages under another id", "move the labels"),
    "split": KindEntry("error", "passages split over several", "move the labels"),
    "changed": KindEntry("error", "passages whose text changed", "look at them again"),
    "contradicting": KindEntry("error", "contradicting questions", "keep one, with both labels"),
    "repeated": KindEntry("warning", "duplicate questions", "keep one"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Sentence):
    """What is wrong, or may be, with passage `id`, or with questions alone.

    `others` are where the text is now, or disputed labels; `score`, in [0, 1], is the share of the
    text that is left.
    """

    kind: Kind
    id: str = ""
    query_ids: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    score: float | None = None
    text: str = ""
    old_text: str = ""
    new_text: str = ""

    @property
    def level(self) -> Level:
        return KINDS[self.kind].level

    def __str__(self) -> str:
        about = ", ".join([*self.query_ids, *filter(None, [self.id])])
        return f"{about}: {self.text or KINDS[self.kind].meaning}"


@dataclass(frozen=True, repr=False)
class LabelFindings(Reportable):
    """What `check_labels` found.

    Attributes:
        findings: everything that deserves a look, the errors first.
        counts: kind to how many of what it is about (labelled passages, or questions) have it, and
            of how many.
        n_labels: how many relevant passages the questions have, all together.
        n_passages: how many can be retrieved.
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
    n_labels: int
    n_passages: int
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

    def report(self, *, full: bool = False) -> m.Report:
        """One table of all kinds, and examples of each."""
        return _report(self, _MOST_ON_PAGE if full else _MOST_SHOWN)


def _repeats(dataset: RetrievalDataset) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for query_id, question in dataset.queries.items():
        earlier = first.setdefault(letters(question), query_id)
        if earlier == query_id or not letters(question):
            continue
        labels = (set(judged(dataset, twin) or ()) for twin in (query_id, earlier))
        apart = sorted(set.symmetric_difference(*labels))
        kind: Kind = "contradicting" if apart else "repeated"
        remark = f"but only one expects {join_first(apart)}" if apart else "with the same labels"
        sentence = f"the same question as {earlier!r}, {remark}"
        yield Finding(kind, "", (query_id, earlier), tuple(apart), text=sentence)


def check_labels(
    dataset: RetrievalDataset,
    index_or_nodes: PassagesLike | None = None,
    *,
    match_on: MatchOn = "node_id",
) -> LabelFindings:
    """Check the labels of a dataset against what can be retrieved today.

    It finds relevant passages that are gone, moved, split or changed, and questions that are there
    twice, with the same labels or with others.

    Args:
        dataset: the labels, with their texts.
        index_or_nodes: what can be retrieved: an index, a vector store that lists its nodes, a
            docstore, nodes, {id: text}, a dataset, or a path to a folder that LlamaIndex persisted,
            a dataset or a corpus.jsonl. None checks the labels against the dataset's own corpus.
        match_on: which id of a node the labels use, as in `evaluate`.

    Returns:
        The findings, which can be printed and written; `.errors` make scores wrong.

    Raises:
        InvalidInput: the second argument is of another kind or empty.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset(
        ...     {"q1": "Which moon has geysers?"}, {"q1": ["d1"]}, {"d1": "Enceladus has geysers."}
        ... )
        >>> findings = check_labels(dataset, {"node 7": "Enceladus has geysers."})
        >>> [(error.kind, error.id, error.others) for error in findings.errors]
        [('moved', 'd1', ('node 7',))]
    """
    labels = labels_of(dataset)
    passages = Passages.of(dataset if index_or_nodes is None else index_or_nodes, match_on)
    relevant = [label for label in labels_by_id(labels).values() if label.relevant_to]
    finder = Finder(passages, relevant)
    findings = [*_drifted(relevant, finder), *_repeats(dataset)]
    findings.sort(key=lambda finding: [*KINDS].index(finding.kind))
    n = Counter(finding.kind for finding in findings)
    about: dict[Kind, int] = dict.fromkeys(KINDS, len(relevant))
    about["contradicting"] = about["repeated"] = len(dataset.queries)
    counts = {kind: (n[kind], about[kind]) for kind in KINDS}
    n_labels = sum(len(label.relevant_to) for label in relevant)
    notes = _notes(relevant, passages, match_on)
    sizes = (n_labels, len(passages.texts))
    return LabelFindings(findings, counts, *sizes, notes, dataset.queries, dataset.name)


def _drifted(labels: list[Label], finder: Finder) -> Iterator[Finding]:
    passages = finder.passages
    for label in labels:
        located = finder.find(label)
        others = tuple(piece.id for piece in located.pieces)
        # a label that names no passage, but a place or a text, may still find it
        is_found = label.by_place and located.fate in ("moved", "split")
        is_elsewhere = located.by == "text" and label.place is not None
        if is_found and is_elsewhere and any(item in passages.places for item in others):
            is_found = False
        if located.fate == "kept" or is_found:
            continue
        sentence = _sentence(label, located, join_first([*map(repr, others)]))
        today = next((passages.texts[item] for item in others if item in passages.texts), "")
        found = located.score, sentence, label.text or "", today
        yield Finding(located.fate, label.id, label.relevant_to, others, *found)


def _sentence(label: Label, located: Located, where: str) -> str:
    if located.fate == "lost":
        known = "no passage has its text" if label.texts else "its text isn't known"
        return f"{label.id!r} is gone, and {known}"
    text = f"the text of {label.id!r}"
    if located.fate == "changed":
        return f"{text} was edited: {whole_percent(located.score or 0.0)} of it are in {where}"
    if label.by_place:
        return f"{text} is at another place of its document, in {where}"
    return f"{text} is {'spread over' if located.fate == 'split' else 'now under'} {where}"


def _notes(labels: list[Label], passages: Passages, match_on: MatchOn) -> list[str]:
    notes = []
    named = [label for label in labels if not label.by_place]
    check = LabelCheck((label.id for label in named), match_on)
    check.see(passages.texts, names_of(NodeWithScore(node=node) for node in passages.nodes))
    if check.fits_otherwise and (note := check.note()):
        notes.append(note.removeprefix(f"{NOT_VALID}: "))
    if unknown := sum(1 for label in named if not label.texts):
        notes.append(
            f"the dataset has no text of {unknown:,} of {len(named):,} labelled passages: whether "
            "these changed can't be told. Keep the corpus in the dataset."
        )
    return notes


_ERRORS, _FINE = m.Cell("errors", "outcome", "alarm"), m.Cell("fine", "outcome", "best")
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_FIELDS = ("kind", "level", "id", "query_ids", "others", "score", "text")


def _report(findings: LabelFindings, most: int) -> m.Report:
    asked = findings.questions or {}
    remarks = [
        (first, asked.get(first, ""), _remarks(finding))
        for finding in findings.findings
        for first in finding.query_ids[:1]
    ]
    by_kind = grouped(zip((finding.kind for finding in findings.findings), remarks, strict=True))
    outcome = m.Cell("warnings", "outcome", "open") if len(findings) else _FINE
    head = ("found", "of", "level", "what to do")
    table = m.Table("", head, [_kind_rows(findings)], first="")
    return m.Report(
        title=f"Labels of {findings.name}" if findings.name else "Labels",
        lead=f"{questions(len(asked))}, {counted(findings.n_labels, 'label', 'labels')}",
        outcome=_ERRORS if findings.errors else outcome,
        decision=[_decision(findings)],
        sections=[m.Section("Labels", [table])],
        listings=[
            m.Listing.of(entry.title, by_kind.get(kind, ()), most) for kind, entry in KINDS.items()
        ],
        notes=list(findings.notes),
        records=m.Records.of_fields(findings.findings, _FIELDS),
    )


def _decision(findings: LabelFindings) -> m.Statement:
    n_errors, n_labels = len(findings.errors), findings.n_labels
    if n_errors:
        errors = counted(n_errors, "error makes", "errors make")
        # errors come in the order of kinds
        ((kind, n),) = Counter(finding.kind for finding in findings.errors).most_common(1)
        most = "" if n == n_errors else f"{n:,} of them "
        text = f"{errors} scores wrong, {most}{KINDS[kind].meaning}: {KINDS[kind].advice}."
        return m.Statement(text, "alarm", evidence=f"{KINDS[kind].title}: {n:,}")
    if not n_labels:
        return m.Statement("Nothing was checked: there are no labels.", "open")
    more = f"; {counted(len(findings), 'warning', 'warnings')}" if len(findings) else ""
    still = "The label still matches" if n_labels == 1 else f"All {n_labels:,} labels still match"
    return m.Statement(f"{still}{more}.", "open" if more else "best")


def _kind_rows(findings: LabelFindings) -> list[m.Row]:
    rows = []
    for kind, (level, meaning, advice) in KINDS.items():
        n, n_checked = findings.counts[kind]
        tone: m.Tone = "quiet" if not n else "alarm" if level == "error" else "open"
        counts = [m.Cell(n, "count", tone), m.Cell(n_checked, "count", "quiet")]
        texts = [m.Cell(level if n else "", tone=tone), m.Cell(advice if n else "", tone="quiet")]
        rows.append(m.Row(meaning, [*counts, *texts]))
    return rows


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
