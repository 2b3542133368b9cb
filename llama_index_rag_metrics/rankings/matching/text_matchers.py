"""Matching by text: equal, contained, of the same words, nearly equal, or of a like meaning."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.rankings.matching.matcher import TextMatcher, positions
from llama_index_rag_metrics.rankings.matching.normalisation import letters, remembered, words
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.runtime.models import Embedder, cosines, embed_model_or_default
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding

_LONGEST = 16
_FACTORS = np.random.default_rng(5).integers(2**63, 2**64, _LONGEST, np.uint64) | np.uint64(1)
"""A gram's hash is the sum of its characters times these, modulo 2^64: 50,000 different grams hold
two of the same hash about once in 10^10 times."""

_GRAM = 5
"""Characters in a gram: enough for chance not to matter, in scripts without spaces too."""

_EMBEDDED_TEXTS = 2**13
"""Texts that a matcher outside an evaluation remembers before it starts anew: about 64 MB."""


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

    def prepare(self, cache: Cache) -> TokenOverlapMatcher:
        _rapidfuzz("TokenOverlapMatcher")  # a missing extra is an error here
        return self

    def likeness(self, expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray:
        codes: dict[str, str] = {}
        wanted = [_coded(text, codes) for text in expected]
        coded = [_coded(text, codes) for text in retrieved]
        # between two ascending texts of distinct characters, it is the number of common ones
        common = _rapidfuzz("TokenOverlapMatcher").distance.LCSseq.similarity
        shared = _cdist("TokenOverlapMatcher", common, coded, wanted)
        return self._shares(shared, wanted, coded, self._is_part(retrieved))


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
        return positions(self._similarity(expected, retrieved, self.threshold) > 0)

    def likeness(self, expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray:
        return self._similarity(expected, retrieved)

    def _similarity(
        self, expected: Sequence[str], retrieved: Sequence[str], cutoff: float | None = None
    ) -> FloatArray:
        scorer = _rapidfuzz("EditMatcher").distance.Levenshtein.normalized_similarity
        wanted, parts = list(map(letters, expected)), list(map(letters, retrieved))
        return _cdist("EditMatcher", scorer, parts, wanted, cutoff)


class EmbeddingMatcher(TextMatcher):
    """The cosine of the two texts' embeddings reaches the threshold.

    Texts are embedded in the model's batches, each once; an evaluation takes them from its cache.

    Args:
        embed_model: a LlamaIndex embedding; by default `Settings.embed_model`, read when it is
            first needed.
        threshold: the cosine from which a retrieved text covers an expected one. What is near
            depends on the model: look at a few pairs first.
        label: tells apart models of one class and name; part of the cache's key.

    Raises:
        BadAnswer: the model gave embeddings that aren't finite, or of different lengths.

    Examples:
        >>> from llama_index.core.embeddings import MockEmbedding
        >>> EmbeddingMatcher(MockEmbedding(embed_dim=4)).match(["one", "two"], ["three", ""])
        [[0, 1], []]
    """

    kind = "embedding"
    default = 0.9
    is_pure = False

    def __init__(
        self,
        embed_model: BaseEmbedding | None = None,
        threshold: float | None = None,
        *,
        label: str = "",
    ) -> None:
        super().__init__(threshold)
        if embed_model is not None and not hasattr(embed_model, "get_text_embedding_batch"):
            expected = "an embedding of LlamaIndex, or None for Settings.embed_model"
            raise InvalidInput("embed_model", embed_model, expected)
        self.embed_model = embed_model
        self.label = label
        self._embedder: Embedder | None = None
        self._is_prepared = False

    def prepare(self, cache: Cache) -> EmbeddingMatcher:
        prepared = copy.copy(self)
        prepared._embedder = prepared._open(cache)
        prepared._is_prepared = True
        return prepared

    @property
    def usage(self) -> Usage | None:
        return None if self._embedder is None else self._embedder.tally.usage

    def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        return run_sync(self.amatch(expected, retrieved))

    async def amatch(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
        # a vector with itself may come to a little less than 1
        return positions(await self._cosines(expected, retrieved) >= self.threshold - 1e-9)

    def likeness(self, expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray:
        return run_sync(self._cosines(expected, retrieved))

    async def _cosines(self, expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray:
        """(retrieved, expected) the cosine of two texts; NaN where one is blank."""
        embedder = await in_thread(self._ready)
        vectors, _ = await embedder.embed(text for text in (*expected, *retrieved) if text.strip())
        cosine = np.full((len(retrieved), len(expected)), np.nan)
        rows = [row for row, text in enumerate(retrieved) if text in vectors]
        if rows:
            matrix = np.stack([vectors[retrieved[row]] for row in rows])
            for column, text in enumerate(expected):
                if text in vectors:
                    cosine[rows, column] = cosines(vectors[text], matrix)
        return cosine

    def _ready(self) -> Embedder:
        known = self._embedder
        if known is None or not (self._is_prepared or self._is_current(known)):
            known = self._embedder = self._open(Cache())
        return known

    def _is_current(self, embedder: Embedder) -> bool:
        is_same = embedder.model is embed_model_or_default(self.embed_model)
        return is_same and embedder.tally.usage.fresh < _EMBEDDED_TEXTS

    def _open(self, cache: Cache) -> Embedder:
        model = embed_model_or_default(self.embed_model)
        return Embedder(model, cache, self.name, self.label)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_embedder": None, "_is_prepared": False}


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


def _coded(text: str, codes: dict[str, str]) -> str:
    """A text's distinct words, each as one character, ascending; symbols alone make a word."""
    tokens = words(text) or letters(text).split()
    return "".join(sorted({codes.setdefault(word, chr(0x10000 + len(codes))) for word in tokens}))


def _cdist(
    purpose: str, scorer: Any, retrieved: list[str], wanted: list[str], cutoff: float | None = None
) -> FloatArray:
    """(retrieved, expected) the scorer's values, 0 below the cutoff; of an empty text, 0."""
    score = _rapidfuzz(purpose).process.cdist(
        retrieved, wanted, scorer=scorer, score_cutoff=cutoff, dtype=np.float64
    )
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
