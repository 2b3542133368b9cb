"""Labels checked: what is gone, changed, alike, unlabelled, or given away by its question."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, takewhile
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index.core.schema import NodeWithScore

from llama_index_rag_metrics.evaluation.retrieved.passages import Passages, PassagesLike
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.likeness import likeness
from llama_index_rag_metrics.labels.locating import (
    Finder,
    Label,
    Labels,
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
from llama_index_rag_metrics.rankings.matching.normalisation import letters, words
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import difference, excerpt
from llama_index_rag_metrics.report.numbers import counted, mean_of, questions, whole_percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.amounts import check_share
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.mappings import slice_of

ErrorKind: TypeAlias = Literal["lost", "moved", "split", "changed", "contradicting"]
Kind: TypeAlias = ErrorKind | Literal["duplicates", "unlabelled", "repeated", "giveaway"]
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
    "duplicates": KindEntry("warning", "labels that are alike", "make them alternatives"),
    "unlabelled": KindEntry("warning", "unlabelled near-duplicates", "label them, too"),
    "repeated": KindEntry("warning", "duplicate questions", "keep one"),
    "giveaway": KindEntry("warning", "questions that copy a passage", "rephrase them"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Sentence):
    """What is wrong, or may be, with passage `id`, or with questions alone.

    `others` are where the text is now, near-duplicates, or disputed labels; `score`, in [0, 1], is
    the share of the text that is left, a likeness or an overlap.
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


@dataclass(frozen=True, slots=True)
class Share:
    """How many passages are relevant to a question, of how many; and to how many questions."""

    labelled: int
    passages: int
    questions: int

    @property
    def share(self) -> float:
        return self.labelled / self.passages


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is asked about.

    By query id, `labels` counts relevant passages, and `overlaps` is the share of the question's
    words, weighted by how rare they are, that are in a relevant passage.
    """

    total: Share
    by_document: Mapping[str, Share]
    by_slice: Mapping[tuple[str, str], Share]
    labels: Mapping[str, int]
    overlaps: Mapping[str, float]


@dataclass(frozen=True, repr=False)
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

    def report(self, *, full: bool = False) -> m.Report:
        """One table of all kinds, what is covered, and examples of each kind."""
        return _report(self, _MOST_ON_PAGE if full else _MOST_SHOWN)


_COUNTED = 5000  # passages in which words are counted: how rare a word is needs no more
_LEAST_WORDS = 3


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


def _overlaps(
    dataset: RetrievalDataset, labels: Labels, texts: Mapping[str, str]
) -> dict[str, tuple[float, str, int]]:
    """Each question's largest overlap with a relevant passage, its id, and of how many words."""
    asked = {word for question in dataset.queries.values() for word in words(question)}
    counted = list(texts)[:: math.ceil(len(texts) / _COUNTED)] if texts else []
    n_with = Counter(word for key in counted for word in asked.intersection(words(texts[key])))
    rarity = {word: math.log((len(counted) + 1) / (n_with[word] + 1)) for word in asked}
    overlaps: dict[str, tuple[float, str, int]] = {}
    for (query_id, _), label in labels.items():
        text = texts.get(label.id, label.text)
        telling = {word for word in words(dataset.queries[query_id]) if rarity[word] > 0}
        if label.queries[query_id] > 0 and text and telling:
            shared = math.fsum(rarity[word] for word in telling.intersection(words(text)))
            share = shared / math.fsum(rarity[word] for word in telling)
            if query_id not in overlaps or share > overlaps[query_id][0]:
                overlaps[query_id] = share, label.id, len(telling)
    return overlaps


# texts that share at least this fraction of the asked likeness in fingerprints are compared
_CANDIDATE = 0.5


def check_labels(
    dataset: RetrievalDataset,
    index_or_nodes: PassagesLike | None = None,
    *,
    match_on: MatchOn = "node_id",
    alike: float = 0.6,
    giveaway: float = 0.9,
) -> LabelFindings:
    """Check the labels of a dataset against what can be retrieved today.

    It finds expected passages that are gone, moved, split or changed; labels of one question that
    are alike; near-duplicates of labelled passages that nobody labelled; duplicate questions;
    questions that copy a passage; and what nobody asks about.

    Args:
        dataset: the labels, with their texts.
        index_or_nodes: what can be retrieved: an index, a vector store that lists its nodes, a
            docstore, nodes, {id: text}, a dataset, or a path to a folder that LlamaIndex persisted,
            a dataset or a corpus.jsonl. None checks the labels against the dataset's own corpus.
        match_on: which id of a node the labels use, as in `evaluate`.
        alike: the likeness from which two passages are near-duplicates: the share of their
            distinct runs of eight letters that they have in common, in (0, 1].
        giveaway: the overlap from which a question gives its passage away: the share of its words,
            weighted by how rare they are, that are in the passage, in (0, 1].

    Returns:
        The findings, which can be printed and written; `.errors` make scores wrong.

    Raises:
        InvalidInput: the second argument is of another kind or empty, or a threshold is out of
            range.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset(
        ...     {"q1": "Which moon has geysers?"}, {"q1": ["d1"]}, {"d1": "Enceladus has geysers."}
        ... )
        >>> findings = check_labels(dataset, {"node 7": "Enceladus has geysers."})
        >>> [(error.kind, error.id, error.others) for error in findings.errors]
        [('moved', 'd1', ('node 7',))]
    """
    check_share("alike", alike)
    check_share("giveaway", giveaway)
    labels = labels_of(dataset)
    passages = Passages.of(dataset if index_or_nodes is None else index_or_nodes, match_on)
    relevant = [label for label in labels_by_id(labels).values() if label.relevant_to]
    finder = Finder(passages, relevant)
    overlaps = _overlaps(dataset, labels, passages.texts)
    findings = [
        *_drifted(relevant, finder),
        *_alike(dataset, relevant, finder, alike),
        *_repeats(dataset),
    ]
    for query_id, (share, item, n_words) in overlaps.items():
        if share >= giveaway and n_words >= _LEAST_WORDS:
            sentence = f"its words are in {item!r}, so keyword search finds it trivially"
            findings.append(Finding("giveaway", item, (query_id,), (), share, sentence))
    findings.sort(key=lambda finding: [*KINDS].index(finding.kind))
    n = Counter(finding.kind for finding in findings)
    about: dict[Kind, int] = dict.fromkeys(KINDS, len(relevant))
    about["contradicting"] = about["repeated"] = len(dataset.queries)
    about["duplicates"] = about["unlabelled"] = sum(len(label.queries) for label in relevant)
    about["giveaway"] = len(overlaps)
    counts = {kind: (n[kind], about[kind]) for kind in KINDS}
    shares = {query_id: share for query_id, (share, *_) in overlaps.items()}
    coverage = _coverage(dataset, labels, passages, shares)
    notes = _notes(relevant, passages, match_on)
    return LabelFindings(findings, counts, coverage, notes, dataset.queries, dataset.name)


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


def _alike(
    dataset: RetrievalDataset, labels: list[Label], finder: Finder, threshold: float
) -> Iterator[Finding]:
    texts = finder.passages.texts
    for label in (label for label in labels if label.id in texts):
        near = finder.lookup.sharing(texts[label.id], threshold * _CANDIDATE)
        scores = {item: likeness(texts[label.id], texts[item]) for item in near if item != label.id}
        twins = {item: score for item, score in scores.items() if score >= threshold}
        for query_id in label.relevant_to:
            yield from _twins(dataset, label, query_id, twins)


def _twins(
    dataset: RetrievalDataset, label: Label, query_id: str, twins: Mapping[str, float]
) -> Iterator[Finding]:
    relevance = dataset.relevance.get(query_id, Relevance())
    groups = [group for group in relevance.alternatives or () if label.id in group]
    seen = {*chain(takewhile(label.id.__ne__, relevance.grades), *groups)}
    later = [item for item in twins if item not in seen and relevance.grades.get(item, 0) > 0]
    bare = [item for item in twins if item not in relevance.grades]
    kinds: dict[Kind, list[str]] = {"duplicates": later, "unlabelled": bare}
    for kind, items in kinds.items():
        if items:
            named = join_first([*map(repr, items)])
            sentence = f"{label.id!r} and {named} are near-duplicates"
            if kind == "unlabelled":
                sentence = f"{named} is a near-duplicate of {label.id!r}, without a label"
            score = max(twins[item] for item in items)
            yield Finding(kind, label.id, (query_id,), tuple(items), score, sentence)


def _coverage(
    dataset: RetrievalDataset, labels: Labels, passages: Passages, overlaps: Mapping[str, float]
) -> Coverage:
    wanted: defaultdict[str, set[str]] = defaultdict(set)  # passage to its questions
    counts = dict.fromkeys(dataset.queries, 0)
    for (query_id, _), label in labels.items():
        if label.queries[query_id] > 0:
            counts[query_id] += 1
            # a label by place is of the passages that reach into it
            place = label.place if label.by_place else None
            for passage_id in [label.id] if place is None else passages.overlapping(place):
                wanted[passage_id].add(query_id)
    documents = grouped((passages.documents[key], key) for key in passages.texts)
    slices = grouped(
        ((key, name), query_id)
        for query_id, metadata in dataset.metadata.items()
        for key, value in metadata.items()
        if (name := slice_of(value)) is not None
    )

    def share(ids: Collection[str], queries: Set[str] = dataset.queries.keys()) -> Share:
        asked = [own for passage_id in ids if (own := wanted.get(passage_id, set()) & queries)]
        return Share(len(asked), len(ids), len(set().union(*asked)))

    by_document = {document_id: share(ids) for document_id, ids in documents.items()}
    by_slice = {key: share(passages.texts, {*queries}) for key, queries in slices.items()}
    return Coverage(share(passages.texts), by_document, by_slice, counts, overlaps)


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
_MOST_DOCUMENTS = 10
_FIELDS = ("kind", "level", "id", "query_ids", "others", "score", "text")


def _report(findings: LabelFindings, most: int) -> m.Report:
    labels, asked = findings.coverage.labels, findings.questions or {}
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
        lead=f"{questions(len(labels))}, {counted(sum(labels.values()), 'label', 'labels')}",
        outcome=_ERRORS if findings.errors else outcome,
        decision=[_decision(findings)],
        sections=[
            m.Section("Labels", [table]),
            m.Section("Coverage", _coverage_tables(findings.coverage)),
        ],
        listings=[
            m.Listing.of(entry.title, by_kind.get(kind, ()), most) for kind, entry in KINDS.items()
        ],
        notes=list(findings.notes),
        records=m.Records.of_fields(findings.findings, _FIELDS),
    )


def _decision(findings: LabelFindings) -> m.Statement:
    n_errors, n_labels = len(findings.errors), sum(findings.coverage.labels.values())
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


def _coverage_tables(coverage: Coverage) -> list[m.Table]:
    counts: Sequence[Any] = sorted(coverage.labels.values()) or [None]
    documents, overlaps = coverage.by_document, coverage.overlaps.values()
    asked_about = sum(1 for share in documents.values() if share.labelled)
    overlap = math.fsum(overlaps) / len(overlaps) if overlaps else None
    cells = {
        "passages with a question": _asked(coverage.total),
        "documents with a question": m.Cell((asked_about, len(documents)), "share"),
        "questions without a label": m.Cell((counts.count(0), len(coverage.labels)), "share"),
        "labels a question, least": m.Cell(counts[0], "count"),
        "labels a question, median": m.Cell(median(counts), "count"),
        "labels a question, most": m.Cell(counts[-1], "count"),
        "question's words in passage": mean_of(m.Cell(overlap, "score"), len(overlaps)),
    }
    rows = [m.Row(label, [cell]) for label, cell in cells.items()]
    tables = [m.Table("Coverage", ("",), [rows], first="")]
    worst = sorted(documents.items(), key=lambda each: (each[1].share, -each[1].passages))
    if 1 < len(worst) < coverage.total.passages:
        remark = "the least covered" if len(worst) > _MOST_DOCUMENTS else ""
        tables.append(_shares("By document", "document", dict(worst[:_MOST_DOCUMENTS]), remark))
    by_slice = {f"{key} = {value}": share for (key, value), share in coverage.by_slice.items()}
    if by_slice and len(by_slice) <= _MOST_ON_PAGE:
        tables.append(_shares("By slice", "slice", by_slice))
    return tables


def _shares(title: str, first: str, shares: Mapping[str, Share], remark: str = "") -> m.Table:
    rows = [
        m.Row(name, [_asked(share), m.Cell(share.questions, "count")])
        for name, share in shares.items()
    ]
    head = ("passages with a question", "questions")
    return m.Table(title, head, [rows], first=first, place="detail", remark=remark)


def _asked(share: Share) -> m.Cell:
    return m.Cell((share.labelled, share.passages), "share")


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
