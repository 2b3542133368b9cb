"""A journal: what was paid for, line by line on disk, so that an interrupted run can go on.

A file of JSON lines: first what the rows are of (a format and a fingerprint), then a row a line,
handed to the operating system before the next is written. So a killed process loses no finished
row; a power cut may lose the last ones, since lines aren't forced to the disk singly. A last line
that was torn by a kill is cut off when the journal is opened again; a file that doesn't begin as a
journal of the same format is never written to. One process at a time, where there are file locks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from typing_extensions import Self

from llama_index_rag_metrics.errors import (
    InvalidInput,
    JournalBusy,
    JournalDamaged,
    JournalMismatch,
)

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")


class JsonLinesJournal:
    """An append-only file of rows, open as long as the run goes on.

    Args:
        path: the file; it and its folder are made where they don't exist.
        form: the name and version of the format, which tells the file from any other.
        fingerprint: what the rows are of, by aspect.

    Attributes:
        rows: the rows that were finished before, in the order of the file.

    Raises:
        InvalidInput: the path is a folder, or lies in something that is none.
        JournalMismatch: the file is the journal of another run; says in which aspects.
        JournalDamaged: the file is no journal of this format, or a whole line can't be read.
        JournalBusy: another process is writing it.
    """

    def __init__(self, path: str | Path, form: str, fingerprint: Mapping[str, str]) -> None:
        self.path = Path(path)
        self._file = _open(self.path)
        try:
            self._lock()
            self.rows: list[dict[str, Any]] = self._read(form, fingerprint)
        except BaseException:
            self.close()
            raise

    def write(self, row: Mapping[str, Any]) -> None:
        """Keep a finished row."""
        self._file.write(_to_json(row) + b"\n")
        self._file.flush()

    def parsed(self, parse: Callable[[dict[str, Any]], T]) -> list[T]:
        """What `parse` makes of each row; the journal is closed if it can't be done.

        Raises:
            JournalDamaged: a row isn't what `parse` expects; names its line.
        """
        found = []
        for line, row in enumerate(self.rows, 2):
            try:
                found.append(parse(row))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                self.close()
                raise JournalDamaged(str(self.path), line) from error
        return found

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalBusy(str(self.path)) from error

    def _read(self, form: str, fingerprint: Mapping[str, str]) -> list[dict[str, Any]]:
        self._file.seek(0)
        lines = self._file.readlines()
        torn = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if not lines:
            self._begin(torn, {"format": form, "fingerprint": dict(fingerprint)})
            return []
        self._check(self._parse(1, lines[0]), form, fingerprint)
        rows = [self._parse(number, line) for number, line in enumerate(lines[1:], 2)]
        if torn:
            self._file.truncate(sum(map(len, lines)))
        return rows

    def _begin(self, torn: bytes, header: Mapping[str, Any]) -> None:
        ours = _to_json({"format": header["format"]})[:-1]
        if not (torn.startswith(ours) or ours.startswith(torn)):
            raise JournalDamaged(str(self.path), 1)
        self._file.truncate(0)
        self.write(header)

    def _check(self, header: Mapping[str, Any], form: str, fingerprint: Mapping[str, str]) -> None:
        theirs = header.get("fingerprint")
        if header.get("format") != form or not isinstance(theirs, dict):
            raise JournalDamaged(str(self.path), 1)
        differing = {
            aspect: (theirs.get(aspect, ""), fingerprint.get(aspect, ""))
            for aspect in {**theirs, **fingerprint}
            if theirs.get(aspect) != fingerprint.get(aspect)
        }
        if differing:
            raise JournalMismatch(str(self.path), differing)

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise JournalDamaged(str(self.path), number) from error
        if not isinstance(row, dict):
            raise JournalDamaged(str(self.path), number)
        return row


def _open(path: Path) -> IO[bytes]:
    if path.is_dir():
        raise InvalidInput("journal", str(path), "the path of a file", "That is a folder.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        remedy = "What should be its folder is a file."
        raise InvalidInput("journal", str(path), "the path of a file", remedy) from error
    return path.open("a+b")


def _to_json(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
