"""One stream of rows, whatever the source: files by their ending, frames, mappings, records."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.rankings.judging.arrow import check_undamaged
from llama_index_rag_metrics.runtime.errors import FileFormatError, MissingExtra
from llama_index_rag_metrics.runtime.masking import shorten

from .fields import ATTRIBUTES, EXAMPLE, LABELS, LISTS, TEXTS, Fields
from .lines import Location, from_json, name_of, read_lines, read_text, without_packing

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = tuple[Location, dict[str, Any]]
"""Where it was read, and its fields, None where they have no value."""

KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_EMPTY = {"", "nan", "NaN", "None", "NULL", "null", "<NA>"}
"""What stands for nothing in a column of labels."""

_INDEX = ("", "Unnamed: 0")
"""How pandas heads an index in CSV."""

_SEMICOLONS = (
    "commas between cells, not semicolons: "
    "pandas.read_csv(path, sep=';').to_csv(path, index=False) writes them"
)
_RECORD = f"a record, {{field: value}}, such as {EXAMPLE}"
_ROWS_AT_ONCE = 16_384


class Source(NamedTuple):
    """A source that is opened: rows, or one value, of which its kind makes rows.

    Attributes:
        value: a mapping, such as {query id: ids}, instead of rows.
        is_trec: whether it is a file with TREC's columns, which its reader opens.
        fault: why it is no source at all, or "".
    """

    name: str
    location: Location
    rows: Iterable[Row] = ()
    value: Mapping[Any, Any] | None = None
    is_trec: bool = False
    fault: str = ""


def kind_of(path: Path) -> str:
    """The kind that the ending says, compression apart; "trec" where it says nothing."""
    return KINDS.get(Path(without_packing(path)).suffix, "trec")


def open_source(source: Any, fields: Fields) -> Source:
    """Open a file or an object; a folder is left to whoever reads folders."""
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source), fields)
    location, name = Location(f"this {type(source).__name__}"), ""
    if is_frame(source):
        return Source(name, location, _frame_rows(source, fields))
    if not isinstance(source, (Mapping, Iterable)) and hasattr(source, "to_dict"):  # ranx
        name, source = str(getattr(source, "name", None) or ""), source.to_dict()
    if isinstance(source, Mapping):
        return Source(name, location, value=source)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return Source(name, location, records_of(location.numbered(source)))
    return Source(name, location, fault="it has none of their attributes")


def _open_path(path: Path, fields: Fields) -> Source:
    path.stat()  # where there is no such file, that is what is wrong with it
    kind, name, location = kind_of(path), name_of(path), Location(str(path))
    if kind == "jsonl":
        lines = ((line, from_json(text, line)) for line, text in read_lines(path))
        return Source(name, location, records_of(lines))
    if kind == "json":
        return _open_json(path, name, location)
    if kind == "csv" or (kind == "tsv" and _has_headings(path, fields)):
        return Source(name, location, _table_rows(path, kind, fields))
    if kind in ("parquet", "arrow"):
        return Source(name, location, _arrow_rows(path, kind, fields))
    return Source(name, location, is_trec=True)


def _open_json(path: Path, name: str, location: Location) -> Source:
    text = read_text(path)
    if not text.strip():
        return Source(name, location)
    value = from_json(text, location)
    if isinstance(value, Mapping):
        return Source(name, location, value=value)
    if isinstance(value, list):
        return Source(name, location, records_of(location.numbered(value)))
    return Source(name, location, fault=f"it holds {shorten(value)}")


def records_of(items: Iterable[tuple[Location, Any]]) -> Iterator[Row]:
    for location, item in items:
        record = item
        if hasattr(item, "model_dump"):
            record = item.model_dump()
        elif not isinstance(item, Mapping):
            record = {name: getattr(item, name) for name in ATTRIBUTES if hasattr(item, name)}
        location.check(record, _RECORD, item)
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
        check_undamaged(frame)  # takes no time beside making Python's objects of it
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


def _frame_rows(frame: Any, fields: Fields) -> Iterator[Row]:
    rows = list(frame_records(frame, Location("the data frame")))
    yield from _with_lists(rows, fields)


def _with_lists(rows: Sequence[Row], fields: Fields) -> Iterator[Row]:
    """The rows; in a column of texts alone, lists and what is missing may stand as text."""
    columns = set(fields.names(*LISTS, "expected_texts", "retrieved_spans"))
    for _, row in rows:
        columns -= {
            name for name in columns if not isinstance(row.get(name, ""), (str, type(None)))
        }
    for location, row in rows:
        cells = {name: row[name] for name in columns if row.get(name) is not None}
        values = {name: read_cell(name, text, fields, location) for name, text in cells.items()}
        yield location, row | values


def plain(value: Any) -> Any:
    """Lists for arrays, Python's numbers for numpy's, and None for what pandas calls missing."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    is_missing = type(value).__name__ == "NAType" or value != value  # noqa: PLR0124
    if is_missing:
        return None
    return value


def _has_headings(path: Path, fields: Fields) -> bool:
    _, line = next(read_lines(path), (None, ""))
    names = [name.strip() for name in line.split("\t")]
    return fields.has(names, "query_id") or fields.has(names, "query")


def _table_rows(path: Path, kind: str, fields: Fields) -> Iterator[Row]:
    rows = _quoted(path) if kind == "csv" else _tabbed(path)
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
            texts = zip(headings, cells, strict=False)
            row = {name: read_cell(name, text, fields, location) for name, text in texts if text}
            yield location, {name: row.get(name) for name in named}


def _tabbed(path: Path) -> Iterator[tuple[Location, list[str]]]:
    for location, line in read_lines(path):
        yield location, line.split("\t")


def _quoted(path: Path) -> Iterator[tuple[Location, list[str]]]:
    table = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    while True:
        # the csv module refuses cells over 128 KB unless told, and can be told for all only
        limit = csv.field_size_limit(2**31 - 1)
        try:
            cells = next(table, None)
        except csv.Error as error:
            raise Location(str(path), table.line_num).wrong(f"CSV ({error})") from error
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        yield Location(str(path), table.line_num), cells


_PYTHON_LISTS = ("['", '["')
"""How a list of texts begins as Python prints it, or in JSON that is broken."""


def read_cell(name: str, text: str, fields: Fields, location: Location) -> Any:
    """The value of a cell: JSON where it is a list or an object, nothing, or its text."""
    if text in _EMPTY and name in fields.names("doc_id", *LABELS):
        return None
    if text[:1] not in ("[", "{") or name in fields.names(*TEXTS):
        return text
    value = _json_or_text(text)
    if name not in fields.names("expected_texts"):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    # in a field of texts, what only looks like a list is a text
    expected = 'texts as JSON writes a list, ["one", "two"]: json.dumps(list) makes it'
    is_broken = value is text and text.startswith(_PYTHON_LISTS)
    location.check(not is_broken, expected, text)
    return text


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _arrow_rows(path: Path, kind: str, fields: Fields) -> Iterator[Row]:
    location = Location(str(path))
    records = (row for batch in _batches(path, kind) for row in batch.to_pylist())
    rows = [(place, plain(row)) for place, row in location.numbered(records, "row")]
    yield from _with_lists(rows, fields)


def _batches(path: Path, kind: str) -> Iterator[pa.RecordBatch]:
    if not path.stat().st_size:
        return
    with _reading(path, kind):
        for batch in (_parquet if kind == "parquet" else _ipc)(path):
            # whoever follows offsets that were damaged reads beside the buffers, and dies of it
            batch.validate(full=True)
            yield batch


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    # a buffer would hold the whole file in memory
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        yield from file.iter_batches(_ROWS_AT_ONCE)


def _ipc(path: Path) -> Iterator[pa.RecordBatch]:
    from pyarrow import ipc, memory_map

    with memory_map(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        if not is_file:
            yield from ipc.open_stream(file)
            return
        reader = ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    arrow = pyarrow()
    damage = (arrow.ArrowException, ValueError, LookupError, TypeError, OverflowError, MemoryError)
    try:
        yield
    except FileFormatError:
        raise
    except (*damage, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # there is no such file, or it may not be read
        expected = {"parquet": "a Parquet file", "arrow": "an Arrow IPC or Feather file"}[kind]
        raise Location(str(path)).wrong(expected, str(error)) from error


def pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("a Parquet or Arrow file", "batch") from error
    return pyarrow
