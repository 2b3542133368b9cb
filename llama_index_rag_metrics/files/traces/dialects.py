"""How each instrumentation records a retrieval: a dialect fills a span's kind and documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.traces.trace_spans import (
    Document,
    Kind,
    TraceSpan,
    json_or_none,
    mapping,
    parsed,
    reading,
)

DROPPED = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT where spans are recorded"
_KINDS: Mapping[str, Kind] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
    "CHAIN": "answer",
    "AGENT": "agent",
    "TOOL": "tool",
}
"""What OpenInference and MLflow alike call the kinds of spans; a reranking is any postprocessing,
and an answer or an agent may name its sources."""

_QUESTION_KEYS = (
    "query_str",
    "query",
    "question",
    "str_or_query_bundle",
    "query_bundle",
    "input",
    "user_msg",
    "q",
)
_FIELDS = ("id", "content", "score", "metadata")
_WITH_DOCUMENTS = ("retrieval", "reranking", "answer", "agent")


def read_dialect(span: TraceSpan) -> None:
    """Fill the kind, the question, the documents and the tool of a span that records any."""
    with reading(span.location):
        for dialect in DIALECTS:
            if dialect(span):
                break
    if span.error is not None and span.kind in ("retrieval", "reranking"):
        span.documents = None
    elif span.documents is not None and span.dropped:
        expected = f"all attributes of a span with documents; {DROPPED}"
        raise span.location.wrong(expected, f"{span.dropped} were dropped")


def openinference(span: TraceSpan) -> bool:
    """What `openinference-instrumentation-…` and Phoenix record."""
    kind = span.text("openinference.span.kind")
    if kind is None:
        return False
    span.kind = _kind(kind, span)
    value, output = (span.attributes.get(f"{side}.value") for side in ("input", "output"))
    if span.attributes.get("input.mime_type") == "application/json":
        value = json_or_none(value)
    span.question = _question(value)
    span.tool = str(span.attributes.get("tool.name") or "")
    if span.kind == "retrieval":
        span.documents = _listed(span, "retrieval.documents", output)
    elif span.kind == "reranking":
        listed = _listed(span, "reranker.output_documents", output)
        span.documents = _printed(json_or_none(output)) if listed is None else listed
    elif span.kind in ("answer", "agent"):
        span.documents = _printed(_sources(output))
    return True


def _listed(span: TraceSpan, prefix: str, output: Any) -> list[Document] | None:
    nested = span.attributes.get(prefix)
    documents = _flattened(span, prefix)
    if nested is not None:
        nested = nested.tolist() if hasattr(nested, "tolist") else nested
        span.location.check(isinstance(nested, (list, tuple)), "a list of documents", nested)
        documents = [_document(item) for item in nested]
    # LlamaIndex's words for nothing, or LangChain's
    is_empty = isinstance(output, str) and output.replace(" ", "") in ("[]", '{"documents":[]}')
    if documents or is_empty or nested is not None:
        return documents
    return None


def _document(item: Mapping[str, Any]) -> Document:
    fields = mapping(item.get("document")) or item
    return Document(*(fields.get(f"document.{name}", fields.get(name)) for name in _FIELDS))


def _flattened(span: TraceSpan, prefix: str) -> list[Document]:
    """Documents at indices from 0 on; each has at least one of the fields."""
    start = f"{prefix}."
    fields = {key: value for key, value in span.attributes.items() if key.startswith(start)}
    documents: list[Document] = []
    while any(key in fields for key in _keys(prefix, len(documents))):
        keys = _keys(prefix, len(documents))
        documents.append(Document(*(fields.pop(key, None) for key in keys)))
    for key in fields:
        # past a gap there are only documents whose predecessors are lost
        number = key.removeprefix(start).partition(".")[0]
        is_past = number.isdecimal() and len(number) < 9 and int(number) >= len(documents)
        span.location.check(not is_past, f"every document from {prefix}.0 on; {DROPPED}", key)
    return documents


@cache
def _keys(prefix: str, index: int) -> tuple[str, ...]:
    return tuple(f"{prefix}.{index}.document.{field}" for field in _FIELDS)


_NODE = re.compile(r"<NodeWithScore\(node=\w+\(id_=(?P<id>.*)\), score=(?P<score>.*)\)>", re.DOTALL)
"""How nodes stand in the outputs of spans that aren't a retriever's: by id and score alone."""


def _printed(nodes: Any) -> list[Document] | None:
    if not isinstance(nodes, list):
        return None
    matches = [_NODE.fullmatch(node) if isinstance(node, str) else None for node in nodes]
    documents = [
        Document(match["id"], None, json_or_none(match["score"])) for match in matches if match
    ]
    return documents if len(documents) == len(nodes) else None


def mlflow(span: TraceSpan) -> bool:
    """MLflow's spans; the outputs of those of type RETRIEVER are documents with `page_content`."""
    kind = span.text("mlflow.spanType")  # a text, or the JSON of one
    if kind is None:
        return False
    span.kind = _kind(kind.strip('"'), span)
    span.question = _question(json_or_none(span.attributes.get("mlflow.spanInputs")))
    if span.kind == "tool":
        span.tool = str(span.json("name") or "")
    if span.kind not in _WITH_DOCUMENTS:
        return True
    if span.kind in ("answer", "agent"):
        nodes = _sources(span.attributes.get("mlflow.spanOutputs"))
        if nodes is not None:
            span.documents = _nodes(nodes)
        return True
    outputs = span.json("mlflow.spanOutputs")
    if outputs is not None and span.error is None:
        expected = "a list of documents as mlflow.spanOutputs"
        span.location.check(isinstance(outputs, list), expected, outputs)
        span.documents = [_mlflow_document(output, span.location) for output in outputs]
    return True


def _mlflow_document(output: Any, location: Location) -> Document:
    location.check(isinstance(output, Mapping), "a document, {page_content, metadata, id}", output)
    if "node" in output:
        return _node(output)
    metadata = mapping(parsed(output.get("metadata"), "metadata", location))
    item = output.get("doc_id") if output.get("id") is None else output["id"]
    if item is None:
        item = metadata.get("chunk_id", metadata.get("doc_uri"))
    text, source = output.get("page_content"), metadata.get("doc_uri")
    return Document(item, text, metadata.get("score"), metadata, source)


def gen_ai(span: TraceSpan) -> bool:
    """OpenTelemetry's conventions: retrieval spans have a JSON list of {"id", "score"}."""
    operation = span.text("gen_ai.operation.name")
    if operation is None:
        return False
    kinds: Mapping[str, Kind] = {"retrieval": "retrieval", "execute_tool": "tool"}
    span.kind = kinds.get(operation, "other")
    span.question = span.text("gen_ai.retrieval.query.text")
    span.tool = span.text("gen_ai.tool.name") or ""
    documents = span.json("gen_ai.retrieval.documents")
    if documents is not None:
        span.documents = [Document(*map(document.get, _FIELDS)) for document in documents]
    return True


_STARTS: Mapping[str, Kind] = {
    "RetrievalStartEvent": "retrieval",
    "ReRankStartEvent": "reranking",
    "QueryStartEvent": "answer",
    "SynthesizeStartEvent": "answer",
}
_ENDS: Mapping[str, tuple[Kind, str]] = {
    "RetrievalEndEvent": ("retrieval", "nodes"),
    "ReRankEndEvent": ("reranking", "nodes"),
    "QueryEndEvent": ("answer", "response.source_nodes"),
    "SynthesizeEndEvent": ("answer", "response.source_nodes"),
}
_EVENT_QUESTIONS = (
    "str_or_query_bundle",
    "str_or_query_bundle.query_str",
    "query",
    "query.query_str",
)


def llamaindex_events(span: TraceSpan) -> bool:
    """LlamaIndex's events, as `llama-index-observability-otel` adds them to spans."""
    starts = [event for event in span.events if event.name in _STARTS]
    if not starts:
        return False
    span.kind = _STARTS[starts[0].name]
    texts = [starts[0].attributes.get(name) for name in _EVENT_QUESTIONS]
    span.question = next((text for text in texts if isinstance(text, str)), None)
    for event in span.events:
        kind, name = _ENDS.get(event.name, (None, ""))
        if kind == span.kind and span.documents is None:
            span.documents = _nodes(parsed(event.attributes.get(name), name, span.location))
    return True


DIALECTS: Sequence[Callable[[TraceSpan], bool]] = (openinference, mlflow, gen_ai, llamaindex_events)
"""The dialects, in order; the first that knows a span reads it."""


def _kind(name: str, span: TraceSpan) -> Kind:
    kind = _KINDS.get(name, "other")
    is_postprocessor = span.name.endswith("postprocess_nodes")
    if kind in ("answer", "agent") and is_postprocessor:
        return "reranking"
    return kind


def _question(value: Any) -> str | None:
    for _ in range(4):
        if isinstance(value, str) or not isinstance(value, Mapping):
            break
        values = [value[key] for key in _QUESTION_KEYS if value.get(key)]
        if not values and len(value) == 1:
            values = list(value.values())
        value = next(iter(values), None)
    return value if isinstance(value, str) else None


def _sources(output: Any) -> list[Any] | None:
    if isinstance(output, str) and '"source_nodes"' not in output:
        return None
    nodes = mapping(json_or_none(output)).get("source_nodes")
    return nodes if isinstance(nodes, list) else None


def _nodes(nodes: Any) -> list[Document]:
    return [_node(node) for node in nodes]


def _node(scored: Mapping[str, Any]) -> Document:
    node = scored["node"]
    text = node.get("text")
    if text is None:
        text = mapping(node.get("text_resource")).get("text")
    source = mapping(mapping(node.get("relationships")).get("1")).get("node_id", node["id_"])
    return Document(node["id_"], text, scored.get("score"), node.get("metadata"), source)
