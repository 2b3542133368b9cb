"""Containers of spans: OTLP/JSON, and what MLflow and Phoenix hold in files and in memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import DecodeError, Struct, ValidationError, convert
from msgspec.json import Decoder
from pydantic_core import from_json as parse_json

from llama_index_rag_metrics.files.lines import (
    Location,
    from_json,
    open_bytes,
    raw_lines,
    read_text,
)
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.files.sources import frame_rows, is_frame, kind_of
from llama_index_rag_metrics.files.sources import plain as python_value
from llama_index_rag_metrics.files.traces.trace_spans import (
    Event,
    TraceSpan,
    mapping,
    parent_of,
    seconds,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError, UnknownFormat

RESOURCES = ("resourceSpans", "resource_spans")
"""By the specification, and as some libraries of protocol buffers write it."""

_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")


class _Attribute(Struct, gc=False):
    key: str
    value: Any = None


class _Record(Struct, gc=False, rename="camel"):
    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: Any = None
    start_time_unix_nano: Any = None
    end_time_unix_nano: Any = None
    attributes: list[_Attribute] | None = None
    dropped_attributes_count: Any = 0
    events: Any = ()
    status: Any = None


class _Scope(Struct, gc=False):
    spans: list[_Record]


class _Resource(Struct, gc=False, rename="camel"):
    scope_spans: list[_Scope]


class _Request(Struct, gc=False, rename="camel"):
    resource_spans: list[_Resource]


_REQUESTS = Decoder(_Request)


class OtlpSpan(TraceSpan):
    __slots__ = ()
    raw: _Record

    @property
    def name(self) -> str:
        return str(self.raw.name)

    @property
    def times(self) -> tuple[float | None, float | None]:
        begin, end = self.raw.start_time_unix_nano, self.raw.end_time_unix_nano
        return seconds(begin, self.place), seconds(end, self.place)

    @property
    def status(self) -> Mapping[str, Any]:
        return mapping(self.raw.status)

    @property
    def dropped(self) -> int:
        count = self.raw.dropped_attributes_count
        return count if isinstance(count, int) else 1

    def get(self, key: str) -> Any:
        return plain(self.attributes.get(key), self.place)

    def under(self, prefix: str) -> dict[str, Any]:
        place = self.place  # read without calls: texts of documents are most of a file
        return {
            key: value["stringValue"]
            if type(value) is dict and "stringValue" in value
            else plain(value, place)
            for key, value in self.attributes.items()
            if key.startswith(prefix)
        }

    def events(self) -> Iterator[Event]:
        events = self.raw.events
        for event in events if isinstance(events, list) else ():
            if isinstance(event, Mapping):
                attributes = pairs(event.get("attributes", ()), self.place)
                yield Event(str(event.get("name", "")), attributes)


def spans_of_line(line: bytes, place: Location) -> Iterator[TraceSpan] | None:
    """The spans of a line that is OTLP/JSON to the letter; None where `otlp_spans` has to look."""
    try:
        request = _REQUESTS.decode(line.decode())
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return (
        _otlp_span(record, place)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for record in scope.spans
    )


def otlp_spans(data: Mapping[str, Any], place: Location) -> Iterator[OtlpSpan]:
    """The spans of an object with `resourceSpans`; without lines, their number is their place."""
    number = 0
    for resource in _list(data, RESOURCES, place):
        for scope in _list(resource, _SCOPES, place):
            for raw in _list(scope, ("spans",), place):
                number += 1
                here = place if place.line else Location(f"{place.path}, record {number}")
                try:
                    record = convert(raw, _Record)
                except (ValidationError, UnicodeEncodeError) as error:
                    expected = f"a span with traceId, spanId and attributes ({error})"
                    raise here.wrong(expected, raw) from error
                yield _otlp_span(record, here)


def _otlp_span(record: _Record, place: Location) -> OtlpSpan:
    attributes = {attribute.key: attribute.value for attribute in record.attributes or ()}
    parent_id = record.parent_span_id or None
    return OtlpSpan(record.trace_id, record.span_id, parent_id, attributes, record, place)


def plain(value: Any, place: Location) -> Any:
    if type(value) is dict and "stringValue" in value:  # most of them are
        return value["stringValue"]
    if value is None or value == {}:
        return None
    place.check(type(value) is dict and len(value) == 1, 'a value like {"stringValue": …}', value)
    ((kind, content),) = value.items()
    try:
        if kind == "doubleValue":
            return content if type(content) is float else float(content)
        if kind == "intValue":
            return int(content)
        if kind == "arrayValue":
            return [plain(item, place) for item in content.get("values", ())]
        if kind == "kvlistValue":
            return pairs(content.get("values", ()), place)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise place.wrong(f"a value as {kind}", content) from error
    return content


def pairs(attributes: Any, place: Location) -> dict[str, Any]:
    expected = 'a list of {"key": …, "value": …}'
    with place.expecting(expected, AttributeError, KeyError, TypeError):
        named = ((str(item["key"]), item.get("value", {})) for item in attributes)
        return {key: plain(value, place) for key, value in named}


def _list(data: Any, names: tuple[str, ...], place: Location) -> list[Any]:
    if isinstance(data, Mapping):
        items = next((data[name] for name in names if name in data), None)
        if items is None or isinstance(items, list):
            return items or []
    raise place.wrong(f"a list under {names[0]!r}", data)
    return []


T = TypeVar("T")

_TRACE_ID = "trace_id"


def is_trace(data: object) -> bool:
    inner = data.get("data") if isinstance(data, Mapping) and "info" in data else None
    return isinstance(inner, Mapping) and "spans" in inner


def mlflow_spans(trace: Mapping[str, Any], place: Location) -> Iterator[TraceSpan]:
    info, spans = mapping(trace["info"]), trace["data"]["spans"]
    ids = {key: info[key] for key in (_TRACE_ID, "client_request_id") if info.get(key)}
    about = {**mapping(info.get("trace_metadata")), **mapping(info.get("tags")), **ids}
    if not isinstance(spans, list):
        raise place.wrong("a list of spans", spans)
        return
    for raw in spans:
        yield _span(about, raw, place)


def _span(about: Mapping[str, Any], raw: Any, place: Location) -> TraceSpan:
    expected = "a span with trace_id, span_id and attributes"
    with place.expecting(expected, AttributeError, KeyError, TypeError):
        attributes, parent = raw["attributes"], raw.get("parent_span_id")
        trace_id, span_id = about.get(_TRACE_ID, raw["trace_id"]), raw["span_id"]
    place.check(isinstance(attributes, Mapping), "attributes, {name: value}", attributes)
    parent_id = parent_of(parent, place)
    # what is said of a trace is said of its root
    known = attributes if parent_id else {**about, **attributes}
    return TraceSpan(
        read_id(trace_id, place), read_id(span_id, place), parent_id, known, raw, place
    )


IDS = _TRACE, _SPAN = "context.trace_id", "context.span_id"
_ATTRIBUTES = "attributes."


class PhoenixSpan(TraceSpan):
    __slots__ = ()

    @property
    def times(self) -> tuple[float | None, float | None]:
        return _moment(self.raw.get("start_time")), _moment(self.raw.get("end_time"))

    @property
    def status(self) -> Mapping[str, Any]:
        return {part: self.raw.get(f"status_{part}") for part in ("code", "message")}


def phoenix_span(raw: Mapping[str, Any], place: Location) -> PhoenixSpan:
    context = mapping(raw.get("context"))
    trace_id = raw.get(_TRACE, context.get("trace_id"))
    span_id = raw.get(_SPAN, context.get("span_id"))
    are_ids = isinstance(trace_id, str) and isinstance(span_id, str)
    place.check(are_ids, f"a span with {_TRACE} and {_SPAN}", raw)
    attributes = dict(mapping(raw.get("attributes")))
    for key, value in raw.items():
        if str(key).startswith(_ATTRIBUTES) and not _is_missing(value):
            attributes[key.removeprefix(_ATTRIBUTES)] = value
    if kind := raw.get("span_kind"):
        attributes.setdefault("openinference.span.kind", kind)
    parent = raw.get("parent_id")
    parent_id = None if _is_missing(parent) else parent_of(parent, place)
    return PhoenixSpan(trace_id, span_id, parent_id, attributes, raw, place)


def is_span(data: object) -> bool:
    return isinstance(data, Mapping) and "trace_id" in mapping(data.get("context"))


def without_copied_index(frame: Any) -> Any:
    """A pandas frame without its index where that is a column, too, as the client makes it."""
    name = getattr(getattr(frame, "index", None), "name", None)
    return frame.reset_index(drop=True) if name is not None and name in frame.columns else frame


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124


def _moment(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
    return float(value.timestamp()) if isinstance(value, datetime) and value == value else None  # noqa: PLR0124


UNDERSTOOD = (
    "OTLP/JSON, one object with resourceSpans per line or file, plain or .gz",
    "MLflow traces: what mlflow.search_traces returns, or their JSON, one per line or a list",
    "spans of Phoenix: the data frame of its client's get_spans_dataframe, or records in JSON",
)


_HEAD = 4096


def is_trace_file(path: Path) -> bool:
    if kind_of(path) not in ("json", "jsonl"):
        return False
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):  # whoever reads it says what is wrong
        return False
    names = (f'"{name}"'.encode() for name in RESOURCES)
    has_trace_id = b'"trace_id"' in head and (b'"info"' in head or b'"context"' in head)
    return has_trace_id or any(name in head for name in names)


def spans_in(source: Any) -> Iterator[TraceSpan]:
    if isinstance(source, (str, os.PathLike)):
        yield from _of_file(Path(source))
    elif is_frame(source):
        names, values = frame_rows(source)
        rows = Location("the data frame").numbered(values, "row")
        if _TRACE in names and _SPAN in names:
            for place, row in rows:
                record = {name: python_value(value) for name, value in zip(names, row, strict=True)}
                yield phoenix_span(record, place)
        elif "trace" in names:
            column = names.index("trace")
            for place, row in rows:
                yield from _of_value(row[column], place)
        else:
            why = f"it has {names[:8]}, and {' and '.join(IDS)} aren't both there"
            raise UnknownFormat("the data frame", why, UNDERSTOOD, "traces")
    elif isinstance(source, Iterable):
        place = Location(f"this {type(source).__name__}")
        items = [source] if isinstance(source, Mapping) else source
        for here, item in place.numbered(items):
            yield from _of_value(item, here)
    else:
        why = "it is none of these"
        raise UnknownFormat(f"this {type(source).__name__}", why, UNDERSTOOD, "traces")


def _of_file(path: Path) -> Iterator[TraceSpan]:
    if path.is_dir():
        raise UnknownFormat(str(path), "it is a folder", UNDERSTOOD, "traces")
    is_first = True
    for number, line in raw_lines(path):
        if line.isspace():
            continue
        place = Location(str(path), number)
        spans = spans_of_line(line, place)
        if spans is None:
            try:
                spans = _of_value(_parsed(line, place), place)
            except FileFormatError:
                if is_first and line.rstrip()[-1:] in (b"{", b"[", b","):
                    whole = Location(str(path))
                    yield from _of_value(from_json(read_text(path), whole), whole)
                    return
                raise
        yield from spans
        del spans  # before the next line is decoded, which goes to the same memory
        is_first = False


def _of_value(data: Any, place: Location) -> Iterator[TraceSpan]:
    if isinstance(data, str) and data[:1] == "{":  # MLflow's frames hold traces as JSON
        yield from _of_value(from_json(data, place), place)
        return
    if hasattr(data, "to_dict") and hasattr(data, "info"):
        data = data.to_dict()
    if isinstance(data, list):
        for here, item in place.numbered(data):
            yield from _of_value(item, here)
    elif isinstance(data, Mapping) and any(name in data for name in RESOURCES):
        yield from otlp_spans(data, place)
    elif is_trace(data):
        yield from mlflow_spans(data, place)
    elif is_span(data):
        yield phoenix_span(data, place)
    else:
        raise place.wrong(f"one of: {'; '.join(UNDERSTOOD)}", data)


def _parsed(line: bytes, place: Location) -> Any:
    """A line's JSON, in which half a surrogate pair is no fault."""
    try:
        return parse_json(line)
    except ValueError:
        with place.expecting("UTF-8 text", UnicodeDecodeError):
            return from_json(line.decode(), place)
