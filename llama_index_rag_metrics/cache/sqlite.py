"""LlamaIndex's key-value store on SQLite: the cache's own store."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from llama_index.core.storage.kvstore.types import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_COLLECTION,
    BaseKVStore,
)

from llama_index_rag_metrics.sync import in_thread

_BUSY_SECONDS = 30.0
_MOST_PARAMETERS = 500
"""Keys in one SELECT; SQLite before 3.32 takes 999 parameters."""


class SQLiteKVStore(BaseKVStore):
    """A key-value store of LlamaIndex in one file of SQLite.

    Written ahead (WAL): a killed process loses nothing that was put, and several processes may use
    the file at once. A power cut may lose what was put last. Needs a local disk: SQLite's locks
    don't work on network file systems.

    Args:
        path: the file; it and its folder are made where they don't exist.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = SQLiteKVStore(Path(folder) / "store.sqlite")
        ...     store.put("a", {"value": 1})
        ...     print(store.get("a"), store.get("b"), store.delete("a"))
        ...     store.close()
        {'value': 1} None True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        self.put_all([(key, val)], collection)

    async def aput(
        self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION
    ) -> None:
        await in_thread(self.put, key, val, collection)

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Put all of them at once, or none; `batch_size` has no effect."""
        rows = [(collection, key, json.dumps(val)) for key, val in kv_pairs]
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    async def aput_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        await in_thread(self.put_all, kv_pairs, collection, batch_size)

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        return self.get_many([key], collection).get(key)

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        return await in_thread(self.get, key, collection)

    def get_many(
        self, keys: Sequence[str], collection: str = DEFAULT_COLLECTION
    ) -> dict[str, dict[str, Any]]:
        """The values of those keys that are there."""
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(keys), _MOST_PARAMETERS):
            some = keys[start : start + _MOST_PARAMETERS]
            marks = ", ".join("?" * len(some))
            found |= self._select(f"AND key IN ({marks})", collection, *some)
        return found

    async def aget_many(
        self, keys: Sequence[str], collection: str = DEFAULT_COLLECTION
    ) -> dict[str, dict[str, Any]]:
        """The asynchronous twin of `get_many`."""
        return await in_thread(self.get_many, keys, collection) if keys else {}

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        return self._select("", collection)

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        return await in_thread(self.get_all, collection)

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        with self._connected() as connection:
            statement = "DELETE FROM entries WHERE collection = ? AND key = ?"
            return connection.execute(statement, (collection, key)).rowcount > 0

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        return await in_thread(self.delete, key, collection)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _select(self, condition: str, *values: str) -> dict[str, dict[str, Any]]:
        statement = f"SELECT key, value FROM entries WHERE collection = ? {condition}"
        with self._connected() as connection:
            rows = connection.execute(statement, values).fetchall()
        found: dict[str, dict[str, Any]] = {}
        for key, value in rows:
            with suppress(ValueError, RecursionError):  # what was damaged isn't there
                found[key] = json.loads(value)
        return found

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            # SQLite forbids carrying a connection over into a forked process
            if self._connection is None or self._process != os.getpid():
                self._connection = self._open()
                self._process = os.getpid()
            yield self._connection

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # only its owner may read what was asked; SQLite's further files have the same permissions
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS entries (collection TEXT, key TEXT, value TEXT, "
                "PRIMARY KEY (collection, key)) WITHOUT ROWID"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def __del__(self) -> None:
        if "_lock" in vars(self):
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)
