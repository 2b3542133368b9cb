"""Spans, whatever held them: OTLP/JSON, ConsoleSpanExporter's JSON, Phoenix's and MLflow's."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json

from llama_index_rag_metrics.files.fields import TABLE
from llama_index_rag_metrics.files.lines import Location, decoded, open_bytes, raw_lines
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.files.sources import frame_records, is_frame, kind_of, open_source
from llama_index_rag_metrics.runtime.errors import FileFormatError, unknown_format

Kind: TypeAlias = Literal["retrieval", "reranking", "answer", "agent", "tool", "other"]

UNDERSTOOD = (
    "OTLP/JSON, one object with resourceSpans per line or file, or what ConsoleSpanExporter writes",
    "MLflow traces: what mlflow.search_traces returns, or their JSON, one per line or a list",
    "spans of Phoenix: the data frame of its client's get_spans_dataframe, also in Parquet, or "
    "records in JSON",
)
_RESOURCES = ("resourceSpans", "resource_spans")
"""By the specification, and as some libraries of protocol buffers write it."""

_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_PREFIX = "attributes."
_HEAD = 4096


class Document(NamedTuple):
    """A retrieved document; `source` is the id of the document that it was cut from."""

    id: Any = None
    text: Any = None
    score: Any = None
    metadata: Any = None
    source: Any = None


class Columns(NamedTuple):
    """The documents of a span, as the columns of a ranking."""

    ids: list[str]
    scores: list[float | None] | None
    texts: list[str] | None


class Event(NamedTuple):
    name: str
    attributes: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class TraceSpan:
    """A span, its values plain; a dialect fills kind, question, documents and tool.

    Attributes:
        question_id: the question that an attribute names.
        asked: the known question that the span has, as `comparable` makes it.
        retrieved: the documents by the ids that count.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    begin: float | None
    end: float | None
    attributes: Mapping[str, Any]
    events: Sequence[Event]
    error: str | None
    location: Location
    dropped: int = 0
    kind: Kind | None = None
    question: str | None = None
    documents: list[Document] | None = None
    tool: str = ""
    question_id: str | None = None
    asked: str | None = None
    retrieved: Columns | None = None

    @property
    def started(self) -> float:
        return self.begin or 0.0

    @property
    def seconds(self) -> float | None:
        if self.begin is None or self.end is None:
            return None
        return max(0.0, self.end - self.begin)

    @property
    def is_answered(self) -> bool:
        """Whether it is known what the caller got: documents, or an error."""
        return self.retrieved is not None or self.error is not None

    def text(self, key: str) -> str | None:
        value = self.attributes.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.location.wrong(f"a text as {key}", value)

    def json(self, key: str) -> Any:
        """The value of an attribute that is JSON, or that is no text at all."""
        return parsed(self.attributes.get(key), key, self.location)


def parsed(value: Any, what: str, location: Location) -> Any:
    """The value of a JSON text, in which half an emoji is no fault; anything else stays."""
    if not isinstance(value, (str, bytes)):
        return value
    try:
        return from_json(value)
    except (TypeError, ValueError):
        pass
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        limit = "was it cut off by OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT?"
        raise location.wrong(f"JSON as {what} ({error}; {limit})", value) from error


def json_or_none(value: Any) -> Any:
    try:
        return parsed(value, "", Location(""))
    except FileFormatError:
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@contextmanager
def reading(location: Location) -> Iterator[None]:
    """Say where a span is that can't be read."""
    try:
        yield
    except FileFormatError:
        raise
    except _MALFORMED as error:
        expected = "a span with its ids, times and attributes"
        raise location.wrong(expected, f"{type(error).__name__}: {error}") from error


def is_trace_file(path: Path) -> bool:
    """Whether the beginning of a file of JSON is that of traces."""
    if kind_of(path) not in ("json", "jsonl"):
        return False
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):  # whoever reads it says what is wrong
        return False
    has_trace_id = b'"trace_id"' in head and (b'"info"' in head or b'"context"' in head)
    return has_trace_id or any(f'"{name}"'.encode() in head for name in _RESOURCES)


def spans_in(source: Any) -> Iterator[TraceSpan]:
    """The spans of a file, of a data frame, or of objects in memory."""
    location = Location(f"this {type(source).__name__}")
    if isinstance(source, (str, os.PathLike)):
        yield from _of_path(Path(source))
    elif is_frame(source):
        location = Location("the data frame")
        yield from _of_rows(frame_records(source, location), location)
    elif isinstance(source, Iterable):
        items = [source] if isinstance(source, Mapping) else source
        for place, item in location.numbered(items):
            yield from _of_value(item, place)
    else:
        raise unknown_format(location.path, "it is none of these", UNDERSTOOD, "traces")


def _of_path(path: Path) -> Iterator[TraceSpan]:
    if path.is_dir():
        raise unknown_format(str(path), "it is a folder", UNDERSTOOD, "traces")
    if kind_of(path) in ("parquet", "arrow"):
        yield from _of_rows(open_source(path, TABLE).rows, Location(str(path)))
        return
    for location, value in _values(path):
        yield from _of_value(value, location)


def _values(path: Path) -> Iterator[tuple[Location, Any]]:
    """The JSON of each line, or else values one after another, over as many lines as they take."""
    is_first = True
    for number, line in raw_lines(path):
        if line.isspace():
            continue
        location = Location(str(path), number)
        decoded(line, location)
        value = json_or_none(line)
        if value is None and is_first:
            yield from _values_over_lines(path)
            return
        yield location, parsed(line, "a line", location) if value is None else value
        is_first = False


def _values_over_lines(path: Path) -> Iterator[tuple[Location, Any]]:
    text = "".join(decoded(raw, Location(str(path), line)) for line, raw in raw_lines(path))
    decoder, end = json.JSONDecoder(), len(text) - len(text.lstrip())
    while end < len(text):
        line = text.count("\n", 0, end) + 1
        try:
            value, end = decoder.raw_decode(text, end)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", line)
            raise Location(str(path), line).wrong(f"JSON ({error})") from error
        yield Location(str(path)), value
        end = len(text) - len(text[end:].lstrip())


def _of_rows(
    rows: Iterable[tuple[Location, Mapping[str, Any]]], location: Location
) -> Iterator[TraceSpan]:
    for place, row in rows:
        if "context.trace_id" in row and "context.span_id" in row:
            yield _record_span(row, place)
        elif "trace" in row:
            yield from _of_value(row["trace"], place)
        else:
            why = f"it has {list(row)[:8]}, and context.trace_id and context.span_id aren't there"
            raise unknown_format(location.path, why, UNDERSTOOD, "traces")


def _of_value(data: Any, location: Location) -> Iterator[TraceSpan]:
    if isinstance(data, str) and data[:1] == "{":  # MLflow's frames hold traces as JSON
        data = parsed(data, "a trace", location)
    if hasattr(data, "to_dict") and hasattr(data, "info"):
        data = data.to_dict()
    record = mapping(data)
    if isinstance(data, list):
        for place, item in location.numbered(data):
            yield from _of_value(item, place)
    elif any(name in record for name in _RESOURCES):
        yield from _of_request(record, location)
    elif "info" in record and "spans" in mapping(record.get("data")):
        yield from _of_mlflow(record, location)
    elif "trace_id" in mapping(record.get("context")):
        yield _record_span(record, location)
    else:
        raise location.wrong(f"one of: {'; '.join(UNDERSTOOD)}", data)


def _of_request(data: Mapping[str, Any], location: Location) -> Iterator[TraceSpan]:
    number = 0
    for resource in _list(data, _RESOURCES, location):
        for scope in _list(resource, _SCOPES, location):
            for raw in _list(scope, ("spans",), location):
                number += 1
                place = location
                if location.line is None:
                    place = Location(f"{location.path}, record {number}")
                yield _otlp_span(raw, place)


def _list(data: Any, names: tuple[str, ...], location: Location) -> list[Any]:
    items = [mapping(data)[name] for name in names if name in mapping(data)]
    if not isinstance(data, Mapping) or (items and not isinstance(items[0], list)):
        raise location.wrong(f"a list under {names[0]!r}", data)
    return items[0] if items else []


def _otlp_span(raw: Any, location: Location) -> TraceSpan:
    with reading(location):
        events = [
            Event(str(event.get("name", "")), _pairs(event.get("attributes")))
            for event in raw.get("events") or ()
        ]
        status = mapping(raw.get("status"))
        return TraceSpan(
            read_id(raw["traceId"], location),
            str(raw["spanId"]),
            _parent(raw.get("parentSpanId"), location),
            str(raw.get("name")),
            _seconds(raw.get("startTimeUnixNano")),
            _seconds(raw.get("endTimeUnixNano")),
            _pairs(raw.get("attributes")),
            events,
            _error(status.get("code"), status.get("message"), events),
            location,
            int(raw.get("droppedAttributesCount") or 0),
        )


def _pairs(attributes: Any) -> dict[str, Any]:
    pairs = {}
    for attribute in attributes or ():
        if not isinstance(attribute["key"], str):
            raise TypeError(f"key {attribute['key']!r}")
        pairs[attribute["key"]] = _plain(attribute.get("value"))
    return pairs


def _plain(value: Any) -> Any:
    """A value of OTLP/JSON, such as {"stringValue": "x"}, as Python has it."""
    if value is None or value == {}:
        return None
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [_plain(item) for item in content.get("values", ())]
    if kind == "kvlistValue":
        return _pairs(content.get("values"))
    if kind == "intValue":
        return int(content)
    return float(content) if kind == "doubleValue" else content


def _of_mlflow(data: Mapping[str, Any], location: Location) -> Iterator[TraceSpan]:
    info, spans = mapping(data["info"]), data["data"]["spans"]
    ids = {key: info[key] for key in ("trace_id", "client_request_id") if info.get(key)}
    of_trace = {**mapping(info.get("trace_metadata")), **mapping(info.get("tags")), **ids}
    location.check(isinstance(spans, list), "a list of spans", spans)
    for raw in spans:
        with reading(location):
            parent_id = _parent(raw.get("parent_span_id"), location)
            events, status = _events(raw), mapping(raw.get("status"))
            # what is said of a trace is said of its root
            attributes = dict(raw["attributes"]) if parent_id else {**of_trace, **raw["attributes"]}
            yield TraceSpan(
                read_id(ids.get("trace_id") or raw["trace_id"], location),
                read_id(raw["span_id"], location),
                parent_id,
                str(raw.get("name")),
                _seconds(raw.get("start_time_unix_nano")),
                _seconds(raw.get("end_time_unix_nano")),
                attributes,
                events,
                _error(status.get("code"), status.get("message"), events),
                location,
            )


def _record_span(raw: Mapping[str, Any], location: Location) -> TraceSpan:
    """A span as Phoenix and ConsoleSpanExporter have it, a record."""
    with reading(location):
        context = mapping(raw.get("context"))
        attributes = dict(mapping(raw.get("attributes")))
        for key, value in raw.items():
            if key.startswith(_PREFIX) and value is not None:
                attributes[key.removeprefix(_PREFIX)] = value
        if kind := raw.get("span_kind"):
            attributes.setdefault("openinference.span.kind", kind)
        events, status = _events(raw), mapping(raw.get("status"))
        return TraceSpan(
            read_id(raw.get("context.trace_id", context.get("trace_id")), location),
            read_id(raw.get("context.span_id", context.get("span_id")), location),
            _parent(raw.get("parent_id"), location),
            str(raw.get("name")),
            _moment(raw.get("start_time")),
            _moment(raw.get("end_time")),
            attributes,
            events,
            _error(
                raw.get("status_code", status.get("status_code")),
                raw.get("status_message", status.get("description")),
                events,
            ),
            location,
        )


def _events(raw: Mapping[str, Any]) -> list[Event]:
    events = raw.get("events")
    records = [mapping(event) for event in events] if isinstance(events, (list, tuple)) else []
    return [
        Event(str(record.get("name", "")), mapping(record.get("attributes"))) for record in records
    ]


def _parent(value: Any, location: Location) -> str | None:
    return None if value in (None, "") else read_id(value, location)


def _error(code: Any, message: Any, events: Iterable[Event]) -> str | None:
    if code not in _FAILED:
        return None
    for event in events:
        if event.name == "exception":
            raised = event.attributes
            return f"{raised.get('exception.type')}: {raised.get('exception.message')}"
    return str(message or "the span has the status ERROR")


def _seconds(nanoseconds: Any) -> float | None:
    return None if nanoseconds is None else int(nanoseconds) / 1e9


def _moment(value: Any) -> float | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    return float(value.timestamp()) if isinstance(value, datetime) else None
