"""Texts for people: escaped, cut to a line, names listed, what holds for which system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

EXCERPT_CHARACTERS = 120
_BEFORE_CHANGE, _LONGEST_TITLE = 24, 400
# a UUID or a digest
_RANDOM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,}", re.IGNORECASE)
# what could be markup; a stop within a number, a dash within a line and the like can't
_MARKUP = re.compile(
    r"""[^\w\s\x80-\U0010ffff,;'"?%=.:()/+-]|_|^[-+]"""
    r"|^\d(?=\d*[.)](?:\s|$))|[.](?=[^\s\d])|:(?! )",
    re.ASCII,
)


def one_line(text: str) -> str:
    """The text in one line, without control characters: data must not steer a terminal."""
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.split())


def escape_html(text: str) -> str:
    return escape(one_line(text))


def escape_markdown(text: str) -> str:
    """The text in one line that Markdown, GitHub's mentions and links, and HTML leave as it is.

    Punctuation that could be markup becomes a character reference, except in numbers."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", one_line(text))


def element(tag: str, *children: str, **attributes: str) -> str:
    marks = ""
    for name, value in attributes.items():
        marks += f' {name.rstrip("_").replace("_", "-")}="{escape_html(value)}"'
    return f"<{tag}{marks}>{''.join(children)}</{tag}>"


def excerpt(text: str | None, most: int = EXCERPT_CHARACTERS) -> str:
    title, body = titled(text, most)
    return title or body


def titled(text: str | None, most: int = EXCERPT_CHARACTERS) -> tuple[str, str]:
    # what is beyond the excerpt isn't looked at: a text may be a book
    start = (text or "")[: 4 * most].strip()
    line, _, body = start.partition("\n")
    title = one_line(line.lstrip("# "))
    if not body or len(title) > min(most, _LONGEST_TITLE) // 2:
        return "", cut_line(one_line(start), most)
    return title, cut_line(one_line(body), most - len(title) - 1)


def passage_line(text: str | None) -> str:
    title, body = titled(text)
    return f"“{title}” {body}" if title else body


def difference(old: str, new: str) -> tuple[str, str]:
    old, new = one_line(old), one_line(new)
    pairs = enumerate(zip(old, new, strict=False))
    parting = next((n for n, (letter, opposite) in pairs if letter != opposite), len(old))
    start = old.rfind(" ", 0, max(0, parting - _BEFORE_CHANGE)) + 1
    mark = "…" if start else ""
    return mark + cut_line(old[start:]), mark + cut_line(new[start:])


def cut_line(line: str, most: int = EXCERPT_CHARACTERS) -> str:
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
    short = [one_line(_RANDOM.sub(lambda match: f"{match[0][:8]}…", name)) for name in distinct]
    if len(set(short)) < len(distinct):
        short = list(map(one_line, distinct))
    return dict(zip(distinct, short, strict=True))


def listed(names: Sequence[str], most: int = 3) -> str:
    words = list(map(one_line, map(str, names)))
    if len(words) > most:
        words = [*words[: most - 1], f"{len(names) - most + 1} more"]
    if len(words) < 2:
        return "".join(words)
    comma = "; " if "," in "".join(words) else ", "
    return f"{comma.join(words[:-1])} and {words[-1]}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def by_holder(pairs: Iterable[tuple[str, str]], n: int, most: int = 3) -> list[str]:
    """Each text once, after the names that it holds for unless these are all n."""
    holders: dict[str, dict[str, None]] = {}
    for text, holder in pairs:
        holders.setdefault(text, {})[holder] = None
    lines = []
    for text, names in holders.items():
        if len(names) == n:
            lines.append(text)
        else:
            lines.append(f"{listed(list(names), most)}: {text}")
    return lines
