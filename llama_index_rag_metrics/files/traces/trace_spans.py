"""Spans, whatever container they come from; `DIALECTS` knows how each records a retrieval."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json as parse_json

from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.rankings.matching.id_matcher import NODE_ID, REF_DOC_ID
from llama_index_rag_metrics.rankings.run import WRITTEN
from llama_index_rag_metrics.runtime.errors import InvalidInput

CUT_OFF = "was it cut off by OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT?"

DROPPED = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT where spans are recorded"

_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")


class Event(NamedTuple):
    name: str
    attributes: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class TraceSpan:
    """A span, raw as MLflow writes it; `get` makes of its attributes plain values."""

    trace_id: str
    span_id: str
    parent_id: str | None
    attributes: Mapping[str, Any]
    raw: Any
    place: Location

    @property
    def name(self) -> str:
        return str(self.raw.get("name"))

    @property
    def times(self) -> tuple[float | None, float | None]:
        begin, end = (self.raw.get(f"{side}_time_unix_nano") for side in ("start", "end"))
        return seconds(begin, self.place), seconds(end, self.place)

    @property
    def status(self) -> Mapping[str, Any]:
        return mapping(self.raw.get("status"))

    @property
    def error(self) -> str | None:
        status = self.status
        if status.get("code") not in _FAILED:
            return None
        for event in self.events():
            if event.name == "exception":
                kind, message = map(event.attributes.get, ("exception.type", "exception.message"))
                return f"{kind}: {message}"
        return str(status.get("message") or "the span has the status ERROR")

    @property
    def dropped(self) -> int:
        return 0

    def get(self, key: str) -> Any:
        return self.attributes.get(key)

    def under(self, prefix: str) -> dict[str, Any]:
        return {key: self.get(key) for key in self.attributes if key.startswith(prefix)}

    def events(self) -> Iterator[Event]:
        events = self.raw.get("events")
        for event in events if isinstance(events, Sequence) else ():
            known = mapping(event)
            yield Event(str(known.get("name", "")), mapping(known.get("attributes")))

    def text(self, key: str) -> str | None:
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.place.wrong(f"a text as {key}", value)

    def json(self, key: str) -> Any:
        return from_json_text(self.get(key), key, self.place)


def _parse(value: Any) -> Any:
    """The value of a JSON text, in which half an emoji is no fault; anything else stays."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except (TypeError, ValueError):
        try:
            return json.loads(value)
        except RecursionError as error:
            raise ValueError(str(error)) from error


def from_json_text(value: Any, what: str, place: Location) -> Any:
    try:
        return _parse(value)
    except ValueError as error:
        raise place.wrong(f"JSON as {what} ({error}; {CUT_OFF})", value) from error


def json_or_none(value: Any) -> Any:
    try:
        return _parse(value)
    except ValueError:
        return None


def seconds(nanoseconds: Any, place: Location) -> float | None:
    if nanoseconds is None:
        return None
    try:
        return int(nanoseconds) / 1e9
    except (TypeError, ValueError, OverflowError) as error:
        raise place.wrong("nanoseconds since 1970", nanoseconds) from error


def parent_of(parent_id: Any, place: Location) -> str | None:
    return None if parent_id in (None, "") else read_id(parent_id, place)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class Document(NamedTuple):
    """A retrieved document; `source` is the id of the document that it was cut from."""

    id: Any = None
    text: Any = None
    score: Any = None
    metadata: Any = None
    source: Any = None


class DocumentColumns(NamedTuple):
    ids: list[str]
    scores: list[float | None] | None
    texts: list[str] | None


class DocumentReader:
    def __init__(self, match_on: str, *, texts: bool) -> None:
        if not isinstance(match_on, str) or not match_on:
            raise InvalidInput("match_on", match_on, "'node_id', 'ref_doc_id' or a metadata key")
        self._match_on = match_on
        self._keeps_texts = texts
        self._known: dict[str, str] = {}
        self.nameless = 0

    def tell(self, documents: Sequence[Document]) -> bool:
        """Whether the documents have the ids that count, not node ids alone."""
        return self._match_on == NODE_ID or all(
            document.metadata is not None for document in documents
        )

    def read(self, documents: Sequence[Document], place: Location) -> DocumentColumns:
        known = self._known
        by_node, keeps_texts = self._match_on == NODE_ID, self._keeps_texts
        ids, scores, texts = [], [], []
        is_scored = is_text = False
        for document in documents:
            item, text, score, _, _ = document
            if not by_node:
                item = self._named(document, place)
            if type(item) is not str or not item:
                item = self._id(item, text, place)
            ids.append(known.setdefault(item, item))
            if score is not None:
                is_scored = True
                score = score if type(score) is float else _score(score, place)
            scores.append(None if score != score else score)  # noqa: PLR0124 - NaN
            if keeps_texts:
                if text is not None:
                    is_text = True
                    if type(text) is not str:
                        raise place.wrong("the text of a document", text)
                texts.append(known.setdefault(text, text) if text else "")
        return DocumentColumns(ids, scores if is_scored else None, texts if is_text else None)

    def _named(self, document: Document, place: Location) -> Any:
        if self._match_on == REF_DOC_ID:
            if document.source is None:
                expected = "the id of the source of each document, which these spans don't hold"
                raise place.wrong(f"{expected}; use match_on='node_id' or a metadata key")
            return document.source
        metadata = from_json_text(document.metadata, "a document's metadata", place)
        item = metadata.get(self._match_on) if isinstance(metadata, Mapping) else None
        if item is None:
            has = sorted(map(str, metadata)) if isinstance(metadata, Mapping) else "no metadata"
            raise place.wrong(f"documents with {self._match_on!r} in their metadata", has)
        return item if isinstance(item, str) else str(item)

    def _id(self, item: Any, text: Any, place: Location) -> str:
        if item is None or item == "":
            place.check(isinstance(text, str) and text, "documents with an id or a text", "")
            self.nameless += 1
            return f"text-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        return read_id(item, place)


def is_written(document: Document) -> bool:
    is_bare = document.score is None and not document.metadata
    return is_bare and isinstance(document.text, str) and WRITTEN.match(document.text) is not None


def _score(score: Any, place: Location) -> float:
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
    place.check(is_number, "a score, a number", score)
    with place.expecting("a score, a number", OverflowError):
        return float(score)


Kind: TypeAlias = Literal["retrieval", "reranking", "answer", "agent", "tool", "other"]

_KINDS: dict[str, Kind] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
    "CHAIN": "answer",
    "AGENT": "agent",
    "TOOL": "tool",
}
"""What OpenInference and MLflow alike call the kinds of spans; a reranking is any postprocessing,
and an answer or an agent may name its sources."""

Documented: TypeAlias = Literal["retrieval", "reranking", "answer"]

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


class Dialect(ABC):
    @abstractmethod
    def kind(self, span: TraceSpan) -> Kind | None:
        """The kind of a span, or None for a span of another dialect."""

    @abstractmethod
    def question(self, span: TraceSpan) -> str | None: ...

    @abstractmethod
    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        """What was returned, or the sources of an answer; None where the span doesn't hold them."""

    def tool(self, span: TraceSpan) -> str:
        return ""


def question_in(value: Any) -> str | None:
    for _ in range(4):
        if isinstance(value, str) or not isinstance(value, Mapping):
            break
        only = next(iter(value.values())) if len(value) == 1 else None
        value = next((value[key] for key in _QUESTION_KEYS if value.get(key)), only)
    return value if isinstance(value, str) else None


def kind_named(name: str, span: TraceSpan) -> Kind:
    kind = _KINDS.get(name, "other")
    is_postprocessor = span.name.endswith("postprocess_nodes")
    return "reranking" if kind in ("answer", "agent") and is_postprocessor else kind


def source_nodes(output: Any) -> list[Any] | None:
    if isinstance(output, str) and '"source_nodes"' not in output:
        return None
    nodes = mapping(json_or_none(output)).get("source_nodes")
    return nodes if isinstance(nodes, list) else None


def node_documents(nodes: Any, place: Location) -> list[Document]:
    place.check(isinstance(nodes, list), "a list of nodes", nodes)
    documents = []
    for scored in nodes:
        try:
            node = scored["node"]
            source = (node.get("relationships") or {}).get("1")
            text = node.get("text")
            if text is None and isinstance(resource := node.get("text_resource"), dict):
                text = resource.get("text")
            node_id = node["id_"]
            source_id = source["node_id"] if isinstance(source, dict) else node_id
            documents.append(
                Document(node_id, text, scored.get("score"), node.get("metadata"), source_id)
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise place.wrong("a node with its score", scored) from error
    return documents


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


def _mlflow_document(output: Any, place: Location) -> Document:
    expected = "a document, {page_content, metadata, id}"
    place.check(isinstance(output, Mapping), expected, output)
    known = mapping(from_json_text(output.get("metadata"), "metadata", place))
    item = output.get("id") or output.get("doc_id")
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
