"""A cache that several processes use at once: who asks for a value says so, and the others wait."""

from __future__ import annotations

import sqlite3
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from llama_index.core.storage.kvstore.types import DEFAULT_COLLECTION, BaseKVStore

Rows: TypeAlias = dict[str, dict[str, Any]]


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
        """What is there, and what others are asking for; the rest is the caller's to ask for."""

    @abstractmethod
    def release(self, keys: Sequence[str]) -> None:
        """Give up what was claimed and isn't put; doesn't wait."""


TABLES = (
    "claims (collection TEXT, key TEXT, lease TEXT, PRIMARY KEY (collection, key))",
    "leases (lease TEXT PRIMARY KEY, since REAL, until REAL)",
)

_MOST_PARAMETERS = 500
"""Keys in one SELECT; SQLite before 3.32 takes 999 parameters."""


def chunks(keys: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """The keys, as many at a time as a statement takes, each with their question marks."""
    for start in range(0, len(keys), _MOST_PARAMETERS):
        some = keys[start : start + _MOST_PARAMETERS]
        yield f"({', '.join('?' * len(some))})", some


def claimed(connection: sqlite3.Connection, keys: Sequence[str], collection: str) -> set[str]:
    """Those of the keys that somebody asks for."""
    now = time.time()
    statement = (
        "SELECT key FROM claims JOIN leases USING (lease) "
        "WHERE since <= ? AND until > ? AND collection = ? AND key IN "
    )
    return {
        key
        for marks, some in chunks(keys)
        for (key,) in connection.execute(statement + marks, (now, now, collection, *some))
    }


def claim(
    connection: sqlite3.Connection,
    lease: str,
    seconds: float,
    keys: Iterable[str],
    collection: str,
) -> None:
    """Claim keys that nobody claims, in the caller's transaction."""
    now = time.time()
    connection.execute("DELETE FROM leases WHERE since > ? OR until <= ?", (now, now))
    connection.execute("DELETE FROM claims WHERE lease NOT IN (SELECT lease FROM leases)")
    rows = [(collection, key, lease) for key in keys]
    connection.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", rows)
    renew(connection, [lease], seconds)


def renew(connection: sqlite3.Connection, leases: Iterable[str], seconds: float) -> None:
    """Have leases count from now on."""
    now = time.time()
    rows = [(lease, now, now + seconds) for lease in leases]
    connection.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", rows)


def drop(connection: sqlite3.Connection, claims: Iterable[tuple[str, str]]) -> None:
    """End claims: pairs of a collection and a key."""
    connection.executemany("DELETE FROM claims WHERE collection = ? AND key = ?", claims)
