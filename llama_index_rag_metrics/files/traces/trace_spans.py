"""A span of a trace, whatever container it was read from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json as parse_json

from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import read_id

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
