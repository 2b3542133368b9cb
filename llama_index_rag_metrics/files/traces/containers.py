"""Containers of spans: files, and what MLflow and Phoenix hold in memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json as parse_json

from llama_index_rag_metrics.files.lines import (
    Faults,
    Place,
    from_json,
    open_bytes,
    raw_lines,
    read_text,
)
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.files.tables import frame_table, is_frame, records_of
from llama_index_rag_metrics.files.traces.otlp import RESOURCES, otlp_spans, spans_of_line
from llama_index_rag_metrics.files.traces.trace_spans import TraceSpan, mapping, parent_of
from llama_index_rag_metrics.runtime.errors import FileFormatError, UnknownFormat

T = TypeVar("T")

_TRACE_ID = "trace_id"


def is_trace(data: object) -> bool:
    inner = data.get("data") if isinstance(data, Mapping) and "info" in data else None
    return isinstance(inner, Mapping) and "spans" in inner


def mlflow_spans(trace: Mapping[str, Any], place: Place, faults: Faults) -> Iterator[TraceSpan]:
    info, spans = mapping(trace["info"]), trace["data"]["spans"]
    ids = {key: info[key] for key in (_TRACE_ID, "client_request_id") if info.get(key)}
    about = {**mapping(info.get("trace_metadata")), **mapping(info.get("tags")), **ids}
    if not isinstance(spans, list):
        faults.take(place.wrong("a list of spans", spans))
        return
    for raw in spans:
        yield from _readable(partial(_span, about), raw, place, faults)


def _span(about: Mapping[str, Any], raw: Any, place: Place) -> TraceSpan:
    expected = "a span with trace_id, span_id and attributes"
    with place.expecting(expected, AttributeError, KeyError, TypeError, found=raw):
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


def phoenix_span(raw: Mapping[str, Any], place: Place) -> PhoenixSpan:
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
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):  # whoever reads it says what is wrong
        return False
    names = (f'"{name}"'.encode() for name in RESOURCES)
    has_trace_id = b'"trace_id"' in head and (b'"info"' in head or b'"context"' in head)
    return has_trace_id or any(name in head for name in names)


def spans_in(source: Any, faults: Faults) -> Iterator[TraceSpan]:
    if isinstance(source, (str, os.PathLike)):
        yield from _of_file(Path(source), faults)
    elif is_frame(source):
        names, rows = frame_table(without_copied_index(source))
        if _TRACE in names and _SPAN in names:
            for place, record in records_of(names, rows):
                yield from _readable(phoenix_span, record, place, faults)
        elif "trace" in names:
            column = names.index("trace")
            for place, row in rows:
                yield from _of_value(row[column], place, faults)
        else:
            why = f"it has {names[:8]}, and {' and '.join(IDS)} aren't both there"
            raise UnknownFormat("the data frame", why, UNDERSTOOD, "traces")
    elif isinstance(source, Iterable):
        place = Place(f"this {type(source).__name__}")
        items = [source] if isinstance(source, Mapping) else source
        for here, item in place.numbered(items):
            yield from _of_value(item, here, faults)
    else:
        why = "it is none of these"
        raise UnknownFormat(f"this {type(source).__name__}", why, UNDERSTOOD, "traces")


def _of_file(path: Path, faults: Faults) -> Iterator[TraceSpan]:
    if path.is_dir():
        raise UnknownFormat(str(path), "it is a folder", UNDERSTOOD, "traces")
    is_first = True
    for number, line in raw_lines(path):
        if line.isspace():
            continue
        place = Place(str(path), number)
        spans = spans_of_line(line, place)
        if spans is None:
            try:
                spans = _of_value(_parsed(line, place), place, faults)
            except FileFormatError as error:
                if is_first and line.rstrip()[-1:] in (b"{", b"[", b","):
                    whole = Place(str(path))
                    yield from _of_value(from_json(read_text(path), whole), whole, faults)
                    return
                faults.take(error)
                spans = iter(())
        yield from spans
        del spans  # before the next line is decoded, which goes to the same memory
        is_first = False


def _of_value(data: Any, place: Place, faults: Faults) -> Iterator[TraceSpan]:
    if isinstance(data, str) and data[:1] == "{":  # MLflow's frames hold traces as JSON
        for parsed in _readable(from_json, data, place, faults):
            yield from _of_value(parsed, place, faults)
        return
    if hasattr(data, "to_dict") and hasattr(data, "info"):
        data = data.to_dict()
    if isinstance(data, list):
        for here, item in place.numbered(data):
            yield from _of_value(item, here, faults)
    elif isinstance(data, Mapping) and any(name in data for name in RESOURCES):
        yield from otlp_spans(data, place, faults)
    elif is_trace(data):
        yield from mlflow_spans(data, place, faults)
    elif is_span(data):
        yield from _readable(phoenix_span, data, place, faults)
    else:
        faults.take(place.wrong(f"one of: {'; '.join(UNDERSTOOD)}", data))


def _readable(
    read: Callable[[Any, Place], T], raw: Any, place: Place, faults: Faults
) -> Iterator[T]:
    try:
        value = read(raw, place)
    except FileFormatError as error:
        faults.take(error)
    else:
        yield value


def _parsed(line: bytes, place: Place) -> Any:
    """A line's JSON, in which half a surrogate pair is no fault."""
    try:
        return parse_json(line)
    except ValueError:
        with place.expecting("UTF-8 text", UnicodeDecodeError):
            return from_json(line.decode(), place)
