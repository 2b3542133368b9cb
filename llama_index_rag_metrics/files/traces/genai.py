"""OpenTelemetry's conventions for generative AI: `gen_ai.retrieval.documents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index_rag_metrics.files.traces.dialects import Dialect, Documented, Kind
from llama_index_rag_metrics.files.traces.trace_documents import Document
from llama_index_rag_metrics.files.traces.trace_spans import TraceSpan

_DOCUMENTS = "gen_ai.retrieval.documents"
_KINDS: dict[str, Kind] = {"retrieval": "retrieval", "execute_tool": "tool"}


class GenAI(Dialect):
    """Spans whose `gen_ai.operation.name` is "retrieval": a JSON list of {"id", "score"}."""

    name = "OpenTelemetry gen_ai"

    def kind(self, span: TraceSpan) -> Kind | None:
        operation = span.text("gen_ai.operation.name")
        return None if operation is None else _KINDS.get(operation, "other")

    def question(self, span: TraceSpan) -> str | None:
        return span.text("gen_ai.retrieval.query.text")

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        documents = span.json(_DOCUMENTS)
        if documents is None:
            return None
        if not isinstance(documents, list) or not all(
            isinstance(document, Mapping) for document in documents
        ):
            raise span.place.wrong(f'a list of {{"id": …, "score": …}} as {_DOCUMENTS}', documents)
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
