"""MLflow: traces of its tracking store, in memory or as exported JSON, and its attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index_rag_metrics.files.lines import Faults, Place
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.files.traces.span_dialect import (
    Dialect,
    Documented,
    Kind,
    kind_named,
    node_documents,
    question_in,
    source_nodes,
)
from llama_index_rag_metrics.files.traces.trace_documents import Document
from llama_index_rag_metrics.files.traces.trace_spans import (
    Event,
    TraceSpan,
    from_json_text,
    json_or_none,
    mapping,
    parent_of,
    seconds,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError

_KIND, _INPUTS, _OUTPUTS = "mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs"
_TRACE_ID = "trace_id"


class MLflow(Dialect):
    """Spans of type RETRIEVER; their outputs are documents with `page_content`."""

    name = "MLflow"

    def kind(self, span: TraceSpan) -> Kind | None:
        kind = span.text(_KIND)  # a text, or the JSON of one
        if kind is None:
            return None
        return kind_named(kind.strip('"'), span)

    def question(self, span: TraceSpan) -> str | None:
        return question_in(json_or_none(span.get(_INPUTS)))

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        if kind == "answer":
            nodes = source_nodes(span.get(_OUTPUTS))
            return None if nodes is None else node_documents(nodes, span.place)
        outputs = span.json(_OUTPUTS)
        if outputs is None:
            return None
        if not isinstance(outputs, list):
            raise span.place.wrong(f"a list of documents as {_OUTPUTS}", outputs)
        if all(isinstance(output, Mapping) and "node" in output for output in outputs):
            return node_documents(outputs, span.place)
        return [_document(output, span.place) for output in outputs]

    def tool(self, span: TraceSpan) -> str:
        return str(span.json("name") or "")


class MLflowSpan(TraceSpan):
    """A span of an MLflow trace."""

    __slots__ = ()

    @property
    def times(self) -> tuple[float | None, float | None]:
        begin, end = (self.raw.get(f"{side}_time_unix_nano") for side in ("start", "end"))
        return seconds(begin, self.place), seconds(end, self.place)

    @property
    def status(self) -> Mapping[str, Any]:
        return mapping(self.raw.get("status"))

    def events(self) -> Iterator[Event]:
        events = self.raw.get("events")
        for event in events if isinstance(events, list) else ():
            if isinstance(event, Mapping):
                yield Event(str(event.get("name", "")), mapping(event.get("attributes")))


def is_trace(data: object) -> bool:
    """Whether this is an MLflow trace as JSON: what it is about, and its spans."""
    inner = data.get("data") if isinstance(data, Mapping) and "info" in data else None
    return isinstance(inner, Mapping) and "spans" in inner


def _about(trace: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a trace as a whole: its metadata, its tags, and the id of the request."""
    info = mapping(trace["info"])
    ids = {key: info[key] for key in (_TRACE_ID, "client_request_id") if info.get(key)}
    return {**mapping(info.get("trace_metadata")), **mapping(info.get("tags")), **ids}


def mlflow_spans(trace: Mapping[str, Any], place: Place, faults: Faults) -> Iterator[MLflowSpan]:
    """The spans of a trace."""
    about, spans = _about(trace), trace["data"]["spans"]
    if not isinstance(spans, list):
        faults.take(place.wrong("a list of spans", spans))
        return
    for raw in spans:
        try:
            span = _span(raw, place, about)
        except FileFormatError as error:
            faults.take(error)
        else:
            yield span


def _span(raw: Any, place: Place, about: Mapping[str, Any]) -> MLflowSpan:
    try:
        attributes, parent = raw["attributes"], raw.get("parent_span_id")
        trace_id, span_id = about.get(_TRACE_ID, raw["trace_id"]), raw["span_id"]
    except (AttributeError, KeyError, TypeError) as error:
        raise place.wrong("a span with trace_id, span_id and attributes", raw) from error
    if not isinstance(attributes, Mapping):
        raise place.wrong("attributes, {name: value}", attributes)
    parent_id = parent_of(parent, place)
    # what is said of a trace is said of its root
    known = attributes if parent_id else {**about, **attributes}
    return MLflowSpan(
        read_id(trace_id, place), read_id(span_id, place), parent_id, known, raw, place
    )


def _document(output: Any, place: Place) -> Document:
    if not isinstance(output, Mapping):
        raise place.wrong("a document, {page_content, metadata, id}", output)
    known = mapping(from_json_text(output.get("metadata"), "metadata", place))
    item = next((output[key] for key in ("id", "doc_id") if output.get(key) is not None), None)
    if item is None:
        item = known.get("chunk_id", known.get("doc_uri"))
    return Document(
        item, output.get("page_content"), known.get("score"), known, known.get("doc_uri")
    )
