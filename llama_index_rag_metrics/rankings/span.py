"""Span: a part of a text, by its characters."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.runtime.errors import InvalidInput

LONGEST = 2**40
"""Characters of a document: keeps a place in it, together with a document's number, in 64 bits."""


class Span(NamedTuple):
    """A part of a text.

    Attributes:
        source: the id of the document, or of the parent node, that it is a part of.
        start: its first character there.
        end: the character after its last.

    Examples:
        >>> from llama_index_rag_metrics import Relevance, Span
        >>> [*Relevance.of_spans([Span("handbook", 120, 180)]).spans.values()]
        [Span(source='handbook', start=120, end=180)]
    """

    source: str
    start: int
    end: int


SpanLike: TypeAlias = "Span | tuple[str, int, int]"


def read_span(item: str, place: Any, *, may_be_empty: bool = False) -> Span:
    """Return the span that a place is; that of a retrieved item may hold nothing."""
    shortest = 0 if may_be_empty else 1
    span = Span(*place) if isinstance(place, (tuple, list)) and len(place) == 3 else None
    if (
        span is None
        or not isinstance(span.source, str)
        or not all(type(edge) is int for edge in span[1:])
        or not 0 <= span.start <= span.end - shortest
        or span.end > LONGEST
    ):
        expected = "(document id, start, end), with the end after the start"
        if may_be_empty:
            expected = "(document id, start, end), with the end not before the start"
        raise InvalidInput(f"span of {item!r}", place, expected)
    return span
