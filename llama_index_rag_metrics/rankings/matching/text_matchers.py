"""Matching by text: one is contained in the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.rankings.matching.matcher import TextMatcher, positions
from llama_index_rag_metrics.rankings.matching.normalisation import letters, remembered, words
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    pass

_LONGEST = 16
_FACTORS = np.random.default_rng(5).integers(2**63, 2**64, _LONGEST, np.uint64) | np.uint64(1)
"""A gram's hash is the sum of its characters times these, modulo 2^64: 50,000 different grams hold
two of the same hash about once in 10^10 times."""

_GRAM = 5
"""Characters in a gram: enough for chance not to matter, in scripts without spaces too."""


def gram_hashes(text: str, length: int) -> npt.NDArray[np.uint64]:
    """(grams,) the hash of every run of this many characters, in order; none in a shorter text."""
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    n = max(0, len(code) - length + 1)
    grams: npt.NDArray[np.uint64] = code[:n] * _FACTORS[0]
    for place in range(1, length):
        grams += code[place : place + n] * _FACTORS[place]
    return grams


def distinct(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each once, ascending; np.unique takes three times as long."""
    ascending = np.sort(hashes)
    is_last = np.append(ascending[1:] != ascending[:-1], True)[: len(ascending)]
    return np.asarray(ascending[is_last], np.uint64)


class PartMatcher(TextMatcher):
    """A matcher by which a chunk covers a passage that it is a part of."""

    default = 0.8

    def __init__(self, threshold: float | None = None, *, min_chars: int = 15) -> None:
        super().__init__(threshold)
        check_integer("min_chars", min_chars, 1, "a number of letters, from 1 on")
        self.min_chars = min_chars

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        return positions(self.likeness(expected, retrieved) >= self.threshold)

    @abstractmethod
    def likeness(self, expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray: ...

    def _is_part(self, retrieved: Sequence[str]) -> BoolArray:
        """(retrieved,) whether each text is long enough to count as a part."""
        return np.array([len(letters(text)) >= self.min_chars for text in retrieved], np.bool_)

    def _shares(
        self,
        shared: npt.NDArray[Any],
        wanted: Sequence[Sized],
        retrieved: Sequence[Sized],
        is_part: BoolArray,
    ) -> FloatArray:
        """(retrieved, expected) the share of either that is in the other, the larger one."""
        n_wanted = np.array([max(1, len(text)) for text in wanted])
        n_found = np.array([max(1, len(text)) for text in retrieved])[:, None]
        of_parts = np.where(is_part[:, None], shared / n_found, 0)
        return np.asarray(np.maximum(shared / n_wanted, of_parts), np.float64)


class ContainmentMatcher(PartMatcher):
    """The passage is in the chunk, or the chunk is in the passage: the share of common 5-grams.

    The share of the expected passage's distinct 5-grams of normalised characters that the retrieved
    text has; or the share of the retrieved text's grams that the passage has, whichever is higher.
    A text of fewer than five letters is looked for as it is, a word as a word.

    Examples:
        >>> passage = "Enceladus has geysers of water."
        >>> matcher = ContainmentMatcher()
        >>> matcher.match([passage], [f"Saturn has moons. {passage} Io has volcanoes.", "Geysers"])
        [[0], []]
    """

    kind = "text"

    def likeness(self, expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray:
        wanted, parts = list(map(_grams, expected)), list(map(_grams, retrieved))
        is_part = self._is_part(retrieved)
        likeness = self._shares(_count_shared(wanted, parts), wanted, parts, is_part)
        for column, text in enumerate(expected):
            if not len(wanted[column]):
                likeness[:, column] = [_holds(other, text) for other in retrieved]
        for row, short in enumerate(retrieved):
            if is_part[row] and not len(parts[row]):
                likeness[row] = [_holds(text, short) for text in expected]
        return likeness


def _holds(text: str, short: str) -> bool:
    """Whether a text has one of fewer than five letters: "UN" isn't in "run"."""
    wanted = letters(short)
    if wanted.isascii() and wanted.isalnum():
        return f" {' '.join(words(short))} " in f" {' '.join(words(text))} "
    return wanted != "" and wanted in letters(text)


@remembered(limit=2**23)
def _grams(text: str) -> npt.NDArray[np.uint64]:
    """(distinct grams,) their hashes, ascending; none in a text shorter than one."""
    return distinct(gram_hashes(letters(text), _GRAM))


def _count_shared(
    wanted: Sequence[npt.NDArray[np.uint64]], retrieved: Sequence[npt.NDArray[np.uint64]]
) -> npt.NDArray[np.int64]:
    """(retrieved, expected) how many grams they share."""
    shared = np.zeros((len(retrieved), len(wanted)), np.int64)
    vocabulary, which = np.unique(np.concatenate([*wanted, _NO_GRAMS]), return_inverse=True)
    if not len(vocabulary) or not retrieved:
        return shared
    has = np.zeros((len(wanted), len(vocabulary)), np.bool_)
    has[np.repeat(np.arange(len(wanted)), list(map(len, wanted))), which] = True
    grams = np.concatenate(retrieved)
    owner = np.repeat(np.arange(len(retrieved)), list(map(len, retrieved)))
    place = np.searchsorted(vocabulary, grams)
    place[place == len(vocabulary)] = 0
    known = np.flatnonzero(vocabulary[place] == grams)
    place, owner = place[known], owner[known]
    for row, is_wanted in enumerate(has):
        shared[:, row] = np.bincount(owner[is_wanted[place]], minlength=len(retrieved))
    return shared


_NO_GRAMS = np.empty(0, np.uint64)
