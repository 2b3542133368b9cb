"""Passages and ids in a line: titles, beginnings, and the parts by which they differ."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .escape import terminal as plain

EXCERPT_CHARACTERS = 120
_BEFORE_CHANGE = 24
# a UUID or a digest
_RANDOM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,}", re.IGNORECASE)


def excerpt(text: str | None, most: int = EXCERPT_CHARACTERS) -> str:
    """A passage's title, which is its first line if that is short; else its first characters."""
    title, body = titled(text, most)
    return title or body


def titled(text: str | None, most: int = EXCERPT_CHARACTERS) -> tuple[str, str]:
    """A passage's title, "" without one, and the beginning of what follows it."""
    # what is beyond the excerpt isn't looked at: a text may be a book
    start = (text or "")[: 4 * most].strip()
    line, _, body = start.partition("\n")
    title = plain(line.lstrip("# "))
    if not body or len(title) > most // 2:
        return "", cut_line(plain(start), most)
    return title, cut_line(plain(body), most - len(title) - 1)


def passage_line(text: str | None) -> str:
    """The beginning of a passage in one line, its title in quotes."""
    title, body = titled(text)
    return f"“{title}” {body}" if title else body


def difference(old: str, new: str) -> tuple[str, str]:
    """Two texts from a few words before their first difference on."""
    old, new = plain(old), plain(new)
    pairs = enumerate(zip(old, new, strict=False))
    parting = next((n for n, (letter, opposite) in pairs if letter != opposite), len(old))
    start = old.rfind(" ", 0, max(0, parting - _BEFORE_CHANGE)) + 1
    mark = "…" if start else ""
    return mark + cut_line(old[start:]), mark + cut_line(new[start:])


def cut_line(line: str, most: int = EXCERPT_CHARACTERS) -> str:
    """At most so many characters, ended between words where that keeps half of them."""
    if len(line) <= most:
        return line
    start = line[: most - 1]
    words = start.rpartition(" ")[0]
    if len(words) > most // 2:
        start = words
    return f"{start.rstrip()}…"


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each id with the beginnings of the UUIDs and digests in it, if these tell the ids apart."""
    distinct = list(dict.fromkeys(ids))
    short = [plain(_RANDOM.sub(lambda match: f"{match[0][:8]}…", name)) for name in distinct]
    if len(set(short)) < len(distinct):
        short = [*map(plain, distinct)]
    return dict(zip(distinct, short, strict=True))
