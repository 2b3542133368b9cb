"""Passages and ids in a line: titles, beginnings, and the parts by which they differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len

from llama_index_rag_metrics.report.escape import terminal as plain

EXCERPT_CHARACTERS = 120
# a first line that is narrower is no title; a Chinese or Korean sign is two cells wide
_TITLE_CELLS = 4
_REST_CHARACTERS = 20  # with less room, a title stands alone
_BEFORE_CHANGE = 24
# a UUID or a digest
_RANDOM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,}", re.IGNORECASE)
_LONG_ID = 24
_LEAST_PREFIX = 8
# Thai, Japanese and Chinese signs, which no blank parts into words
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def excerpt(text: str | None, most: int = EXCERPT_CHARACTERS) -> str:
    """A passage's title, which is its first line if that is short; else its first characters."""
    title, body = titled(text, most)
    return title or body


def titled(text: str | None, most: int = EXCERPT_CHARACTERS) -> tuple[str, str]:
    """A passage's title, "" without one, and the beginning of what follows it."""
    # what is beyond the excerpt isn't looked at: a text may be a book
    start = (text or "")[: 4 * most].lstrip()[: 2 * most]
    line, _, following = start.partition("\n")
    title, body = plain(re.sub(r"^#+\s+", "", line)), plain(following)
    if not body or len(title) > most or cell_len(title) < _TITLE_CELLS:
        return "", cut_line(plain(start), most)
    room = most - len(title) - 1
    return title, cut_line(body, room) if room >= _REST_CHARACTERS else ""


def passage_line(text: str | None) -> str:
    """The beginning of a passage in one line, its title in quotes."""
    title, body = titled(text)
    return f"“{title}” {body}".rstrip() if title else body


def difference(old: str, new: str) -> tuple[str, str]:
    """Two texts from a few words before their first difference on."""
    old, new = plain(old), plain(new)
    parting = len(shared_start([old, new]))
    start = old.rfind(" ", 0, max(0, parting - _BEFORE_CHANGE)) + 1
    mark = "…" if start else ""
    return mark + cut_line(old[start:]), mark + cut_line(new[start:])


def cut_line(line: str, most: int = EXCERPT_CHARACTERS) -> str:
    """At most so many characters, ended between words where that keeps half of them."""
    if len(line) <= most:
        return line
    start = line[: most - 1]
    if _UNSPACED.match(start[-1:]):
        return f"{start}…"
    words = start.rpartition(" ")[0] if line[most - 1] != " " else start
    return f"{(words if len(words) > most // 2 else start).rstrip()}…"


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each id by the part in which it differs from the others: UUIDs, digests, common prefixes."""
    distinct = list(dict.fromkeys(ids))
    for cut in (lambda match: f"{match[0][:8]}…", lambda match: f"…{match[0][-8:]}"):
        short = {name: plain(_RANDOM.sub(cut, str(name))) for name in distinct}
        if len(set(short.values())) == len(distinct):
            break
    else:
        short = {name: plain(str(name)) for name in distinct}
    long = [name for name in short.values() if len(name) > _LONG_ID]
    # up to a sign that parts them
    shared = re.sub(r"[^/:#_.-]*$", "", shared_start(long)) if len(long) > 1 else ""
    if len(shared) < _LEAST_PREFIX:
        return short
    shorter = {name: f"…{name.removeprefix(shared)}" for name in long}
    return {name: shorter.get(short_name, short_name) for name, short_name in short.items()}


def named(item: str, names: Mapping[str, str] | None) -> str:
    return (names or {}).get(item) or plain(str(item))


def shared_start(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    lowest, last = min(texts, default=""), max(texts, default="")
    length = 0
    for letter, opposite in zip(lowest, last, strict=False):
        if letter != opposite:
            break
        length += 1
    return lowest[:length]
