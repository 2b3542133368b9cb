"""What is too long for a message, cut."""

from __future__ import annotations

from collections.abc import Sequence


def cut(text: str, limit: int = 120) -> str:
    """The text, with an ellipsis for what goes beyond the limit."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shorten(value: object) -> str:
    """A value as Python writes it, cut."""
    return cut(repr(value))


def first_of(parts: Sequence[str], most: int = 5) -> str:
    """The first few of many parts, each cut, and how many there are besides."""
    more = f" and {len(parts) - most:,} more" if len(parts) > most else ""
    return f"{', '.join(map(cut, parts[:most]))}{more}"
