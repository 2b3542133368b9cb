"""Labelled passages found again: by id, by place, or by the share of their text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from llama_index.core.schema import BaseNode

from llama_index_rag_metrics.evaluation.passages import Passages
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.likeness import compatible, gram_hashes, letters
from llama_index_rag_metrics.rankings.matching.matched import Expected
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.span import NodePlaces, Span
from llama_index_rag_metrics.report.numbers import whole_percent
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .lookup import GRAM, Lookup

# A labelled passage has its id and text; is whole in another passage; lies over several; has
# another text; is nowhere
Fate: TypeAlias = Literal["kept", "moved", "split", "changed", "lost"]
By: TypeAlias = Literal["id", "place", "text", ""]
Cover: TypeAlias = npt.NDArray[np.bool_]  # (letters,) or (characters,) which of a text are there

WHOLE = 0.95  # the share from which a passage is whole: a word at an edge may be cut
# what another piece must add: of the same document, and of others, which may share a phrase
_LEAST_PIECE, _LEAST_ELSEWHERE = 0.02, 0.1
_MOST_COMPARED = 32
_STRETCH = 24  # bytes that two texts must share in a row, or half of the text
_SHORT = 4 * _STRETCH  # a shorter text is also known by eight letters in a row, under its own id
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2039\u203a\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff"),
    }
)


@dataclass(frozen=True)
class Label:
    """A labelled passage, as it was then."""

    id: str
    texts: tuple[str, ...] = ()  # with its title and without
    place: Span | None = None  # of the part, if there is one
    part: tuple[int, int] | None = None  # what of the last text answers the question
    has_id: bool = True  # or else it is a place in a document, or a text

    @property
    def text(self) -> str:
        """What has to be found; "" if nobody knows."""
        if self.part is not None:
            return self.texts[-1][slice(*self.part)]
        return next(iter(self.texts), "")


class Piece(NamedTuple):
    """A passage, and its share of a text, in (0, 1]."""

    id: str
    share: float

    def __str__(self) -> str:
        return f"{self.id!r} ({whole_percent(self.share)})"


@dataclass(frozen=True)
class Found:
    """What became of a label, and the passages that hold it, the largest share first."""

    fate: Fate
    score: float  # the share that is there; 1 if only id or place are known
    pieces: tuple[Piece, ...] = ()
    by: By = ""


def judged(dataset: RetrievalDataset, query_id: str) -> Relevance | None:
    """A question's relevance, or else that of its expected texts."""
    texts = dataset.expected_texts.get(query_id)
    if query_id not in dataset.relevance and texts:
        return Expected.of_texts(None, texts).relevance
    return dataset.relevance.get(query_id)


def labels_of(
    dataset: RetrievalDataset, old_nodes: Iterable[BaseNode] = ()
) -> dict[tuple[str, str], Label]:
    """The label of each (question id, item)."""
    if not isinstance(dataset, RetrievalDataset):
        remedy = "The dataset comes first, then what can be retrieved."
        raise InvalidInput("dataset", type(dataset), "a RetrievalDataset", remedy)
    nodes = tuple(old_nodes)
    places = NodePlaces(nodes)
    node_texts = {node.node_id: node.get_content() for node in nodes}
    labels = {}
    for query_id in dataset.queries:
        relevance = judged(dataset, query_id) or Relevance()
        answers = dataset.expected_texts.get(query_id, ())
        texts: Mapping[str, str] = node_texts
        with suppress(InvalidInput):  # answers rather than passages
            expected = Expected.of_texts(dataset.relevance.get(query_id), answers)
            if answers:
                texts = node_texts | dict(zip(expected.ids, expected.passages, strict=True))
        for item in relevance.grades:
            span = (relevance.spans or {}).get(item)
            place = places.of_id(item) or _stored_place(dataset.document_metadata.get(item, {}))
            label = _label(dataset, item, texts.get(item, ""), place, span)
            label = _answering(label, answers)
            if query_id not in dataset.relevance:
                label = replace(label, id=f"{item} of {query_id}", has_id=False)
            labels[query_id, item] = label
    return labels


def _stored_place(metadata: Mapping[str, Any]) -> Span | None:
    source = metadata.get("ref_doc_id")
    start, end = metadata.get("start_char_idx"), metadata.get("end_char_idx")
    if isinstance(source, str) and type(start) is int and type(end) is int and 0 <= start < end:
        return Span(source, start, end)
    return None


def _label(
    dataset: RetrievalDataset, item: str, text: str, place: Span | None, span: Span | None
) -> Label:
    texts = tuple(filter(None, [text]))
    if item in dataset.corpus:
        texts = tuple(dict.fromkeys([dataset.indexed_text(item), dataset.corpus[item]]))
    if span is None:
        return Label(item, texts, place)
    document = dataset.corpus.get(span.source, "")
    if item not in dataset.corpus:
        texts = texts or tuple(filter(None, [document[span.start : span.end]]))
        return Label(item, texts, span, has_id=False)
    begin = 0
    if place is not None and place.source == span.source:
        begin, document = place.start, texts[-1]
    if document != texts[-1]:
        return Label(item, texts, span)
    return Label(item, texts, span, (max(0, span.start - begin), span.end - begin))


def _answering(label: Label, answers: Iterable[str]) -> Label:
    """The label about the one answer that is a part of its passage, if there is such a one."""
    if label.part is not None or not label.has_id or not label.texts:
        return label
    text = label.texts[-1]
    parts = []
    for answer in answers:
        words = answer.split()
        if 0 < len(words) < len(text.split()):
            words_in_a_row = r"\s+".join(map(re.escape, words))
            parts += [*re.finditer(rf"(?<!\w){words_in_a_row}(?!\w)", text)]
    if len(parts) != 1:
        return label
    (start, end), place = parts[0].span(), label.place
    if place is not None and len(text) == place.end - place.start:
        place = Span(place.source, place.start + start, place.start + end)
    return replace(label, place=place, part=(start, end))


class Finder:
    """Finds labelled passages; below `threshold` of its text in all passages, a label is lost."""

    def __init__(self, passages: Passages, labels: Iterable[Label], threshold: float = 0.5) -> None:
        self.passages = passages
        self._labels = tuple(labels)
        self._threshold = threshold
        self._found: dict[Label, Found] = {}

    def find(self, label: Label) -> Found:
        if label not in self._found:
            self._found[label] = self._find(label)
        return self._found[label]

    @cached_property
    def _lookup(self) -> Lookup:
        texts = [text for label in self._labels for text in label.texts]
        return Lookup(texts, self.passages.texts)

    def _find(self, label: Label) -> Found:
        today = self.passages.texts.get(label.id) if label.has_id else None
        old_texts = {fold_typography(text) for text in label.texts}
        if today is not None and (not old_texts or fold_typography(today) in old_texts):
            return Found("kept", 1.0, (Piece(label.id, 1.0),), "id")
        at_place = self._at_place(label)
        if at_place.score >= WHOLE:
            return at_place
        by_text = Found("lost", 0.0)
        for text in label.texts[-1:] if label.part else label.texts:
            outcome = self._by_text(label, text)
            if outcome.score > by_text.score:
                by_text = outcome
            if by_text.score >= WHOLE:
                break
        return at_place if at_place.score > by_text.score else by_text

    def _at_place(self, label: Label) -> Found:
        """The passages at the label's place that still have its text."""
        place, text = label.place, label.text
        covers: dict[str, Cover] = {}
        if place is None or (text and len(text) != place.end - place.start):
            return Found("lost", 0.0)
        for passage_id, here in self.passages.overlapping(place).items():
            extent = slice(here.start - place.start, here.end - place.start)
            today = self.passages.cut(passage_id, here) or self.passages.texts[passage_id]
            if not text or fold_typography(text[extent]) in fold_typography(today):
                covers[passage_id] = np.zeros(place.end - place.start, np.bool_)
                covers[passage_id][extent] = True
        return self._held(label, covers, "place")

    def _by_text(self, label: Label, text: str) -> Found:
        """The passages with the most of the text; of copies those nearest to the label's place."""
        texts = self.passages.texts
        covers = {}
        for passage_id in self._lookup.sharing(text)[:_MOST_COMPARED]:
            covers[passage_id] = covered(text, texts[passage_id])
        if label.has_id and label.id in texts:
            covers[label.id] = covered(text, texts[label.id], is_edit=True)
        if label.part is not None:
            start, end = (len(letters(text[:place])) for place in label.part)
            covers = {passage_id: cover[start:end] for passage_id, cover in covers.items()}
        covers = {item: cover for item, cover in covers.items() if cover.any()}
        return self._held(label, self._nearest_copy(label, covers), "text")

    def _nearest_copy(self, label: Label, covers: dict[str, Cover]) -> dict[str, Cover]:
        """The whole copies of a text, or the best; only the nearest to a label's place.

        What overlaps a whole copy belongs to it; so does what is near the best of one in pieces.
        """
        best_share = max(map(share, covers.values()), default=0.0)
        anchors = [key for key, cover in covers.items() if share(cover) >= min(WHOLE, best_share)]
        if label.place is not None:
            anchors.sort(key=partial(self._distance, label.place))
            anchors = anchors[:1]
        copy = {}
        for item, cover in covers.items():
            slack = 0 if best_share >= WHOLE else len(cover)
            if item in anchors or any(self._is_near(item, anchor, slack) for anchor in anchors):
                copy[item] = cover
        return copy

    def _is_near(self, item: str, anchor: str, slack: int) -> bool:
        here, there = self.passages.places.get(item), self.passages.places.get(anchor)
        if here is None or there is None or here.source == item or there.source == anchor:
            return slack > 0  # of whole documents
        is_beside = here.start < there.end + slack and there.start < here.end + slack
        return here.source == there.source and is_beside

    def _distance(self, old: Span, passage_id: str) -> float:
        here = self.passages.places.get(passage_id)
        if here is None or here.source != old.source:
            return math.inf
        return abs(here.start - old.start)

    def _held(self, label: Label, covers: Mapping[str, Cover], by: By) -> Found:
        """What became of a label whose text these passages hold."""
        pieces = self._pieces(covers)
        score = share(_together(covers[piece.id] for piece in pieces))
        if score < self._threshold:
            return Found("lost", score)
        fate: Fate = "split"
        if pieces[0].share >= WHOLE:
            fate = "moved"
        has_own_id = any(piece.id == label.id for piece in pieces if piece.share >= self._threshold)
        # what has its id has its text, and more or less than that
        if score < WHOLE or (fate == "moved" and label.has_id and has_own_id):
            fate = "changed"
        return Found(fate, score, tuple(pieces), by)

    def _pieces(self, covers: Mapping[str, Cover]) -> list[Piece]:
        """The passages that hold enough by themselves, and those that add what is missing."""
        pieces = [Piece(item, share(cover)) for item, cover in covers.items()]
        pieces.sort(key=lambda piece: piece.share, reverse=True)
        pieces_taken = [piece for piece in pieces if piece.share >= self._threshold]
        candidates = pieces[len(pieces_taken) :]
        documents = self.passages.documents
        while candidates:
            together = _together(covers[piece.id] for piece in pieces_taken)
            if share(together) >= max(WHOLE, self._threshold):
                break
            gains = [share(covers[piece.id] & ~together) for piece in candidates]
            best = candidates.pop(int(np.argmax(gains)))
            document_ids = {documents.get(piece.id) for piece in pieces_taken or [best]}
            minimum = _LEAST_ELSEWHERE
            if documents.get(best.id) in document_ids:
                minimum = _LEAST_PIECE
            if max(gains) < minimum:
                break
            pieces_taken.append(best)
        return pieces_taken


def fold_typography(text: str) -> str:
    """A text as it would be typed, so that a document that is parsed anew has the same text.

    >>> fold_typography("the  \\u201cof\\ufb01\\u00adcial\\u201d\\n rate \\u2013 5 %")
    'the "official" rate - 5 %'
    """
    return " ".join(compatible(text.translate(_TYPOGRAPHY)).split())


def covered(text: str, by: str, *, is_edit: bool = False) -> Cover:
    """(letters,) which are in a stretch, of 24 bytes or half of the text, that `by` has."""
    normal = letters(text)
    is_covered = np.zeros(len(normal), np.bool_)
    grams = _grams(text)
    is_shared = np.isin(grams, _grams(by))
    width = len(normal) - len(grams) + 1
    n_bytes = len(normal.encode("utf-8", "surrogatepass"))
    minimum = min(math.ceil(_STRETCH * len(normal) / max(1, n_bytes)), len(normal) // 2)
    if is_edit and n_bytes < _SHORT:
        minimum = min(minimum, GRAM)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_shared, [False]])))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start + width - 1 >= minimum:
            is_covered[start : end + width - 1] = True
    return is_covered


@lru_cache(maxsize=4096)
def _grams(text: str) -> npt.NDArray[np.uint64]:
    """(grams,) the hash of every eight letters in a row, in order; a shorter text is one."""
    normal = letters(text)
    return gram_hashes(normal, min(GRAM, len(normal)) or 1)


def share(cover: Cover) -> float:
    return float(cover.mean()) if len(cover) else 0.0


def _together(covers: Iterable[Cover]) -> Cover:
    arrays = [*covers]
    return np.logical_or.reduce(arrays) if arrays else np.zeros(1, np.bool_)
