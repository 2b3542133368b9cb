"""Span: a part of a text, by its characters; and which part of its document a node is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode

LONGEST = 2**40  # characters of a document: a place in it and its number fit into 64 bits


class Span(NamedTuple):
    """A part of a text.

    Attributes:
        source: the id of the document, or of the parent node, that it is a part of.
        start: its first character there.
        end: the character after its last.

    Examples:
        >>> from llama_index_rag_metrics import Relevance, Span
        >>> [*Relevance(spans=[Span("handbook", 120, 180)]).spans.values()]
        [Span(source='handbook', start=120, end=180)]
    """

    source: str
    start: int
    end: int


SpanLike: TypeAlias = "Span | tuple[str, int, int]"


def span_id(span: Span) -> str:
    return f"{span.source}[{span.start}:{span.end}]"


def read_span(item: str, place: Any, *, may_be_empty: bool = False) -> Span:
    """Return the span that a place is; that of a retrieved item may hold nothing."""
    if isinstance(place, (tuple, list)) and len(place) == 3:
        source, start, end = place
        has_types = isinstance(source, str) and type(start) is int and type(end) is int
        if has_types and 0 <= start <= end <= LONGEST and (start < end or may_be_empty):
            return Span(source, start, end)
    expected = "(document id, start, end), with the end after the start"
    raise InvalidInput(f"span of {item!r}", place, expected)


def stored_span(metadata: Mapping[str, Any]) -> Span | None:
    source = metadata.get("ref_doc_id")
    start, end = metadata.get("start_char_idx"), metadata.get("end_char_idx")
    if isinstance(source, str) and type(start) is int and type(end) is int and 0 <= start < end:
        return Span(source, start, end)
    return None


def node_span(node: BaseNode, text: str | None = None) -> Span | None:
    """The place of a node, None where it doesn't know it. A document is all of itself."""
    source = node.relationships and (node.parent_node or node.source_node)
    if not source:
        length = len(node.get_content() if text is None else text)
        return Span(node.node_id, 0, length) if length else None
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    return stored_span({"ref_doc_id": source.node_id, "start_char_idx": start, "end_char_idx": end})
