"""Texts made comparable: letters without case, width, spaces and punctuation; and words.

Chinese, Japanese, Korean, Thai and their like are written without spaces, or with spaces that
writers set as they please: there two neighbouring characters make a word.
"""

from __future__ import annotations

import re
import string
import unicodedata

from llama_index_rag_metrics.matching.base import Memory

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


class _Separators(dict[int, str | None]):
    """A table for `str.translate` that fills itself: separators are replaced, the rest stays."""

    def __init__(self, replacement: str | None) -> None:
        super().__init__({ord(one): replacement for one in string.punctuation})
        self._replacement = replacement

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        dropped = unicodedata.category(character) in _DROPPED
        self[code] = self._replacement if dropped else character
        return self[code]


_LEFT_OUT = _Separators(None)
_SPACED = _Separators(" ")
_LETTERS: Memory[str] = Memory(limit=2**24)
_WORDS: Memory[tuple[str, ...]] = Memory(limit=2**21)


def letters(text: str) -> str:
    """The text in NFKC without case, width, spaces and punctuation; remembered.

    A text of nothing but punctuation keeps it.

    >>> letters("Ｔhe  Café—\\u00ab1 ½\\u00bb")
    'thecafé11⁄2'
    >>> letters("c'est-à-dire…") == letters("C’EST À DIRE")
    True
    """
    found = _LETTERS.get(text)
    if found is None:
        folded = _fold(text)
        found = unicodedata.normalize("NFKC", folded.translate(_LEFT_OUT))
        found = found or "".join(folded.split())
        _LETTERS.keep(text, found, len(text) + len(found))
    return found


def words(text: str) -> tuple[str, ...]:
    """The words of a text, without case and punctuation; pairs of characters where a script has no
    spaces; remembered.

    >>> words("State-of-the-art RAG")
    ('state', 'of', 'the', 'art', 'rag')
    >>> words("土星の衛星 Titan")
    ('土星', '星の', 'の衛', '衛星', 'titan')
    """
    found = _WORDS.get(text)
    if found is None:
        found = tuple(_split(_fold(text)))
        _WORDS.keep(text, found, len(text) + len(found))
    return found


def _split(folded: str) -> list[str]:
    found: list[str] = []
    for word in folded.translate(_SPACED).split() or folded.split():
        if word.isascii():
            found.append(word)
            continue
        for at, run in enumerate(_SPACELESS.split(word)):
            if at % 2:
                found += [run[n : n + 2] for n in range(len(run) - 1)] or [run]
            elif run:
                found.append(run)
    return found


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
