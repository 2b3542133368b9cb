"""OTLP/JSON: an object with `resourceSpans` a line, as the Collector writes it, or one a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, convert
from msgspec.json import Decoder

from llama_index_rag_metrics.files.lines import Faults, Place
from llama_index_rag_metrics.files.traces.trace_spans import Event, TraceSpan, mapping, seconds

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


def spans_of_line(line: bytes, place: Place) -> Iterator[TraceSpan] | None:
    """The spans of a line that is OTLP/JSON to the letter; None where `otlp_spans` has to look."""
    try:
        request = _REQUESTS.decode(line.decode())
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return (
        _span(record, place)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for record in scope.spans
    )


def otlp_spans(data: Mapping[str, Any], place: Place, faults: Faults) -> Iterator[OtlpSpan]:
    """The spans of an object with `resourceSpans`; without lines, their number is their place."""
    number = 0
    for resource in _list(data, RESOURCES, place, faults):
        for scope in _list(resource, _SCOPES, place, faults):
            for raw in _list(scope, ("spans",), place, faults):
                number += 1
                here = place if place.line else Place(f"{place.path}, record {number}")
                try:
                    record = convert(raw, _Record)
                except (ValidationError, UnicodeEncodeError) as error:
                    expected = f"a span with traceId, spanId and attributes ({error})"
                    faults.take(here.wrong(expected, raw))
                else:
                    yield _span(record, here)


def _span(record: _Record, place: Place) -> OtlpSpan:
    attributes = {attribute.key: attribute.value for attribute in record.attributes or ()}
    parent_id = record.parent_span_id or None
    return OtlpSpan(record.trace_id, record.span_id, parent_id, attributes, record, place)


def plain(value: Any, place: Place) -> Any:
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


def pairs(attributes: Any, place: Place) -> dict[str, Any]:
    expected = 'a list of {"key": …, "value": …}'
    with place.expecting(expected, AttributeError, KeyError, TypeError, found=attributes):
        named = ((str(item["key"]), item.get("value", {})) for item in attributes)
        return {key: plain(value, place) for key, value in named}


def _list(data: Any, names: tuple[str, ...], place: Place, faults: Faults) -> list[Any]:
    if isinstance(data, Mapping):
        items = next((data[name] for name in names if name in data), None)
        if items is None or isinstance(items, list):
            return items or []
    faults.take(place.wrong(f"a list under {names[0]!r}", data))
    return []
