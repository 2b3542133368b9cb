"""Likeness of texts: the share of one that is in the other, whatever its case and spacing."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.runtime.containers import FloatArray

Value = TypeVar("Value")
Grams: TypeAlias = npt.NDArray[np.uint64]

CONTAINED = 0.8  # from this likeness on, a retrieved text is the passage
_GRAM = 5  # characters: enough for chance not to matter, in scripts without spaces too
_SHORTEST_PART = 15  # letters that a text needs to count as a part of a longer passage
_LONGEST_KEPT = 8_000  # characters of a text whose letters and grams are kept for the next time
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\W_]+(?=\d)")
_FACTORS = np.random.default_rng(5).integers(2**63, 2**64, 16, np.uint64) | np.uint64(1)
"""A gram's hash is the sum of its characters times these, modulo 2^64."""

_DROPPED = frozenset(("Cc", "Cf", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Zl", "Zp"))
"""Unicode's categories of control and format characters, punctuation and spaces. Marks (Mn, Mc) are
no punctuation: they are the vowels and tones of Thai and Hindi."""

_SPACELESS = re.compile(
    "(["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Tibetan, Myanmar, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"  # Hangul
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "]+)"
)

_RAISED = re.compile("([\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u215f\u2189]+)")
"""Superscripts, subscripts and fractions, in whose place NFKC puts digits of the line."""


def likeness(expected: Sequence[str], retrieved: Sequence[str]) -> FloatArray:
    """(retrieved, expected) the larger share of either text's 5-grams that the other has."""
    shares = np.zeros((len(retrieved), len(expected)))
    passages = list(map(_grams, expected))
    for row, text in enumerate(retrieved):
        part, n_part = _grams(text), np.inf
        if len(letters(text)) >= _SHORTEST_PART:
            n_part = len(part)
        for column, passage in enumerate(passages):
            if not len(passage):
                shares[row, column] = _holds(text, expected[column])
                continue
            n_shared = len(np.intersect1d(part, passage, assume_unique=True))
            shares[row, column] = n_shared / min(n_part, len(passage))
    return shares


def gram_hashes(text: str, length: int) -> Grams:
    """(grams,) the hash of every run of this many characters, in order; none in a shorter text."""
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    n = max(0, len(code) - length + 1)
    grams: Grams = code[:n] * _FACTORS[0]
    for place in range(1, length):
        grams += code[place : place + n] * _FACTORS[place]
    return grams


def remembered(function: Callable[[str], Value]) -> Callable[[str], Value]:
    """Have a function of a text remember its last answers, but for long texts."""
    remembering = lru_cache(maxsize=4096)(function)

    @wraps(function)
    def answer(text: str) -> Value:
        return remembering(text) if len(text) <= _LONGEST_KEPT else function(text)

    return answer


@remembered
def _grams(text: str) -> Grams:
    """(distinct grams,) their hashes, ascending; none in a text shorter than one."""
    ascending = np.sort(gram_hashes(letters(text), _GRAM))  # np.unique takes three times as long
    is_last = np.append(ascending[1:] != ascending[:-1], True)[: len(ascending)]
    return np.asarray(ascending[is_last], np.uint64)


def _holds(text: str, short: str) -> bool:
    """Whether a text has a part of fewer than five letters as words: "UN" isn't in "run"."""
    passage = letters(short)
    if passage.isascii() and passage.isalnum():
        return f" {' '.join(words(short))} " in f" {' '.join(words(text))} "
    return passage != "" and passage in letters(text)


class _Table(dict[int, str | None]):
    """A table for `str.translate` that fills itself by a rule; None drops the character."""

    def __init__(self, rule: Callable[[str], str | None]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str | None:
        self[code] = self._rule(chr(code))
        return self[code]


def _in_letters(character: str) -> str | None:
    is_dropped = unicodedata.category(character) in _DROPPED or character in string.punctuation
    return None if is_dropped else character


def _in_words(character: str) -> str | None:
    category = unicodedata.category(character)
    if category[0] in "LMN":
        return character
    # a soft hyphen, a joiner and their like are inside words; a space without width isn't
    return None if category == "Cf" and character != "\u200b" else " "


_LEFT_OUT = _Table(_in_letters)
_SPACED = _Table(_in_words)


@remembered
def letters(text: str) -> str:
    """The text without case, width, ligatures, spaces and punctuation, or else without spaces."""
    folded = compatible(text).casefold()
    return compatible(folded.translate(_LEFT_OUT)) or "".join(folded.split())


@remembered
def words(text: str) -> tuple[str, ...]:
    """The words of a text, folded; of scripts without spaces pairs of characters, as Lucene's."""
    parts: list[str] = []
    for word in compatible(text).casefold().translate(_SPACED).split():
        if word.isascii():
            parts.append(word)
            continue
        if not any(map(str.isalnum, word)):  # a mark that was on a symbol
            continue
        for number, run in enumerate(_SPACELESS.split(word)):
            if number % 2:
                parts += [run[n : n + 2] for n in range(len(run) - 1)] or [run]
            elif run:
                parts.append(run)
    return tuple(parts)


def compatible(text: str) -> str:
    """The text in NFKC, in which 10² doesn't become 102, nor 1½ eleven halves."""
    parts = _RAISED.split(text)
    parts[::2] = [unicodedata.normalize("NFKC", part) for part in parts[::2]]
    return "".join(parts)


def same_text(text: str, other: str) -> bool:
    """Whether one text has the other, but for case, space and punctuation."""
    if text == other:
        return True
    # 1.2 isn't 12
    ours, theirs = (letters(_BETWEEN_DIGITS.sub("°", part)) for part in (text, other))
    return ours in theirs or theirs in ours
