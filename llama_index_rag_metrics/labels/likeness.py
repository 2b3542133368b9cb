"""How alike texts are, and which of many share anything with a text: by runs of eight letters.

Candidates are found by winnowing (Schleimer, Wilkerson and Aiken, SIGMOD 2003): of every five
neighbouring runs the smallest hash is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.rankings.matching.containment import gram_hashes
from llama_index_rag_metrics.rankings.matching.normalisation import compatible, letters
from llama_index_rag_metrics.report.numbers import whole_percent

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]
GRAM = 8  # letters in a run: long enough that unrelated texts share few, short enough for Chinese
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2039\u203a\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff"),
    }
)

_WINDOW = 5
_STRETCH = 24
_SHORT = 4 * _STRETCH
_LEAST_BLOCK = 3
_BLOCK = 64
_NO_RUN = np.iinfo(np.uint64).max
_LEAST_SHARED = 0.02  # of a text's fingerprints, for a passage to be compared with it
_COMMON = 256  # A fingerprint in more passages than this is boilerplate, and doesn't count


def fold_typography(text: str) -> str:
    """A text as it would be typed, so that a document that is parsed anew has the same text."""
    return " ".join(compatible(text.translate(_TYPOGRAPHY)).split())


@lru_cache(maxsize=4096)
def runs_of(text: str) -> Hashes:
    """(runs,) the hash of every run of eight letters, in order; shorter texts are one run."""
    normal = letters(text)
    return gram_hashes(normal, min(GRAM, len(normal))) if normal else gram_hashes("", 1)


def covered(text: str, by: str) -> npt.NDArray[np.bool_]:
    """(letters,) which are in a stretch, of 24 bytes or half of the text, that `by` has."""
    normal = letters(text)
    is_covered = np.zeros(len(normal), np.bool_)
    runs = runs_of(text)
    shared = np.isin(runs, runs_of(by))
    width = len(normal) - len(runs) + 1
    n_bytes = len(normal.encode("utf-8", "surrogatepass"))
    least = min(math.ceil(_STRETCH * len(normal) / max(1, n_bytes)), len(normal) // 2)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], shared, [False]])))
    for first, after in edges.reshape(-1, 2).tolist():
        if after - first + width - 1 >= least:
            is_covered[first : after + width - 1] = True
    return is_covered


def kept_in_order(text: str, edited: str) -> npt.NDArray[np.bool_]:
    """(letters,) which letters of a short text are left, in order, after an edit."""
    # longer texts keep a stretch for `covered`; one twice as long has many letters by chance
    normal, other = letters(text), letters(edited)
    is_kept = np.zeros(len(normal), np.bool_)
    if len(normal.encode("utf-8", "surrogatepass")) >= _SHORT or len(other) > 2 * len(normal):
        return is_kept
    matcher = SequenceMatcher(None, normal, other, autojunk=False)
    for start, _, length in matcher.get_matching_blocks():
        if length >= _LEAST_BLOCK:
            is_kept[start : start + length] = True
    return is_kept


class Lookup:
    def __init__(self, texts: Iterable[str], passages: Mapping[str, str]) -> None:
        wanted, self._ids = [*texts], [*passages]
        prints = (np.unique(_fingerprints(block)[1]) for block in _blocks(wanted))
        self._vocabulary = np.unique(np.concatenate([*prints, np.empty(0, np.uint64)]))
        hashes = {_letters_hash(text) for text in wanted}
        hashed = ((_letters_hash(text), passage_id) for passage_id, text in passages.items())
        self._equal = grouped(pair for pair in hashed if pair[0] in hashes)
        pairs = [np.empty(0, np.int64)]
        for number, block in enumerate(_blocks([*passages.values()])):
            owner, of_block = _fingerprints(block)
            is_known, terms = self._places(of_block)
            passage = number * _BLOCK + owner[is_known]
            pairs.append(np.unique(terms * len(self._ids) + passage))
        term, self._passage = np.divmod(np.sort(np.concatenate(pairs)), max(1, len(self._ids)))
        self._offset = np.searchsorted(term, np.arange(len(self._vocabulary) + 1))

    def sharing(self, text: str) -> list[str]:
        """The passages that share a text's fingerprints, weighted by rarity, best first."""
        terms = np.unique(self._places(_fingerprints([text])[1])[1])
        postings = [self._passage[self._offset[term] : self._offset[term + 1]] for term in terms]
        postings = [each for each in postings if len(each) <= _COMMON]
        spread = np.array([len(each) for each in postings], np.int64)
        rarity = 1 / np.maximum(1, spread)
        passages, which = np.unique(
            np.concatenate([*postings, np.empty(0, np.int64)]), return_inverse=True
        )
        shared = np.bincount(which, np.repeat(rarity, spread), len(passages))
        enough = shared >= _LEAST_SHARED * rarity.sum()
        order = np.argsort(-shared[enough], kind="stable")
        alike = [self._ids[passage] for passage in passages[enough][order].tolist()]
        return list(dict.fromkeys([*self._equal.get(_letters_hash(text), ()), *alike]))

    def _places(self, prints: Hashes) -> tuple[npt.NDArray[np.bool_], Positions]:
        if not len(self._vocabulary):
            return np.zeros(len(prints), np.bool_), np.empty(0, np.int64)
        places = np.searchsorted(self._vocabulary, prints)
        places[places == len(self._vocabulary)] = 0
        is_known = self._vocabulary[places] == prints
        return is_known, places[is_known].astype(np.int64)


def _blocks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    """A few items at a time, so that their runs fit into a processor's cache."""
    return (items[start : start + _BLOCK] for start in range(0, len(items), _BLOCK))


class Piece(NamedTuple):
    """A passage, and its share of a text, in (0, 1]; None if only a hash of the text is known."""

    id: str
    share: float | None

    def __str__(self) -> str:
        share = "how much isn't known" if self.share is None else whole_percent(self.share)
        return f"{self.id!r} ({share})"


def _letters_hash(text: str) -> bytes:
    return sha256(letters(text).encode("utf-8", "surrogatepass")).digest()[:16]


def _fingerprints(texts: Sequence[str]) -> tuple[Positions, Hashes]:
    """The fingerprints of texts: (prints,) the text of each, and its hash."""
    # all are hashed at once, end to end; of the runs that reach into the next text none counts,
    # and a window is narrower than these are, so that it never sees two texts
    normal = [letters(text) for text in texts]
    lengths = np.array([len(text) for text in normal], np.int64)
    owner = np.repeat(np.arange(len(texts)), lengths)
    runs = gram_hashes("".join(normal), GRAM)
    is_whole = owner[: len(runs)] == owner[GRAM - 1 :]
    runs[~is_whole] = _NO_RUN
    smallest = runs.copy()
    for step in range(1, _WINDOW):
        np.minimum(smallest[:-step], runs[step:], out=smallest[:-step])
    first = np.ones(len(smallest), np.bool_)
    np.not_equal(smallest[1:], smallest[:-1], out=first[1:])
    kept = np.flatnonzero(is_whole & first)
    return owner[kept], smallest[kept]
