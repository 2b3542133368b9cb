"""Where a cache keeps its values: in memory, or in one file of SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from tenacity import retry, retry_if_exception, stop_after_delay
from tenacity.wait import wait_random

from llama_index_rag_metrics.runtime.atomic_files import open_private
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import in_thread

_BUSY_SECONDS = 30.0
_LONGEST_PAUSE = 0.02
_TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
_SELECT = "SELECT key, value FROM entries WHERE key IN (SELECT value FROM json_each(?))"


class Store(Protocol):
    """Values by their keys."""

    async def read(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of those keys that have one."""

    async def write(self, values: Mapping[str, Any]) -> None:
        """Keep all of them, or none."""


class MemoryStore:
    """Values in memory."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def read(self, keys: Iterable[str]) -> dict[str, Any]:
        return {key: self.values[key] for key in keys if key in self.values}

    async def write(self, values: Mapping[str, Any]) -> None:
        self.values |= values


class SQLiteStore:
    """Values in one file, which several processes may use at once.

    Written ahead (WAL): a killed process loses nothing that was written; a power cut may lose what
    was written last. Needs a local disk: SQLite's locks don't work on network file systems.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_symlink():
            remedy = "It is a link. Give the path of the file itself."
            raise InvalidInput("cache", str(path), "the path of a file", remedy)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    async def read(self, keys: Iterable[str]) -> dict[str, Any]:
        return await in_thread(self._read, list(keys))

    async def write(self, values: Mapping[str, Any]) -> None:
        await in_thread(self._write, dict(values))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _read(self, keys: list[str]) -> dict[str, Any]:
        values = {}
        with self._connected() as connection:
            for key, text in connection.execute(_SELECT, (json.dumps(keys),)):
                with suppress(ValueError, RecursionError, TypeError):  # a damaged one isn't there
                    values[key] = json.loads(text)
        return values

    def _write(self, values: Mapping[str, Any]) -> None:
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            # SQLite forbids carrying a connection over into a forked process
            if self._connection is None or self._process != os.getpid():
                self._connection = self._open()
                self._process = os.getpid()
            yield self._connection

    # SQLite doesn't wait, whatever its timeout, where another process makes the file's journal
    @retry(
        retry=retry_if_exception(lambda error: "database is locked" in str(error)),
        wait=wait_random(0, _LONGEST_PAUSE),
        stop=stop_after_delay(_BUSY_SECONDS),
        reraise=True,
    )
    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # only its owner may read what was asked; SQLite's further files have the same permissions
        os.close(open_private(self.path, os.O_RDWR))
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
        except BaseException:
            connection.close()
            raise
        return connection

    def __del__(self) -> None:
        if "_lock" in vars(self):
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)
