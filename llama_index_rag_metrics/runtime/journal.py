"""A journal: rows on disk, line by line, so that an interrupted run can go on.

A file of JSON lines: a format and a fingerprint first, then a row a line, handed to the operating
system at once. So a killed process loses no finished row; a power cut may lose the last ones.

Each line ends in a checksum. A damaged row is dropped with a warning, and asked for again; a last
line that was torn by a kill is cut off. A file that doesn't begin as a journal of the same format
is never written to. One process at a time. Only its owner may read it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar, Generic, TypeVar
from zlib import crc32

from filelock import FileLock, Timeout
from typing_extensions import Self

from llama_index_rag_metrics.runtime.atomic_files import naming_errors, open_private, whole_file
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    JournalBusy,
    JournalDamaged,
    JournalMismatch,
    RowsDropped,
)

T = TypeVar("T")

_CHECK = b'"crc32": "%08x"}'
_CHECK_LENGTH = len(_CHECK % 0)
_ONLY_THE_OWNER = 0o600

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""What reading a row that isn't as it was written may raise."""


_encode = json.JSONEncoder(ensure_ascii=False).encode
"""`json.dumps` would make an encoder for every row."""


class JsonLinesJournal(Generic[T]):
    """An append-only file of rows; `rows` are those of an earlier run, as `parse` read them."""

    _open: ClassVar[set[tuple[int, Path]]] = set()
    """The process and the file of each open journal: locks don't tell whose they are."""

    def __init__(
        self,
        path: str | Path,
        form: str,
        fingerprint: Mapping[str, str],
        parse: Callable[[dict[str, Any]], T],
    ) -> None:
        self.path = Path(path)
        self._parse = parse
        self._holder = os.getpid(), self.path.absolute()
        self._lock = _locked(self.path, is_ours=self._holder in self._open)
        self._open.add(self._holder)
        try:
            self._file = self._opened()
            self.rows = self._read(form, fingerprint)
        except BaseException:
            self.close()
            raise

    def write(self, row: Mapping[str, Any]) -> None:
        line = memoryview(_to_line(row))
        with naming_errors(self.path):
            end = self._file.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[self._file.write(line) :]
            except BaseException:
                self._file.truncate(end)  # half a row would spoil the next one, too
                raise

    def close(self) -> None:
        if "_file" in vars(self):
            self._file.close()
        self._open.discard(self._holder)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> IO[bytes]:
        # unbuffered: what a full disk refused isn't tried again behind our back
        return open(self.path, "a+b", buffering=0, opener=open_private)

    def _read(self, form: str, fingerprint: Mapping[str, str]) -> list[T]:
        self._file.seek(0)
        *lines, torn = self._file.read().split(b"\n")
        if not lines:
            self._begin(torn, {"format": form, "fingerprint": dict(fingerprint)})
            return []
        self._check(lines[0], form, fingerprint)
        rows: list[T] = []
        damaged: dict[int, bytes] = {}
        for number, line in enumerate(lines[1:], 2):
            try:
                rows.append(self._parse(_from_line(line)))
            except UNREADABLE:
                damaged[number] = line
        if damaged:
            whole = (line for n, line in enumerate(lines, 1) if n not in damaged)
            self._file.close()
            with whole_file(self.path) as partial:
                partial.write_bytes(b"".join(line + b"\n" for line in whole))
            self._file = self._opened()
            warnings.warn(RowsDropped.of(str(self.path), [*damaged]), stacklevel=4)
        elif torn:
            self._file.truncate(sum(len(line) + 1 for line in lines))
        return rows

    def _begin(self, torn: bytes, header: Mapping[str, Any]) -> None:
        begin = _to_json({"format": header["format"]})[:-1]
        if not (torn.startswith(begin) or begin.startswith(torn)):
            raise JournalDamaged(str(self.path))
        self._file.truncate(0)
        self.write(header)

    def _check(self, line: bytes, form: str, fingerprint: Mapping[str, str]) -> None:
        try:
            header = json.loads(line)
            kept, kept_form = header["fingerprint"], header["format"]
            name = kept_form.rpartition(",")[0]
            is_older = kept_form != form and name == form.rpartition(",")[0] != ""
            is_header = is_older or (_from_line(line)["format"] == form and isinstance(kept, dict))
        except UNREADABLE as error:
            raise JournalDamaged(str(self.path)) from error
        if not is_header:
            raise JournalDamaged(str(self.path))
        if is_older:
            raise JournalMismatch(str(self.path), {"format": (kept_form, form)})
        differing = {
            aspect: (kept.get(aspect, ""), fingerprint.get(aspect, ""))
            for aspect in {**kept, **fingerprint}
            if kept.get(aspect) != fingerprint.get(aspect)
        }
        if differing:
            raise JournalMismatch(str(self.path), differing)


def read_fingerprint(path: Path) -> dict[str, str]:
    """The fingerprint of the journal at a path, which isn't opened; {} where there is none."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        line = file.readline()
    try:
        fingerprint = json.loads(line)["fingerprint"]
        return {str(aspect): str(value) for aspect, value in fingerprint.items()}
    except UNREADABLE:
        return {}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The undamaged rows of the journal at a path, which isn't opened; [] where there is none."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_bytes().split(b"\n")[1:-1]:
        with suppress(*UNREADABLE):
            rows.append(_from_line(line))
    return rows


def _locked(path: Path, *, is_ours: bool) -> FileLock:
    if path.is_dir():
        raise InvalidInput("journal", str(path), "the path of a file", "That is a folder.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        remedy = "Its folder is a file."
        raise InvalidInput("journal", str(path), "the path of a file", remedy) from error
    name = path.with_name(f".{path.name}.lock")
    for link in (path, name):
        if link.is_symlink():
            remedy = "It is a link. Give the path of the file itself."
            raise InvalidInput("journal", str(link), "the path of a file", remedy)
    if is_ours:
        raise JournalBusy(str(path), "this process")
    # a journal may be closed in another thread than the one that opened it
    lock = FileLock(name, timeout=0, mode=_ONLY_THE_OWNER, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise JournalBusy(str(path), "another process") from error
    return lock


def _to_line(row: Mapping[str, Any]) -> bytes:
    content = _to_json(row)
    separator = b", " if row else b""
    return content[:-1] + separator + _CHECK % crc32(content) + b"\n"


def _from_line(line: bytes) -> dict[str, Any]:
    content = line[:-_CHECK_LENGTH].removesuffix(b", ") + b"}"
    if line[-_CHECK_LENGTH:] != _CHECK % crc32(content):
        raise ValueError(line[-_CHECK_LENGTH:])
    row: dict[str, Any] = json.loads(content)
    return row


def _to_json(row: Mapping[str, Any]) -> bytes:
    return _encode(row).encode("utf-8", "surrogatepass")
