"""Values and texts, shortened for messages."""

from __future__ import annotations

from collections.abc import Sequence


def cut(text: str, limit: int = 120) -> str:
    """The text, cut at the limit with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shorten(value: object) -> str:
    """A value as Python writes it, shortened."""
    return cut(repr(value))


def first_of(parts: Sequence[str], most: int = 5) -> str:
    """The first few of many parts, each shortened, and how many more there are."""
    more = f" and {len(parts) - most:,} more" if len(parts) > most else ""
    return f"{', '.join(map(cut, parts[:most]))}{more}"
