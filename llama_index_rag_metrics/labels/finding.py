"""Labelled passages found again: by id, by place, or by the share of their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.evaluation.passages import Passages
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.likeness import compatible, gram_hashes, letters
from llama_index_rag_metrics.rankings.matching.matched import Expected
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.span import Span, stored_span
from llama_index_rag_metrics.runtime.errors import InvalidInput

# A labelled passage has its id and text; is whole in another passage; lies over several; has
# another text; is nowhere
Fate: TypeAlias = Literal["kept", "moved", "split", "changed", "lost"]
By: TypeAlias = Literal["id", "place", "text", ""]
Cover: TypeAlias = npt.NDArray[np.bool_]  # (letters,) or (characters,) which of a text are there
Hashes: TypeAlias = npt.NDArray[np.uint64]
Numbers: TypeAlias = npt.NDArray[np.int64]

WHOLE = 0.95  # the share from which a passage is whole: a word at an edge may be cut
# what another piece must add: texts may share a phrase
_LEAST_PIECE: Mapping[By, float] = {"place": 0.02, "text": 0.1}
_MOST_COMPARED = 32
_LEAST_SHARED = 0.02  # of a text's fingerprints, for a passage to be compared with it
_STRETCH = 24  # bytes that two texts must share in a row

_GRAM = 8  # letters in a run: long enough that unrelated texts share few, short enough for Chinese
_WINDOW = 5  # neighbouring runs of which the smallest hash is a fingerprint
_BLOCK = 64  # texts hashed at once, so that their runs fit into a processor's cache
_COMMON = 256  # a fingerprint in more passages than this is boilerplate, and doesn't count
_NO_RUN = np.iinfo(np.uint64).max

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
    """A labelled passage, as the dataset has it."""

    id: str
    texts: tuple[str, ...] = ()  # with its title and without
    part: str = ""  # the part of the text that counts, where that is known
    place: Span | None = None
    has_id: bool = True  # False for a place in a document, or a text

    @property
    def text(self) -> str:
        """What has to be found; "" if nobody knows."""
        return self.part or next(reversed(self.texts), "")


@dataclass(frozen=True)
class Found:
    """The fate of a label, and the passages that hold it, the largest share first."""

    fate: Fate
    score: float  # the share that is there; 1 if only id or place are known
    ids: tuple[str, ...] = ()
    new_ids: tuple[str, ...] = ()  # those of the ids that hold enough of it; if none does, all
    by: By = ""


def judged(dataset: RetrievalDataset) -> dict[str, Relevance]:
    """Return the relevance of each question: of its labels, or else of its expected texts."""
    if not isinstance(dataset, RetrievalDataset):
        remedy = "The dataset comes first, then what can be retrieved."
        raise InvalidInput("dataset", type(dataset), "a RetrievalDataset", remedy)
    relevance = {}
    for query_id in dataset.queries:
        judgements = dataset.relevance.get(query_id)
        if judgements is None and dataset.expected_texts.get(query_id):
            judgements = Expected.of_texts(None, dataset.expected_texts[query_id]).relevance
        if judgements is not None:
            relevance[query_id] = judgements
    return relevance


def labels_of(
    dataset: RetrievalDataset, relevance: Mapping[str, Relevance]
) -> dict[tuple[str, str], Label]:
    labels = {}
    for query_id, judgements in relevance.items():
        texts: dict[str, str] = {}
        with suppress(InvalidInput):  # answers rather than passages
            answers = dataset.expected_texts.get(query_id, ())
            expected = Expected.of_texts(dataset.relevance.get(query_id), answers)
            texts = dict(expected.passages)
        for item in judgements.grades:
            place = stored_span(dataset.document_metadata.get(item, {}))
            label = _label(dataset, item, texts.get(item, ""), place, judgements.spans or {})
            if query_id not in dataset.relevance:
                label = Label(f"{item} of {query_id}", label.texts, has_id=False)
            labels[query_id, item] = label
    return labels


def _label(
    dataset: RetrievalDataset, item: str, text: str, place: Span | None, spans: Mapping[str, Span]
) -> Label:
    texts: tuple[str, ...] = (text,) if text else ()
    if item in dataset.corpus:
        texts = (dataset.indexed_text(item), dataset.corpus[item])
    if item not in spans:
        return Label(item, texts, place=place)
    span = spans[item]
    part = dataset.corpus.get(span.source, "")[span.start : span.end]
    return Label(item, texts, part, span, has_id=item in dataset.corpus)


class Finder:
    """Finds labelled passages; below `threshold` of its text in all passages, a label is lost."""

    def __init__(self, passages: Passages, labels: Iterable[Label], threshold: float = 0.5) -> None:
        self.passages = passages
        self._labels = tuple(labels)
        self._threshold = threshold

    @cached_property
    def _lookup(self) -> Lookup:
        texts: list[str] = []
        for label in self._labels:
            texts += [label.part, *label.texts]
        return Lookup(texts, self.passages.texts)

    def find(self, label: Label) -> Found:
        today = self.passages.texts.get(label.id) if label.has_id else None
        old_texts = set(map(fold_typography, label.texts))
        if today is not None and (not old_texts or fold_typography(today) in old_texts):
            return Found("kept", 1.0, (label.id,), (label.id,), "id")
        outcomes = [self._held(label, self._at_place(label), "place")]
        for text in (label.part,) if label.part else label.texts:
            if outcomes[-1].score < WHOLE:
                outcomes.append(self._held(label, self._by_text(label, text), "text"))
        return max(outcomes, key=lambda outcome: outcome.score)

    def _at_place(self, label: Label) -> dict[str, Cover]:
        """Return what of a label each passage at its place holds, if it still has that text."""
        place, text = label.place, label.text
        covers: dict[str, Cover] = {}
        if place is None or (text and len(text) != place.end - place.start):
            return covers
        for passage_id, here in self.passages.overlapping(place).items():
            extent = slice(here.start - place.start, here.end - place.start)
            today = self.passages.cut(passage_id, here) or self.passages.texts[passage_id]
            if not text or fold_typography(text[extent]) in fold_typography(today):
                covers[passage_id] = np.zeros(place.end - place.start, np.bool_)
                covers[passage_id][extent] = True
        return covers

    def _by_text(self, label: Label, text: str) -> dict[str, Cover]:
        """Return what of a text the most similar passages hold; of copies only the nearest."""
        texts, keys = self.passages.texts, self._lookup.sharing(text)
        covers = {key: covered(text, texts[key]) for key in keys}
        highest = max(map(share, covers.values()), default=0.0)
        threshold = highest if highest == 1.0 else min(WHOLE, highest)  # all of it, or most
        holders = {key: cover for key, cover in covers.items() if share(cover) >= threshold}
        distances = self._distances(label, holders)
        if distances:
            nearest = min(distances.values())  # what was put in before may have moved all of them
            farthest = nearest + max(len(text), nearest)
            distances = self._distances(label, covers)
            return {key: covers[key] for key in distances if distances[key] <= farthest}
        return holders if threshold >= WHOLE else covers

    def _distances(self, label: Label, ids: Iterable[str]) -> dict[str, int]:
        """Return how far each passage of the label's document is from the label's place."""
        places = self.passages.places
        distances = {}
        for key in ids:
            if label.place and key in places and places[key].source == label.place.source:
                distances[key] = abs(places[key].start - label.place.start)
        return distances

    def _held(self, label: Label, covers: Mapping[str, Cover], by: By) -> Found:
        ids = self._holders(covers, _LEAST_PIECE[by])
        score = share(_together(map(covers.__getitem__, ids)))
        if score < self._threshold:
            return Found("lost", score)
        new_ids = tuple(key for key in ids if share(covers[key]) >= self._threshold)
        fate: Fate = "split"
        if share(covers[ids[0]]) >= WHOLE:
            fate = "moved"
        # what has its id has its text, and more or less than that
        if score < WHOLE or (fate == "moved" and label.id in new_ids):
            fate = "changed"
        return Found(fate, score, tuple(ids), new_ids or tuple(ids), by)

    def _holders(self, covers: Mapping[str, Cover], minimum: float) -> list[str]:
        """Return the passages that hold enough by themselves, then those that hold the rest."""
        candidates = sorted(covers, key=lambda key: share(covers[key]), reverse=True)
        ids = [key for key in candidates if share(covers[key]) >= self._threshold]
        candidates = candidates[len(ids) :]
        while candidates:
            together = _together(map(covers.__getitem__, ids))
            gains = [share(covers[key] & ~together) for key in candidates]
            if share(together) >= max(WHOLE, self._threshold) or max(gains) < minimum:
                break
            ids.append(candidates.pop(int(np.argmax(gains))))
        return ids


def fold_typography(text: str) -> str:
    """A text as it would be typed, so that a document that is parsed anew has the same text."""
    return " ".join(compatible(text.translate(_TYPOGRAPHY)).split())


def covered(text: str, passage: str) -> Cover:
    """Return (letters,) whether each is in a stretch that both have: 24 bytes or a third of it."""
    normal = letters(text)
    length = min(_GRAM, len(normal))
    is_shared = np.isin(_runs(text, length), _runs(passage, length))
    n_bytes = len(normal.encode("utf-8", "surrogatepass"))
    stretch = min(_STRETCH * len(normal) // max(1, n_bytes), len(normal) // 3)
    n_runs = max(1, stretch - length + 1)
    is_start = np.convolve(is_shared, np.ones(n_runs), "valid") == n_runs
    return np.convolve(is_start, np.ones(n_runs + length - 1)) > 0


@lru_cache(maxsize=4096)
def _runs(text: str, length: int) -> Hashes:
    return gram_hashes(letters(text), length)


def share(cover: Cover) -> float:
    return float(cover.mean()) if len(cover) else 0.0


def _together(covers: Iterable[Cover]) -> Cover:
    arrays = list(covers)
    return np.logical_or.reduce(arrays) if arrays else np.zeros(1, np.bool_)


class Lookup:
    """The passages that share fingerprints with texts.

    By winnowing (Schleimer, Wilkerson and Aiken, SIGMOD 2003): of every five neighbouring runs of
    eight letters the smallest hash is kept.
    """

    def __init__(self, texts: Sequence[str], passages: Mapping[str, str]) -> None:
        self._passages, self._ids = passages, list(passages)
        text_prints = [_fingerprints(block)[1] for block in _blocks(texts)]
        vocabulary = np.append(np.unique(np.concatenate(text_prints)), _NO_RUN)
        owners, prints = [], []
        for number, block in enumerate(_blocks(list(passages.values()))):
            owner, hashes = _fingerprints(block)
            is_shared = vocabulary[np.searchsorted(vocabulary, hashes)] == hashes
            owners.append(owner[is_shared] + number * _BLOCK)
            prints.append(hashes[is_shared])
        all_prints = np.concatenate(prints)
        order = np.argsort(all_prints, kind="stable")
        self._prints, self._owner = all_prints[order], np.concatenate(owners)[order]

    def sharing(self, text: str) -> list[str]:
        """The passages that share most fingerprints with a text, or have it if it is short."""
        normal = letters(text)
        if len(normal) < _GRAM + _WINDOW - 1:  # a longer passage may have no fingerprint in it
            return [key for key, passage in self._passages.items() if normal in letters(passage)]
        prints = np.unique(_fingerprints([text])[1])
        begin = np.searchsorted(self._prints, prints, "left")
        spread = np.searchsorted(self._prints, prints, "right") - begin
        is_rare = (spread > 0) & (spread <= max(_COMMON, int(spread.min())))
        begin, spread = begin[is_rare], spread[is_rare]
        postings = [self._owner[:0]]
        for start, length in zip(begin, spread, strict=True):
            postings.append(self._owner[start : start + length])
        numbers, voters = np.unique(np.concatenate(postings), return_inverse=True)
        votes = np.bincount(voters, np.repeat(1 / spread, spread), len(numbers))
        order = np.argsort(-votes, kind="stable")[:_MOST_COMPARED]
        order = order[votes[order] >= _LEAST_SHARED * len(spread)]
        return [self._ids[number] for number in numbers[order].tolist()]


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK))


def _fingerprints(texts: Sequence[str]) -> tuple[Numbers, Hashes]:
    """The fingerprints of texts: (prints,) the number of the text, and the hash, of each."""
    # all are hashed at once, end to end; of the runs that reach into the next text none counts,
    # and a window is narrower than these are, so that it never sees two texts
    normal = list(map(letters, texts))
    owner = np.repeat(np.arange(len(texts)), list(map(len, normal)))
    runs = gram_hashes("".join(normal), _GRAM)
    is_whole = owner[: len(runs)] == owner[_GRAM - 1 :]
    runs[~is_whole] = _NO_RUN
    smallest = runs.copy()
    for step in range(1, _WINDOW):
        np.minimum(smallest[:-step], runs[step:], out=smallest[:-step])
    is_first = np.ones(len(smallest), np.bool_)
    is_first[1:] = (smallest[1:] != smallest[:-1]) | ~is_whole[:-1]
    positions = np.flatnonzero(is_whole & is_first)
    return owner[positions], smallest[positions]
