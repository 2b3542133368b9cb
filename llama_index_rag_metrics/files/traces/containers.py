"""Containers of spans: files, and what MLflow and Phoenix hold in memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json as parse_json

from llama_index_rag_metrics.files.frame import frame_table, is_frame, records_of
from llama_index_rag_metrics.files.lines import (
    Faults,
    Place,
    from_json,
    open_bytes,
    raw_lines,
    read_text,
)
from llama_index_rag_metrics.files.traces.mlflow_traces import is_trace, mlflow_spans
from llama_index_rag_metrics.files.traces.otlp import RESOURCES, otlp_spans, spans_of_line
from llama_index_rag_metrics.files.traces.phoenix_traces import (
    IDS,
    is_span,
    is_span_frame,
    phoenix_span,
    without_copied_index,
)
from llama_index_rag_metrics.files.traces.trace_spans import TraceSpan
from llama_index_rag_metrics.runtime.errors import FileFormatError, UnknownFormat

UNDERSTOOD = (
    "OTLP/JSON, one object with resourceSpans per line or file, plain or .gz",
    "MLflow traces: what mlflow.search_traces returns, or their JSON, one per line or a list",
    "spans of Phoenix: the data frame of its client's get_spans_dataframe, or records in JSON",
)


_HEAD = 4096
"""Bytes at the beginning of a file that tell what it is."""


def is_trace_file(path: Path) -> bool:
    """Whether a file of JSON begins as one of traces does."""
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):  # whoever reads it says what is wrong
        return False
    return (
        any(f'"{name}"'.encode() in head for name in RESOURCES)
        or (b'"info"' in head and b'"trace_id"' in head)
        or (b'"context"' in head and b'"trace_id"' in head)
    )


def spans_in(source: Any, faults: Faults) -> Iterator[TraceSpan]:
    """The spans of a source of any form, one after another."""
    if isinstance(source, (str, os.PathLike)):
        yield from _of_file(Path(source), faults)
    elif is_frame(source):
        names, rows = frame_table(without_copied_index(source))
        if is_span_frame(names):
            for place, record in records_of(names, rows):
                yield from _of_record(record, place, faults)
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
        for number, item in enumerate(items, 1):
            yield from _of_value(item, place.item(number), faults)
    else:
        what = f"this {type(source).__name__}"
        raise UnknownFormat(what, "it is nothing of these", UNDERSTOOD, "traces")


def _of_file(path: Path, faults: Faults) -> Iterator[TraceSpan]:
    """The spans of a file of lines; or of a whole one, whose first line isn't JSON by itself."""
    if path.is_dir():
        raise UnknownFormat(str(path), "it is a folder", UNDERSTOOD, "traces")
    name, is_first = str(path), True
    for number, line in _filled(path):
        place = Place(name, number)
        spans = spans_of_line(line, place)
        if spans is None:
            try:
                spans = _of_value(_parsed(line, place), place, faults)
            except FileFormatError as error:
                if is_first and line.rstrip()[-1:] in (b"{", b"[", b","):
                    whole = Place(name)
                    yield from _of_value(from_json(read_text(path), whole), whole, faults)
                    return
                faults.take(error)
                spans = iter(())
        yield from spans
        del spans  # before the next line is decoded, which goes to the same memory
        is_first = False


def _of_value(data: Any, place: Place, faults: Faults) -> Iterator[TraceSpan]:
    """The spans of a parsed line, of a whole file, or of an object of MLflow."""
    if isinstance(data, str) and data[:1] == "{":  # MLflow's frames hold traces as JSON
        try:
            data = from_json(data, place)
        except FileFormatError as error:
            faults.take(error)
            return
    if hasattr(data, "to_dict") and hasattr(data, "info"):
        data = data.to_dict()
    if isinstance(data, list):
        for number, item in enumerate(data, 1):
            yield from _of_value(item, place.item(number), faults)
    elif isinstance(data, Mapping) and any(name in data for name in RESOURCES):
        yield from otlp_spans(data, place, faults)
    elif is_trace(data):
        yield from mlflow_spans(data, place, faults)
    elif is_span(data):
        yield from _of_record(data, place, faults)
    else:
        faults.take(place.wrong(f"one of: {'; '.join(UNDERSTOOD)}", data))


def _of_record(record: Mapping[str, Any], place: Place, faults: Faults) -> Iterator[TraceSpan]:
    try:
        span = phoenix_span(record, place)
    except FileFormatError as error:
        faults.take(error)
    else:
        yield span


def _parsed(line: bytes, place: Place) -> Any:
    """The value of a line of JSON; half a surrogate pair in it is no fault."""
    try:
        return parse_json(line)
    except ValueError:
        try:
            return from_json(line.decode(), place)
        except UnicodeDecodeError as error:
            raise place.wrong("UTF-8 text", str(error)) from error


def _filled(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that aren't blank."""
    return ((number, line) for number, line in raw_lines(path) if not line.isspace())
