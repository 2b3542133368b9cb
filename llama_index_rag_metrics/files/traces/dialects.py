"""How instrumentations record a retrieval: `DIALECTS` is the table of them all.

A further instrumentation is a further entry: a `Dialect` here, or in a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index_rag_metrics.files.traces.mlflow_traces import MLflow
from llama_index_rag_metrics.files.traces.openinference import OpenInference
from llama_index_rag_metrics.files.traces.span_dialect import (
    Dialect,
    Documented,
    Kind,
    node_documents,
)
from llama_index_rag_metrics.files.traces.trace_documents import Document
from llama_index_rag_metrics.files.traces.trace_spans import TraceSpan, from_json_text

_GENAI_DOCUMENTS = "gen_ai.retrieval.documents"
_GENAI_KINDS: dict[str, Kind] = {"retrieval": "retrieval", "execute_tool": "tool"}


class GenAI(Dialect):
    """OpenTelemetry's conventions for generative AI.

    Spans whose `gen_ai.operation.name` is "retrieval" have a JSON list of {"id", "score"}.
    """

    name = "OpenTelemetry gen_ai"

    def kind(self, span: TraceSpan) -> Kind | None:
        operation = span.text("gen_ai.operation.name")
        return None if operation is None else _GENAI_KINDS.get(operation, "other")

    def question(self, span: TraceSpan) -> str | None:
        return span.text("gen_ai.retrieval.query.text")

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        documents = span.json(_GENAI_DOCUMENTS)
        if documents is None:
            return None
        if not isinstance(documents, list) or not all(
            isinstance(document, Mapping) for document in documents
        ):
            raise span.place.wrong(
                f'a list of {{"id": …, "score": …}} as {_GENAI_DOCUMENTS}', documents
            )
        return [
            Document(
                document.get("id"),
                document.get("content"),
                document.get("score"),
                document.get("metadata"),
            )
            for document in documents
        ]

    def tool(self, span: TraceSpan) -> str:
        return span.text("gen_ai.tool.name") or ""


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
    """LlamaIndex's own events, as `llama-index-observability-otel` adds them to spans.

    A RetrievalStartEvent, and a RetrievalEndEvent whose `nodes` are JSON.
    """

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


DIALECTS: list[Dialect] = [OpenInference(), MLflow(), GenAI(), LlamaIndexEvents()]
"""The dialects, in order; the first that knows a span reads it."""
