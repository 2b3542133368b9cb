"""`llama-index-observability-otel`: LlamaIndex's own events, as events of the spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index_rag_metrics.files.traces.dialects import Dialect, Documented, Kind, node_documents
from llama_index_rag_metrics.files.traces.trace_documents import Document
from llama_index_rag_metrics.files.traces.trace_spans import TraceSpan, from_json_text

_STARTS: dict[str, Kind] = {
    "RetrievalStartEvent": "retrieval",
    "ReRankStartEvent": "reranking",
    "QueryStartEvent": "answer",
    "SynthesizeStartEvent": "answer",
}
_NODES: dict[str, tuple[Documented, str]] = {
    "RetrievalEndEvent": ("retrieval", "nodes"),
    "ReRankEndEvent": ("reranking", "nodes"),
    "QueryEndEvent": ("answer", "response.source_nodes"),
    "SynthesizeEndEvent": ("answer", "response.source_nodes"),
}
"""Where an event that ends something has its nodes."""

_QUESTIONS = ("str_or_query_bundle", "query")


class LlamaIndexEvents(Dialect):
    """Spans with a RetrievalStartEvent, and a RetrievalEndEvent whose `nodes` are JSON."""

    name = "LlamaIndex events"

    def kind(self, span: TraceSpan) -> Kind | None:
        for event in span.events():
            if event.name in _STARTS:
                return _STARTS[event.name]
        return None

    def question(self, span: TraceSpan) -> str | None:
        for event in span.events():
            if event.name in _STARTS:
                return _question(event.attributes)
        return None

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        for event in span.events():
            ended, where = _NODES.get(event.name, ("", ""))
            if ended == kind:
                nodes = from_json_text(event.attributes.get(where), where, span.place)
                return node_documents(nodes, span.place)
        return None


def _question(attributes: Mapping[str, Any]) -> str | None:
    for key in _QUESTIONS:
        for name in (key, f"{key}.query_str"):
            if isinstance(value := attributes.get(name), str):
                return value
    return None
