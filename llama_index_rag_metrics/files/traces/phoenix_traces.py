"""Phoenix: data frames of spans as its client makes them, and spans as records.

Its frames round scores to ten decimals; the order of the documents is that of the spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.traces.trace_spans import Event, TraceSpan, mapping, parent_of

IDS = _TRACE, _SPAN = "context.trace_id", "context.span_id"
"""The columns that every span has."""
_ATTRIBUTES = "attributes."


class PhoenixSpan(TraceSpan):
    """A span of Phoenix: a row of a frame, or a record with `context` and `attributes`."""

    __slots__ = ()

    @property
    def times(self) -> tuple[float | None, float | None]:
        return _moment(self.raw.get("start_time")), _moment(self.raw.get("end_time"))

    @property
    def status(self) -> Mapping[str, Any]:
        return {part: self.raw.get(f"status_{part}") for part in ("code", "message")}

    def events(self) -> Iterator[Event]:
        events = self.raw.get("events")
        for event in events if isinstance(events, Sequence) else ():
            known = mapping(event)
            yield Event(str(known.get("name", "")), mapping(known.get("attributes")))


def phoenix_span(raw: Mapping[str, Any], place: Place) -> PhoenixSpan:
    """The span that a row of a frame or a record is."""
    context = mapping(raw.get("context"))
    trace_id = raw.get(_TRACE, context.get("trace_id"))
    span_id = raw.get(_SPAN, context.get("span_id"))
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        raise place.wrong(f"a span with {_TRACE} and {_SPAN}", raw)
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
    """Whether a record is a span of Phoenix."""
    return isinstance(data, Mapping) and "trace_id" in mapping(data.get("context"))


def is_span_frame(columns: Sequence[str]) -> bool:
    """Whether a table with these columns is one of spans."""
    return _TRACE in columns and _SPAN in columns


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
