"""OpenTelemetry's conventions for generative AI: `gen_ai.retrieval.documents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index_rag_metrics.formats.traces.dialects import Dialect, Documented, Kind
from llama_index_rag_metrics.formats.traces.documents import Document
from llama_index_rag_metrics.formats.traces.spans import TraceSpan

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
        given = span.json(_DOCUMENTS)
        if given is None:
            return None
        if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
            raise span.place.wrong(f'a list of {{"id": …, "score": …}} as {_DOCUMENTS}', given)
        return [
            Document(one.get("id"), one.get("content"), one.get("score"), one.get("metadata"))
            for one in given
        ]

    def tool(self, span: TraceSpan) -> str:
        return span.text("gen_ai.tool.name") or ""
