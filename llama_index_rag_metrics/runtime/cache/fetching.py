"""Fetching values through the cache: those that nobody has are asked for, once, and counted."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from llama_index_rag_metrics.runtime.cache.stores import MemoryStore, SQLiteStore, Store
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.digests import Request
from llama_index_rag_metrics.runtime.errors import CacheWarning, InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error


@dataclass(frozen=True, slots=True)
class Fetched:
    """The values of requests, in order, None where there is none; and counts of distinct ones."""

    values: list[Any]
    fresh: int
    cached: int


class Cache:
    """Keeps what was paid for.

    A file that fails warns once, and the run goes on with what memory holds. Several processes may
    share a file; what two of them ask for at the same moment, both pay for.

    Args:
        path: a file of SQLite, made where there is none; None keeps values in memory only.

    Attributes:
        fresh: how many values were asked for.
        cached: how many were there already, or under way.

    Examples:
        >>> cache = Cache()
        >>> async def ask(positions: list[int]) -> list[float]:
        ...     return [0.5 for _ in positions]
        >>> request = Request("rerank", "some model", query="who?", text="she did")
        >>> asyncio.run(cache.fetch([request], ask)).values
        [0.5]
        >>> asyncio.run(cache.fetch([request], ask))
        Fetched(values=[0.5], fresh=0, cached=1)
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise InvalidInput("cache", path, "a path, a Cache, or None for memory")
        self.store: Store = MemoryStore() if path is None else SQLiteStore(path)
        self.fresh = 0
        self.cached = 0
        self._failed = False
        self._memory: dict[str, Any] = {}
        self._reset()

    @classmethod
    def of(
        cls,
        cache: Cache | str | os.PathLike[str] | None,
        journal: str | os.PathLike[str] | None = None,
    ) -> Cache:
        """A cache from what `evaluate(cache=..., journal=...)` takes: by default, a file beside it.

        >>> str(Cache.of(None, "runs/bm25.jsonl").store.path.name)
        'bm25.jsonl.cache'
        """
        if isinstance(cache, cls):
            return cache
        if cache is None and journal is not None:
            beside = Path(journal).absolute()
            return cls(beside.with_name(f"{beside.name}.cache"))
        return cls(cache)  # type: ignore[arg-type]

    @classmethod
    def on(cls, store: Store) -> Cache:
        """A cache on a store of one's own."""
        cache = cls()
        cache.store = store
        return cache

    async def fetch(
        self,
        requests: Sequence[Request],
        ask: Callable[[list[int]], Awaitable[Sequence[Any]]],
        *,
        batch_size: int | None = None,
        is_valid: Callable[[Any], bool] = lambda _: True,
    ) -> Fetched:
        """The values of some requests, asking only for those that nobody has asked for.

        Args:
            requests: the requests.
            ask: gives the values, which are JSON, of the requests at these positions, in order; a
                None isn't kept, and whoever waits for it asks again. Its error is raised for all
                who wait for these values; earlier batches stay.
            batch_size: how many requests to ask for at once; None: all.
            is_valid: whether a value from the store can be one; others are asked for again.
        """
        positions: dict[str, int] = {}
        for position, request in enumerate(requests):
            positions.setdefault(request.key, position)
        values: dict[str, Any] = {}
        fresh = without = 0
        while missing := [key for key in positions if key not in values]:
            with self._lock:
                under_way = self._futures.setdefault(asyncio.get_running_loop(), {})
            awaited = {key: under_way[key] for key in missing if key in under_way}
            unasked = [key for key in missing if key not in awaited]
            with _claimed(under_way, unasked) as mine:
                stored = await self._read(unasked, is_valid)
                _resolve(mine, stored)
                values |= stored
                absent = [key for key in unasked if key not in stored]
                size = batch_size or max(len(absent), 1)
                for start in range(0, len(absent), size):
                    batch = absent[start : start + size]
                    answers = await ask([positions[key] for key in batch])
                    received = dict(zip(batch, answers, strict=True))
                    answered = {key: value for key, value in received.items() if value is not None}
                    fresh += len(answered)
                    without += len(received) - len(answered)
                    self.fresh += len(answered)
                    _resolve(mine, answered)
                    values |= received
                    await self._write(answered)
            for key, future in awaited.items():
                try:
                    values[key] = await asyncio.shield(future)
                except _Abandoned:
                    continue
        cached = len(positions) - fresh - without
        self.cached += cached
        return Fetched([values[request.key] for request in requests], fresh, cached)

    async def known(
        self, requests: Sequence[Request], *, is_valid: Callable[[Any], bool] = lambda _: True
    ) -> list[bool]:
        """Whether the value of each request is there; nothing is asked for."""
        keys = [request.key for request in requests]
        stored = await self._read(keys, is_valid)
        return [key in stored for key in keys]

    async def _read(self, keys: list[str], is_valid: Callable[[Any], bool]) -> dict[str, Any]:
        stored = {key: self._memory[key] for key in keys if key in self._memory}
        absent = [key for key in keys if key not in stored]
        if not absent:
            return stored
        try:
            # a file that can't be written any longer may still be read, as on a full disk
            values = await self.store.read(absent)
        except Exception as error:  # noqa: BLE001 - any error: the run goes on
            self._warn(error)
            return stored
        return stored | {key: value for key, value in values.items() if is_valid(value)}

    async def _write(self, values: Mapping[str, Any]) -> None:
        if values and not self._failed:
            try:
                await self.store.write(values)
            except Exception as error:  # noqa: BLE001 - any error: the run goes on
                self._warn(error)
        if self._failed:
            self._memory.update(values)

    def _warn(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            what = describe_error(error)
            warn_caller(CacheWarning(f"the cache fails, and the run goes on without it: {what}"))

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._futures: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[str, asyncio.Future[Any]]
        ] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_lock", "_futures")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __repr__(self) -> str:
        return f"<Cache on {type(self.store).__name__}: {self.cached} cached, {self.fresh} fresh>"


class _Abandoned(Exception):
    """The one who asked was cancelled, or got nothing: somebody else has to ask."""


@contextmanager
def _claimed(
    under_way: dict[str, asyncio.Future[Any]], keys: Sequence[str]
) -> Iterator[dict[str, asyncio.Future[Any]]]:
    """Futures of the keys, for others to wait for; they fail with the block, and end with it."""
    loop = asyncio.get_running_loop()
    mine: dict[str, asyncio.Future[Any]] = {key: loop.create_future() for key in keys}
    under_way.update(mine)
    failure: Exception = _Abandoned()
    try:
        yield mine
    except Exception as error:
        failure = error
        raise
    finally:
        for key, future in mine.items():
            del under_way[key]
            if not future.done():
                future.set_exception(failure)
                future.exception()  # asyncio would log that nobody looked


def _resolve(futures: Mapping[str, asyncio.Future[Any]], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        futures[key].set_result(value)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a metric of texts, or a matcher, asked a service or a model for during a run.

    `fresh` texts were asked about, `cached` ones had been before. The service bills `units`; an LLM
    read and wrote tokens, as far as it says.
    """

    model: str = ""
    requests: int = 0
    fresh: int = 0
    cached: int = 0
    units: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        counts = (getattr(self, each.name) + getattr(other, each.name) for each in fields(self)[1:])
        return Usage(self.model or other.model, *counts)

    def __str__(self) -> str:
        to = f" to {self.model}" if self.model else ""
        billed = f", {self.units:,g} units billed" if self.units else ""
        texts = f"{self.fresh:,} texts sent, {self.cached:,} from the cache"
        return f"{self.requests:,} requests{to}, {texts}{billed}{self.tokens}"

    @property
    def tokens(self) -> str:
        """The end of a sentence about tokens; "" where the LLM doesn't report them."""
        if not (self.tokens_in or self.tokens_out):
            return ""
        return f", {self.tokens_in:,} tokens read and {self.tokens_out:,} written"


@dataclass
class Tally:
    """A usage, counted up in one event loop, so that nothing is lost when a request fails."""

    usage: Usage = field(default_factory=Usage)
