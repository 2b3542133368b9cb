"""Words of questions and passages: which of them count, and which are the same word.

The page has these rules from here (`RULES`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from typing import NamedTuple

_STOP_WORDS = """
a about after again all also am an and any anybody anyone anything are as at be because been
before being both but by came can come comes coming could did do does doing done during each every
few for from get gets getting go goes going got had has have having he her here him his how i if
in into is it its just let like many may me might most much must my no nor not of off on once one
only or other our out over own same shall she should so some somebody someone something still such
than that the their them then there these they this those to too under until up us use used uses
using very was we were what when where which while who whom whose why will with would yes yet you
your au aux ce ces dans de des du elle en est et il ils la le les leur par pas pour qu que qui sa
ses son sur un une auf aus bei das dem den der die ein eine einem einen einer es für im ist mit
nicht oder sich sind und von wie wird zu zum zur con del el las los por para se su una como che di
il per sono è da em na no os um uma
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

# what is replaced at a word's end, in this order; the patterns mean the same in JavaScript
_ENDINGS = (
    ("(?<=...)(?<!s)s$", ""),
    ("(?<=...)(?<!e)(?:ing|ed)$", ""),
    ("(?<=...)e$", ""),
    ("(?<=...)y$", "i"),
    (r"([a-z])(?=\1$)", ""),
)

# Thai, Japanese and Chinese signs, which no blank parts into words
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_FIRST_UNSPACED = _UNSPACED[0]
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(f"[{_UNSPACED}]|(?:(?![{_UNSPACED}])(?:[^\\W_]|[{_MARKS}]))+")
_IN_WORD = re.compile(f"[^\\W_]|[{_MARKS}]")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")

LATIN = "Latin"
_SCRIPTS = {"HANGUL": "Korean"} | dict.fromkeys(
    ("CJK", "HIRAGANA", "KATAKANA"), "Chinese or Japanese"
)
_LETTERS_READ = 60


def is_unspaced(sign: str) -> bool:
    """Whether it is a Thai, Japanese or Chinese sign, which no blank parts from its neighbours."""
    return sign >= _FIRST_UNSPACED and _IS_UNSPACED.match(sign) is not None


class Word(NamedTuple):
    """A word that counts: its stem, and where it is in the text."""

    stem: str
    start: int
    end: int


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """What the forms of a word have in common.

    >>> [stem(word) for word in ("tyre", "tyres", "glass", "glasses", "batteries", "Heated")]
    ['tyr', 'tyr', 'glas', 'glas', 'batteri', 'heat']
    """
    word = word.lower()
    for pattern, end in _ENDINGS:
        word = re.sub(pattern, end, word)
    return word


@lru_cache(maxsize=1 << 10)
def words_of(text: str) -> Sequence[Word]:
    """The words that count; without blanks between them, every two signs in a row.

    >>> [word.stem for word in words_of("the pots 素燒排")]
    ['pot', '素燒', '燒排']
    """
    found = [*_WORD.finditer(text)]
    words = []
    for match, after in zip_longest(found, found[1:]):
        if not is_unspaced(match[0]):
            if match[0].lower() not in STOP_WORDS:
                words.append(Word(stem(match[0]), *match.span()))
        elif after is not None and after.start() == match.end() and is_unspaced(after[0]):
            words.append(Word(match[0] + after[0], match.start(), after.end()))
    return words


@lru_cache(maxsize=1 << 14)
def shared_words(question: str, text: str) -> Sequence[str]:
    """The words of the question that a text has, too, as the question writes them, each once."""
    asked: dict[str, str] = {}
    for word in words_of(question):
        asked.setdefault(word.stem, question[word.start : word.end])
    lowered = text.lower()
    return tuple(written for name, written in asked.items() if _has(lowered, name))


def _has(lowered: str, name: str) -> bool:
    """Whether a text has a word of this stem: far faster than to look at all its words."""
    start = name.removesuffix("i") or name
    at = lowered.find(start)
    while at >= 0:
        before = lowered[at - 1 : at]
        if is_unspaced(start[0]):
            return True
        if not _IN_WORD.match(before) or is_unspaced(before):
            word = _WORD.match(lowered, at)
            if word is not None and stem(word[0]) == name:
                return True
        at = lowered.find(start, at + 1)
    return False


@lru_cache(maxsize=1 << 10)
def script_of(text: str) -> str:
    """The script of most of its first letters, "" without any."""
    if text.isascii():
        return LATIN if any(map(str.isalpha, text)) else ""
    letters = islice(filter(str.isalpha, text), _LETTERS_READ)
    names = [unicodedata.name(letter, "").partition(" ")[0] for letter in letters]
    scripts = Counter(_SCRIPTS.get(name, name.capitalize()) for name in names)
    return max(scripts, key=scripts.__getitem__, default="")


def where_most(text: str, stems: Collection[str], width: int) -> int:
    """Where to begin to read so that so many characters have most of the stems; 0 if in doubt."""
    words = [word for word in words_of(text) if word.stem in stems]

    def n_from(start: int) -> int:
        return len({word.stem for word in words if start <= word.start <= start + width})

    best = max((word.start for word in words), key=n_from, default=0)
    return best if n_from(best) > n_from(0) else 0


def shared_start(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    first, last = min(texts, default=""), max(texts, default="")
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((n for n, (one, other) in pairs if one != other), len(first))]


# what scripts need of this
RULES = {"stop": sorted(STOP_WORDS), "endings": _ENDINGS, "unspaced": _UNSPACED}
