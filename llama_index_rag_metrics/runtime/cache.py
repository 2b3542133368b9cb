"""The cache: nothing paid is asked twice, not even by those who ask at the same moment."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeAlias

from tenacity import retry, retry_if_exception, stop_after_delay
from tenacity.wait import wait_random
from typing_extensions import Self

from .atomic_files import open_private
from .containers import picked
from .errors import CacheWarning, InvalidInput, warn
from .masking import describe_error, mask
from .sync import in_thread

_BUSY_SECONDS = 30.0
_TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
_SELECT = "SELECT key, value FROM entries WHERE key IN (SELECT value FROM json_each(?))"

_Futures: TypeAlias = dict[str, Future[Any]]
_Ask: TypeAlias = Callable[[list[int]], Awaitable[Sequence[Any]]]

_under_way: defaultdict[tuple[int, str], _Futures] = defaultdict(dict)
"""What is asked for at the moment, by process and file: several caches may have one file."""

_lock = threading.Lock()


def cache_key(
    kind: str,
    model: str,
    *,
    endpoint: str = "",
    parameters: Mapping[str, Any] | None = None,
    query: str = "",
    text: str | Sequence[str] = "",
) -> str:
    """The digest of all that a value depends on; passwords and keys in the endpoint don't count."""
    parts = [kind, model, mask(endpoint), parameters or {}, query, text]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class _Abandoned(Exception):
    """The caller who asked for a key was cancelled: another one has to ask."""


class Cache:
    """Keeps what was paid for.

    A file that fails warns once, and the run goes on in memory. Several processes may share a file,
    on a local disk; what two of them ask for at the same moment, both pay for. The file is closed
    whenever nobody uses the cache.

    Args:
        path: a file of SQLite, made where there is none; None keeps values in memory only.

    Attributes:
        fresh: how many values were asked for; `cached` ones were there already, or under way.

    Examples:
        >>> cache = Cache()
        >>> async def ask(positions: list[int]) -> list[float]:
        ...     return [0.5 for _ in positions]
        >>> key = cache_key("rerank", "some model", query="who?", text="she did")
        >>> [asyncio.run(cache.fetch([key], ask)) for _ in range(2)]
        [[0.5], [0.5]]
        >>> cache
        <Cache in memory: 1 cached, 1 fresh>
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise InvalidInput("cache", path, "a path, a Cache, or None for memory")
        self.path = None if path is None else Path(path).absolute()
        if self.path is not None and self.path.is_symlink():
            remedy = "It is a link. Give the path of the file itself."
            raise InvalidInput("cache", str(self.path), "the path of a file", remedy)
        self.fresh = self.cached = 0
        self._file = self.path
        self._memory: dict[str, Any] = {}
        self._users = 0
        # by process: SQLite forbids carrying a connection over into a forked one
        self._connections: dict[int, sqlite3.Connection] = {}

    @classmethod
    def of(
        cls,
        cache: Cache | str | os.PathLike[str] | None,
        journal: str | os.PathLike[str] | None = None,
    ) -> Cache:
        """A cache from what `evaluate(cache=..., journal=...)` takes: by default, a file beside it.

        >>> Cache.of(None, "runs/bm25.jsonl").path.name
        'bm25.jsonl.cache'
        """
        if isinstance(cache, cls):
            return cache
        if cache is None and journal is not None:
            return cls(f"{os.fspath(journal)}.cache")
        return cls(cache)  # type: ignore[arg-type]

    async def fetch(
        self,
        keys: Sequence[str],
        ask: _Ask,
        *,
        batch_size: int | None = None,
        is_valid: Callable[[Any], bool] = lambda _: True,
    ) -> list[Any]:
        """The values of some keys, asking only for those that nobody has asked for.

        `ask` gives the values, which are JSON, of the keys at some positions, `batch_size` at once.
        Its error is raised for all who wait for these values; earlier batches stay.
        """
        positions = dict(zip(keys, count()))
        values: dict[str, Any] = {}
        n_fresh = 0
        with self:
            while missing := [key for key in positions if key not in values]:
                claims, awaited = self._claim(missing)
                failure: Exception = _Abandoned()
                try:
                    stored = await self._call(self.known, list(claims))
                    values |= {key: value for key, value in stored.items() if is_valid(value)}
                    absent = {key: positions[key] for key in claims if key not in values}
                    await self._ask_in_batches(absent, ask, batch_size or len(absent), values)
                    n_fresh += len(absent)
                except Exception as error:
                    failure = error
                    raise
                finally:
                    self._settle(claims, values, failure)
                values |= await _answers_of_others(awaited)
        self.cached += len(positions) - n_fresh
        return [values[key] for key in keys]

    async def _ask_in_batches(
        self, positions: Mapping[str, int], ask: _Ask, batch_size: int, values: dict[str, Any]
    ) -> None:
        """Ask for keys batch by batch; keep the values, and add them to the caller's."""
        pairs = iter(positions.items())
        while batch := dict(islice(pairs, batch_size)):
            answers = await ask(list(batch.values()))
            answered = dict(zip(batch, answers, strict=True))
            values.update(answered)
            self.fresh += len(batch)
            await self._call(self.put, answered)

    def _claim(self, keys: Sequence[str]) -> tuple[_Futures, _Futures]:
        """Return futures of keys that nobody asks for, to be settled; and of those asked for."""
        with _lock:
            futures = _under_way[os.getpid(), str(self.path or id(self))]
            awaited = picked(futures, keys)
            claims: _Futures = {key: Future() for key in keys if key not in awaited}
            futures.update(claims)
        return claims, awaited

    def _settle(self, claims: _Futures, values: Mapping[str, Any], error: Exception) -> None:
        futures = _under_way[os.getpid(), str(self.path or id(self))]
        for key, claim in claims.items():
            futures.pop(key, None)
            if key in values:
                claim.set_result(values[key])
            else:
                claim.set_exception(error)

    async def _call(self, method: Callable[[Any], Any], argument: Any) -> Any:
        if self._file is not None:
            try:
                return await in_thread(method, argument)
            except Exception as error:  # noqa: BLE001 - any error: the run goes on in memory
                self._file = None
                reason = f"the cache fails, and the run goes on without it: {describe_error(error)}"
                warn(CacheWarning(reason))
        return method(argument)

    def known(self, keys: Sequence[str]) -> dict[str, Any]:
        if self._file is None:
            return picked(self._memory, keys)
        with _lock:
            rows = self._opened(self._file).execute(_SELECT, (json.dumps(keys),)).fetchall()
        values = {}
        for key, text in rows:
            with suppress(ValueError, RecursionError, TypeError):  # a damaged value is missing
                values[key] = json.loads(text)
        return values

    def put(self, values: Mapping[str, Any]) -> None:
        if self._file is None:
            self._memory.update(values)
            return
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        with _lock, self._opened(self._file) as connection:
            connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file, so that none of SQLite's further files is left; the next use opens it."""
        with _lock:
            if connection := self._connections.pop(os.getpid(), None):
                connection.close()

    def __enter__(self) -> Self:
        with _lock:
            self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            self._users -= 1
        if not self._users:
            self.close()

    def _opened(self, path: Path) -> sqlite3.Connection:
        process = os.getpid()
        if process not in self._connections:
            self._connections[process] = _connect(path)
        return self._connections[process]

    def __repr__(self) -> str:
        return f"<Cache in {self.path or 'memory'}: {self.cached} cached, {self.fresh} fresh>"


async def _answers_of_others(futures: _Futures) -> dict[str, Any]:
    """Wait for keys that other callers ask for; those that they gave up have no value."""
    values = {}
    for key, future in futures.items():
        with suppress(_Abandoned):
            values[key] = await asyncio.shield(asyncio.wrap_future(future))
    return values


# SQLite doesn't wait, whatever its timeout, where another process makes the file's journal
@retry(
    retry=retry_if_exception(lambda error: "database is locked" in str(error)),
    wait=wait_random(0, 0.02),
    stop=stop_after_delay(_BUSY_SECONDS),
    reraise=True,
)
def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # only its owner may read what was asked; SQLite's further files have the same permissions
    os.close(open_private(path, os.O_RDWR))
    with ExitStack() as opened:
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
        opened.callback(connection.close)
        # a killed process loses nothing that was written; a power cut may lose the last values
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_TABLE)
        opened.pop_all()  # the connection stays open
    return connection
