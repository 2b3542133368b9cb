"""Tables: CSV and TSV, data frames of pandas and polars, and Arrow tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.lines import Place, read_lines, read_text
from llama_index_rag_metrics.files.records import read_relevance, read_texts
from llama_index_rag_metrics.rankings.judging.arrow import check_undamaged
from llama_index_rag_metrics.runtime.errors import FileFormatError

if TYPE_CHECKING:
    pass


def is_frame(source: object) -> bool:
    # a polars lazy frame has columns, too, and warns when it is asked for them
    is_other = any(hasattr(source, method) for method in ("collect", "iter_rows", "to_pandas"))
    return is_other or (hasattr(source, "columns") and hasattr(source, "to_dict"))


def frame_records(frame: Any) -> Iterator[tuple[Place, dict[str, Any]]]:
    return records_of(*frame_table(frame))


def records_of(
    names: Sequence[str], rows: Iterable[tuple[Place, Sequence[Any]]]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    for place, values in rows:
        yield place, {name: _plain(value) for name, value in zip(names, values, strict=True)}


def frame_table(frame: Any) -> tuple[list[str], Iterator[tuple[Place, Sequence[Any]]]]:
    """Columns and rows of any table, or of what has `to_pandas`; a named index is a column."""
    place = Place("the data frame")
    if hasattr(frame, "collect"):
        frame = frame.collect()
    if hasattr(frame, "iter_rows"):
        return list(frame.columns), place.numbered(frame.iter_rows(), "row")
    if hasattr(frame, "to_pylist"):
        check_undamaged(frame)  # takes no time beside making Python's objects of it
        batches = frame.to_batches() if hasattr(frame, "to_batches") else [frame]
        columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
        rows = (row for lists in columns for row in zip(*lists, strict=True))
        return list(frame.schema.names), place.numbered(rows, "row")
    if hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    if frame.index.name is not None:
        frame = frame.reset_index()
    rows = frame.itertuples(index=False, name=None)
    return list(map(str, frame.columns)), place.numbered(rows, "row")


def _plain(value: Any) -> Any:
    """Lists for arrays, Python's numbers for numpy's, and None for what pandas calls missing."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    is_missing = type(value).__name__ == "NAType" or value != value  # noqa: PLR0124
    return None if is_missing else value


def read_table(path: Path, delimiter: str) -> tuple[list[str], Iterator[tuple[Place, list[str]]]]:
    """Headings and rows of equal length; cells may be quoted with commas, not with tabs."""
    plain = ((place, line.split(delimiter)) for place, line in read_lines(path))
    rows = _quoted(path) if delimiter == "," else plain
    headings = next(rows, (None, []))[1]
    return headings, _below(rows, len(headings))


def _below(
    rows: Iterator[tuple[Place, list[str]]], width: int
) -> Iterator[tuple[Place, list[str]]]:
    for place, cells in rows:
        if len(cells) > width:
            raise place.wrong(f"{width} cells", cells[width:])
        if cells:
            yield place, cells + [""] * (width - len(cells))


def _quoted(path: Path) -> Iterator[tuple[Place, list[str]]]:
    table = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    while True:
        # the csv module refuses cells over 128 KB unless told, and can be told for all only
        limit = csv.field_size_limit(2**31 - 1)
        try:
            cells = next(table, None)
        except csv.Error as error:
            raise Place(str(path), table.line_num).wrong(f"CSV ({error})") from error
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        yield Place(str(path), table.line_num), cells


_TEXTS = frozenset(f.EXPECTED_TEXTS)
_PYTHON_LISTS = ("['", '["')
"""How a list of texts begins as Python prints it, or in JSON that is broken."""

LISTED = frozenset({*f.RELEVANCE, *_TEXTS, HISTORY})


def read_field(name: str, text: str, place: Place) -> object:
    """The value of a cell; in a field of texts, what only looks like a list is a text."""
    value = read_cell(text)
    if isinstance(value, str) and name in _TEXTS and value.startswith(_PYTHON_LISTS):
        expected = 'texts as JSON writes a list, ["one", "two"]: json.dumps(list) makes it'
        raise place.wrong(expected, text)
    if value is None or isinstance(value, str) or name not in LISTED or name == HISTORY:
        return value
    if name not in _TEXTS:  # no id looks like a list or an object
        return read_relevance(value, place)
    try:
        return read_texts(value, place)
    except FileFormatError:
        return text


def read_cell(text: str) -> object:
    if not text:
        return None
    if text[0] not in "[{":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
