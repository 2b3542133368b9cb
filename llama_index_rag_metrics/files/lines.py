"""Text in and out of files: compression, encodings and line ends are dealt with here, once."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

from llama_index_rag_metrics.runtime.atomic_files import json_text, whole_file
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

T = TypeVar("T")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_FOREIGN = {  # how files begin that are no text, and the endings that they should have
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"PAR1": ".parquet",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip or .xlsx",
}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)
_PACKED = "text; this is the content of a {} file: give it that ending, or unpack it"
_CONVERT = (
    "text in UTF-8; this looks like {}: path.write_text(path.read_text('{}'), 'utf-8') converts it"
)
_RENAMING = ", or columns={field: your column} to say what it is called here"


class Location(NamedTuple):
    """Where something was read, for the errors about it."""

    path: str
    line: int | None = None

    def wrong(self, expected: str, value: object = "") -> FileFormatError:
        return FileFormatError(self.path, self.line, expected, value)

    def check(self, is_right: object, expected: str, value: object) -> None:
        if not is_right:
            raise self.wrong(expected, value)

    def lacks(self, field: str, names: Iterable[object]) -> FileFormatError:
        return self.wrong(f"{field}{_RENAMING}", sorted(map(str, names)))

    @contextmanager
    def expecting(self, expected: str, *errors: type[Exception]) -> Iterator[None]:
        """Turn these errors into one that says what was expected here, and what was raised."""
        try:
            yield
        except errors as error:
            raise self.wrong(expected, str(error)) from error

    def numbered(self, items: Iterable[T], word: str = "record") -> Iterator[tuple[Location, T]]:
        """Yield items that are read one after another from here, each with its location."""
        for number, item in enumerate(items, 1):
            yield Location(f"{self.path}, {word} {number}"), item


def name_of(path: Path) -> str:
    """What a file is called without its endings: bm25 for bm25.run.gz."""
    return path.name.split(".")[0]


def without_packing(path: Path) -> Path:
    lower = Path(str(path).lower())
    return lower.with_suffix("") if lower.suffix in _OPENERS else lower


def open_bytes(path: Path, mode: Literal["rb", "wb"] = "rb") -> IO[bytes]:
    opener = _OPENERS.get(path.suffix.lower(), open)
    file: IO[bytes] = opener(path, mode)
    return file


def raw_lines(path: Path) -> Iterator[tuple[Location, bytes]]:
    """The lines of a text with their locations, whether \\n, \\r\\n or \\r ends them."""
    name, number = str(path), 0
    with _unpacking(path), open_bytes(path) as file:
        for line in file:
            raw = _refuse_foreign(line, path) if number == 0 else line
            # a line of Windows has its \r last; one in the middle ends a line of an old Mac
            parts = raw.splitlines(keepends=True) if b"\r" in raw[:-2] else (raw,)
            for part in parts:
                number += 1
                yield Location(name, number), part


def read_lines(path: Path) -> Iterator[tuple[Location, str]]:
    for location, raw in raw_lines(path):
        line = decoded(raw, location).rstrip("\r\n")
        if line.strip(" \t"):
            yield location, line


def read_text(path: Path) -> str:
    with _unpacking(path), open_bytes(path) as file:
        return decoded(_refuse_foreign(file.read(), path), Location(str(path)))


def decoded(raw: bytes, location: Location) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = location.line or raw.count(b"\n", 0, error.start) + 1
        nearby = raw[max(error.start - 10, 0) : error.end + 10].strip()
        value: object = nearby
        expected = _CONVERT.format("no text or another encoding", "ITS NAME")
        n_ascii = len(raw.decode("ascii", "ignore"))
        if min(raw) >= ord("\t") and 10 * n_ascii >= 9 * len(raw):  # letters with accents are few
            expected = _CONVERT.format("Windows-1252", "cp1252")
            value = nearby.decode("cp1252", "replace")
        raise location._replace(line=line).wrong(expected, value) from error


def _refuse_foreign(raw: bytes, path: Path) -> bytes:
    """Return the beginning of a file without a byte order mark; refuse what isn't UTF-8."""
    location, encoding = Location(str(path)), ""
    for start, ending in _FOREIGN.items():
        location.check(not raw.startswith(start), _PACKED.format(ending), raw[:4])
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif raw[:4].count(0) == 2:
        encoding = "utf-16-be" if raw[0] == 0 else "utf-16-le"
    location.check(not encoding, _CONVERT.format("UTF-16", encoding), "")
    return raw.removeprefix(codecs.BOM_UTF8)


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # there is no such file, or it may not be read
        raise Location(str(path)).wrong(f"a whole {path.suffix} file", str(error)) from error


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with whole_file(path) as partial, open_bytes(partial, "wb") as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def json_lines(path: Path) -> Iterator[tuple[Location, Any]]:
    return ((location, from_json(line, location)) for location, line in read_lines(path))


def from_json(text: str, location: Location) -> Any:
    """Parse JSON in which no object repeats a key."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        line = Location(location.path, location.line or error.lineno)
        raise line.wrong(f"JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # more digits or brackets than Python takes
        raise location.wrong(f"JSON ({error})") from error


def to_json(value: object, *, indent: int | None = None) -> str:
    try:
        return json_text(value, indent=indent, allow_nan=True)
    except TypeError as error:
        raise InvalidInput("metadata", str(error), "values that JSON can hold") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        repeated, _ = Counter(map(itemgetter(0), pairs)).most_common(1)[0]
        raise ValueError(f"every key once, got {repeated!r} again")
    return members
