"""Where a labelled passage is today: under its id, at its place, or wherever its text is.

A place is believed only where the texts agree, since an edit above a passage moves it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.labels.corpus import Passages
from llama_index_rag_metrics.labels.labelled import Label
from llama_index_rag_metrics.labels.likeness import Lookup, Piece, covered, kept_in_order, text_hash
from llama_index_rag_metrics.rankings.span import Span

Fate: TypeAlias = Literal["kept", "moved", "split", "changed", "lost"]
"""What became of a labelled passage: it has its id and its text; it is whole in another passage; it
lies over several; its text is another; it is nowhere."""

By: TypeAlias = Literal["id", "place", "text", ""]
"""How it was found."""

WHOLE = 0.95
"""The share of a passage that must be there for it to be whole: a word at an edge may be cut."""

_LEAST_PIECE, _LEAST_ELSEWHERE = 0.02, 0.1
"""The share of a passage that another must add to the others to be a piece of it: one of the same
document, and one of any other, with which it may share a phrase."""

_MUCH_ALIKE = 0.75
"""The share of a short text that a passage of another id must have kept to be an edit of it."""

_ALIKE = 0.65
"""The share that the passage with its own id must have kept; sentences of one kind share half."""

_MOST_COMPARED = 32

Cover: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """What became of a label.

    Attributes:
        score: the share of its text that is there, in [0, 1]; 1 where its text isn't known and its
            id or its place is; None where nothing more than a hash of its text is known, and no
            passage has it.
        pieces: the passages that hold it, that with the largest share first; those that add
            nothing to others aren't among them, unless they hold `threshold` of it by themselves.
    """

    fate: Fate
    score: float | None
    pieces: tuple[Piece, ...] = ()
    by: By = ""


class Finder:
    """Finds labelled passages among those of today.

    From `threshold`, in (0, 1], of a label's text a passage holds it; a label of which all passages
    together hold less is lost.
    """

    def __init__(self, passages: Passages, labels: Iterable[Label], threshold: float = 0.5) -> None:
        self._passages = passages
        self._threshold = threshold
        today = passages.texts
        texts = (text for label in labels for text in (*label.texts, today.get(label.id)) if text)
        self.lookup = Lookup(texts, today)

    def find(self, label: Label) -> Found:
        if not label.by_place and self._has_same(label):
            return Found("kept", 1.0, (Piece(label.id, 1.0),), "id")
        if label.hash_alone is not None:
            return self._by_hash(label)
        placed = self._at_place(label)
        if placed is not None and _score(placed) >= WHOLE:
            return placed
        by_text = self._by_text(label)
        both = [located for located in (by_text, placed) if located is not None]
        return max(both, key=_score, default=Found("lost", 0.0 if label.texts else None))

    def _has_same(self, label: Label) -> bool:
        today = self._passages.texts.get(label.id)
        if today is None:
            return False
        known = [label.hash_alone] if label.hash_alone else [*map(text_hash, label.texts)]
        return not known or text_hash(today) in known

    def _by_hash(self, label: Label) -> Found:
        """Where a text is of which only a hash is known: whole in a passage, or that can't be told.

        At a place, a passage that has all of it shows whether the text there is still the same.
        """
        placed = self._at_place(label)
        pieces = placed.pieces if placed else ()
        cuts = ((piece.id, self._passages.cut(piece.id, label.place)) for piece in pieces)
        hashes = {passage_id: text_hash(text) for passage_id, text in cuts if text is not None}
        if placed is not None and (not hashes or label.text_hash in hashes.values()):
            return placed
        if holders := self._holders.get(label.text_hash or ""):
            return Found("moved", 1.0, tuple(Piece(holder, 1.0) for holder in holders), "text")
        if hashes:
            return Found("changed", None, tuple(Piece(item, None) for item in hashes), "place")
        if not label.by_place and label.id in self._passages.texts:
            return Found("changed", None, (Piece(label.id, None),), "id")
        return Found("lost", None)

    @cached_property
    def _holders(self) -> Mapping[str, list[str]]:
        """Hash of a text to the passages of today that have it."""
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for passage_id, text in self._passages.texts.items():
            holders[text_hash(text)].append(passage_id)
        return holders

    def _at_place(self, label: Label) -> Found | None:
        """The passages where the label was, if they still have its text there."""
        if label.place is None:
            return None
        held: dict[str, Cover] = {}
        for passage_id in self._passages.by_document.get(label.place.source, ()):
            here = self._passages.places[passage_id]
            start, end = max(label.place.start, here.start), min(label.place.end, here.end)
            if start < end and self._agrees(label, passage_id, here, start, end):
                cover = np.zeros(label.place.end - label.place.start, np.bool_)
                cover[start - label.place.start : end - label.place.start] = True
                held[passage_id] = cover
        return self._found(label, held, "place") if held else None

    def _agrees(self, label: Label, passage_id: str, here: Span, start: int, end: int) -> bool:
        """Whether a passage has the characters that the label has there."""
        if label.text is None or label.place is None:
            return True
        if len(label.text) != label.place.end - label.place.start:
            return False
        wanted = label.text[start - label.place.start : end - label.place.start]
        today = self._passages.texts[passage_id]
        if len(today) == here.end - here.start:
            today = today[start - here.start : end - here.start]
        return " ".join(wanted.split()) in " ".join(today.split())

    def _by_text(self, label: Label) -> Found | None:
        """The passages that have the label's text, those of its own document first."""
        best: Found | None = None
        for text in label.texts:
            if best is not None and _score(best) >= WHOLE:
                break
            candidates = self.lookup.sharing(text)[:_MOST_COMPARED]
            if label.id in self._passages.texts and label.id not in candidates:
                candidates.append(label.id)
            own = label.place.source if label.place else label.id
            documents = self._passages.documents
            candidates.sort(key=lambda item: item != label.id and documents.get(item) != own)
            held = {item: covered(text, self._passages.texts[item]) for item in candidates}
            located = self._chosen(
                label, [self._found(label, covers, "text") for covers in self._occurrences(held)]
            )
            if located is None or located.fate == "lost":
                located = self._edited(label, text, candidates) or located
            if best is None or (located is not None and _score(located) > _score(best)):
                best = located
        return best

    def _edited(self, label: Label, text: str, candidates: Iterable[str]) -> Found | None:
        """The passage that a short text was edited into: that with its id, or one much like it."""
        today = self._passages.texts
        shares = {item: _share(kept_in_order(text, today[item])) for item in candidates}
        if shares.get(label.id, 0.0) >= max(self._threshold, _ALIKE):
            best = label.id
        else:
            best = max(shares, key=shares.__getitem__, default="")
            if shares.get(best, 0.0) < max(self._threshold, _MUCH_ALIKE):
                return None
        return Found("changed", shares[best], (Piece(best, shares[best]),), "text")

    def _chosen(self, label: Label, occurrences: list[Found]) -> Found | None:
        """Where a text is, of the places where it was found: that nearest to where it was.

        Where that isn't known, all places count that have it equally well: they are alternatives.
        """
        if not occurrences:
            return None
        best = max(occurrences, key=_score)
        if label.place is not None:
            place = label.place
            enough = min(WHOLE, _score(best))
            whole = [located for located in occurrences if _score(located) >= enough]
            return min(whole, key=lambda located: self._distance(located, place))
        good = [located for located in occurrences if located.score == best.score]
        pieces = tuple(piece for located in good for piece in located.pieces)
        return replace(best, pieces=tuple(sorted(pieces, key=lambda piece: -(piece.share or 0.0))))

    def _found(self, label: Label, held: dict[str, Cover], by: By) -> Found:
        shares = {item: _share(cover) for item, cover in held.items()}
        pieces = self._pieces(held, shares)
        covers = [held[piece.id] for piece in pieces]
        score = _share(np.logical_or.reduce(covers)) if covers else 0.0
        if score < self._threshold:
            return Found("lost", score, (), "")
        whole = max((shares[piece.id] for piece in pieces), default=0.0) >= WHOLE
        fate: Fate = "changed" if score < WHOLE else "moved" if whole else "split"
        own = shares.get(label.id, 0.0)
        if fate == "moved" and not label.by_place and own >= self._threshold:
            fate = "changed"  # what has its id has its text, and more or less than that
        return Found(fate, score, tuple(pieces), by)

    def _occurrences(self, held: dict[str, Cover]) -> list[dict[str, Cover]]:
        """What holds some of a text, by where it does: a text and its copy are two occurrences.

        Passages of one document belong together if they are no farther apart than the text is long.
        Those that aren't cut from a document, or not from a known place, are taken together. Where
        some have the whole text, others count only if they overlap with them.
        """
        some = {item: cover for item, cover in held.items() if cover.any()}
        places = {item: self._cut_from(item) for item in some}
        length = len(next(iter(held.values()), ()))
        occurrences: list[dict[str, Cover]] = []
        last: Span | None = None
        for here, item in sorted((place, item) for item, place in places.items() if place):
            is_near = last is not None and last.source == here.source
            if last is None or not is_near or here.start > last.end + length:
                occurrences.append({})
                last = here
            last = max(last, here, key=lambda span: span.end)
            occurrences[-1][item] = some[item]
        occurrences.append({item: some[item] for item, place in places.items() if place is None})
        return [self._around_whole(occurrence) for occurrence in occurrences if occurrence]

    def _around_whole(self, held: dict[str, Cover]) -> dict[str, Cover]:
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
        """The place of a passage that was cut from a document; None for a document."""
        place = self._passages.places.get(passage_id)
        return None if place is None or place.source == passage_id else place

    def _distance(self, located: Found, old: Span) -> float:
        """How far from a label's old place a text was found; infinite in other documents."""
        here = self._passages.places.get(located.pieces[0].id) if located.pieces else None
        return (
            math.inf if here is None or here.source != old.source else abs(here.start - old.start)
        )

    def _pieces(self, held: dict[str, Cover], shares: dict[str, float]) -> list[Piece]:
        """The passages that hold enough by themselves, and those that add what is missing."""
        chosen = [item for item in shares if shares[item] >= self._threshold]
        chosen.sort(key=lambda item: -shares[item])
        left = {item: held[item] for item in shares if item not in chosen}
        together = np.zeros(len(next(iter(held.values()), ())), np.bool_)
        for item in chosen:
            together |= held[item]
        documents = self._passages.documents
        while left and _share(together) < WHOLE:
            best = max(left, key=lambda item: int((left[item] & ~together).sum()))
            gained = _share(left[best] & ~together)
            own = {documents.get(item) for item in chosen or [best]}
            if gained < (_LEAST_PIECE if documents.get(best) in own else _LEAST_ELSEWHERE):
                break
            chosen.append(best)
            together |= left.pop(best)
        return [Piece(item, shares[item]) for item in chosen]


def _score(located: Found) -> float:
    return located.score or 0.0


def _share(cover: Cover) -> float:
    return float(cover.mean()) if len(cover) else 0.0
