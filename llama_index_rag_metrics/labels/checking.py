"""Are the labels still right? What is gone, changed, alike, unlabelled, or given away.

Hashes of labelled texts, kept by `remember_texts`, tell later what changed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from llama_index.core.schema import NodeWithScore

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels.corpus import Passages, PassagesLike
from llama_index_rag_metrics.labels.label_findings import (
    KINDS,
    Coverage,
    Finding,
    Kind,
    LabelFindings,
    Share,
)
from llama_index_rag_metrics.labels.labelled import Label, judged, labels_by_id, labels_of
from llama_index_rag_metrics.labels.likeness import likeness, text_hash
from llama_index_rag_metrics.labels.locating import Finder, Found
from llama_index_rag_metrics.rankings.matching import LabelCheck, MatchOn, names_of
from llama_index_rag_metrics.rankings.matching.normalisation import letters, words
from llama_index_rag_metrics.report.numbers import whole_percent
from llama_index_rag_metrics.runtime.amounts import check_share
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.masking import join_first

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.rankings.matching import MatchOn


_COUNTED = 5000
"""Passages in which words are counted: how rare a word is needs no more."""

_LEAST_WORDS = 3


def _repeats(dataset: RetrievalDataset) -> Iterator[Finding]:
    """Questions that stand twice, letter for letter, and whether their judgements agree."""
    first: dict[str, str] = {}
    for query_id, question in dataset.queries.items():
        earlier = first.setdefault(letters(question), query_id)
        if earlier == query_id or not letters(question):
            continue
        ours, theirs = (set(judged(dataset, twin) or ()) for twin in (query_id, earlier))
        apart = sorted(ours ^ theirs)
        if apart:
            sentence = f"asked as {earlier!r} is, but only one of them wants {join_first(apart)}"
        else:
            sentence = f"asked as {earlier!r} is, and judged alike"
        kind: Kind = "contradicting" if apart else "repeated"
        yield Finding(kind, query_ids=(query_id, earlier), others=tuple(apart), text=sentence)


def _giveaways(
    dataset: RetrievalDataset,
    labels: Mapping[tuple[str, str], Label],
    texts: Mapping[str, str],
    threshold: float,
) -> tuple[dict[str, float], list[Finding]]:
    """How much of each question stands in its passage, and the questions that give theirs away.

    By query id: the overlap with the relevant passage that it shares most with.
    """
    rarity = _rarity(dataset, texts)
    overlaps: dict[str, float] = {}
    findings: list[Finding] = []
    by_query: defaultdict[str, list[Label]] = defaultdict(list)
    for (query_id, _), label in labels.items():
        if label.queries[query_id] > 0:
            by_query[query_id].append(label)
    for query_id, relevant in by_query.items():
        telling = {word for word in words(dataset.queries[query_id]) if rarity[word] > 0}
        shares = {
            label.id: _overlap(telling, rarity, text)
            for label in relevant
            if (text := texts.get(label.id, label.text))
        }
        if not shares or not telling:
            continue
        item = max(shares, key=lambda label_id: shares[label_id])
        overlaps[query_id] = shares[item]
        if shares[item] >= threshold and len(telling) >= _LEAST_WORDS:
            sentence = f"its words stand in passage {item!r}: word search can't miss that"
            findings.append(Finding("giveaway", item, (query_id,), (), shares[item], sentence))
    return overlaps, findings


def _rarity(dataset: RetrievalDataset, texts: Mapping[str, str]) -> dict[str, float]:
    """The weight of every word of the questions: ln((n + 1) / (passages with it + 1)), from 0 on.

    A word of every passage has none, one of no passage the most.
    """
    asked = {word for question in dataset.queries.values() for word in words(question)}
    counted = list(texts)[:: math.ceil(len(texts) / _COUNTED)] if texts else []
    n_with: Counter[str] = Counter()
    for passage_id in counted:
        n_with.update(asked.intersection(words(texts[passage_id])))
    return {word: math.log((len(counted) + 1) / (n_with[word] + 1)) for word in asked}


def _overlap(telling: set[str], rarity: Mapping[str, float], text: str) -> float:
    """The share of a question's words that a text has, weighted by rarity."""
    whole = math.fsum(rarity[word] for word in telling)
    shared = math.fsum(rarity[word] for word in telling.intersection(words(text)))
    return shared / whole if whole else 0.0


_CANDIDATE = 0.5
"""Of the likeness asked for: the share of fingerprints from which texts are compared."""


def check_labels(
    dataset: RetrievalDataset,
    index_or_nodes: PassagesLike | None = None,
    *,
    match_on: MatchOn = "node_id",
    alike: float = 0.8,
    giveaway: float = 0.9,
) -> LabelFindings:
    """Check the labels of a dataset against what can be retrieved today.

    It finds expected passages that are gone, moved, split or changed; labels of one question that
    are alike; near-duplicates of labelled passages that nobody labelled; questions that stand
    twice or contradict each other; questions whose words give the passage away; and what nobody
    asks about.

    Args:
        dataset: the labels. What changed is told by the texts that the dataset has of them, or by
            the hashes of them that `remember_texts` kept.
        index_or_nodes: what can be retrieved: an index, a vector store that lists its nodes, a
            docstore, nodes, {id: text}, a dataset, or a path to a folder that LlamaIndex persisted,
            a dataset or a corpus.jsonl. None checks the labels against the dataset's own corpus.
        match_on: which id of a node the labels use, as in `evaluate`.
        alike: the likeness from which two passages are near-duplicates: the share of their
            distinct runs of eight letters that they have in common, in (0, 1].
        giveaway: the overlap from which a question gives its passage away: the share of its words,
            weighted by how rare they are, that stand in the passage, in (0, 1].

    Returns:
        The findings, which can be printed and written; `.errors` make scores wrong.

    Raises:
        InvalidInput: what can be retrieved is nothing of that kind, or holds nothing; a threshold
            is out of range.

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
    relevant = [label for label in labels_by_id(labels).values() if label.is_relevant]
    finder = Finder(passages, relevant)
    overlaps, given_away = _giveaways(dataset, labels, passages.texts, giveaway)
    findings = [
        *_drifted(relevant, finder, passages),
        *_alike(dataset, relevant, finder, passages, alike),
        *_repeats(dataset),
        *given_away,
    ]
    findings.sort(key=lambda finding: [*KINDS].index(finding.kind))
    n = Counter(finding.kind for finding in findings)
    about: dict[Kind, int] = dict.fromkeys(KINDS, len(relevant))
    about |= dict.fromkeys(("contradicting", "repeated"), len(dataset.queries))
    about["duplicates"] = sum(len(label.queries) for label in relevant)
    about["unlabelled"] = about["duplicates"]
    about["giveaway"] = len(overlaps)
    return LabelFindings(
        findings,
        {kind: (n[kind], about[kind]) for kind in KINDS},
        _coverage(dataset, labels, passages, overlaps),
        _notes(relevant, passages, match_on),
        dataset.queries,
        dataset.name,
    )


def _drifted(labels: list[Label], finder: Finder, passages: Passages) -> Iterator[Finding]:
    """Labels whose passage is gone, moved, split or changed."""
    for label in labels:
        located = finder.find(label)
        if located.fate == "kept" or _is_in_place(label, located, passages):
            continue
        queries = tuple(query_id for query_id, grade in label.queries.items() if grade > 0)
        others = tuple(piece.id for piece in located.pieces)
        sentence = _sentence(label, located)
        yield Finding(located.fate, label.id, queries, others, located.score, sentence)


def _is_in_place(label: Label, located: Found, passages: Passages) -> bool:
    """Whether a label that names no passage, but a place or a text, still finds it."""
    if not label.by_place or located.fate not in ("moved", "split"):
        return False
    is_elsewhere = located.by == "text" and label.place is not None
    return not is_elsewhere or not any(piece.id in passages.places for piece in located.pieces)


def _sentence(label: Label, located: Found) -> str:
    where = join_first([repr(piece.id) for piece in located.pieces])
    if located.score is None and label.text_hash is not None:
        return _of_hash(label, located, where)
    if located.fate == "lost":
        known = "nor is its text" if label.texts else "and its text isn't known"
        return f"passage {label.id!r} isn't there, {known}"
    if label.by_place and located.fate in ("moved", "split"):
        return f"the text of {label.id!r} is at another place of its document, in {where}"
    if located.fate == "moved":
        return f"the text of {label.id!r} is under {where} now"
    if located.fate == "split":
        return f"the text of {label.id!r} is spread over {where}"
    left = whole_percent(located.score or 0.0)
    return f"the text of {label.id!r} was edited: {left} of it are in {where}"


def _of_hash(label: Label, located: Found, where: str) -> str:
    if located.fate == "lost":
        return f"passage {label.id!r} isn't there, and no passage has its text as it was"
    if located.by == "place":
        return f"the text at {label.id!r} is another now, in {where}: edited there, or above it"
    return f"the text of {label.id!r} is another now; a hash can't tell how much of it is left"


def _alike(
    dataset: RetrievalDataset,
    labels: list[Label],
    finder: Finder,
    passages: Passages,
    threshold: float,
) -> Iterator[Finding]:
    """Labels of one question that are alike, and near-duplicates of labels that have none."""
    for label in labels:
        text = passages.texts.get(label.id)
        if text is None:
            continue
        near = finder.lookup.sharing(text, threshold * _CANDIDATE)
        twins = {
            passage_id: score
            for passage_id in near
            if passage_id != label.id
            and (score := likeness(text, passages.texts[passage_id])) >= threshold
        }
        for query_id, grade in label.queries.items() if twins else ():
            if grade > 0:
                yield from _twins(dataset, label, query_id, twins)


def _twins(
    dataset: RetrievalDataset, label: Label, query_id: str, twins: Mapping[str, float]
) -> Iterator[Finding]:
    relevance = dataset.relevance.get(query_id)
    grades = {} if relevance is None else relevance.grades
    groups = () if relevance is None else relevance.alternatives or ()
    grouped = {item for group in groups if label.id in group for item in group}
    place = {item: n for n, item in enumerate(grades)}
    later = [
        item
        for item in twins
        if grades.get(item, 0) > 0 and item not in grouped and place[item] > place[label.id]
    ]
    bare = [item for item in twins if item not in grades]
    if later:
        sentence = f"{label.id!r} and {join_first([*map(repr, later)])} say the same"
        best = max(twins[item] for item in later)
        yield Finding("duplicates", label.id, (query_id,), tuple(later), best, sentence)
    if bare:
        sentence = f"{join_first([*map(repr, bare)])} says what {label.id!r} says, without a label"
        best = max(twins[item] for item in bare)
        yield Finding("unlabelled", label.id, (query_id,), tuple(bare), best, sentence)


def _coverage(
    dataset: RetrievalDataset,
    labels: Mapping[tuple[str, str], Label],
    passages: Passages,
    overlaps: Mapping[str, float],
) -> Coverage:
    wanted: defaultdict[str, set[str]] = defaultdict(set)  # passage to its questions
    counts = dict.fromkeys(dataset.queries, 0)
    for (query_id, _), label in labels.items():
        if label.queries[query_id] > 0:
            counts[query_id] += 1
            for passage_id in _held_by(label, passages):
                wanted[passage_id].add(query_id)
    documents: defaultdict[str, list[str]] = defaultdict(list)
    for passage_id in passages.texts:
        documents[passages.documents[passage_id]].append(passage_id)
    slices: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for query_id, metadata in dataset.metadata.items():
        for key, value in metadata.items():
            slices[key, str(value)].add(query_id)

    def share(ids: list[str], queries: set[str] | None = None) -> Share:
        asked = [wanted[passage_id] for passage_id in ids if passage_id in wanted]
        if queries is not None:
            asked = [both for own in asked if (both := own & queries)]
        return Share(len(asked), len(ids), len(set().union(*asked)))

    everything = list(passages.texts)
    return Coverage(
        share(everything),
        {document_id: share(ids) for document_id, ids in documents.items()},
        {key: share(everything, queries) for key, queries in slices.items()},
        counts,
        overlaps,
    )


def _held_by(label: Label, passages: Passages) -> list[str]:
    """The passages that a label speaks of: its own, or those that reach into its place."""
    if not label.by_place or label.place is None:
        return [label.id] if label.id in passages.texts else []
    place = label.place
    return [
        passage_id
        for passage_id, here in passages.places.items()
        if here.source == place.source and here.start < place.end and place.start < here.end
    ]


def _notes(labels: list[Label], passages: Passages, match_on: MatchOn) -> list[str]:
    """What the check couldn't tell, and another id that the labels would match."""
    notes = []
    named = [label for label in labels if not label.by_place]
    check = LabelCheck((label.id for label in named), match_on)
    check.see(passages.texts, names_of(NodeWithScore(node=node) for node in passages.nodes))
    if check.fits_otherwise and (note := check.note()):
        notes.append(note)
    unknown = sum(1 for label in named if not label.texts and label.text_hash is None)
    if unknown:
        notes.append(
            f"the dataset has no text of {unknown:,} of {len(named):,} labelled passages: whether "
            "these changed can't be told. Keep the corpus in the dataset, or let remember_texts() "
            "keep hashes of their texts."
        )
    if hashed := sum(1 for label in labels if label.hash_alone is not None):
        notes.append(
            f"the dataset has only hashes of the texts of {hashed:,} of {len(labels):,} labelled "
            "passages: a passage that is whole under another id is found; whether another one "
            "was edited, split, merged or dropped can't be told"
        )
    return notes


def remember_texts(
    dataset: RetrievalDataset,
    index_or_nodes: PassagesLike | None = None,
    *,
    match_on: MatchOn = "node_id",
    keep_corpus: bool = True,
) -> RetrievalDataset:
    """Keep a hash of the text of every labelled passage, so that changes are seen without corpus.

    `check_labels` and `move_labels` then tell a passage that is as it was, one whose whole text is
    under another id, and one whose text is another. What became of a text that no passage has any
    more, whether it was edited, split or dropped, only the text itself could tell: keep the corpus
    where you can.

    White space and Unicode form don't count. Hashes of before are replaced, where the passage is
    there; call it again when you have looked at what changed.

    Args:
        dataset: the labels.
        index_or_nodes: what can be retrieved today, as `check_labels` takes it. None takes the
            dataset's own corpus.
        match_on: which id of a node the labels use, as in `evaluate`.
        keep_corpus: whether the new dataset has the corpus of the old one.

    Returns:
        A dataset with `text_hashes`, which its JSON and JSONL hold.

    Raises:
        InvalidInput: no labelled passage is there, or what can be retrieved is nothing of that
            kind.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset, check_labels
        >>> dataset = RetrievalDataset({"q1": "Which moon has geysers?"}, {"q1": ["d1"]})
        >>> dataset = remember_texts(dataset, {"d1": "Enceladus has geysers."})
        >>> [error.kind for error in check_labels(dataset, {"d1": "Io has volcanoes."}).errors]
        ['changed']
    """
    passages = Passages.of(dataset if index_or_nodes is None else index_or_nodes, match_on)
    labels = labels_by_id(labels_of(dataset))
    texts = {label_id: _text_today(label, passages) for label_id, label in labels.items()}
    hashes = {label_id: text_hash(text) for label_id, text in texts.items() if text is not None}
    if labels and not hashes:
        expected = "what has a labelled passage"
        remedy = f"A label is {next(iter(labels))!r}, an id {next(iter(passages.texts))!r}."
        raise InvalidInput("index_or_nodes", f"none of {len(labels):,}", expected, remedy)
    if missing := [label_id for label_id in labels if label_id not in hashes]:
        warn_caller(
            LabelWarning(
                f"{len(missing):,} of {len(labels):,} labelled passages aren't there, so their "
                f"texts can't be remembered: {join_first([*map(repr, missing)])}"
            )
        )
    dropped = {} if keep_corpus else dict.fromkeys(("corpus", "titles", "document_metadata"))
    remembered = {**dataset.text_hashes, **hashes}
    return RetrievalDataset(**{**vars(dataset), **dropped, "text_hashes": remembered})


def _text_today(label: Label, passages: Passages) -> str | None:
    """What a label's passage, or the place that it names, says today."""
    if not label.by_place:
        return passages.texts.get(label.id)
    if label.place is None:
        return label.text
    here = passages.by_document.get(label.place.source, ())
    cuts = (passages.cut(passage_id, label.place) for passage_id in here)
    return next((text for text in cuts if text is not None), None)
