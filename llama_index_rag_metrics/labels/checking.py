"""Labels checked: what is gone, moved, split or changed, and questions that are there twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from llama_index.core.schema import NodeWithScore

from llama_index_rag_metrics.evaluation.passages import Passages, PassagesLike
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.id_matcher import (
    NOT_VALID,
    LabelCheck,
    MatchOn,
    names_of,
)
from llama_index_rag_metrics.rankings.matching.likeness import letters
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.numbers import counted, questions, whole_percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.report.text import difference, excerpt
from llama_index_rag_metrics.runtime.masking import join_first

from .finding import By, Fate, Finder, Label, judged, labels_of

Kind: TypeAlias = Fate | Literal["contradicting", "repeated"]


class KindEntry(NamedTuple):
    """A kind of finding: what it is, what to do about it, and what is said of one."""

    meaning: str
    advice: str
    sentence: str


KINDS: Mapping[Kind, KindEntry] = {
    "lost": KindEntry(
        "passages that are gone",
        "label these questions anew",
        "{id!r} is gone, and no passage has its text",
    ),
    "moved": KindEntry(
        "passages under another id", "move the labels", "the text of {id!r} is now under {where}"
    ),
    "split": KindEntry(
        "passages split over several",
        "move the labels",
        "the text of {id!r} is spread over {where}",
    ),
    "changed": KindEntry(
        "passages whose text changed",
        "look at them again",
        "the text of {id!r} was edited: {percent} of it are in {where}",
    ),
    "kept": KindEntry("passages under their old id", "", "{id!r} is under its old id"),
    "contradicting": KindEntry(
        "contradicting questions",
        "keep one, with both labels",
        "the same question as {twin!r}, but only one expects {labels}",
    ),
    "repeated": KindEntry(
        "duplicate questions", "keep one", "the same question as {twin!r}, with the same labels"
    ),
}
NO_TEXT = (
    "The dataset has no text of {unknown:,} of {named:,} labelled passages: what became of them "
    "can't be told. Put those of the index that was labelled into RetrievalDataset(…, corpus=…)."
)
_FIELDS = ("kind", "id", "query_ids", "new_ids", "score", "by", "text")
_OUTCOMES: Mapping[model.Tone, str] = {"alarm": "errors", "open": "warnings"}
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Sentence):
    """What became of labelled passage `id`; with the id "", what is wrong with questions.

    `new_ids` are the passages that hold its text; `score`, in [0, 1], is the share of it that is
    left; `by` is how it was found: by "id", "place" or "text".
    """

    kind: Kind
    id: str
    query_ids: tuple[str, ...]
    text: str
    new_ids: tuple[str, ...] = ()
    score: float | None = None
    by: By = ""
    old_text: str = ""
    new_text: str = ""

    def __str__(self) -> str:
        return f"{', '.join(filter(None, [*self.query_ids, self.id]))}: {self.text}"


@dataclass(frozen=True, repr=False)
class LabelFindings(Reportable):
    """What `check_labels` found.

    Attributes:
        findings: everything that deserves a look, by kind.
        n_labels: how many labelled passages there are, each once.
        n_passages: how many passages can be retrieved.
        notes: what a reader of the numbers should know.
    """

    findings: Sequence[Finding]
    n_labels: int
    n_passages: int
    notes: Sequence[str]
    questions: Mapping[str, str]
    name: str

    tones: ClassVar[Mapping[Kind, model.Tone]] = {
        "lost": "alarm",
        "moved": "alarm",
        "split": "alarm",
        "changed": "alarm",
        "contradicting": "alarm",
        "repeated": "open",
    }
    title: ClassVar = "Labels"
    praise: ClassVar = "Every label is right."

    @property
    def counts(self) -> dict[Kind, int]:
        """How many findings there are of each kind."""
        return {kind: len(self.of(kind)) for kind in self.tones}

    @property
    def errors(self) -> list[Finding]:
        """The findings that make scores wrong."""
        return [finding for finding in self.findings if self.tones[finding.kind] == "alarm"]

    def of(self, *kinds: Kind) -> list[Finding]:
        """The findings of these kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]

    def __len__(self) -> int:
        return len(self.findings)

    def report(self, *, full: bool = False) -> model.Report:
        """One table of all kinds, and examples of those to look at."""
        rows, listings = [], []
        for kind, tone in self.tones.items():
            entry, findings = KINDS[kind], self.of(kind)
            cells = [model.Cell.of(len(findings), "count", tone), model.Cell("")]
            if findings and tone in _OUTCOMES:
                cells[1] = model.Cell(entry.advice, tone="quiet")
                listings.append(self._listing(kind, _MOST_ON_PAGE if full else _MOST_SHOWN))
            rows.append(model.Row(entry.meaning, cells))
        table = model.Table("", ("found", "what to do"), rows, label_head="")
        labels = counted(self.n_labels, "labelled passage", "labelled passages")
        outcome, decision = self._decision()
        notes = [note for note in self.notes if note != decision.text]
        urgent = [note for note in notes if "use match_on=" in note or "be told" in note]
        return model.Report(
            title=f"{self.title} of {self.name}" if self.name else self.title,
            lead=f"{questions(len(self.questions))}, {labels}",
            outcome=outcome,
            decision=[*(model.Statement(note, "alarm") for note in urgent), decision],
            tables=[table],
            listings=listings,
            notes=[note for note in notes if note not in urgent],
            records=model.Records.of_fields(self.findings, _FIELDS),
        )

    def _listing(self, kind: Kind, n_listed: int) -> model.Listing:
        remarks = []
        for finding in self.of(kind):
            query_id = finding.query_ids[0]
            remarks.append((query_id, self.questions.get(query_id, ""), _remarks(finding)))
        return model.Listing.of(KINDS[kind].meaning.capitalize(), remarks, n_listed)

    def _decision(self) -> tuple[model.Cell, model.Statement]:
        for kind, tone in self.tones.items():
            n, entry = len(self.of(kind)), KINDS[kind]
            if n and tone in _OUTCOMES:
                text = f"{entry.meaning.capitalize()}: {n:,}; {entry.advice}."
                return model.Cell(_OUTCOMES[tone], "outcome", tone), model.Statement(text, tone)
        for note in self.notes:
            if "can't be told" in note:
                return model.Cell("can't tell", "outcome", "open"), model.Statement(note, "open")
        decision = model.Statement(self.praise, "best")
        if not self.n_labels:
            decision = model.Statement("There are no labels.", "open")
        return model.Cell("fine", "outcome", "best"), decision


def check_labels(
    dataset: RetrievalDataset,
    index_or_nodes: PassagesLike | None = None,
    *,
    match_on: MatchOn = "node_id",
) -> LabelFindings:
    """Check the labels of a dataset against what can be retrieved today.

    Args:
        dataset: the labels, with their texts.
        index_or_nodes: what can be retrieved: an index, a vector store that lists its nodes, a
            docstore, nodes, {id: text}, a dataset, or a path to a folder that LlamaIndex persisted,
            a dataset or a corpus.jsonl. None checks the labels against the dataset's own corpus.
        match_on: which id of a node the labels use, as in `evaluate`.

    Raises:
        InvalidInput: the second argument is of another kind or empty.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset(
        ...     {"q1": "Which moon has geysers?"}, {"q1": ["d1"]}, {"d1": "Enceladus has geysers."}
        ... )
        >>> findings = check_labels(dataset, {"node 7": "Enceladus has geysers."})
        >>> [(error.kind, error.id, error.new_ids) for error in findings.errors]
        [('moved', 'd1', ('node 7',))]
    """
    relevance = judged(dataset)
    passages = Passages.of(dataset if index_or_nodes is None else index_or_nodes, match_on)
    labels = {}
    for (query_id, item), label in labels_of(dataset, relevance).items():
        if relevance[query_id].grades[item] > 0:
            labels[query_id, item] = label
    distinct = set(labels.values())
    findings = []
    for label, finding in follow(labels, Finder(passages, distinct)):
        if finding.kind != "kept" and not _needs_no_id(label, finding):
            findings.append(finding)
    findings += _repeats(dataset, relevance)
    findings.sort(key=lambda finding: list(KINDS).index(finding.kind))
    notes = list(_notes([label for label in distinct if label.has_id], passages, match_on))
    n_labels, n_passages = len(distinct), len(passages.texts)
    return LabelFindings(findings, n_labels, n_passages, notes, dataset.queries, dataset.name)


def follow(
    labels: Mapping[tuple[str, str], Label], finder: Finder
) -> Iterator[tuple[Label, Finding]]:
    """Find every labelled passage, each once for all questions that expect it."""
    query_ids: defaultdict[Label, list[str]] = defaultdict(list)
    for (query_id, _), label in labels.items():
        query_ids[label].append(query_id)
    for label, ids in query_ids.items():
        outcome = finder.find(label)
        template = KINDS[outcome.fate].sentence
        if outcome.fate == "lost" and not label.text:
            template = "{id!r} is gone, and the dataset has no text to find it by"
        words = {"where": join_first(list(map(repr, outcome.ids))), "id": label.id}
        sentence = template.format(percent=whole_percent(outcome.score), **words)
        new_text = "".join(finder.passages.texts[key] for key in outcome.ids[:1])
        details = outcome.new_ids, outcome.score, outcome.by, label.text, new_text
        yield label, Finding(outcome.fate, label.id, tuple(ids), sentence, *details)


def _needs_no_id(label: Label, finding: Finding) -> bool:
    """Whether a label without an id is found: a text anywhere, a place where it was."""
    is_whole = finding.kind in ("moved", "split")
    return is_whole and not label.has_id and (label.place is None or finding.by == "place")


def _repeats(dataset: RetrievalDataset, relevance: Mapping[str, Relevance]) -> Iterator[Finding]:
    id_of: dict[str, str] = {}
    for query_id, question in dataset.queries.items():
        twin = id_of.setdefault(letters(question), query_id)
        if twin == query_id or not letters(question):
            continue
        disputed = set(relevance.get(query_id, ())) ^ set(relevance.get(twin, ()))
        kind: Kind = "contradicting" if disputed else "repeated"
        words = {"twin": twin, "labels": join_first(sorted(disputed))}
        yield Finding(kind, "", (query_id, twin), KINDS[kind].sentence.format(**words))


def _notes(labels: Sequence[Label], passages: Passages, match_on: MatchOn) -> Iterator[str]:
    check = LabelCheck((label.id for label in labels), match_on)
    check.see(passages.texts, names_of(NodeWithScore(node=node) for node in passages.nodes))
    if (note := check.note() or "").startswith(NOT_VALID):
        yield note.removeprefix(f"{NOT_VALID}: ")
    unknown = sum(1 for label in labels if not label.text)
    if unknown:
        yield NO_TEXT.format(unknown=unknown, named=len(labels))


def _remarks(finding: Finding) -> list[str]:
    remarks = [finding.text]
    if finding.kind == "lost" and finding.old_text:
        remarks.append(f"before: “{excerpt(finding.old_text)}”")
    if finding.kind == "changed" and finding.old_text:
        old_text, new_text = difference(finding.old_text, finding.new_text)
        remarks += [f"before: “{old_text}”", f"now: “{new_text}”"]
    return remarks
