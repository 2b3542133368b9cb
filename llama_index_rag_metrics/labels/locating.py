"""The labelled passages of a dataset, and where each is today: by its id, place or text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from llama_index.core.schema import BaseNode

from llama_index_rag_metrics.evaluation.passages import Passages
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels.likeness import (
    Lookup,
    Piece,
    covered,
    fold_typography,
    kept_in_order,
)
from llama_index_rag_metrics.rankings.matching.matched import Expected
from llama_index_rag_metrics.rankings.matching.normalisation import letters
from llama_index_rag_metrics.rankings.matching.places import NodePlaces
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import InvalidInput


@dataclass
class Label:
    """A passage that questions are labelled with, as it was then.

    `other_text` is without the title; one `by_place` names a part of a document or a text, no id;
    of one with an `answer`, only that part has to be found again.
    """

    id: str
    text: str | None = None
    other_text: str | None = None
    place: Span | None = None
    by_place: bool = False
    queries: dict[str, float] = field(default_factory=dict)
    answer: str = ""

    @property
    def relevant_to(self) -> tuple[str, ...]:
        return tuple(query_id for query_id, grade in self.queries.items() if grade > 0)

    @property
    def texts(self) -> list[str]:
        return [text for text in (self.text, self.other_text) if text]

    def part(self, text: str) -> slice:
        """Where the answer is in a text; all of it where that isn't known."""
        places = _occurrences(self.answer, text)
        return slice(*places[0].span()) if len(places) == 1 else slice(None)


# (query id, item) to label; all queries with a passage have the same one
Labels: TypeAlias = dict[tuple[str, str], Label]


def labels_of(dataset: RetrievalDataset, old_nodes: Iterable[BaseNode] = ()) -> Labels:
    if not hasattr(dataset, "queries"):
        remedy = "The dataset comes first, then what can be retrieved."
        raise InvalidInput("dataset", type(dataset), "a RetrievalDataset", remedy)
    old_places = NodePlaces(old_nodes)
    texts = {node.node_id: node.get_content() for node in old_nodes}
    by_id: dict[str, Label] = {}
    labels: Labels = {}
    for query_id in dataset.queries:
        relevance = judged(dataset, query_id)
        if relevance is None:
            continue
        expected: dict[str, str] = {}
        if own := dataset.expected_texts.get(query_id):
            with suppress(InvalidInput):  # answers rather than passages
                by_text = Expected.of_texts(dataset.relevance.get(query_id), own)
                expected = dict(zip(by_text.ids, by_text.passages, strict=True))
        is_named, spans = query_id in dataset.relevance, relevance.spans or {}
        for item, grade in relevance.grades.items():
            name = item if is_named else f"{item} of {query_id}"
            if (label := by_id.get(name)) is None:
                place = _place(dataset, item, old_places)
                if place is None or item not in dataset.corpus:
                    place = spans.get(item) or place
                label = by_id[name] = _label(dataset, name, place, texts.get(item))
                label.by_place = not is_named or (item in spans and item not in dataset.corpus)
            label.text = expected.get(item) if label.text is None else label.text
            label.queries[query_id] = grade
            labels[query_id, item] = label
    return labels


def answers_in(label: Label, dataset: RetrievalDataset, query_id: str) -> list[str]:
    """The parts of a passage that answer a question, and occur there once."""
    if label.by_place or label.text is None:
        return []
    answers = dataset.expected_texts.get(query_id, ())
    if (place := (dataset.relevance[query_id].spans or {}).get(label.id)) is not None:
        begin, text, here = 0, dataset.corpus.get(place.source, ""), label.place
        if here is not None and here.source == place.source and place != here:
            begin, text = here.start, label.text
        answers = [text[max(0, place.start - begin) : place.end - begin]]
    return [
        answer
        for answer in dict.fromkeys(answers)
        if len(answer.split()) < len(label.text.split())
        and len(_occurrences(answer, label.text)) == 1
    ]


def _occurrences(answer: str, text: str) -> list[re.Match[str]]:
    words = r"\s+".join(map(re.escape, answer.split()))
    return [*re.finditer(rf"(?<!\w){words}(?!\w)", text)] if words else []


def labels_by_id(labels: Labels) -> dict[str, Label]:
    return {label.id: label for label in labels.values()}


def judged(dataset: RetrievalDataset, query_id: str) -> Relevance | None:
    """A question's relevance, or else that of its expected texts."""
    texts = dataset.expected_texts.get(query_id)
    if query_id not in dataset.relevance and texts:
        return Expected.of_texts(None, texts).relevance
    return dataset.relevance.get(query_id)


def _label(dataset: RetrievalDataset, name: str, place: Span | None, text: str | None) -> Label:
    if name in dataset.corpus:
        bare = dataset.corpus[name] if dataset.titles.get(name) else None
        return Label(name, dataset.indexed_text(name), bare, place)
    if text is None and place is not None and place.source in dataset.corpus:
        text = dataset.corpus[place.source][place.start : place.end]
    return Label(name, text or None, None, place)


def _place(dataset: RetrievalDataset, item: str, old_places: NodePlaces) -> Span | None:
    if (span := old_places.of_id(item)) is not None:
        return span
    metadata = dataset.document_metadata.get(item, {})
    source = metadata.get("ref_doc_id")
    start, end = metadata.get("start_char_idx"), metadata.get("end_char_idx")
    if isinstance(source, str) and type(start) is int and type(end) is int and 0 <= start < end:
        return Span(source, start, end)
    return None


# A labelled passage has its id and text; is whole in another passage; lies over several; has
# another text; is nowhere
Fate: TypeAlias = Literal["kept", "moved", "split", "changed", "lost"]
By: TypeAlias = Literal["id", "place", "text", ""]
WHOLE = 0.95  # the share from which a passage is whole: a word at an edge may be cut
# the share that another piece must add: from the same document, and from others, with which a
# passage may share a phrase
_LEAST_PIECE, _LEAST_ELSEWHERE = 0.02, 0.1
# the share of a short text that an edit of it must keep, under another id, and under its own
_MUCH_ALIKE, _ALIKE = 0.75, 0.65
_MOST_COMPARED = 32

Cover: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Located:
    """What became of a label, and the passages that hold it, the largest share first.

    `score` is the share that is there, 1 if only id or place are known, None of a lost label
    without a text.
    """

    fate: Fate
    score: float | None
    pieces: tuple[Piece, ...] = ()
    by: By = ""


class Finder:
    """Finds labelled passages; below `threshold` of its text in all passages, a label is lost."""

    def __init__(self, passages: Passages, labels: Iterable[Label], threshold: float = 0.5) -> None:
        self.passages = passages
        self._threshold = threshold
        today = passages.texts
        texts = (text for label in labels for text in (*label.texts, today.get(label.id)) if text)
        self.lookup = Lookup(texts, today)

    def find(self, label: Label) -> Located:
        today = None if label.by_place else self.passages.texts.get(label.id)
        known = {*map(fold_typography, label.texts)}
        if today is not None and (not known or fold_typography(today) in known):
            return Located("kept", 1.0, (Piece(label.id, 1.0),), "id")
        placed = self._at_place(label)
        if placed is not None and _score(placed) >= WHOLE:
            return placed
        both = [located for located in (self._by_text(label), placed) if located is not None]
        return max(both, key=_score, default=Located("lost", 0.0 if label.texts else None))

    def _at_place(self, label: Label) -> Located | None:
        """The passages at the label's place that still have its text."""
        if label.place is None:
            return None
        held: dict[str, Cover] = {}
        begin, length = label.place.start, label.place.end - label.place.start
        for passage_id, part in self.passages.overlapping(label.place).items():
            where = slice(part.start - begin, part.end - begin)
            if label.text is not None:
                today = self.passages.cut(passage_id, part) or self.passages.texts[passage_id]
                is_there = fold_typography(label.text[where]) in fold_typography(today)
                if len(label.text) != length or not is_there:
                    continue
            held[passage_id] = np.zeros(length, np.bool_)
            held[passage_id][where] = True
        answer = label.part(label.text or "")
        return self._found(label, held, "place", answer) if held else None

    def _by_text(self, label: Label) -> Located | None:
        """The passages that have the label's text, those of its own document first."""
        found: list[Located] = []
        for text in label.texts:
            candidates = self.lookup.sharing(text)[:_MOST_COMPARED]
            if label.id in self.passages.texts and label.id not in candidates:
                candidates.append(label.id)
            own = label.place.source if label.place else label.id
            documents = self.passages.documents
            candidates.sort(key=lambda item: item != label.id and documents.get(item) != own)
            held = {item: covered(text, self.passages.texts[item]) for item in candidates}
            answer = label.part(text)
            if answer.start is not None:
                answer = slice(*(len(letters(text[:end])) for end in (answer.start, answer.stop)))
            copies = self._occurrences(held)
            if label.answer and label.place is None and copies:
                shares = [_share(np.logical_or.reduce([*copy.values()])) for copy in copies]
                copies = [copies[n] for n, share in enumerate(shares) if share == max(shares)]
            occurrences = [self._found(label, copy, "text", answer) for copy in copies]
            located = self._chosen(label, occurrences)
            if located is None or located.fate == "lost":
                located = self._edited(label, text, candidates) or located
            found += [located] if located else []
            if located and _score(located) >= WHOLE:
                break
        return max(found, key=_score, default=None)

    def _edited(self, label: Label, text: str, candidates: Iterable[str]) -> Located | None:
        """The passage with its id, or one much like it, that a short text was edited into."""
        today = self.passages.texts
        shares = {item: _share(kept_in_order(text, today[item])) for item in candidates}
        best = max(shares, key=shares.__getitem__, default="")
        if shares.get(label.id, 0.0) >= max(self._threshold, _ALIKE):
            best = label.id
        elif shares.get(best, 0.0) < max(self._threshold, _MUCH_ALIKE):
            return None
        return Located("changed", shares[best], (Piece(best, shares[best]),), "text")

    def _chosen(self, label: Label, occurrences: list[Located]) -> Located | None:
        """The occurrence nearest to the label's place, or else the equally good ones together."""
        if not occurrences:
            return None
        best = max(occurrences, key=_score)
        if label.place is not None:
            enough = min(WHOLE, _score(best))
            whole = [located for located in occurrences if _score(located) >= enough]
            return min(whole, key=partial(self._distance, label.place))
        good = [located for located in occurrences if located.score == best.score]
        pieces = tuple(piece for located in good for piece in located.pieces)
        return replace(best, pieces=tuple(sorted(pieces, key=lambda piece: -(piece.share or 0.0))))

    def _found(self, label: Label, held: dict[str, Cover], by: By, part: slice) -> Located:
        """What holds a part of the label's text, of which each passage has some."""
        held = {item: cover[part] for item, cover in held.items()}
        shares = {item: _share(cover) for item, cover in held.items()}
        pieces = self._pieces(held, shares)
        covers = [held[piece.id] for piece in pieces]
        score = _share(np.logical_or.reduce(covers)) if covers else 0.0
        if score < self._threshold:
            return Located("lost", score, (), "")
        whole = max((shares[piece.id] for piece in pieces), default=0.0) >= WHOLE
        fate: Fate = "changed" if score < WHOLE else "moved" if whole else "split"
        own = shares.get(label.id, 0.0)
        if fate == "moved" and not label.by_place and own >= self._threshold:
            fate = "changed"  # what has its id has its text, and more or less than that
        return Located(fate, score, tuple(pieces), by)

    def _occurrences(self, held: dict[str, Cover]) -> list[dict[str, Cover]]:
        """The passages with some of a text, by copy: these are farther apart than it is long."""
        length = len(next(iter(held.values()), ()))
        held = {item: cover for item, cover in held.items() if cover.any()}
        places = {item: self._cut_from(item) for item in held}
        occurrences: list[dict[str, Cover]] = []
        last: Span | None = None
        for here, item in sorted((place, item) for item, place in places.items() if place):
            is_near = last is not None and last.source == here.source
            if last is None or not is_near or here.start > last.end + length:
                occurrences.append({})
                last = here
            last = max(last, here, key=lambda span: span.end)
            occurrences[-1][item] = held[item]
        occurrences.append({item: held[item] for item, place in places.items() if place is None})
        return [self._around_whole(occurrence) for occurrence in occurrences if occurrence]

    def _around_whole(self, held: dict[str, Cover]) -> dict[str, Cover]:
        """Passages with the whole text, and those that overlap them; all if none is whole."""
        whole = [item for item, cover in held.items() if _share(cover) >= WHOLE]
        if not whole:
            return held
        places = {item: place for item in held if (place := self._cut_from(item))}
        overlapping = {
            item
            for item, here in places.items()
            for other in whole
            if other in places and here.start < places[other].end and places[other].start < here.end
        }
        return {item: held[item] for item in held if item in overlapping or item in whole}

    def _cut_from(self, passage_id: str) -> Span | None:
        """The place of a passage in another document; None for a document."""
        place = self.passages.places.get(passage_id)
        return None if place is None or place.source == passage_id else place

    def _distance(self, old: Span, located: Located) -> float:
        """The characters between two places; infinite in different documents."""
        here = self.passages.places.get(located.pieces[0].id) if located.pieces else None
        if here is None or here.source != old.source:
            return math.inf
        return abs(here.start - old.start)

    def _pieces(self, held: dict[str, Cover], shares: dict[str, float]) -> list[Piece]:
        """The passages that hold enough by themselves, and those that add what is missing."""
        chosen = sorted(shares, key=lambda item: -shares[item])
        chosen = [item for item in chosen if shares[item] >= self._threshold]
        left = {item: held[item] for item in shares if item not in chosen}
        nothing = np.zeros(len(next(iter(held.values()), ())), np.bool_)
        together = np.logical_or.reduce([nothing, *(held[item] for item in chosen)])
        documents = self.passages.documents
        while left and _share(together) < max(WHOLE, self._threshold):
            best = max(left, key=lambda item: int((left[item] & ~together).sum()))
            gained = _share(left[best] & ~together)
            own = {documents.get(item) for item in chosen or [best]}
            if gained < (_LEAST_PIECE if documents.get(best) in own else _LEAST_ELSEWHERE):
                break
            chosen.append(best)
            together |= left.pop(best)
        return [Piece(item, shares[item]) for item in chosen]


def _score(located: Located) -> float:
    return located.score or 0.0


def _share(cover: Cover) -> float:
    return float(cover.mean()) if len(cover) else 0.0
