"""How each instrumentation records a retrieval: a dialect fills a span's kind and documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .lines import Location
from .trace_spans import Document, Kind, TraceSpan, json_or_none, mapping, parsed, reading

DROPPED = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT where spans are recorded"
_KINDS: Mapping[str, Kind] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
    "CHAIN": "answer",
    "AGENT": "agent",
    "TOOL": "tool",
}
"""What OpenInference and MLflow alike call kinds; a reranking is any postprocessing."""

_QUESTION_KEYS = (
    *("query_str", "query", "question", "str_or_query_bundle", "query_bundle"),
    *("input", "user_msg", "q"),
)
_FIELDS = ("id", "content", "score", "metadata")
_NODE = re.compile(r"<NodeWithScore\(node=\w+\(id_=(?P<id>.*)\), score=(?P<score>.*)\)>", re.DOTALL)
"""How nodes stand in the outputs of spans that aren't a retriever's: by id and score alone."""

_EVENTS: Mapping[str, Kind] = {"Retrieval": "retrieval", "ReRank": "reranking", "Query": "answer"}
_EVENT_QUESTIONS = (
    "str_or_query_bundle",
    "str_or_query_bundle.query_str",
    "query",
    "query.query_str",
)


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
    kind = span.attributes.get("openinference.span.kind")
    if kind is None:
        return False
    span.kind = _kind(str(kind), span)
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
    return True


def _listed(span: TraceSpan, prefix: str, output: Any) -> list[Document] | None:
    nested = span.attributes.get(prefix)
    if nested is not None:
        nested = nested.tolist() if hasattr(nested, "tolist") else nested
        span.location.check(isinstance(nested, (list, tuple)), "a list of documents", nested)
        return [_document(item) for item in nested]
    documents = _flattened(span, prefix)
    # LlamaIndex's words for nothing, or LangChain's
    is_empty = isinstance(output, str) and output.replace(" ", "") in ("[]", '{"documents":[]}')
    return documents if documents or is_empty else None


def _document(item: Mapping[str, Any]) -> Document:
    fields = mapping(item.get("document")) or item
    return Document(*(fields.get(f"document.{name}", fields.get(name)) for name in _FIELDS))


def _flattened(span: TraceSpan, prefix: str) -> list[Document]:
    """Documents whose attributes are numbered from 0 on."""
    numbered: dict[int, dict[str, Any]] = {}
    for key, value in span.attributes.items():
        if not key.startswith(f"{prefix}."):
            continue
        number, _, name = key.removeprefix(f"{prefix}.").partition(".")
        field = name.removeprefix("document.")
        if number.isdecimal() and (field in _FIELDS or name == ""):
            numbered.setdefault(int(number), {})[field] = value
    # past a gap there are only documents whose predecessors are lost
    is_whole = sorted(numbered) == list(range(len(numbered)))
    expected = f"every document from {prefix}.0 on; {DROPPED}"
    span.location.check(is_whole, expected, list(numbered))
    return [Document(*map(numbered[number].get, _FIELDS)) for number in sorted(numbered)]


def _printed(nodes: Any) -> list[Document] | None:
    if not isinstance(nodes, list):
        return None
    documents = []
    for node in nodes:
        match = _NODE.fullmatch(node) if isinstance(node, str) else None
        if match is None:
            return None
        documents.append(Document(match["id"], None, json_or_none(match["score"])))
    return documents


def mlflow(span: TraceSpan) -> bool:
    """MLflow's spans; the outputs of those of type RETRIEVER are documents with `page_content`."""
    kind = span.attributes.get("mlflow.spanType")  # a text, or the JSON of one
    if kind is None:
        return False
    span.kind = _kind(str(kind).strip('"'), span)
    span.question = _question(json_or_none(span.attributes.get("mlflow.spanInputs")))
    if span.kind == "tool":
        span.tool = str(span.json("name") or "")
    if span.kind not in ("retrieval", "reranking"):
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
    names = (output.get("id"), output.get("doc_id"), metadata.get("chunk_id"))
    source = metadata.get("doc_uri")
    item = next((name for name in names if name is not None), source)
    return Document(item, output.get("page_content"), metadata.get("score"), metadata, source)


def gen_ai(span: TraceSpan) -> bool:
    """OpenTelemetry's conventions: retrieval spans have a JSON list of {"id", "score"}."""
    operation = span.attributes.get("gen_ai.operation.name")
    if operation is None:
        return False
    kinds: Mapping[str, Kind] = {"retrieval": "retrieval", "execute_tool": "tool"}
    span.kind = kinds.get(str(operation), "other")
    span.question = _question(span.attributes.get("gen_ai.retrieval.query.text"))
    span.tool = str(span.attributes.get("gen_ai.tool.name") or "")
    documents = span.json("gen_ai.retrieval.documents")
    if documents is not None:
        span.documents = [Document(*map(document.get, _FIELDS)) for document in documents]
    return True


def llamaindex_events(span: TraceSpan) -> bool:
    """LlamaIndex's events, as `llama-index-observability-otel` adds them to spans."""
    for name, attributes in span.events:
        stem, is_start, _ = name.partition("StartEvent")
        if is_start and span.kind is None and stem in _EVENTS:
            span.kind = _EVENTS[stem]
            texts = map(attributes.get, _EVENT_QUESTIONS)
            span.question = next((text for text in texts if isinstance(text, str)), None)
        elif span.kind in ("retrieval", "reranking") and span.documents is None:
            stem, is_end, _ = name.partition("EndEvent")
            if is_end and _EVENTS.get(stem) == span.kind:
                nodes = parsed(attributes.get("nodes"), "nodes", span.location)
                span.documents = [_node(node) for node in nodes]
    return span.kind is not None


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
        if not isinstance(value, Mapping):
            break
        values = [value[key] for key in _QUESTION_KEYS if value.get(key)]
        if not values and len(value) == 1:
            values = list(value.values())
        value = next(iter(values), None)
    return value if isinstance(value, str) else None


def _node(scored: Mapping[str, Any]) -> Document:
    node = scored["node"]
    text = node.get("text")
    if text is None:
        text = mapping(node.get("text_resource")).get("text")
    source = mapping(mapping(node.get("relationships")).get("1")).get("node_id", node["id_"])
    return Document(node["id_"], text, scored.get("score"), node.get("metadata"), source)
