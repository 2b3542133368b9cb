"""Text in and out of files: gzip, byte order marks and line ends are dealt with here, once."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from llama_index_rag_metrics.errors import FileFormatError, InvalidInput

_SURROGATE = re.compile("[\ud800-\udfff]")
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]', re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Where something was read, for the errors about it."""

    path: str
    line: int | None = None

    def wrong(self, expected: str, found: object = "") -> FileFormatError:
        """The error to raise: what was expected here, and what was found."""
        return FileFormatError(self.path, self.line, expected, found)

    def item(self, number: int) -> Place:
        """A part of this place that has a number and no line of its own, counted from 1."""
        return Place(f"{self.path}, item {number}")


def read_lines(path: Path) -> Iterator[tuple[Place, str]]:
    """Every line that isn't blank, without its end, and where it is.

    Raises:
        FileFormatError: the file isn't UTF-8 text, or not whole.
        FileNotFoundError: there is no such file.
    """
    number = 0
    try:
        with _open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if line.strip(" \t"):
                    yield Place(str(path), number), line
    except UnicodeDecodeError as error:
        raise Place(str(path), number).wrong("UTF-8 text", str(error)) from error
    except _BROKEN_GZIP as error:
        raise Place(str(path), number + 1).wrong("a whole gzip file", str(error)) from error


def read_text(path: Path) -> str:
    """The whole text of a file.

    Raises:
        FileFormatError: the file isn't UTF-8 text, or not whole.
        FileNotFoundError: there is no such file.
    """
    raw = b""
    try:
        with _open(path, "rb") as file:
            raw = file.read()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Place(str(path), line).wrong("UTF-8 text", str(error)) from error
    except _BROKEN_GZIP as error:
        raise Place(str(path)).wrong("a whole gzip file", str(error)) from error


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines; the folder is made, and an older file stays until the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{path.name}")
    with _open(partial, "wb") as file:
        file.writelines(f"{line}\n".encode() for line in lines)
    partial.replace(path)


def from_json(text: str, place: Place) -> Any:
    """Parse JSON in which no object repeats a key.

    Raises:
        FileFormatError: it isn't JSON, or a key is repeated; names the line.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        here = Place(place.path, place.line or error.lineno)
        raise here.wrong(f"JSON ({error.msg}, column {error.colno})") from error
    except _RepeatedKeyError as error:
        here = Place(place.path, place.line or _line_of_repeated_key(text))
        raise here.wrong("every key once", error.args[0]) from None


def to_json(value: object, *, ascii_only: bool = False, indent: int | None = None) -> str:
    """JSON as legible as UTF-8 allows: half a surrogate pair is escaped.

    Raises:
        InvalidInput: JSON can't hold a value.
    """
    try:
        text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    except TypeError as error:
        raise InvalidInput("metadata", str(error), "values that JSON can hold") from error
    return to_json(value, ascii_only=True, indent=indent) if is_broken(text) else text


def is_broken(text: str) -> bool:
    """Whether the text has half a surrogate pair, which UTF-8 can't hold."""
    return _SURROGATE.search(text) is not None


def _open(path: Path, mode: Literal["rb", "wb"]) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, mode))
    return path.open(mode)


class _RepeatedKeyError(Exception):
    """An object of JSON has a key twice."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _RepeatedKeyError(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _line_of_repeated_key(text: str) -> int | None:
    keys: list[set[str]] = []
    last = None
    for token in _JSON_TOKEN.finditer(text):
        if token[0] in "{[":
            keys.append(set())
        elif token[0] in "}]":
            keys.pop()
        elif token[0] == ":" and last is not None:
            key = json.loads(last[0])
            if key in keys[-1]:
                return text.count("\n", 0, last.start()) + 1
            keys[-1].add(key)
        last = token
    return None
