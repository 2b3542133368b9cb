"""OTLP/JSON: an object with `resourceSpans` a line, as the Collector writes it, or one a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llama_index_rag_metrics.errors import FileFormatError
from llama_index_rag_metrics.formats.lines import Faults, Place
from llama_index_rag_metrics.formats.traces.spans import Event, TraceSpan, mapping, seconds

RESOURCES = ("resourceSpans", "resource_spans")
"""By the specification, and as some libraries of protocol buffers write it."""

_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")


class OtlpSpan(TraceSpan):
    """A span of OTLP/JSON, whose values are decoded when they are asked for."""

    __slots__ = ()

    @property
    def times(self) -> tuple[float | None, float | None]:
        get, place = self.raw.get, self.place
        return seconds(get("startTimeUnixNano"), place), seconds(get("endTimeUnixNano"), place)

    @property
    def status(self) -> Mapping[str, Any]:
        return mapping(self.raw.get("status"))

    @property
    def dropped(self) -> int:
        count = self.raw.get("droppedAttributesCount", 0)
        return count if isinstance(count, int) else 1

    def get(self, key: str) -> Any:
        value = self.attributes.get(key)
        if value is None:
            return None
        if type(value) is dict and "stringValue" in value:  # most of them are
            return value["stringValue"]
        return plain(value, self.place)

    def events(self) -> Iterator[Event]:
        events = self.raw.get("events", ())
        for event in events if isinstance(events, list) else ():
            if isinstance(event, Mapping):
                attributes = pairs(event.get("attributes", ()), self.place)
                yield Event(str(event.get("name", "")), attributes)


def otlp_spans(data: Mapping[str, Any], place: Place, faults: Faults) -> Iterator[OtlpSpan]:
    """The spans of an object with `resourceSpans`.

    Those of a line share its place; those of a whole file are told apart by their number.

    Raises:
        FileFormatError: a span, or a part of the object, can't be read, unless `faults` skips it.
    """
    number = 0
    for resource in _list(data, RESOURCES, place, faults):
        for scope in _list(resource, _SCOPES, place, faults):
            for raw in _list(scope, ("spans",), place, faults):
                number += 1
                try:
                    span = _span(raw, place if place.line else place.item(number))
                except FileFormatError as error:
                    faults.take(error)
                else:
                    yield span


def _span(raw: Any, place: Place) -> OtlpSpan:
    try:
        attributes = {one["key"]: one.get("value") for one in raw.get("attributes") or ()}
        "".join(attributes)  # the keys are texts
        trace_id, span_id = raw["traceId"], raw["spanId"]
        parent_id = raw.get("parentSpanId") or None
    except (AttributeError, KeyError, TypeError) as error:
        raise place.wrong("a span with traceId, spanId and attributes", raw) from error
    if type(trace_id) is not str or type(span_id) is not str:
        raise place.wrong("traceId and spanId, texts", [trace_id, span_id])
    if parent_id is not None and type(parent_id) is not str:
        raise place.wrong("parentSpanId, a text", parent_id)
    return OtlpSpan(trace_id, span_id, parent_id, attributes, raw, place)


def plain(value: Any, place: Place) -> Any:
    """An AnyValue as a plain value.

    Raises:
        FileFormatError: it isn't one.
    """
    if type(value) is not dict or len(value) != 1:
        if value == {}:
            return None
        raise place.wrong('a value like {"stringValue": …}', value)
    ((kind, content),) = value.items()
    try:
        if kind == "doubleValue":
            return content if type(content) is float else float(content)
        if kind == "intValue":
            return int(content)
        if kind == "arrayValue":
            return [plain(one, place) for one in content.get("values", ())]
        if kind == "kvlistValue":
            return pairs(content.get("values", ()), place)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise place.wrong(f"a value as {kind}", content) from error
    return content


def pairs(given: Any, place: Place) -> dict[str, Any]:
    """A list of {"key", "value"} as a mapping of plain values."""
    try:
        return {str(one["key"]): plain(one.get("value", {}), place) for one in given}
    except (AttributeError, KeyError, TypeError) as error:
        raise place.wrong('a list of {"key": …, "value": …}', given) from error


def _list(data: Any, names: tuple[str, ...], place: Place, faults: Faults) -> list[Any]:
    if isinstance(data, Mapping):
        found = next((data[one] for one in names if one in data), None)
        if found is None or isinstance(found, list):
            return found or []
    faults.take(place.wrong(f"a list under {names[0]!r}", data))
    return []
