"""One stream of rows, whatever the source: files by their ending, frames, mappings, records."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.runtime.errors import FileFormatError, MissingExtra
from llama_index_rag_metrics.runtime.masking import shorten

from .fields import EXAMPLE, LABELS, LISTS, TEXTS, Fields
from .lines import Location, from_json, name_of, read_lines, read_text, without_packing

Row: TypeAlias = tuple[Location, dict[str, Any]]
"""Where it was read, and its fields, None where they have no value."""

Refuse: TypeAlias = Callable[[str, str], FileFormatError]
"""The error of a source that is nothing that is understood: its name, and why."""

_KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "workbook"),
}
"""Whose content is neither in TREC's columns nor read here, is named to be refused."""

_EMPTY = {"", "nan", "NaN", "None", "NULL", "null", "<NA>"}
"""What stands for nothing in a column of labels."""

_INDEX = ("", "Unnamed: 0")
"""How pandas heads an index in CSV."""

_SEMICOLONS = (
    "commas between cells, not semicolons: "
    "pandas.read_csv(path, sep=';').to_csv(path, index=False) writes them"
)
_RECORD = f"a record, {{field: value}}, such as {EXAMPLE}"
_JSON_TEXTS = 'texts as JSON writes a list, ["one", "two"]: json.dumps(list) makes it'
_ROWS_AT_ONCE = 16_384
_TEXT = (str, type(None))


class Source(NamedTuple):
    """A source that is opened: rows, or one mapping, such as {query id: ids}, instead.

    Attributes:
        is_trec: whether it is a file with TREC's columns, which its reader opens.
    """

    name: str
    location: Location
    rows: Iterable[Row] = ()
    value: Mapping[Any, Any] | None = None
    is_trec: bool = False


def kind_of(path: Path) -> str:
    """The kind that the ending says, compression apart; "trec" where it says nothing."""
    return _KINDS.get(without_packing(path).suffix, "trec")


def open_source(source: Any, fields: Fields, refuse: Refuse) -> Source:
    """Open a file or an object."""
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source), fields, refuse)
    location, name = Location(f"this {type(source).__name__}"), ""
    if is_frame(source):
        rows = frame_records(source, Location("the data frame"))
        return Source(name, location, _with_lists(rows, fields))
    if not isinstance(source, (Mapping, Iterable)) and hasattr(source, "to_dict"):  # ranx
        name, source = str(getattr(source, "name", None) or ""), source.to_dict()
    return _of_value(source, name, location, refuse)


def _open_path(path: Path, fields: Fields, refuse: Refuse) -> Source:
    path.stat()  # where there is no such file, that is what is wrong with it
    kind, name, location = kind_of(path), name_of(path), Location(str(path))
    if path.is_dir():
        raise refuse(str(path), "it is a folder")
    if kind == "jsonl":
        lines = ((line, from_json(text, line)) for line, text in read_lines(path))
        return Source(name, location, records_of(lines))
    if kind == "json":
        text = read_text(path)
        value = from_json(text, location) if text.strip() else []
        return _of_value(value, name, location, refuse)
    if kind == "csv" or (kind == "tsv" and _has_headings(path, fields)):
        return Source(name, location, _table_rows(path, kind, fields))
    if kind == "parquet":
        return Source(name, location, _with_lists(parquet_records(path), fields))
    return Source(name, location, is_trec=True)


def _of_value(value: Any, name: str, location: Location, refuse: Refuse) -> Source:
    if isinstance(value, Mapping):
        return Source(name, location, value=value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return Source(name, location, records_of(location.numbered(value)))
    raise refuse(location.path, f"it holds {shorten(value)}")


def records_of(items: Iterable[tuple[Location, Any]]) -> Iterator[Row]:
    for location, item in items:
        record = item
        if hasattr(item, "model_dump"):
            record = item.model_dump()
        elif hasattr(item, "_asdict"):  # ir_measures' tuples
            record = item._asdict()
        location.check(isinstance(record, Mapping) and record, _RECORD, item)
        yield location, dict(record)


def is_frame(source: object) -> bool:
    # a polars lazy frame has columns, too, and warns when it is asked for them
    is_table = any(hasattr(source, method) for method in ("collect", "iter_rows", "to_pandas"))
    return is_table or (hasattr(source, "columns") and hasattr(source, "to_dict"))


def frame_rows(frame: Any) -> tuple[list[str], Iterator[Sequence[Any]]]:
    """Columns and rows of any table, or of what has `to_pandas`; a named index is a column."""
    if hasattr(frame, "collect"):
        frame = frame.collect()
    if hasattr(frame, "iter_rows"):
        return list(frame.columns), frame.iter_rows()
    if hasattr(frame, "to_pylist"):
        batches = frame.to_batches() if hasattr(frame, "to_batches") else [frame]
        columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
        rows = (zip(*lists, strict=True) for lists in columns)
        return list(frame.schema.names), chain.from_iterable(rows)
    if hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    if frame.index.name is not None:
        frame = frame.reset_index(drop=frame.index.name in frame.columns)
    return list(map(str, frame.columns)), frame.itertuples(index=False, name=None)


def frame_records(frame: Any, location: Location) -> Iterator[Row]:
    """The rows of a frame as they are, numbers and lists as Python has them."""
    names, values = frame_rows(frame)
    for place, row in location.numbered(values, "row"):
        yield place, {name: plain(value) for name, value in zip(names, row, strict=True)}


def _with_lists(rows: Iterable[Row], fields: Fields) -> Iterator[Row]:
    """The rows; in a column of texts alone, lists and what is missing may stand as text."""
    all_rows = list(rows)
    columns = set(fields.names(*LISTS, "retrieved_spans"))
    for _, row in all_rows:
        for name, value in row.items():
            if not isinstance(value, _TEXT):
                columns.discard(name)
    for location, row in all_rows:
        for name in columns & row.keys():
            if row[name] is not None:
                row[name] = read_cell(name, row[name], fields, location)
        yield location, row


def plain(value: Any) -> Any:
    """Lists for arrays, Python's numbers for numpy's, and None for what pandas calls missing."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    is_missing = type(value).__name__ == "NAType" or value != value  # noqa: PLR0124
    return None if is_missing else value


def _has_headings(path: Path, fields: Fields) -> bool:
    _, line = next(read_lines(path), (None, ""))
    names = [name.strip() for name in line.split("\t")]
    return fields.has(names, "query_id") or fields.has(names, "query")


def _table_rows(path: Path, kind: str, fields: Fields) -> Iterator[Row]:
    rows = iter(_quoted(path))
    if kind == "tsv":
        rows = ((place, line.split("\t")) for place, line in read_lines(path))
    location, cells = next(rows, (Location(str(path), 1), []))
    headings = [name.strip() for name in cells]
    if len(headings) == 1 and ";" in headings[0]:
        raise location.wrong(_SEMICOLONS, headings[0])
    named = [name for name in headings if name not in _INDEX]
    location.check(len(named) == len(set(named)), "every column once", headings)
    for location, cells in rows:
        if len(cells) > len(headings):
            raise location.wrong(f"{len(headings)} cells", cells[len(headings) :])
        if cells:
            row: dict[str, Any] = dict.fromkeys(named)
            for name, text in zip(headings, cells, strict=False):
                if text and name in row:
                    row[name] = read_cell(name, text, fields, location)
            yield location, row


def _quoted(path: Path) -> list[tuple[Location, list[str]]]:
    table = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    limit = csv.field_size_limit(2**31 - 1)  # the module refuses cells over 128 KB unless told
    try:
        return [(Location(str(path), table.line_num), cells) for cells in table]
    except csv.Error as error:
        raise Location(str(path), table.line_num).wrong(f"CSV ({error})") from error
    finally:
        csv.field_size_limit(limit)


def read_cell(name: str, text: str, fields: Fields, location: Location) -> Any:
    """The value of a cell: JSON where it is a list or an object, nothing, or its text."""
    if text in _EMPTY and name in fields.names("doc_id", *LABELS):
        return None
    if text[:1] not in ("[", "{") or name in fields.names(*TEXTS):
        return text
    value: Any = text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        is_printed = name in fields.names("expected_texts") and text.startswith(("['", '["'))
        location.check(not is_printed, _JSON_TEXTS, text)
    if name not in fields.names("expected_texts"):
        return value
    # in a field of texts, what only looks like a list is a text
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return value if is_list else text


def parquet_records(path: Path) -> Iterator[Row]:
    arrow = pyarrow()
    from pyarrow import parquet

    location = Location(str(path))
    damage = (arrow.ArrowException, ValueError, LookupError, TypeError, OverflowError, MemoryError)
    number = 0
    try:
        # a buffer would hold the whole file in memory
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                # whoever follows offsets that were damaged reads beside the buffers, and dies
                batch.validate(full=True)
                for record in batch.to_pylist():
                    number += 1
                    yield Location(f"{path}, row {number}"), plain(record)
    except FileFormatError:
        raise
    except (*damage, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # there is no such file, or it may not be read
        raise location.wrong("a Parquet file", str(error)) from error


def pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("a Parquet file", "batch") from error
    return pyarrow
