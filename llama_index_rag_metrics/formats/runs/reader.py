"""Reading a source of any form, query by query or record by record."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from llama_index_rag_metrics.errors import InvalidInput, UnknownFormat
from llama_index_rag_metrics.formats.cells import read_cell
from llama_index_rag_metrics.formats.delimited import read_table
from llama_index_rag_metrics.formats.fields import LISTS, QUERY_ID, is_long
from llama_index_rag_metrics.formats.file_kinds import kind_of, name_of
from llama_index_rag_metrics.formats.frame import frame_table, is_frame, records_of
from llama_index_rag_metrics.formats.lines import Faults, Place, from_json, read_lines, read_text
from llama_index_rag_metrics.formats.records import read_id
from llama_index_rag_metrics.formats.registered import FORMATS
from llama_index_rag_metrics.formats.runs.arrow import column_names, read_arrow
from llama_index_rag_metrics.formats.runs.mistaken import read_as
from llama_index_rag_metrics.formats.runs.records import (
    Records,
    as_record,
    check_long,
    column_fields,
    rename,
    renamed,
    warn_unread,
)
from llama_index_rag_metrics.formats.trec import COMMENT

T = TypeVar("T")


class Reader(ABC, Generic[T]):
    """A source of any form, read query by query or record by record."""

    kind: ClassVar[str]
    loader: ClassVar[str]
    understood: ClassVar[tuple[str, ...]]
    formats: ClassVar[tuple[str, ...]]
    name = ""
    make_records: ClassVar[Callable[[], Records[Any]]]

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        self.whole: dict[str, T] = {}
        self._records: Records[T] = type(self).make_records()
        self._fields = column_fields(columns or {})
        self._named: set[frozenset[str]] = set()

    def record(self, record: Mapping[str, Any], place: Place) -> None:
        """Read a record of one query or of one document."""
        self._records.add(record, place)

    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        """What reads the rows, of one document each, of a table with these columns."""
        return self._records.row_reader(names)

    @abstractmethod
    def value(self, value: Any, place: Place) -> T:
        """Read what a mapping has for one query."""

    @abstractmethod
    def lines(self, path: Path, form: str, faults: Faults) -> None:
        """Read a file of a format of TREC's or BEIR's."""

    @abstractmethod
    def text_form(self, columns: list[str]) -> str:
        """The format of a text file whose first line has these columns."""

    def result(self) -> dict[str, T]:
        """All that was read."""
        return {**self.whole, **self._records.by_query()}

    def read(self, source: Any, form: str | None, faults: Faults) -> None:
        """Read a source of any form, and warn of fields that are called nearly like others."""
        self._read(source, form, faults)
        is_path = isinstance(source, (str, os.PathLike))
        warn_unread(str(source) if is_path else f"this {type(source).__name__}", self._named)
        self._named.clear()

    def _read(self, source: Any, form: str | None, faults: Faults) -> None:
        if isinstance(source, (str, os.PathLike)):
            with read_as(self.kind, Path(source), form, self._fields):
                self._read_path(Path(source), form, faults)
            return
        if form is not None:
            raise InvalidInput("format", form, "a path to a file of that format as the source")
        place = Place(f"this {type(source).__name__}")
        if is_frame(source):
            names, rows = frame_table(source)
            fields = rename(names, self._fields)
            check_long(fields, Place("the data frame"))
            if is_long(fields):
                self._named.add(frozenset(fields))
                faults.each(rows, self.row_reader(fields))
            else:
                faults.each(records_of(names, rows), self._plain_record)
        elif isinstance(source, Mapping):
            self.read_value(source, place, faults)
        elif hasattr(source, "to_dict"):
            self.name = str(getattr(source, "name", None) or "")
            self.read_value(source.to_dict(), place, faults)
        elif isinstance(source, Iterable):
            self._read_items(source, place, faults)
        else:
            raise UnknownFormat(
                place.path, "it has none of their attributes", self.understood, self.kind
            )

    def _read_path(self, path: Path, form: str | None, faults: Faults) -> None:
        if form is not None and form not in self.formats and form not in FORMATS:
            raise InvalidInput("format", form, f"one of {', '.join((*self.formats, *FORMATS))}")
        if path.is_dir():
            raise UnknownFormat(str(path), "it is a folder", self.understood, self.kind)
        self.name = name_of(path)
        form = form or self.form_of(path)
        if form == "jsonl":
            faults.each(read_lines(path, faults), self._json_record)
        elif form == "json":
            self._read_json(path, faults)
        elif form in ("csv", "tsv"):
            names, rows = read_table(path, "," if form == "csv" else "\t", faults)
            names = rename([name.strip() for name in names], self._fields)
            check_long(names, Place(str(path), 1))
            self._read_table(names, rows, faults)
        elif form in ("parquet", "arrow"):
            kind: Literal["parquet", "arrow"] = "parquet" if form == "parquet" else "arrow"
            self._named.add(frozenset(rename(column_names(path, kind), self._fields)))
            faults.each(read_arrow(path, kind), self._plain_record)
        elif form in FORMATS:
            self.read(FORMATS[form].load(path, self.loader), None, faults)
        elif form != "empty":
            self.lines(path, form, faults)

    def form_of(self, path: Path) -> str:
        """Which of the formats a file is in, "empty" if there is nothing in it."""
        if path.exists() and not path.is_file():
            return "trec"  # a pipe can be read once only, so that its beginning can't tell
        kind = kind_of(path)
        if kind not in ("text", "tsv"):
            return kind
        lines = (line for _, line in read_lines(path, Faults("skip")))
        first = next((line for line in lines if not line.startswith(COMMENT)), None)
        return "empty" if first is None else self.text_form(first.split("\t"))

    def _read_json(self, path: Path, faults: Faults) -> None:
        text, place = read_text(path), Place(str(path))
        if text.strip():
            self.read_value(from_json(text, place), place, faults)

    def read_value(self, data: object, place: Place, faults: Faults) -> None:
        """Read what a JSON file or a mapping holds."""
        if isinstance(data, Mapping):
            items = (
                (Place(f"{place.path}, query {query_id!r}"), (query_id, value))
                for query_id, value in data.items()
            )
            faults.each(items, self._entry)
        elif isinstance(data, list):
            self._read_items(data, place, faults)
        else:
            raise place.wrong("{query id: …} or a list of records", data)

    def _read_items(self, items: Iterable[object], place: Place, faults: Faults) -> None:
        numbered = ((place.item(number), item) for number, item in enumerate(items, 1))
        faults.each(numbered, self._plain_record)

    def _entry(self, pair: tuple[object, object], place: Place) -> None:
        query_id = read_id(pair[0], place)
        if query_id in self.whole:
            raise place.wrong("every query id once", query_id)
        self.whole[query_id] = self.value(pair[1], place)

    def _json_record(self, line: str, place: Place) -> None:
        record = from_json(line, place)
        if not isinstance(record, dict):
            raise place.wrong("a record, {field: value}", line)
        self._plain_record(record, place)

    def _plain_record(self, record: Any, place: Place) -> None:
        fields = as_record(renamed(record, self._fields), place)
        self._named.add(frozenset(fields))
        self.record(fields, place)

    def _read_table(
        self, names: list[str], rows: Iterable[tuple[Place, list[str]]], faults: Faults
    ) -> None:
        """Read a table of texts."""
        self._named.add(frozenset(names))

        def read(cells: list[str], place: Place) -> None:
            fields = {
                name: read_cell(text, place) if name in LISTS else text
                for name, text in zip(names, cells, strict=True)
                if text
            }
            self.record(fields, place)

        faults.each(rows, self.row_reader(names) if is_long(names) else read)


def is_heading(columns: Sequence[str]) -> bool:
    """Whether these are the names of a table's columns, and not its first row."""
    return bool({*QUERY_ID} & {name.strip() for name in columns})
