"""Likeness of texts: the share of one that is contained in the other, by 5-grams of letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray

from .normalisation import letters, remembered, words

Grams: TypeAlias = npt.NDArray[np.uint64]

CONTAINED = 0.8
"""From this likeness on, a retrieved text is the passage."""

_GRAM = 5
"""Characters in a gram: enough for chance not to matter, in scripts without spaces too."""

_SHORTEST_PART = 15
"""Letters that a retrieved text needs to count as a part of a longer passage."""

_LONGEST = 16
_FACTORS = np.random.default_rng(5).integers(2**63, 2**64, _LONGEST, np.uint64) | np.uint64(1)
"""A gram's hash is the sum of its characters times these, modulo 2^64: 50,000 different grams hold
two of the same hash about once in 10^10 times."""


def likeness(expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray:
    """(retrieved, expected) the share of either text that is in the other, the larger one.

    The share of the expected passage's distinct 5-grams of normalised characters that the retrieved
    text has; or the share of the retrieved text's grams that the passage has. A text of fewer than
    five letters is looked for as it is, a word as a word.

    >>> passage = "Enceladus has geysers of water."
    >>> likeness([passage], [f"Saturn has moons. {passage} Io has volcanoes.", "Nothing."])
    array([[1.],
           [0.]])
    """
    passage, parts = [_grams(text) for text in expected], [_grams(text) for text in retrieved]
    is_part = np.array([len(letters(text)) >= _SHORTEST_PART for text in retrieved], np.bool_)
    shares = _shares(passage, parts, is_part)
    for column, text in enumerate(expected):
        if not len(passage[column]):
            shares[:, column] = [_holds(text_of, text) for text_of in retrieved]
    for row, text in enumerate(retrieved):
        if is_part[row] and not len(parts[row]):
            shares[row] = [_holds(text_of, text) for text_of in expected]
    return shares


def gram_hashes(text: str, length: int) -> Grams:
    """(grams,) the hash of every run of this many characters, in order; none in a shorter text."""
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    n = max(0, len(code) - length + 1)
    grams: Grams = code[:n] * _FACTORS[0]
    for place in range(1, length):
        grams += code[place : place + n] * _FACTORS[place]
    return grams


@remembered(limit=2**23)
def _grams(text: str) -> Grams:
    """(distinct grams,) their hashes, ascending; none in a text shorter than one."""
    ascending = np.sort(gram_hashes(letters(text), _GRAM))  # np.unique takes three times as long
    is_last = np.append(ascending[1:] != ascending[:-1], True)[: len(ascending)]
    return np.asarray(ascending[is_last], np.uint64)


def _shares(wanted: Sequence[Grams], parts: Sequence[Grams], is_part: BoolArray) -> FloatArray:
    shared = _count_shared(wanted, parts)
    n_wanted = np.array([max(1, len(grams)) for grams in wanted])
    n_retrieved = np.array([max(1, len(grams)) for grams in parts])[:, None]
    of_retrieved = np.where(is_part[:, None], shared / n_retrieved, 0)
    return np.asarray(np.maximum(shared / n_wanted, of_retrieved), np.float64)


def _count_shared(wanted: Sequence[Grams], parts: Sequence[Grams]) -> IntArray:
    """(retrieved, expected) how many grams they share."""
    shared = np.zeros((len(parts), len(wanted)), np.int64)
    nothing = np.empty(0, np.uint64)
    vocabulary, number = np.unique(np.concatenate([*wanted, nothing]), return_inverse=True)
    if not len(vocabulary) or not parts:
        return shared
    is_wanted = np.zeros((len(wanted), len(vocabulary)), np.bool_)
    is_wanted[np.repeat(np.arange(len(wanted)), [len(grams) for grams in wanted]), number] = True
    grams = np.concatenate(parts)
    row = np.repeat(np.arange(len(parts)), [len(grams) for grams in parts])
    position = np.searchsorted(vocabulary, grams)
    position[position == len(vocabulary)] = 0
    in_vocabulary = np.flatnonzero(vocabulary[position] == grams)
    position, row = position[in_vocabulary], row[in_vocabulary]
    for column, has_gram in enumerate(is_wanted):
        shared[:, column] = np.bincount(row[has_gram[position]], minlength=len(parts))
    return shared


def _holds(text: str, short: str) -> bool:
    """Whether a text has one of fewer than five letters: "UN" isn't in "run"."""
    passage = letters(short)
    if passage.isascii() and passage.isalnum():
        return f" {' '.join(words(short))} " in f" {' '.join(words(text))} "
    return passage != "" and passage in letters(text)
