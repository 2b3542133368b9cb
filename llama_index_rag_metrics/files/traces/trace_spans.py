"""A span of a trace, whatever container it was read from, and the documents that it records."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json as parse_json

from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.rankings.combining import WRITTEN
from llama_index_rag_metrics.rankings.matching.id_matcher import NODE_ID, REF_DOC_ID
from llama_index_rag_metrics.runtime.errors import InvalidInput

CUT_OFF = "was it cut off by OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT?"

DROPPED = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT where spans are recorded"

_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")


class Event(NamedTuple):
    """Something that happened during a span."""

    name: str
    attributes: Mapping[str, Any]


class TraceSpan:
    """A span: a piece of work that has a name, a parent and attributes.

    Attributes:
        span_id: its id, unique within the trace.
        parent_id: the span that it is part of; None for a root.
        attributes: its attributes, as the container holds them; `get` makes them plain.
    """

    __slots__ = ("attributes", "parent_id", "place", "raw", "span_id", "trace_id")

    def __init__(
        self,
        trace_id: str,
        span_id: str,
        parent_id: str | None,
        attributes: Mapping[str, Any],
        raw: Any,
        place: Place,
    ) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_id = parent_id
        self.attributes = attributes
        self.raw = raw
        self.place = place

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.raw.get("name"))

    @property
    def times(self) -> tuple[float | None, float | None]:
        """When it began and ended, in seconds since 1970."""
        return None, None

    @property
    def status(self) -> Mapping[str, Any]:
        """How it ended: `code` and `message`."""
        return {}

    @property
    def error(self) -> str | None:
        """What went wrong in it, if anything did."""
        status = self.status
        if status.get("code") not in _FAILED:
            return None
        for event in self.events():
            if event.name == "exception":
                kind, message = (
                    event.attributes.get(f"exception.{part}") for part in ("type", "message")
                )
                return f"{kind}: {message}"
        return str(status.get("message") or "the span has the status ERROR")

    @property
    def dropped(self) -> int:
        """How many of its attributes the exporter left out."""
        return 0

    def get(self, key: str) -> Any:
        """An attribute as a plain value, or None."""
        return self.attributes.get(key)

    def under(self, prefix: str) -> dict[str, Any]:
        """The attributes whose names begin so, as plain values."""
        return {key: self.get(key) for key in self.attributes if key.startswith(prefix)}

    def events(self) -> Iterable[Event]:
        """What happened during it, in order."""
        return ()

    def text(self, key: str) -> str | None:
        """An attribute that is a text."""
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.place.wrong(f"a text as {key}", value)

    def json(self, key: str) -> Any:
        """An attribute that is a JSON text, or structured already; None where it isn't there."""
        return from_json_text(self.get(key), key, self.place)


def parse(text: str | bytes) -> Any:
    """The value of JSON, in which half an emoji, as cut texts have, is no fault."""
    try:
        return parse_json(text)
    except (TypeError, ValueError):
        try:
            return json.loads(text)
        except RecursionError as error:
            raise ValueError(str(error)) from error


def from_json_text(value: Any, what: str, place: Place) -> Any:
    """The value of a JSON text; what isn't a text is left as it is."""
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except ValueError as error:
        raise place.wrong(f"JSON as {what} ({error}; {CUT_OFF})", value) from error


def json_or_none(value: Any) -> Any:
    """The value of a JSON text, None where it is none: of what matters only where it can be read.

    What isn't a text is left as it is.
    """
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except ValueError:
        return None


def seconds(nanoseconds: Any, place: Place) -> float | None:
    """Nanoseconds since 1970, a number or its text, in seconds."""
    if nanoseconds is None:
        return None
    try:
        return int(nanoseconds) / 1e9
    except (TypeError, ValueError, OverflowError) as error:
        raise place.wrong("nanoseconds since 1970", nanoseconds) from error


def parent_of(parent_id: Any, place: Place) -> str | None:
    """The id of the span around one; None for a root."""
    if parent_id is None or parent_id == "":
        return None
    return read_id(parent_id, place)


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


class Document(NamedTuple):
    """A retrieved document, as a span records it.

    Attributes:
        metadata: its metadata, a mapping or a JSON text.
        source: the id of the document that it was cut from, if the span holds it.
    """

    id: Any = None
    text: Any = None
    score: Any = None
    metadata: Any = None
    source: Any = None


class DocumentColumns(NamedTuple):
    """Documents by column, best first; texts are None where the spans hold none."""

    ids: list[str]
    scores: list[float | None] | None
    texts: list[str] | None


class DocumentReader:
    """Makes columns of documents; equal ids and texts are kept once.

    Args:
        match_on: which id of a document counts: "node_id", "ref_doc_id" or a key of its metadata.

    Attributes:
        nameless: how many documents had no id and go by a digest of their text.
    """

    def __init__(self, match_on: str, *, texts: bool) -> None:
        if not isinstance(match_on, str) or not match_on:
            raise InvalidInput("match_on", match_on, "'node_id', 'ref_doc_id' or a metadata key")
        self._match_on = match_on
        self._keeps_texts = texts
        self._known: dict[str, str] = {}
        self.nameless = 0

    def tell(self, documents: Sequence[Document]) -> bool:
        """Whether documents that may be told by node id alone can be told by what counts here."""
        return self._match_on == NODE_ID or all(
            document.metadata is not None for document in documents
        )

    def read(self, documents: Sequence[Document], place: Place) -> DocumentColumns:
        """The columns of some documents."""
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

    def _named(self, document: Document, place: Place) -> Any:
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

    def _id(self, item: Any, text: Any, place: Place) -> str:
        if item is None or item == "":
            if not isinstance(text, str) or not text:
                raise place.wrong("documents with an id or a text")
            self.nameless += 1
            return f"text-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        return read_id(item, place)


def is_written(document: Document) -> bool:
    """Whether an engine made the document of an answer of its own."""
    is_bare = document.score is None and not document.metadata
    return is_bare and isinstance(document.text, str) and WRITTEN.match(document.text) is not None


def _score(score: Any, place: Place) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise place.wrong("a score, a number", score)
    try:
        return float(score)
    except OverflowError as error:
        raise place.wrong("a score, a number", score) from error


Kind: TypeAlias = Literal["retrieval", "reranking", "answer", "agent", "tool", "other"]

_KINDS: dict[str, Kind] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
    "CHAIN": "answer",
    "AGENT": "agent",
    "TOOL": "tool",
}
"""What OpenInference and MLflow alike call the kinds of spans."""
"""What a span is: a reranking is any postprocessing of what was retrieved, an answer may say what
it was made from, and so may an agent."""

Documented: TypeAlias = Literal["retrieval", "reranking", "answer"]
"""What may hold documents."""

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
"""Where LlamaIndex's calls, and functions like them, have the text that is asked."""


class Dialect(ABC):
    """How one instrumentation records what matters here."""

    name: ClassVar[str]

    @abstractmethod
    def kind(self, span: TraceSpan) -> Kind | None:
        """What kind of span it is; None where it isn't of this dialect."""

    @abstractmethod
    def question(self, span: TraceSpan) -> str | None:
        """The text that was asked, if the span holds it."""

    @abstractmethod
    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        """What a retrieval or a reranking returned, or an answer was made from.

        None where the span doesn't hold it.
        """

    def tool(self, span: TraceSpan) -> str:
        """The name of a tool."""
        return ""


def question_in(value: Any) -> str | None:
    """The question in the arguments of a call: a text, or under one of the usual names."""
    for _ in range(4):
        if isinstance(value, str) or not isinstance(value, Mapping):
            break
        only = next(iter(value.values())) if len(value) == 1 else None
        value = next((value[key] for key in _QUESTION_KEYS if value.get(key)), only)
    return value if isinstance(value, str) else None


def postprocesses(span: TraceSpan) -> bool:
    """Whether LlamaIndex calls the span as it does those of postprocessors."""
    return span.name.endswith("postprocess_nodes")


def begins_agent(span: TraceSpan) -> bool:
    """Whether LlamaIndex calls the span as it does the first step of an agent's run."""
    return span.name.endswith(".setup_agent")


def kind_named(name: str, span: TraceSpan) -> Kind:
    """The kind of a span by the name that OpenInference and MLflow alike have for it."""
    kind = _KINDS.get(name, "other")
    return "reranking" if kind in ("answer", "agent") and postprocesses(span) else kind


def source_nodes(output: Any) -> list[Any] | None:
    """The nodes from which an answer says that it was made; None where it doesn't."""
    if isinstance(output, str) and '"source_nodes"' not in output:
        return None
    nodes = mapping(json_or_none(output)).get("source_nodes")
    return nodes if isinstance(nodes, list) else None


def node_documents(nodes: Any, place: Place) -> list[Document]:
    """LlamaIndex's nodes with scores, as `model_dump` writes them."""
    if not isinstance(nodes, list):
        raise place.wrong("a list of nodes", nodes)
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
