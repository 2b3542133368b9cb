"""Labels checked: what is gone, moved, split or changed, and questions that are there twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

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
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import difference, excerpt
from llama_index_rag_metrics.report.numbers import counted, questions, whole_percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.masking import join_first

from .finding import Finder, Label, judged, labels_of

Kind: TypeAlias = Literal["lost", "moved", "split", "changed", "contradicting", "repeated"]


class KindEntry(NamedTuple):
    """A kind of finding: an error makes scores wrong, a warning may."""

    level: Literal["error", "warning"]
    meaning: str
    advice: str


KINDS: Mapping[Kind, KindEntry] = {
    "lost": KindEntry("error", "passages that are gone", "label these questions anew"),
    "moved": KindEntry("error", "passages under another id", "move the labels"),
    "split": KindEntry("error", "passages split over several", "move the labels"),
    "changed": KindEntry("error", "passages whose text changed", "look at them again"),
    "contradicting": KindEntry("error", "contradicting questions", "keep one, with both labels"),
    "repeated": KindEntry("warning", "duplicate questions", "keep one"),
}
_SENTENCES = {
    "unknown": "{id!r} is gone, and its text isn't known",
    "lost": "{id!r} is gone, and no passage has its text",
    "changed": "the text of {id!r} was edited: {percent} of it are in {where}",
    "moved": "the text of {id!r} is now under {where}",
    "split": "the text of {id!r} is spread over {where}",
    "contradicting": "the same question as {twin!r}, but only one expects {labels}",
    "repeated": "the same question as {twin!r}, with the same labels",
}
_NO_TEXT = (
    "the dataset has no text of {unknown:,} of {named:,} labelled passages: whether these changed "
    "can't be told. Keep the corpus in the dataset."
)
_FIELDS = ("kind", "level", "id", "query_ids", "others", "score", "text")
_TONES: Mapping[str, m.Tone] = {"error": "alarm", "warning": "open"}
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Sentence):
    """What is wrong, or may be, with passage `id`, or with questions alone, whose id is "".

    `others` are where the text is now, or disputed labels; `score`, in [0, 1], is the share of the
    text that is left.
    """

    kind: Kind
    id: str
    query_ids: tuple[str, ...]
    others: tuple[str, ...]
    text: str
    score: float | None = None
    old_text: str = ""
    new_text: str = ""

    @property
    def level(self) -> Literal["error", "warning"]:
        return KINDS[self.kind].level

    def __str__(self) -> str:
        return f"{', '.join(filter(None, [*self.query_ids, self.id]))}: {self.text}"


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
    """

    findings: Sequence[Finding]
    counts: Mapping[Kind, tuple[int, int]]
    n_labels: int
    n_passages: int
    notes: Sequence[str]
    questions: Mapping[str, str]
    name: str

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
        >>> [(error.kind, error.id, error.others) for error in findings.errors]
        [('moved', 'd1', ('node 7',))]
    """
    labels = labels_of(dataset)
    passages = Passages.of(dataset if index_or_nodes is None else index_or_nodes, match_on)
    queries: defaultdict[Label, list[str]] = defaultdict(list)
    for (query_id, item), label in labels.items():
        relevance = judged(dataset, query_id)
        if relevance is not None and relevance.grades[item] > 0:
            queries[label].append(query_id)
    findings = [*_drifted(queries, Finder(passages, queries)), *_repeats(dataset)]
    findings.sort(key=lambda finding: [*KINDS].index(finding.kind))
    n = Counter(finding.kind for finding in findings)
    totals = dict.fromkeys(KINDS, len({label.id for label in queries}))
    totals["contradicting"] = totals["repeated"] = len(dataset.queries)
    return LabelFindings(
        findings,
        {kind: (n[kind], totals[kind]) for kind in KINDS},
        sum(map(len, queries.values())),
        len(passages.texts),
        _notes([label for label in queries if label.has_id], passages, match_on),
        dataset.queries,
        dataset.name,
    )


def _drifted(queries: Mapping[Label, Sequence[str]], finder: Finder) -> Iterator[Finding]:
    passages = finder.passages
    for label, query_ids in queries.items():
        outcome = finder.find(label)
        fate = outcome.fate
        new_ids = tuple(piece.id for piece in outcome.pieces)
        if fate == "kept":
            continue
        if fate in ("moved", "split") and not label.has_id:
            # a text is found wherever it is; a place, where passages say theirs, only there
            knows_places = any(new_id in passages.places for new_id in new_ids)
            if label.place is None or outcome.by == "place" or not knows_places:
                continue
        template: str = fate
        if fate == "lost" and not label.texts:
            template = "unknown"
        where, percent = join_first([*map(repr, new_ids)]), whole_percent(outcome.score)
        sentence = _SENTENCES[template].format(id=label.id, where=where, percent=percent)
        today = "".join(passages.texts[new_id] for new_id in new_ids[:1])
        about = label.id, tuple(query_ids), new_ids, sentence, outcome.score
        yield Finding(fate, *about, label.text, today)


def _repeats(dataset: RetrievalDataset) -> Iterator[Finding]:
    id_of: dict[str, str] = {}
    for query_id, question in dataset.queries.items():
        twin = id_of.setdefault(letters(question), query_id)
        if twin == query_id or not letters(question):
            continue
        disputed = {*(judged(dataset, query_id) or ())} ^ {*(judged(dataset, twin) or ())}
        kind: Kind = "repeated"
        labels = ""
        if disputed:
            kind, labels = "contradicting", join_first(sorted(disputed))
        sentence = _SENTENCES[kind].format(twin=twin, labels=labels)
        yield Finding(kind, "", (query_id, twin), tuple(sorted(disputed)), sentence)


def _notes(labels: Sequence[Label], passages: Passages, match_on: MatchOn) -> list[str]:
    notes = []
    check = LabelCheck((label.id for label in labels), match_on)
    check.see(passages.texts, names_of(NodeWithScore(node=node) for node in passages.nodes))
    if check.fits_otherwise:
        notes.append(str(check.note()).removeprefix(f"{NOT_VALID}: "))
    unknown = sum(1 for label in labels if not label.texts)
    if unknown:
        notes.append(_NO_TEXT.format(unknown=unknown, named=len(labels)))
    return notes


def _report(findings: LabelFindings, n_listed: int) -> m.Report:
    rows, listings = [], []
    for kind, (level, meaning, advice) in KINDS.items():
        n, n_checked = findings.counts[kind]
        checked, todo = m.Cell(n_checked, "count", "quiet"), m.Cell("")
        tone: m.Tone = "quiet"
        if n:
            tone, todo = _TONES[level], m.Cell(advice, tone="quiet")
        rows.append(m.Row(meaning, [m.Cell(n, "count", tone), checked, todo]))
        remarks = []
        for finding in findings.of(kind):
            query_id = finding.query_ids[0]
            remarks.append((query_id, findings.questions.get(query_id, ""), _remarks(finding)))
        listings.append(m.Listing.of(meaning.capitalize(), remarks, n_listed))
    table = m.Table("", ("found", "of", "what to do"), [rows], first="")
    outcome, decision = _decision(findings)
    n_labels = counted(findings.n_labels, "label", "labels")
    return m.Report(
        title=f"Labels of {findings.name}" if findings.name else "Labels",
        lead=f"{questions(len(findings.questions))}, {n_labels}",
        outcome=outcome,
        decision=[decision],
        sections=[m.Section("Labels", [table])],
        listings=listings,
        notes=list(findings.notes),
        records=m.Records.of_fields(findings.findings, _FIELDS),
    )


def _decision(findings: LabelFindings) -> tuple[m.Cell, m.Statement]:
    n_errors = len(findings.errors)
    if n_errors:
        # errors come in the order of kinds
        ((kind, n),) = Counter(finding.kind for finding in findings.errors).most_common(1)
        meaning, errors = KINDS[kind].meaning, counted(n_errors, "error makes", "errors make")
        evidence = f"{meaning.capitalize()}: {n:,}"
        if n < n_errors:
            meaning = f"{n:,} of them {meaning}"
        text = f"{errors} scores wrong, {meaning}: {KINDS[kind].advice}."
        return m.Cell("errors", "outcome", "alarm"), m.Statement(text, "alarm", evidence=evidence)
    outcome = m.Cell("fine", "outcome", "best")
    if findings.findings:
        outcome = m.Cell("warnings", "outcome", "open")
    if not findings.n_labels:
        return outcome, m.Statement("Nothing was checked: there are no labels.", "open")
    text = f"{counted(findings.n_labels, 'label', 'labels')} checked, none is wrong"
    if findings.findings:
        warnings = counted(len(findings), "warning", "warnings")
        return outcome, m.Statement(f"{text}; {warnings}.", "open")
    return outcome, m.Statement(f"{text}.", "best")


def _remarks(finding: Finding) -> list[str]:
    if finding.kind == "lost" and finding.old_text:
        return [finding.text, f"before: “{excerpt(finding.old_text)}”"]
    if finding.kind == "changed" and finding.old_text:
        old_text, now = difference(finding.old_text, finding.new_text)
        return [finding.text, f"before: “{old_text}”", f"now: “{now}”"]
    return [finding.text]
