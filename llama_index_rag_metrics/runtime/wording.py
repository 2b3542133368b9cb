"""Values and texts, shortened for messages."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence

from llama_index_rag_metrics.runtime.masking import mask_beginning


def cut(text: str, limit: int = 120) -> str:
    """The text, cut at the limit with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shorten(value: object) -> str:
    """A value as Python writes it, masked, then shortened."""
    return cut(mask_beginning(repr(value)))


def id_remedy(item: object) -> str:
    """What to give instead of something that stands where an id is expected; "" if unknown."""
    return "Give node.node_id of each node." if hasattr(item, "node_id") else ""


def unawaited(value: object) -> str:
    """What to do about a coroutine that stands where its result is expected; "" if it is none."""
    return "It is a coroutine: await it." if isinstance(value, Coroutine) else ""


def first_of(parts: Sequence[str], most: int = 5) -> str:
    """The first few of many parts, each shortened, and how many more there are."""
    more = f" and {len(parts) - most:,} more" if len(parts) > most else ""
    return f"{', '.join(map(cut, parts[:most]))}{more}"
