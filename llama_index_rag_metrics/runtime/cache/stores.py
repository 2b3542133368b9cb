"""The cache's own stores, from which each value is asked for once by however many processes."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4
from weakref import ref

from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.storage.kvstore.types import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_COLLECTION,
    BaseKVStore,
)
from tenacity import retry, retry_if_exception, stop_after_delay
from tenacity.wait import wait_random

from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.atomic_files import open_private
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import in_thread

T = TypeVar("T")
Rows: TypeAlias = dict[str, dict[str, Any]]

_BUSY_SECONDS = 30.0
_TABLES = (
    "entries (collection TEXT, key TEXT, value TEXT, PRIMARY KEY (collection, key))",
    "claims (collection TEXT, key TEXT, lease TEXT, PRIMARY KEY (collection, key))",
    "leases (lease TEXT PRIMARY KEY, since REAL, until REAL)",
)
_AMONG = "collection = ? AND key IN (SELECT value FROM json_each(?))"

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.3
"""Seconds between two looks at what others ask for."""

_RENEWALS = 5
"""How often a lease is renewed in the time in which it would lapse."""


async def read_rows(store: BaseKVStore, keys: Sequence[str], collection: str) -> Rows:
    if isinstance(store, SQLiteKVStore):
        return await store.aget_many(keys, collection)
    if isinstance(store, SimpleKVStore):
        return {key: row for key in keys if (row := store.get(key, collection))}
    values = await asyncio.gather(*(store.aget(key, collection=collection) for key in keys))
    return {key: row for key, row in zip(keys, values, strict=True) if row}


class ClaimingStore(BaseKVStore):
    """A store that knows which of its values somebody is asking for right now."""

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        self.put_all([(key, val)], collection)

    async def aput(
        self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION
    ) -> None:
        await self.aput_all([(key, val)], collection)

    @abstractmethod
    async def aclaim(
        self, keys: Sequence[str], collection: str, *, wait: bool = False
    ) -> tuple[Rows, list[str]]:
        """The rows that are there, and the keys that others ask for; `wait` while that is all."""

    @abstractmethod
    def release(self, keys: Sequence[str]) -> None:
        """Give up what was claimed and isn't put; doesn't wait."""


def _in_thread(method: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    """The asynchronous twin of a blocking method, which a subclass may have overridden."""

    async def twin(store: Any, *arguments: Any, **options: Any) -> T:
        return await in_thread(partial(getattr(store, method.__name__), *arguments, **options))

    return twin


class SQLiteKVStore(ClaimingStore):
    """A key-value store of LlamaIndex in one file of SQLite.

    Written ahead (WAL): a killed process loses nothing that was put, and several processes may use
    the file at once. A power cut may lose what was put last. Needs a local disk: SQLite's locks
    don't work on network file systems.

    Processes that share a file ask for each value once: who asks claims it, and the others wait.
    Claims are renewed while their process lives, and lapse when it has died.

    Args:
        path: the file; it and its folder are made where they don't exist.
        lapse: seconds after which others ask for what a process claimed that has died or hangs.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = SQLiteKVStore(Path(folder) / "store.sqlite")
        ...     store.put("a", {"value": 1})
        ...     print(store.get("a"), store.get("b"), store.delete("a"))
        ...     store.close()
        {'value': 1} None True
    """

    def __init__(self, path: str | os.PathLike[str], *, lapse: float = 15.0) -> None:
        expected = "a number of seconds above 0"
        check_amount("lapse", lapse, expected, lambda seconds: 0 < seconds < 1e9)
        self.path = Path(path)
        if self.path.is_symlink():
            remedy = "It is a link. Give the path of the file itself."
            raise InvalidInput("cache", str(path), "the path of a file", remedy)
        self.lapse = lapse
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._holding = threading.Lock()
        self._held: dict[tuple[str, str], str] = {}
        self._is_renewing = False

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Put all of them at once, or none; `batch_size` has no effect."""
        rows = [(collection, key, json.dumps(val)) for key, val in kv_pairs]
        claims = [row[:2] for row in rows]
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
            _drop(connection, claims)
        self._forget(claims)

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        with self._connected() as connection:
            return _select(connection, "collection = ? AND key = ?", collection, key).get(key)

    def get_many(self, keys: Sequence[str], collection: str = DEFAULT_COLLECTION) -> Rows:
        """The values of those keys that are there."""
        with self._connected() as connection:
            return _select(connection, _AMONG, collection, json.dumps(list(keys)))

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        with self._connected() as connection:
            return _select(connection, "collection = ?", collection)

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        with self._connected() as connection:
            statement = "DELETE FROM entries WHERE collection = ? AND key = ?"
            return connection.execute(statement, (collection, key)).rowcount > 0

    aput_all = _in_thread(put_all)
    aget = _in_thread(get)
    aget_many = _in_thread(get_many)
    aget_all = _in_thread(get_all)
    adelete = _in_thread(delete)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    async def aclaim(
        self, keys: Sequence[str], collection: str, *, wait: bool = False
    ) -> tuple[Rows, list[str]]:
        pause = _SHORTEST_PAUSE
        while wait and len(await in_thread(self._claimed, keys, collection)) == len(keys):
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
        # most often all are there, and nothing has to be written
        rows = await self.aget_many(keys, collection)
        absent = [key for key in keys if key not in rows]
        if not absent:
            return rows, []
        lease = uuid4().hex
        try:
            more, mine = await in_thread(self._claim, lease, absent, collection)
        except sqlite3.OperationalError:
            # such as a full disk: what is there is worth having, and `put` says what is wrong
            return rows, []
        # held from here on only: where the caller was cancelled meanwhile, the lease lapses
        self._hold(lease, {(collection, key) for key in mine})
        rows |= more
        return rows, [key for key in absent if key not in rows and key not in mine]

    def release(self, keys: Sequence[str]) -> None:
        with self._holding:
            given_up = [claim for claim in self._held if claim[1] in keys]
        if given_up:
            # a process that ends waits for it, so that others needn't wait until the claims lapse
            threading.Thread(target=self._release, args=(given_up,), daemon=False).start()

    def _release(self, claims: list[tuple[str, str]]) -> None:
        self._forget(claims)
        with suppress(sqlite3.Error), self._transaction() as connection:  # they lapse anyway
            _drop(connection, claims)

    def _claimed(self, keys: Sequence[str], collection: str) -> set[str]:
        with self._connected() as connection:
            return _claimed(connection, keys, collection)

    def _claim(self, lease: str, keys: Sequence[str], collection: str) -> tuple[Rows, set[str]]:
        """The stored rows, and the keys claimed with this lease."""
        with self._transaction() as connection:
            now = time.time()
            rows = _select(connection, _AMONG, collection, json.dumps(list(keys)))
            mine = set(keys) - rows.keys() - _claimed(connection, keys, collection)
            if mine:
                connection.execute("DELETE FROM leases WHERE since > ? OR until <= ?", (now, now))
                unleased = "DELETE FROM claims WHERE lease NOT IN (SELECT lease FROM leases)"
                connection.execute(unleased)
                claims = [(collection, key, lease) for key in mine]
                connection.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", claims)
                self._renew(connection, [lease])
        return rows, mine

    def _hold(self, lease: str, claims: set[tuple[str, str]]) -> None:
        if not claims:
            return
        with self._holding:
            self._held.update(dict.fromkeys(claims, lease))
            is_renewed, self._is_renewing = self._is_renewing, True
        if not is_renewed:
            arguments = (ref(self), self.lapse / _RENEWALS)
            threading.Thread(
                target=_keep_renewing, args=arguments, name="rag-metrics-claims", daemon=True
            ).start()

    def _forget(self, claims: Iterable[tuple[str, str]]) -> None:
        with self._holding:
            for claim in claims:
                self._held.pop(claim, None)

    def renew(self) -> bool:
        """Renew the leases of all that is being asked for; whether there was any."""
        with self._holding:
            held = set(self._held.values())
            self._is_renewing = bool(held)
        if held:
            with suppress(sqlite3.Error), self._transaction() as connection:
                self._renew(connection, held)
        return bool(held)

    def _renew(self, connection: sqlite3.Connection, leases: Iterable[str]) -> None:
        now = time.time()
        rows = [(lease, now, now + self.lapse) for lease in leases]
        connection.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", rows)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
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
                if self._process not in (0, os.getpid()):
                    self._held, self._is_renewing = {}, False
                self._connection = self._open()
                self._process = os.getpid()
            yield self._connection

    # SQLite doesn't wait, whatever its timeout, where another process makes the file's journal
    @retry(
        retry=retry_if_exception(lambda error: "database is locked" in str(error)),
        wait=wait_random(0, _SHORTEST_PAUSE),
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
            for table in _TABLES:
                connection.execute(f"CREATE TABLE IF NOT EXISTS {table} WITHOUT ROWID")
        except BaseException:
            connection.close()
            raise
        return connection

    def __del__(self) -> None:
        if "_lock" in vars(self):
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), lapse=self.lapse), (self.path,)


def _select(connection: sqlite3.Connection, condition: str, *values: str) -> Rows:
    rows: Rows = {}
    statement = f"SELECT key, value FROM entries WHERE {condition}"
    for key, value in connection.execute(statement, values):
        with suppress(ValueError, RecursionError):  # what was damaged isn't there
            rows[key] = json.loads(value)
    return rows


def _claimed(connection: sqlite3.Connection, keys: Sequence[str], collection: str) -> set[str]:
    now = time.time()
    statement = (
        "SELECT key FROM claims JOIN leases USING (lease) WHERE since <= ? AND until > ? "
        f"AND {_AMONG}"
    )
    rows = connection.execute(statement, (now, now, collection, json.dumps(keys)))
    return {key for (key,) in rows}


def _drop(connection: sqlite3.Connection, claims: Iterable[tuple[str, str]]) -> None:
    """End claims: pairs of a collection and a key."""
    connection.executemany("DELETE FROM claims WHERE collection = ? AND key = ?", claims)


def _keep_renewing(store: ref[SQLiteKVStore], seconds: float) -> None:
    while True:
        time.sleep(seconds)
        held = store()
        if held is None or not held.renew():
            return


class SharedStoreActor:
    """Keeps a store, and the claims on its keys, for the workers of a cluster."""

    def __init__(self, make_store: Callable[[], BaseKVStore]) -> None:
        self._store = make_store()
        self._claims: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def claim(
        self, owner: str, keys: Sequence[str], collection: str, wait: bool
    ) -> tuple[Rows, list[str]]:
        while wait and len(self._elsewhere(owner, keys)) == len(keys):
            self._changed.clear()
            await self._changed.wait()
        elsewhere = self._elsewhere(owner, keys)
        mine = [key for key in keys if key not in elsewhere]
        # claimed before the store is read: nobody else can claim or put them meanwhile
        self._claims.update(dict.fromkeys(mine, owner))
        try:
            rows = await read_rows(self._store, mine, collection)
        except BaseException:
            self.release(owner, mine)
            raise
        self.release(owner, list(rows))
        return rows, elsewhere

    def _elsewhere(self, owner: str, keys: Sequence[str]) -> list[str]:
        # an owner may claim again: what it was answered may have been lost on the way
        return [key for key in keys if self._claims.get(key, owner) != owner]

    async def put(self, owner: str, pairs: Sequence[tuple[str, Any]], collection: str) -> None:
        """Put values; whether that works or not, they aren't claimed any longer."""
        try:
            await self._store.aput_all(list(pairs), collection=collection)
        finally:
            self.release(owner, [key for key, _ in pairs])

    async def get(self, key: str, collection: str) -> dict[str, Any] | None:
        return await self._store.aget(key, collection=collection)

    async def get_all(self, collection: str) -> Rows:
        return await self._store.aget_all(collection=collection)

    async def delete(self, key: str, collection: str) -> bool:
        return await self._store.adelete(key, collection=collection)

    def release(self, owner: str, keys: Sequence[str]) -> None:
        for key in keys:
            if self._claims.get(key) == owner:
                del self._claims[key]
        self._changed.set()

    def forget(self, owner: str) -> None:
        self.release(owner, [key for key, holder in self._claims.items() if holder == owner])
