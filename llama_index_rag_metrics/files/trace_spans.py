"""Spans, whatever held them: OTLP/JSON, ConsoleSpanExporter's JSON, Phoenix's and MLflow's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.errors import FileFormatError

from .lines import Location, open_bytes, read_text
from .records import read_id
from .sources import Row, frame_records, is_frame, kind_of, parquet_records, unknown_format

Kind: TypeAlias = Literal["retrieval", "reranking", "answer", "agent", "tool", "other"]

_UNDERSTOOD = (
    "OTLP/JSON, one object with resourceSpans per line or file, or what ConsoleSpanExporter writes",
    "what mlflow.search_traces returns, or its traces as JSON, one per line or a list",
    "the frame of Phoenix's get_spans_dataframe, also in Parquet, or its spans in JSON",
)
_IDS = (
    ("traceId", "trace_id", "context.trace_id"),
    ("spanId", "span_id", "context.span_id"),
    ("parentSpanId", "parent_span_id", "parent_id"),
)
_TIMES = (  # what OTLP, MLflow and Phoenix call a field; ConsoleSpanExporter does as Phoenix
    ("startTimeUnixNano", "start_time_unix_nano", "start_time"),
    ("endTimeUnixNano", "end_time_unix_nano", "end_time"),
)
_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_A_SPAN = "a span with its ids, times and attributes"
_CUT = "JSON as {what} ({error}; was it cut off by OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT?)"
_HEAD, _FOOT = 4096, 2**20


class Document(NamedTuple):
    """A retrieved document; `source` is the id of the document that it was cut from."""

    id: Any = None
    text: Any = None
    score: Any = None
    metadata: Any = None
    source: Any = None


@dataclass(slots=True, eq=False)
class TraceSpan:
    """A span, its values plain; a dialect fills kind, question, documents and tool."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    begin: float | None
    end: float | None
    attributes: Mapping[str, Any]
    events: Sequence[tuple[str, Mapping[str, Any]]]
    error: str | None
    location: Location
    dropped: int = 0
    kind: Kind = "other"
    question: str | None = None
    documents: list[Document] | None = None
    input_ids: set[str] = field(default_factory=set)  # of documents that a reranking was given
    tool: str = ""
    question_id: str | None = None  # the question that an attribute names
    known_text: str | None = None  # the known question that it has, as `comparable` makes it
    retrieved: Ranking | None = None  # the documents by the ids that count
    outer: list[TraceSpan] = field(default_factory=list)  # what it is part of, from the inside out

    @property
    def started(self) -> float:
        return self.begin or 0.0

    @property
    def is_answered(self) -> bool:
        """Whether it is known what the caller got: documents, or an error."""
        return self.retrieved is not None or self.error is not None

    def json(self, key: str) -> Any:
        """The value of an attribute that is JSON, or that is no text at all."""
        return parsed(self.attributes.get(key), key, self.location)


def parsed(value: Any, what: str, location: Location) -> Any:
    """The JSON of a text; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise location.wrong(_CUT.format(what=what, error=error), value) from error


def json_or_none(value: Any) -> Any:
    try:
        return parsed(value, "", Location(""))
    except FileFormatError:
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@contextmanager
def reading(location: Location) -> Iterator[None]:
    """Raise an error that names the location where what is read isn't a span."""
    try:
        yield
    except FileFormatError:
        raise
    except _MALFORMED as error:
        raise location.wrong(_A_SPAN, f"{type(error).__name__}: {error}") from error


def is_trace_file(path: Path) -> bool:
    """Whether a file has traces, by the beginning of its JSON or the end of its Parquet."""
    kind = kind_of(path)
    if kind not in ("json", "jsonl", "parquet"):
        return False
    try:
        with open_bytes(path) as file:
            if kind == "parquet":  # its columns stand at the end
                file.seek(max(0, path.stat().st_size - _FOOT))
                return re.search(b"context.trace_id|trace_metadata", file.read()) is not None
            head = file.read(_HEAD)
    except (OSError, EOFError):  # whoever reads it says what is wrong
        return False
    is_trace = b'"trace_id"' in head and re.search(b'"(info|context|trace)"', head) is not None
    return is_trace or b'"resourceSpans"' in head


def spans_in(source: Any) -> Iterator[TraceSpan]:
    location = Location(f"this {type(source).__name__}")
    if isinstance(source, (str, os.PathLike)):
        path, location = Path(source), Location(str(source))
        if path.is_dir():
            raise unknown_format(str(path), "it is a folder", _UNDERSTOOD, "traces")
        if kind_of(path) == "parquet":
            yield from _of_rows(parquet_records(path), location)
            return
        items = _values(path)
    elif is_frame(source):
        location = Location("the data frame")
        yield from _of_rows(frame_records(source, location), location)
        return
    elif isinstance(source, Iterable):
        items = location.numbered([source] if isinstance(source, Mapping) else source)
    else:
        raise unknown_format(location.path, "it is none of these", _UNDERSTOOD, "traces")
    for place, value in items:
        yield from _of_value(value, place)


def _values(path: Path) -> Iterator[tuple[Location, Any]]:
    """Yield the JSON values of a file, each of which may take several lines."""
    text, decoder = read_text(path), json.JSONDecoder()
    line, end = 1, 0
    while (match := re.compile(r"\S").search(text, end)) is not None:
        begin = match.start()
        line += text.count("\n", end, begin)
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            raise Location(str(path), line).wrong(f"JSON ({error})") from error
        n_more = text.count("\n", begin, end)
        yield Location(str(path), None if n_more else line), value
        line += n_more


def _of_rows(rows: Iterable[Row], source: Location) -> Iterator[TraceSpan]:
    for location, row in rows:
        if "context.trace_id" in row and "context.span_id" in row:
            yield _span(row, location)
        elif "trace" in row:
            yield from _of_value(row["trace"], location)
        else:
            why = f"it has {list(row)[:8]}, and context.trace_id and context.span_id aren't there"
            raise unknown_format(source.path, why, _UNDERSTOOD, "traces")


def _of_value(data: Any, location: Location) -> Iterator[TraceSpan]:
    if hasattr(data, "to_dict") and hasattr(data, "info"):
        data = data.to_dict()  # MLflow's; its frames hold traces as JSON
    data = parsed(data, "a trace", location)
    record = mapping(data)
    if isinstance(data, list):
        for item_location, item in location.numbered(data):
            yield from _of_value(item, item_location)
    elif "resourceSpans" in record:
        for span_location, raw in location.numbered(_spans_of_request(record, location)):
            yield _span(raw, location if location.line else span_location)
    elif "info" in record and "spans" in mapping(record.get("data")):
        yield from _spans_of_mlflow(record["info"], record["data"]["spans"], location)
    elif "trace" in record:  # a row of MLflow's frame, or the columns of all
        traces = record["trace"]
        if isinstance(traces, Mapping) and "info" not in traces:
            traces = list(traces.values())
        yield from _of_value(traces, location)
    elif "trace_id" in mapping(record.get("context")):
        yield _span({**record["context"], **record}, location)
    else:
        raise location.wrong(f"one of: {'; '.join(_UNDERSTOOD)}", data)


def _spans_of_request(request: Mapping[str, Any], location: Location) -> list[Any]:
    spans: list[Any] = []
    with reading(location):
        for resource in request["resourceSpans"]:
            for scope in resource.get("scopeSpans") or ():
                spans += scope.get("spans") or ()
    return spans


def _spans_of_mlflow(info: Any, spans: Any, location: Location) -> Iterator[TraceSpan]:
    with reading(location):
        ids = {key: info[key] for key in ("trace_id", "client_request_id") if info.get(key)}
        of_trace = {**mapping(info.get("trace_metadata")), **mapping(info.get("tags")), **ids}
        for raw in spans:
            # the root span has the attributes of its trace
            attributes = {**({} if raw.get("parent_span_id") else of_trace), **raw["attributes"]}
            trace_id = ids.get("trace_id", raw.get("trace_id"))
            yield _span({**raw, "trace_id": trace_id, "attributes": attributes}, location)


def _span(raw: Any, location: Location) -> TraceSpan:
    with reading(location):
        trace_id, span_id, parent_id = (_first(raw, names) for names in _IDS)
        begin, end = (_moment(_first(raw, names)) for names in _TIMES)
        attributes = _attributes(raw.get("attributes"))
        for key, value in raw.items():
            if key.startswith("attributes.") and value is not None:
                attributes[key.removeprefix("attributes.")] = value
        if kind := raw.get("span_kind"):
            attributes.setdefault("openinference.span.kind", kind)
        events = []
        for event in map(mapping, raw.get("events") or ()):
            events.append((str(event.get("name", "")), _attributes(event.get("attributes"))))
        return TraceSpan(
            read_id(trace_id, location),
            read_id(span_id, location),
            read_id(parent_id, location) if parent_id else None,
            str(raw.get("name")),
            begin,
            end,
            attributes,
            events,
            _error(raw, events),
            location,
            int(raw.get("droppedAttributesCount") or 0),
        )


def _first(record: Any, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _attributes(attributes: Any) -> dict[str, Any]:
    """Attributes by name, also where they are a list of pairs, as in OTLP/JSON."""
    if isinstance(attributes, Mapping):
        return dict(attributes)
    return {str(pair["key"]): _plain(pair.get("value")) for pair in attributes or ()}


def _plain(value: Any) -> Any:
    """Return a value of OTLP/JSON, such as {"stringValue": "x"}, as a value of Python."""
    if not value:
        return None
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return list(map(_plain, content.get("values", ())))
    if kind == "kvlistValue":
        return _attributes(content.get("values"))
    if kind == "intValue":
        return int(content)
    return float(content) if kind == "doubleValue" else content


def _error(raw: Mapping[str, Any], events: Iterable[Any]) -> str | None:
    status = mapping(raw.get("status"))
    codes = (raw.get("status_code"), status.get("code"), status.get("status_code"))
    if not any(code in _FAILED for code in codes):
        return None
    for name, raised in events:
        if name == "exception":
            return f"{raised.get('exception.type')}: {raised.get('exception.message')}"
    messages = (raw.get("status_message"), status.get("message"), status.get("description"))
    return str(next(filter(None, messages), "the span has the status ERROR"))


def _moment(value: Any) -> float | None:
    """Seconds, from nanoseconds, an ISO date or a datetime."""
    if isinstance(value, str) and not value.isdecimal():
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, datetime):
        return float(value.timestamp())
    return None if value is None else int(value) / 1e9
