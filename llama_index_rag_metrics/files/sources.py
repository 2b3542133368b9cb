"""One stream of rows, whatever the source: files by their ending, frames, mappings, records."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.runtime.containers import map_values
from llama_index_rag_metrics.runtime.errors import FileFormatError, MissingExtra
from llama_index_rag_metrics.runtime.masking import shorten

from .fields import EXAMPLE, LABELS, TEXTS, Fields
from .lines import Location, from_json, json_lines, name_of, read_lines, read_text, without_packing

Row: TypeAlias = tuple[Location, dict[str, Any]]  # fields without a value have None
# the error of a source that is nothing that is understood: its name, and why
Refuse: TypeAlias = Callable[[str, str], FileFormatError]

_KINDS = {  # what is read by its ending, and what isn't, though its ending says it isn't TREC's
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather", ".ipc", ".xlsx", ".xls", ".ods"), "other"),
}
_EMPTY = {"", "nan", "nat", "none", "null", "na", "<na>", "n/a", "#n/a"}  # in a cell of labels
_INDEX = ("", "Unnamed: 0")  # how pandas heads an index in CSV
_SEMICOLONS = "commas, not semicolons: pandas.read_csv(path, sep=';').to_csv(path, index=False)"
_RECORD = f"a record, {{field: value}}, such as {EXAMPLE}"


class OpenedSource(NamedTuple):
    """An open source: its rows, or instead its one mapping, such as {query id: ids}."""

    name: str
    location: Location
    rows: Iterable[Row] = ()
    value: Mapping[Any, Any] | None = None
    is_trec: bool = False  # a file with TREC's columns, which its reader opens


def kind_of(path: Path) -> str:
    """Return the kind that a file's ending says, below compression; "trec" where it says none."""
    return _KINDS.get(without_packing(path).suffix, "trec")


def unknown_format(
    what: str, reason: str, understood: Sequence[str], kind: str = "a dataset"
) -> FileFormatError:
    sentence = f"{what} isn't {kind}: {reason}. Supported forms: {'; '.join(understood)}."
    return FileFormatError(what, sentence=sentence)


def open_source(source: Any, fields: Fields, refuse: Refuse) -> OpenedSource:
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source), fields, refuse)
    location, name = Location(f"this {type(source).__name__}"), ""
    if is_frame(source):
        location = Location("the data frame")
        return OpenedSource(name, location, frame_records(source, location))
    if not isinstance(source, (Mapping, Iterable)) and hasattr(source, "to_dict"):  # ranx
        name, source = str(getattr(source, "name", None) or ""), source.to_dict()
    return _of_value(source, name, location, refuse)


def _open_path(path: Path, fields: Fields, refuse: Refuse) -> OpenedSource:
    path.stat()  # where there is no such file, that is what is wrong with it
    kind, name, location = kind_of(path), name_of(path), Location(str(path))
    if path.is_dir():
        raise refuse(str(path), "it is a folder")
    if kind == "other":
        raise refuse(str(path), f"its name ends in {path.suffix}")
    if kind == "jsonl":
        return OpenedSource(name, location, records_of(json_lines(path)))
    if kind == "json":
        return _of_value(from_json(read_text(path), location), name, location, refuse)
    if kind == "csv" or (kind == "tsv" and _has_headings(path, fields)):
        return OpenedSource(name, location, _table_rows(path, kind, fields))
    if kind == "parquet":
        return OpenedSource(name, location, parquet_records(path))
    return OpenedSource(name, location, is_trec=True)


def _of_value(value: Any, name: str, location: Location, refuse: Refuse) -> OpenedSource:
    if isinstance(value, Mapping):
        return OpenedSource(name, location, value=value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return OpenedSource(name, location, records_of(location.numbered(value)))
    raise refuse(location.path, f"it holds {shorten(value)}")


def records_of(items: Iterable[tuple[Location, Any]]) -> Iterator[Row]:
    for location, item in items:
        record = item._asdict() if hasattr(item, "_asdict") else item  # ir_measures' tuples
        location.check(isinstance(record, Mapping) and record, _RECORD, item)
        yield location, dict(record)


def is_frame(source: object) -> bool:
    """Whether it is a data frame of polars or pandas, or a table of Arrow."""
    is_table = hasattr(source, "iter_rows") or hasattr(source, "to_pylist")
    return is_table or (hasattr(source, "columns") and hasattr(source, "to_dict"))


def frame_records(frame: Any, location: Location) -> Iterator[Row]:
    """The rows of a frame, numbers and lists as Python has them; a named index is a column."""
    if hasattr(frame, "iter_rows"):
        rows = frame.iter_rows(named=True)
    elif hasattr(frame, "to_pylist"):
        rows = frame.to_pylist()
    else:
        if frame.index.name is not None:
            frame = frame.reset_index(drop=frame.index.name in frame.columns)
        names = list(map(str, frame.columns))
        rows = (dict(zip(names, row, strict=True)) for row in frame.itertuples(False, None))
    for place, row in location.numbered(rows, "row"):
        yield place, plain(row)


def plain(value: Any) -> Any:
    """Lists for arrays, Python's numbers for numpy's, and None for what pandas calls missing."""
    if isinstance(value, Mapping):
        return map_values(plain, value)
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    is_missing = type(value).__name__ == "NAType" or value != value  # noqa: PLR0124
    return None if is_missing else value


def _has_headings(path: Path, fields: Fields) -> bool:
    _, line = next(read_lines(path), (None, ""))
    names = list(map(str.strip, line.split("\t")))
    return fields.has(names, "query_id") or fields.has(names, "query")


def _table_rows(path: Path, kind: str, fields: Fields) -> Iterator[Row]:
    cells_of_rows = _cells(path, kind)
    location, cells = next(cells_of_rows, (Location(str(path), 1), []))
    headings = list(map(str.strip, cells))
    location.check(len(headings) != 1 or ";" not in headings[0], _SEMICOLONS, "".join(headings))
    named = [name for name in headings if name not in _INDEX]
    expected = "every column once, named in the first line"
    location.check(len(named) == len(set(named)), expected, headings)
    for location, cells in cells_of_rows:
        if len(cells) > len(headings):
            raise location.wrong(f"{len(headings)} cells", cells[len(headings) :])
        row: dict[str, Any] = dict.fromkeys(named)
        for name, text in zip(headings, cells, strict=False):
            if text and name in row:
                row[name] = _read_cell(name, text, fields)
        yield location, row


def _cells(path: Path, kind: str) -> Iterator[tuple[Location, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # the module refuses cells over 128 KB unless told
    lines = io.StringIO(read_text(path), newline="")
    table = csv.reader(lines, strict=True)
    if kind == "tsv":
        table = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        for cells in table:
            if cells:
                yield Location(str(path), table.line_num), cells
    except csv.Error as error:
        raise Location(str(path), table.line_num).wrong(f"CSV ({error})") from error


def _read_cell(name: str, text: str, fields: Fields) -> Any:
    """The value of a cell: JSON where it is a list or an object, nothing, or its text."""
    if text.strip().casefold() in _EMPTY and name in fields.names("doc_id", *LABELS):
        return None
    if text[:1] in ("[", "{") and name not in fields.names(*TEXTS):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def parquet_records(path: Path) -> Iterator[Row]:
    arrow = pyarrow()
    from pyarrow import parquet

    damage = (arrow.ArrowException, ValueError, LookupError, TypeError, OverflowError, MemoryError)
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
        # whoever follows offsets that were damaged reads beside the buffers, and dies
        table.validate(full=True)
        records = table.to_pylist()
    except (*damage, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # there is no such file, or it may not be read
        raise Location(str(path)).wrong("a Parquet file", str(error)) from error
    for place, record in Location(str(path)).numbered(records, "row"):
        yield place, plain(record)


def pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("a Parquet file", "batch") from error
    return pyarrow
