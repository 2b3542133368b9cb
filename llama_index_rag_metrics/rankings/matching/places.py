"""Places: which characters of which document a node holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llama_index_rag_metrics.rankings.span import Span

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode


def node_span(node: BaseNode) -> Span | None:
    """The place of a node, None where it doesn't know it. A document is all of itself."""
    source = (node.parent_node or node.source_node) if node.relationships else None
    if source is None:
        length = len(node.get_content())
        return Span(node.node_id, 0, length) if length else None
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    if start is None or end is None or not 0 <= start < end:
        return None
    return Span(source.node_id, start, end)


class NodePlaces:
    """The places of nodes, also of such as were cut from other nodes."""

    def __init__(self, nodes: Iterable[BaseNode] = ()) -> None:
        placed = ((node.node_id, node_span(node)) for node in nodes)
        self.spans = {item: span for item, span in placed if span is not None}

    def of_id(self, item: str) -> Span | None:
        """The place of a node in the document that it comes from in the end."""
        span = self.spans.get(item)
        if span is None:
            return None
        sources = {span.source}
        while span.source in self.spans:
            outer = self.spans[span.source]
            if outer.source in sources:
                break
            sources.add(outer.source)
            span = Span(outer.source, outer.start + span.start, outer.start + span.end)
        return span
