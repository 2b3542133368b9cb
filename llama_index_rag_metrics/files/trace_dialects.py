"""How each instrumentation records a retrieval: a dialect fills a span's kind and documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .trace_spans import Document, Kind, TraceSpan, json_or_none, mapping, parsed, reading

_DROPPED = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT where spans are recorded"
# what OpenInference and MLflow alike call kinds; a reranking is any postprocessing
_KINDS: Mapping[str, Kind] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
    "CHAIN": "answer",
    "AGENT": "agent",
    "TOOL": "tool",
}
_QUESTION_KEYS = (
    *("query_str", "query", "question", "str_or_query_bundle", "query_bundle"),
    *("str_or_query_bundle.query_str", "query.query_str", "input", "user_msg", "q"),
)
_FIELDS = ("id", "content", "score", "metadata")
# how nodes stand in the outputs of postprocessors: by id and score alone
_NODE = re.compile(r"<NodeWithScore\(node=\w+\(id_=(?P<id>.*)\), score=(?P<score>.*)\)>", re.DOTALL)
_INPUT_ID = re.compile(r'\(id_=(.*?)\), score=|(?:id_|document\.id)": "(.*?)"')  # also in JSON
_EVENTS: Mapping[str, Kind] = {"Retrieval": "retrieval", "ReRank": "reranking", "Query": "answer"}
_WITH_NODES = ("retrieval", "reranking")


def read_dialect(span: TraceSpan) -> None:
    """Fill the kind, the question, the documents and the tool of a span that records any."""
    with reading(span.location):
        for dialect in DIALECTS:
            if dialect(span):
                break
    if span.error is not None and span.kind in _WITH_NODES:
        span.documents = None
    if span.kind == "reranking":
        inputs = {name: span.attributes[name] for name in span.attributes if "nput" in name}
        text = json.dumps(inputs, default=str, ensure_ascii=False).replace("\\", "")
        span.input_ids.update(*_INPUT_ID.findall(text))
    expected = f"all attributes of a span with documents; {_DROPPED}"
    is_whole = span.documents is None or not span.dropped
    span.location.check(is_whole, expected, f"{span.dropped} were dropped")


def openinference(span: TraceSpan) -> bool:
    """What `openinference-instrumentation-…` and Phoenix record."""
    if "openinference.span.kind" not in span.attributes:
        return False
    span.kind = _kind(span.attributes["openinference.span.kind"], span)
    value, output = (_shown(span.attributes.get(f"{side}.value")) for side in ("input", "output"))
    if span.attributes.get("input.mime_type") == "application/json":
        value = json_or_none(value)
    span.question = _question(value)
    span.tool = str(span.attributes.get("tool.name") or "")
    if span.kind == "retrieval":
        span.documents = _listed(span, "retrieval.documents", output)
    elif span.kind == "reranking":
        span.documents = _listed(span, "reranker.output_documents", output)
        matches = [_NODE.fullmatch(str(node)) for node in json_or_none(output) or ()]
        if span.documents is None and matches and None not in matches:
            pairs = [match.group("id", "score") for match in matches if match]
            span.documents = [Document(item, score=json_or_none(score)) for item, score in pairs]
    return True


def _listed(span: TraceSpan, prefix: str, output: Any) -> list[Document] | None:
    """Documents in a list, as Phoenix has them, or in attributes that are numbered from 0 on."""
    items: Any = span.attributes.get(prefix)
    if items is None:
        numbered: dict[int, dict[str, Any]] = {}
        for key, value in span.attributes.items():
            if key.startswith(f"{prefix}."):
                number, _, name = key.removeprefix(f"{prefix}.").partition(".")
                numbered.setdefault(int(number), {})[name] = value
        # past a gap there are only documents whose predecessors are lost
        is_whole = sorted(numbered) == list(range(len(numbered)))
        expected = f"every document from {prefix}.0 on; {_DROPPED}"
        span.location.check(is_whole, expected, list(numbered))
        items = [numbered[number] for number in sorted(numbered)]
        # LlamaIndex's words for nothing, or LangChain's
        is_empty = isinstance(output, str) and output.replace(" ", "") in ("[]", '{"documents":[]}')
        if not items and not is_empty:
            return None
    documents = []
    for item in items:
        fields = mapping(item.get("document")) or item
        values = (_shown(fields.get(f"document.{name}", fields.get(name))) for name in _FIELDS)
        documents.append(Document(*values))
    return documents


def _shown(value: Any) -> Any:
    return None if value == "__REDACTED__" else value  # OpenInference was told to hide it


def mlflow(span: TraceSpan) -> bool:
    """MLflow's spans; the outputs of those of type RETRIEVER are documents with `page_content`."""
    if "mlflow.spanType" not in span.attributes:
        return False
    span.kind = _kind(str(span.attributes["mlflow.spanType"]).strip('"'), span)  # of JSON
    span.question = _question(json_or_none(span.attributes.get("mlflow.spanInputs")))
    if span.kind == "tool":
        span.tool = str(span.json("name") or "")
    if span.kind in _WITH_NODES and span.error is None:
        outputs = span.json("mlflow.spanOutputs")
        expected = "a list of documents as mlflow.spanOutputs"
        span.location.check(isinstance(outputs, (list, type(None))), expected, outputs)
        if outputs is not None:
            span.documents = [_mlflow_document(output, span) for output in outputs]
    return True


def _mlflow_document(output: Mapping[str, Any], span: TraceSpan) -> Document:
    if "node" in output:
        return _node(output)
    metadata = mapping(parsed(output.get("metadata"), "metadata", span.location))
    source = metadata.get("doc_uri")
    names = (output.get("id"), output.get("doc_id"), metadata.get("chunk_id"), source)
    item = next((name for name in names if name is not None), None)
    return Document(item, output.get("page_content"), metadata.get("score"), metadata, source)


def gen_ai(span: TraceSpan) -> bool:
    """OpenTelemetry's conventions: retrieval spans have a JSON list of {"id", "score"}."""
    if "gen_ai.operation.name" not in span.attributes:
        return False
    kinds: Mapping[str, Kind] = {"retrieval": "retrieval", "execute_tool": "tool"}
    span.kind = kinds.get(str(span.attributes["gen_ai.operation.name"]), "other")
    span.question = _question(span.attributes.get("gen_ai.retrieval.query.text"))
    span.tool = str(span.attributes.get("gen_ai.tool.name") or "")
    documents = span.json("gen_ai.retrieval.documents")
    if documents is not None:
        span.documents = [Document(*map(document.get, _FIELDS)) for document in documents]
    return True


def llamaindex_events(span: TraceSpan) -> bool:
    """LlamaIndex's events, as `llama-index-observability-otel` adds them to spans."""
    for name, attributes in span.events:
        kind = _EVENTS.get(name.removesuffix("StartEvent").removesuffix("EndEvent"), "other")
        if name.endswith("StartEvent") and span.kind == "other" and kind != "other":
            span.kind, span.question = kind, _question(attributes)
        elif kind == span.kind and kind in _WITH_NODES and span.documents is None:
            nodes = parsed(attributes.get("nodes"), "nodes", span.location)
            span.documents = list(map(_node, nodes))
    if span.kind == "other":  # of most postprocessors there is a span, and no event
        span.kind = _kind("", span)
    return True


DIALECTS: Sequence[Callable[[TraceSpan], bool]] = (openinference, mlflow, gen_ai, llamaindex_events)
"""The dialects, in order; the first that knows a span reads it."""


def _kind(name: str, span: TraceSpan) -> Kind:
    is_postprocessor = span.name.endswith("postprocess_nodes")
    return "reranking" if is_postprocessor else _KINDS.get(name, "other")


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
