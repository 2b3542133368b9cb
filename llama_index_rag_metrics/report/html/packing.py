"""What the page carries: each distinct text once, cut, and everything compressed in chunks.

A chunk is JSON, gzip, base64: nothing in it can end the element that holds it, and the page unpacks
only the chunks that somebody looks at.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

CUT = 300
"""How many characters of each text are kept by default."""

FEWEST = 40
"""Texts are never cut shorter than this to keep the file small."""

_CHUNK = 400_000
"""Characters of text in one chunk: more compress better, fewer open faster."""


def packed(value: Any) -> str:
    """A value as base64 of gzip of JSON.

    >>> unpacked(packed(["</script>", 0.5]))
    ['</script>', 0.5]
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return packed_text(text)


def packed_text(text: str) -> str:
    """A text as base64 of gzip; the same text always gives the same."""
    squeezed = gzip.compress(text.encode("utf-8", "replace"), compresslevel=9, mtime=0)
    return base64.b64encode(squeezed).decode("ascii")


def unpacked(chunk: str) -> Any:
    """The inverse of `packed`."""
    return json.loads(gzip.decompress(base64.b64decode(chunk)))


class Texts:
    """Distinct texts, numbered as they come, each cut to `cut` characters; None keeps them whole.

    >>> texts = Texts(cut=5)
    >>> texts.add("a long text"), texts.add("other"), texts.add("a long text")
    (0, 1, 0)
    >>> list(texts.chunks())
    [[['a lon', 11], 'other']]
    """

    def __init__(self, cut: int | None = CUT) -> None:
        self.cut = cut
        self._numbers: dict[str, int] = {}
        self._kept: list[tuple[str, int]] = []
        self._starts: list[int] = []
        self._room = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def n_cut(self) -> int:
        """How many texts are cut."""
        return sum(len(shown) < length for shown, length in self._kept)

    def add(self, text: str) -> int:
        """The number of a text, which is kept if it's new."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._kept)
            shown = text[: self.cut]
            self._kept.append((shown, len(text)))
            self._room -= len(shown)
            if self._room < 0:
                self._starts.append(number)
                self._room = _CHUNK
        return number

    def shorten(self, cut: int) -> None:
        self.cut = cut
        self._kept = [(shown[:cut], length) for shown, length in self._kept]

    @property
    def starts(self) -> Sequence[int]:
        """The number of the first text of each chunk."""
        return self._starts

    def chunks(self) -> Iterator[list[str | list[str | int]]]:
        """The texts, chunk by chunk; one that was cut as [text, length of the whole]."""
        for start, end in pairwise([*self._starts, len(self._kept)]):
            yield [
                shown if len(shown) == length else [shown, length]
                for shown, length in self._kept[start:end]
            ]


def packed_texts(texts: Texts, room: int | None) -> list[str]:
    """The chunks of the texts, which are cut shorter until they fit into `room` characters."""
    while True:
        chunks = [packed(chunk) for chunk in texts.chunks()]
        size = sum(map(len, chunks))
        if room is None or size <= room or texts.cut is None or texts.cut <= FEWEST:
            return chunks
        texts.shorten(max(FEWEST, int(texts.cut * max(room, 0) / size * 0.98)))
