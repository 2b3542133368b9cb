"""How instrumentations record a retrieval: `DIALECTS` is the table of them all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from llama_index_rag_metrics.files.fields import first_of
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.traces.trace_spans import (
    DROPPED,
    Dialect,
    Document,
    Documented,
    Event,
    Kind,
    TraceSpan,
    from_json_text,
    json_or_none,
    kind_named,
    mapping,
    node_documents,
    question_in,
    source_nodes,
)

_OPENINFERENCE_KIND = "openinference.span.kind"
_DOCUMENTS = {"retrieval": "retrieval.documents", "reranking": "reranker.output_documents"}
_NODE = re.compile(r"<NodeWithScore\(node=\w+\(id_=(?P<id>.*)\), score=(?P<score>.*)\)>", re.DOTALL)
"""How nodes stand in the outputs of spans that aren't a retriever's: by id and score alone."""

_FIELDS = ("id", "content", "score", "metadata")
_ABSENT = [None] * len(_FIELDS)
_EMPTY = ("[]", '{"documents":[]}')


class OpenInference(Dialect):
    """What `openinference-instrumentation-…` and Phoenix record."""

    def kind(self, span: TraceSpan) -> Kind | None:
        kind = span.text(_OPENINFERENCE_KIND)
        return None if kind is None else kind_named(kind, span)

    def question(self, span: TraceSpan) -> str | None:
        value = span.get("input.value")
        if span.get("input.mime_type") == "application/json":
            value = json_or_none(value)
        return question_in(value)

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        if kind == "answer":
            return _of_nodes(source_nodes(span.get("output.value")))
        prefix = _DOCUMENTS[kind]
        nested = span.get(prefix)
        documents = _flattened(span, prefix) if nested is None else list(_nested(nested, span))
        if documents:
            return documents
        output = span.get("output.value")
        # LlamaIndex's words, or LangChain's
        is_empty = isinstance(output, str) and output.replace(" ", "") in _EMPTY
        if is_empty or nested is not None:
            return []
        return _of_nodes(json_or_none(output)) if kind == "reranking" else None

    def tool(self, span: TraceSpan) -> str:
        return str(span.get("tool.name") or "")


def _flattened(span: TraceSpan, prefix: str) -> list[Document]:
    """Documents at indices from 0 on; each has at least one of the fields."""
    fields = span.under(prefix)
    documents: list[Document] = []
    while n_left := len(fields):
        document = Document(*map(fields.pop, _keys(prefix, len(documents)), _ABSENT))
        if len(fields) == n_left:
            # past a gap there are only documents whose predecessors are lost
            for key in fields:
                number = key[len(prefix) + 1 :].partition(".")[0]
                is_index = number.isdecimal() and len(number) < 9
                is_past = is_index and int(number) >= len(documents)
                expected = f"every document from {prefix}.0 on; {DROPPED}"
                span.place.check(not is_past, expected, key)
            break
        documents.append(document)
    return documents


def _nested(documents: Any, span: TraceSpan) -> Iterator[Document]:
    documents = documents.tolist() if hasattr(documents, "tolist") else documents
    span.place.check(isinstance(documents, (list, tuple)), "a list of documents", documents)
    for document in documents:
        span.place.check(isinstance(document, Mapping), "a document", document)
        inner = document.get("document")
        fields = inner if isinstance(inner, Mapping) else document
        yield Document(*(fields.get(f"document.{name}", fields.get(name)) for name in _FIELDS))


@cache
def _keys(prefix: str, index: int) -> tuple[str, ...]:
    return tuple(f"{prefix}.{index}.document.{field}" for field in _FIELDS)


def _of_nodes(nodes: Any) -> list[Document] | None:
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        return None
    matches = filter(None, map(_NODE.fullmatch, nodes))
    # a score is "None", or a number
    documents = [Document(match["id"], None, json_or_none(match["score"])) for match in matches]
    return documents if len(documents) == len(nodes) else None


_MLFLOW_KIND, _INPUTS, _OUTPUTS = "mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs"


class MLflow(Dialect):
    """Spans of type RETRIEVER; their outputs are documents with `page_content`."""

    def kind(self, span: TraceSpan) -> Kind | None:
        kind = span.text(_MLFLOW_KIND)  # a text, or the JSON of one
        return None if kind is None else kind_named(kind.strip('"'), span)

    def question(self, span: TraceSpan) -> str | None:
        return question_in(json_or_none(span.get(_INPUTS)))

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        if kind == "answer":
            nodes = source_nodes(span.get(_OUTPUTS))
            return None if nodes is None else node_documents(nodes, span.place)
        outputs = span.json(_OUTPUTS)
        if outputs is None:
            return None
        expected = f"a list of documents as {_OUTPUTS}"
        span.place.check(isinstance(outputs, list), expected, outputs)
        if all(isinstance(output, Mapping) and "node" in output for output in outputs):
            return node_documents(outputs, span.place)
        return [_mlflow_document(output, span.place) for output in outputs]

    def tool(self, span: TraceSpan) -> str:
        return str(span.json("name") or "")


def _mlflow_document(output: Any, place: Place) -> Document:
    expected = "a document, {page_content, metadata, id}"
    place.check(isinstance(output, Mapping), expected, output)
    known = mapping(from_json_text(output.get("metadata"), "metadata", place))
    item = first_of(output, ("id", "doc_id"))
    item = known.get("chunk_id", known.get("doc_uri")) if item is None else item
    return Document(
        item, output.get("page_content"), known.get("score"), known, known.get("doc_uri")
    )


_GENAI_DOCUMENTS = "gen_ai.retrieval.documents"
_GENAI_KINDS: dict[str, Kind] = {"retrieval": "retrieval", "execute_tool": "tool"}


class GenAI(Dialect):
    """OpenTelemetry's conventions: retrieval spans have a JSON list of {"id", "score"}."""

    def kind(self, span: TraceSpan) -> Kind | None:
        operation = span.text("gen_ai.operation.name")
        return None if operation is None else _GENAI_KINDS.get(operation, "other")

    def question(self, span: TraceSpan) -> str | None:
        return span.text("gen_ai.retrieval.query.text")

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        documents = span.json(_GENAI_DOCUMENTS)
        if documents is None:
            return None
        is_list = isinstance(documents, list)
        is_right = is_list and all(isinstance(document, Mapping) for document in documents)
        expected = f'a list of {{"id": …, "score": …}} as {_GENAI_DOCUMENTS}'
        span.place.check(is_right, expected, documents)
        return [Document(*map(document.get, _FIELDS)) for document in documents]

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

_QUESTIONS = ("str_or_query_bundle", "query")


class LlamaIndexEvents(Dialect):
    """LlamaIndex's events, as `llama-index-observability-otel` adds them to spans."""

    def kind(self, span: TraceSpan) -> Kind | None:
        start = _start(span)
        return None if start is None else _STARTS[start.name]

    def question(self, span: TraceSpan) -> str | None:
        attributes = {} if (start := _start(span)) is None else start.attributes
        names = (name for key in _QUESTIONS for name in (key, f"{key}.query_str"))
        texts = (attributes.get(name) for name in names)
        return next((text for text in texts if isinstance(text, str)), None)

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        for event in span.events():
            ended, where = _NODES.get(event.name, ("", ""))
            if ended == kind:
                nodes = from_json_text(event.attributes.get(where), where, span.place)
                return node_documents(nodes, span.place)
        return None


def _start(span: TraceSpan) -> Event | None:
    return next((event for event in span.events() if event.name in _STARTS), None)


DIALECTS: list[Dialect] = [OpenInference(), MLflow(), GenAI(), LlamaIndexEvents()]
"""The dialects, in order; the first that knows a span reads it."""
