"""Text in and out of files: gzip, byte order marks and line ends are dealt with here, once."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from llama_index_rag_metrics.runtime.atomic_files import json_text, whole_file
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

T = TypeVar("T")
_STEP = 1 << 20
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)


class LacksField(FileFormatError):
    """A record or a table lacks a field under all of its names."""

    def __init__(self, path: str, line: int | None, field: str, names: Sequence[str]) -> None:
        self.field, self.names = field, names
        way = "columns={field: your column}"
        super().__init__(path, line, f"{field}, or {way} to say what it is called here", names)

    def worded(self, way: str) -> str:
        """The message, with another way to name the column, or with none."""
        remedy = f", or {way} to say what it is called here" if way else ""
        return str(FileFormatError(self.path, self.line, f"{self.field}{remedy}", self.names))


class Place(NamedTuple):
    """Where something was read, for the errors about it."""

    path: str
    line: int | None = None
    is_ours: bool = False
    """Whether this package wrote it as it was retrieved, so that ids may be empty."""

    def wrong(self, expected: str, value: object = "") -> FileFormatError:
        return FileFormatError(self.path, self.line, expected, value)

    def check(self, is_right: object, expected: str, value: object) -> None:
        if not is_right:
            raise self.wrong(expected, value)

    def lacks(self, field: str, names: Iterable[object]) -> LacksField:
        return LacksField(self.path, self.line, field, sorted(map(str, names)))

    @contextmanager
    def expecting(
        self, expected: str, *errors: type[Exception], found: object = ...
    ) -> Iterator[None]:
        """Where one of these errors is raised, say what was expected, and what was found or it."""
        try:
            yield
        except errors as error:
            raise self.wrong(expected, str(error) if found is ... else found) from error

    def numbered(self, items: Iterable[T], word: str = "record") -> Iterator[tuple[Place, T]]:
        """What is read one after another from here, and where each of it is."""
        return ((Place(f"{self.path}, {word} {n}"), item) for n, item in enumerate(items, 1))


Rows: TypeAlias = Iterable[tuple[Place, Any]]
"""What is read one after another, and where each of it is."""


def each(items: Iterable[tuple[Place, T]], read: Callable[[T, Place], object]) -> None:
    for place, item in items:
        read(item, place)


def name_of(path: Path) -> str:
    """What a file is called without its endings: bm25 for bm25.run.gz."""
    return path.name.split(".")[0]


def read_lines(path: Path) -> Iterator[tuple[Place, str]]:
    name = str(path)
    for number, raw in raw_lines(path):
        try:
            line = raw.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise Place(name, number).wrong("UTF-8 text", str(error)) from error
        if line.strip(" \t"):
            yield Place(name, number), line


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        with open_bytes(path) as file:
            for number, raw in enumerate(file, 1):
                yield number, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
    except _BROKEN_GZIP as error:
        raise Place(str(path), number + 1).wrong("a whole gzip file", str(error)) from error


def read_text(path: Path) -> str:
    raw = b""
    try:
        with open_bytes(path) as file:
            raw = file.read()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Place(str(path), line).wrong("UTF-8 text", str(error)) from error
    except _BROKEN_GZIP as error:
        raise Place(str(path)).wrong("a whole gzip file", str(error)) from error


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with whole_file(path) as partial, open_bytes(partial, "wb") as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def from_json(text: str, place: Place) -> Any:
    """Parse JSON in which no object repeats a key."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        here = Place(place.path, place.line or error.lineno)
        raise here.wrong(f"JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # more digits or brackets than Python takes
        raise place.wrong(f"JSON ({error})") from error
    except _RepeatedKeyError as error:
        raise place.wrong("every key once", error.args[0]) from None


def to_json(value: object, *, ascii_only: bool = False, indent: int | None = None) -> str:
    try:
        return json_text(value, ascii_only=ascii_only, indent=indent, allow_nan=True)
    except TypeError as error:
        raise InvalidInput("metadata", str(error), "values that JSON can hold") from error


def open_bytes(path: Path, mode: Literal["rb", "wb"] = "rb") -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, mode))
    return path.open(mode, _STEP)


class _RepeatedKeyError(Exception): ...


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for n, key in enumerate(keys) if key in keys[:n]))
    return members
