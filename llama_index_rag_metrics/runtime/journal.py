"""A journal: rows on disk, line by line, so that an interrupted run can go on.

A file of JSON lines: a header first, then a row a line, handed to the operating system at once. So
a killed process loses no finished row; a power cut may lose the last ones. A last line that was
torn by a kill is cut off. A file with another header is never written to. One run at a time. Only
its owner may read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout
from typing_extensions import Self

from .atomic_files import naming_errors, open_private
from .errors import FileFormatError, InvalidInput, JournalMismatch

T = TypeVar("T")

_encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make one for every row


class JsonLinesJournal(Generic[T]):
    """An append-only file of rows; `rows` are those of earlier runs, as `parse` read them."""

    def __init__(
        self, path: str | Path, header: Mapping[str, str], parse: Callable[[dict[str, Any]], T]
    ) -> None:
        self.path = Path(path)
        with ExitStack() as opened:
            opened.callback(_locked(self.path).release)
            # unbuffered: what a full disk refused isn't tried again behind our back
            file = open(self.path, "a+b", buffering=0, opener=open_private)  # noqa: SIM115
            self._file = opened.enter_context(file)
            self.written = date.fromtimestamp(self.path.stat().st_mtime)
            self.rows = self._read(header, parse)
            self._opened = opened.pop_all()  # the file stays open

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
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, header: Mapping[str, str], parse: Callable[[dict[str, Any]], T]) -> list[T]:
        self._file.seek(0)
        *lines, torn = self._file.read().split(b"\n")
        if not lines:
            if not _to_line(header).startswith(torn):
                raise _damaged(self.path, 1)
            self._file.truncate(0)
            self.write(header)
            return []
        _check_header(self.path, _parsed(self.path, 1, lines[0], dict), header)
        rows = [_parsed(self.path, n, line, parse) for n, line in enumerate(lines[1:], start=2)]
        if torn:
            self._file.truncate(sum(len(line) + 1 for line in lines))
        return rows


def read_journal(path: Path, read: Callable[[dict[str, Any]], T]) -> tuple[dict[str, str], list[T]]:
    """Read the header and the whole rows at a path, which isn't opened; nothing if it has none."""
    if not path.is_file():
        return {}, []
    header, *rows = path.read_bytes().split(b"\n")[:-1] or [b""]
    try:
        return _parsed(path, 1, header, dict), [_parsed(path, 2, row, read) for row in rows]
    except FileFormatError:
        return {}, []


def _parsed(path: Path, number: int, line: bytes, read: Callable[[dict[str, Any]], T]) -> T:
    try:
        return read(json.loads(line))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _damaged(path, number) from error


def _check_header(path: Path, first_line: Mapping[str, Any], header: Mapping[str, str]) -> None:
    if not isinstance(first_line.get("format"), str):
        raise _damaged(path, 1)
    differing = []
    for aspect in {**first_line, **header}:
        now, then = header.get(aspect, ""), first_line.get(aspect, "")
        if now != then:
            differing.append(f"{aspect} is {now!r}, but the journal has {then!r}")
    if differing:
        remedy = "Give this run a journal of its own."
        aspects = "; ".join(differing)
        raise JournalMismatch(f"journal '{path}' is of another run: {aspects}. {remedy}")


def _damaged(path: Path, line: int) -> FileFormatError:
    expected, remedy = "an answer as a journal has it", "Delete the line"
    if line == 1:
        expected, remedy = "the first line of a journal written by this package", "Move it away"
    sentence = f"{path}, line {line}: expected {expected}. {remedy}, or take another journal."
    return FileFormatError(str(path), line, sentence=sentence)


def _locked(path: Path) -> FileLock:
    lock_path = path.with_name(f".{path.name}.lock")
    remedy = ""
    if path.is_dir():
        remedy = "That is a folder."
    elif path.is_symlink() or lock_path.is_symlink():
        remedy = f"It or {lock_path.name} is a link. Give the path of the file itself."
    else:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            remedy = "Its folder is a file."
    if remedy:
        raise InvalidInput("journal", str(path), "the path of a file", remedy)
    # a journal may be closed in another thread than the one that opened it
    lock = FileLock(lock_path, timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        sentence = f"journal '{path}' is in use by another run: wait, or use another path."
        raise JournalMismatch(sentence) from error
    return lock


def _to_line(row: Mapping[str, Any]) -> bytes:
    return _encode(row).encode("utf-8", "surrogatepass") + b"\n"
