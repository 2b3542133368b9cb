"""Texts made comparable: letters without case, width, spaces and punctuation; and words."""

from __future__ import annotations

import re
import string
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Sized
from functools import wraps
from typing import TypeVar

Kept = TypeVar("Kept", bound=Sized)

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


def remembered(limit: int) -> Callable[[Callable[[str], Kept]], Callable[[str], Kept]]:
    """Have a function of a text remember its last answers, up to a length; threads may share it."""

    def decorate(function: Callable[[str], Kept]) -> Callable[[str], Kept]:
        answers: OrderedDict[str, Kept] = OrderedDict()
        lock = threading.Lock()
        weight = 0

        @wraps(function)
        def answer(text: str) -> Kept:
            nonlocal weight
            with lock:
                if text in answers:
                    answers.move_to_end(text)
                    return answers[text]
            value = function(text)
            size = len(text) + len(value)
            with lock:
                if text not in answers and size <= limit:
                    answers[text] = value
                    weight += size
                while weight > limit:
                    oldest, dropped = answers.popitem(last=False)
                    weight -= len(oldest) + len(dropped)
            return value

        return answer

    return decorate


@remembered(limit=2**24)
def letters(text: str) -> str:
    """The text without case, width, ligatures, spaces and punctuation.

    Superscripts, subscripts and fractions stay. A text of nothing but punctuation keeps it.

    >>> letters("Ｔhe  Café—\\u00ab1 ½\\u00bb")
    'thecafé1½'
    >>> letters("c'est-à-dire…") == letters("C’EST À DIRE")
    True
    """
    folded = _fold(text)
    normal = compatible(folded.translate(_LEFT_OUT))
    return normal or "".join(folded.split())


@remembered(limit=2**21)
def words(text: str) -> tuple[str, ...]:
    """The words of a text, in order, without case, width, punctuation and symbols.

    Scripts without spaces are cut into pairs of characters, as Lucene's CJKAnalyzer does; a
    character that stands alone stays alone.

    >>> words("State-of-the-art RAG")
    ('state', 'of', 'the', 'art', 'rag')
    >>> words("The KILN's 2 keys, 窯の温度は１２４０°")
    ('the', 'kiln', 's', '2', 'keys', '窯の', 'の温', '温度', '度は', '1240')
    """
    parts: list[str] = []
    for word in _fold(text).translate(_SPACED).split():
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
    """The text in NFKC, in which 10² doesn't become 102, nor 1½ eleven halves.

    >>> compatible("of\\ufb01cial: 10² Ｋ")
    'official: 10² K'
    """
    parts = enumerate(_RAISED.split(text))
    return "".join(
        part if number % 2 else unicodedata.normalize("NFKC", part) for number, part in parts
    )


def _fold(text: str) -> str:
    return compatible(text).casefold()
