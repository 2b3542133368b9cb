"""Matching by text: equal, contained, of the same words, or nearly equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.rankings.matching.matcher import Memory, TextMatcher
from llama_index_rag_metrics.rankings.matching.normalisation import letters, words
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import MissingExtra

_LONGEST = 16
_FACTORS = np.random.default_rng(5).integers(2**63, 2**64, _LONGEST, np.uint64) | np.uint64(1)
"""A gram's hash is the sum of its characters times these, modulo 2^64: 50,000 different grams hold
two of the same hash about once in 10^10 times."""


def gram_hashes(text: str, length: int) -> npt.NDArray[np.uint64]:
    """(grams,) the hash of every run of this many characters, in order; none in a shorter text.

    >>> len(gram_hashes("geysers", 5)), len(gram_hashes("four", 5))
    (3, 0)
    """
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    n = max(0, len(code) - length + 1)
    grams: npt.NDArray[np.uint64] = code[:n] * _FACTORS[0]
    for place in range(1, length):
        grams += code[place : place + n] * _FACTORS[place]
    return grams


def distinct(ascending: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each of the sorted numbers once."""
    first = np.empty(len(ascending), np.bool_)
    first[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    kept: npt.NDArray[np.uint64] = ascending[first]
    return kept


_GRAM = 5
"""Characters in a gram: enough for chance not to matter, in scripts without spaces too."""


class Shingles(NamedTuple):
    """A text as the set of its grams.

    Attributes:
        grams: (distinct grams,) their hashes, ascending; empty where the text is shorter than one.
    """

    letters: str
    grams: npt.NDArray[np.uint64]


_NO_GRAMS = np.empty(0, np.uint64)
_SHINGLES: Memory[Shingles] = Memory(limit=2**23)


class ExactMatcher(TextMatcher):
    """The same text, but for case, width, spaces, punctuation and Unicode form.

    Examples:
        >>> ExactMatcher().match(["Enceladus has geysers."], ["enceladus  has geysers", "Triton"])
        [[0], []]
    """

    kind = "exact"
    default = 1.0

    def __init__(self) -> None:
        super().__init__()

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        positions = defaultdict[str, list[int]](list)
        for position, text in enumerate(expected):
            positions[letters(text)].append(position)
        positions.pop("", None)
        return [positions.get(letters(text), []) for text in retrieved]

    def __repr__(self) -> str:
        return "ExactMatcher()"


class PartMatcher(TextMatcher):
    """A matcher by which a chunk covers a passage that it is a part of.

    Args:
        threshold: the similarity from which a retrieved text covers an expected one.
        min_chars: how many letters a chunk must have to count as a part: a heading within a passage
            doesn't stand for it.
    """

    def __init__(self, threshold: float | None = None, *, min_chars: int = 15) -> None:
        super().__init__(threshold)
        check_integer("min_chars", min_chars, 1, "a number of letters, from 1 on")
        self.min_chars = min_chars

    def _covers(
        self,
        shared: npt.NDArray[Any],
        wanted: Sequence[Sized],
        retrieved: Sequence[Sized],
        is_part: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.bool_]:
        """(found, wanted) whether enough of either is in the other, by how much they share."""
        n_wanted = np.array([max(1, len(text)) for text in wanted])
        n_found = np.array([max(1, len(text)) for text in retrieved])[:, None]
        covers = shared / n_wanted >= self.threshold
        covers |= (shared / n_found >= self.threshold) & is_part[:, None]
        return np.asarray(covers, np.bool_)


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
    default = 0.8

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        wanted, parts = (
            [_shingle(text) for text in expected],
            [_shingle(text) for text in retrieved],
        )
        is_part = np.array([len(text.letters) >= self.min_chars for text in parts], np.bool_)
        grams = [text.grams for text in wanted], [text.grams for text in parts]
        covers = self._covers(_count_shared(*grams), *grams, is_part)
        for column, text in enumerate(expected):
            if not len(wanted[column].grams):
                covers[:, column] = [_holds(other, text) for other in retrieved]
        for column, short in enumerate(retrieved):
            if is_part[column] and not len(parts[column].grams):
                covers[column] = [_holds(text, short) for text in expected]
        return positions(covers)


class TokenOverlapMatcher(PartMatcher):
    """The words of one text are among the other's, whatever their order and number.

    The share of the expected passage's distinct words that the retrieved text has, or of the
    retrieved text's that the passage has, whichever is higher. In scripts without spaces two
    neighbouring characters make a word.

    Examples:
        >>> TokenOverlapMatcher().match(["geysers of water"], ["Water: its geysers, of course"])
        [[0]]
    """

    kind = "tokens"
    default = 0.8

    def prepare(self, cache: Cache) -> TokenOverlapMatcher:
        _rapidfuzz("TokenOverlapMatcher")  # a missing extra is an error here
        return self

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        codes: dict[str, str] = {}
        wanted = [_coded(text, codes) for text in expected]
        coded = [_coded(text, codes) for text in retrieved]
        is_part = np.array([len(letters(text)) >= self.min_chars for text in retrieved], np.bool_)
        # between two ascending texts of distinct characters, it is the number of common ones
        common = _rapidfuzz("TokenOverlapMatcher").distance.LCSseq.similarity
        shared = _cdist("TokenOverlapMatcher", common, coded, wanted)
        return positions(self._covers(shared, wanted, coded, is_part))


class EditMatcher(TextMatcher):
    """Nearly the same text as a whole: few letters inserted, deleted or replaced.

    One minus the Levenshtein distance of the normalised texts over the length of the longer.

    Examples:
        >>> EditMatcher().match(["Enceladus has geysers"], ["Enceladus had geyser", "Enceladus"])
        [[0], []]
    """

    kind = "edit"
    default = 0.8

    def prepare(self, cache: Cache) -> EditMatcher:
        _rapidfuzz("EditMatcher")  # a missing extra is an error here, before anything is asked
        return self

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        scorer = _rapidfuzz("EditMatcher").distance.Levenshtein.normalized_similarity
        wanted, parts = list(map(letters, expected)), list(map(letters, retrieved))
        return positions(_cdist("EditMatcher", scorer, parts, wanted, self.threshold) > 0)


def positions(covers: npt.NDArray[np.bool_]) -> list[list[int]]:
    """(retrieved, expected) which covers which, as what `match` returns."""
    matches: list[list[int]] = [[] for _ in covers]
    for retrieved, expected in np.argwhere(covers).tolist():
        matches[retrieved].append(expected)
    return matches


def _holds(text: str, short: str) -> bool:
    """Whether a text has one of fewer than five letters: "UN" isn't in "run"."""
    wanted = letters(short)
    if wanted.isascii() and wanted.isalnum():
        return f" {' '.join(words(short))} " in f" {' '.join(words(text))} "
    return wanted != "" and wanted in letters(text)


def _shingle(text: str) -> Shingles:
    shingles = _SHINGLES.get(text)
    if shingles is None:
        normal = letters(text)
        shingles = Shingles(normal, _grams(normal))
        _SHINGLES.keep(text, shingles, len(text) + len(shingles.grams))
    return shingles


def _grams(normal: str) -> npt.NDArray[np.uint64]:
    grams = gram_hashes(normal, _GRAM)
    grams.sort()
    return distinct(grams)


def _count_shared(
    wanted: Sequence[npt.NDArray[np.uint64]], retrieved: Sequence[npt.NDArray[np.uint64]]
) -> npt.NDArray[np.int64]:
    """(found, wanted) how many grams they share."""
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
    for row, mine in enumerate(has):
        shared[:, row] = np.bincount(owner[mine[place]], minlength=len(retrieved))
    return shared


def _coded(text: str, codes: dict[str, str]) -> str:
    """A text's distinct words, each as one character, ascending; symbols alone make a word."""
    tokens = words(text) or letters(text).split()
    return "".join(sorted({codes.setdefault(word, chr(0x10000 + len(codes))) for word in tokens}))


def _cdist(
    purpose: str, scorer: Any, retrieved: list[str], wanted: list[str], cutoff: float | None = None
) -> npt.NDArray[Any]:
    """(found, wanted) the scorer's values, 0 below the cutoff; of an empty text, 0."""
    score = _rapidfuzz(purpose).process.cdist(retrieved, wanted, scorer=scorer, score_cutoff=cutoff)
    score = np.asarray(score).reshape(len(retrieved), len(wanted))
    score[[not text for text in retrieved]] = 0
    score[:, [not text for text in wanted]] = 0
    return score


def _rapidfuzz(purpose: str) -> Any:
    try:
        import rapidfuzz
        import rapidfuzz.distance
        import rapidfuzz.process
    except ImportError as error:
        raise MissingExtra(purpose, "text") from error
    return rapidfuzz
