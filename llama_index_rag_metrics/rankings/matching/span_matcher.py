"""Matching by place: which characters of which document a node holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.rankings.matching.matcher import Matcher, positions
from llama_index_rag_metrics.rankings.span import Span, SpanLike, read_span
from llama_index_rag_metrics.runtime.arrays import FloatArray

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode


class SpanMatcher(Matcher["Span | None"]):
    """The retrieved node holds the expected span: characters in common / expected characters.

    Args:
        threshold: the share of the expected span from which it is covered.
        spans: expected id to (document id, start, end). Ids that aren't here are looked for among
            the nodes, then in the dataset's `document_metadata`: the keys "ref_doc_id",
            "start_char_idx" and "end_char_idx".
        nodes: nodes that labels may name, such as all that a node parser made. Needed where nodes
            were cut from other nodes, as for LlamaIndex's AutoMergingRetriever.

    Raises:
        InvalidInput: a span isn't one, or its end isn't after its start.

    Examples:
        >>> matcher = SpanMatcher(spans={"geysers": ("moons.txt", 100, 200)})
        >>> expected = [matcher.span_of("geysers")]
        >>> matcher.match(expected, [Span("moons.txt", 0, 150), Span("moons.txt", 151, 400)])
        [[0], []]
    """

    kind = "span"
    default = 0.5

    def __init__(
        self,
        threshold: float | None = None,
        *,
        spans: Mapping[str, SpanLike] | None = None,
        nodes: Iterable[BaseNode] = (),
    ) -> None:
        super().__init__(threshold)
        placed = ((node.node_id, node_span(node)) for node in nodes)
        self.spans = {item: span for item, span in placed if span is not None}
        self.spans |= {item: read_span(item, place) for item, place in (spans or {}).items()}

    def span_of(self, item: str) -> Span | None:
        """The span of an expected id, where one was given."""
        return self.spans.get(item)

    def resolve(self, span: Span) -> Span:
        """The same characters, counted in the document that they come from in the end."""
        seen = {span.source}
        while span.source in self.spans:
            outer = self.spans[span.source]
            if outer.source in seen:
                break
            seen.add(outer.source)
            span = Span(outer.source, outer.start + span.start, outer.start + span.end)
        return span

    def match(
        self, expected: Sequence[Span | None], retrieved: Sequence[Span | None]
    ) -> list[list[int]]:
        return positions(self.likeness(expected, retrieved) >= self.threshold)

    def likeness(
        self, expected: Sequence[Span | None], retrieved: Sequence[Span | None]
    ) -> FloatArray:
        wanted = [span and self.resolve(span) for span in expected]
        places = [span and self.resolve(span) for span in retrieved]
        shares = [[_share(span, place) for span in wanted] for place in places]
        return np.array(shares, np.float64).reshape(len(places), len(wanted))


def _share(wanted: Span | None, place: Span | None) -> float:
    if not wanted or not place or wanted.source != place.source:
        return 0.0
    shared = min(wanted.end, place.end) - max(wanted.start, place.start)
    return max(0, shared) / (wanted.end - wanted.start)


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
