"""What the workers of a cluster share: a store, kept by an actor, and the driver's rate limits.

A limiter stays in the driver, and workers ask through an actor: it is one limit for all of them.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.runtime.cache import stores
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.retries import admission


def import_ray(purpose: str) -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtra(purpose, "ray") from error
    return ray


def worker_options(num_cpus: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """Ray's options of a worker, whose Polars reads its threads from the environment."""
    environment = dict(options.get("runtime_env") or {})
    environment["env_vars"] = {
        "POLARS_MAX_THREADS": str(max(1, int(num_cpus))),
        **environment.get("env_vars", {}),
    }
    return {"num_cpus": num_cpus, **options, "runtime_env": environment}


_MOST_CALLS = 10_000
"""Calls that wait in a shared actor at once: many more than there are queries at once."""

_UNPICKLABLE = (TypeError, AttributeError, pickle.PicklingError)


class StoreActor:
    """Keeps the values of a cache for the workers of a cluster."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store

    async def read(self, keys: list[str]) -> dict[str, Any]:
        return await self._store.read(keys)

    async def write(self, values: dict[str, Any]) -> None:
        await self._store.write(values)

    def values(self) -> dict[str, Any]:
        """Return what memory holds."""
        return self._store.values if isinstance(self._store, stores.MemoryStore) else {}


class SharedStore:
    """The store of an actor, as whoever is elsewhere sees it."""

    def __init__(self, store_actor: Any) -> None:
        self._actor = store_actor

    async def read(self, keys: Iterable[str]) -> dict[str, Any]:
        values: dict[str, Any] = await self._actor.read.remote(list(keys))
        return values

    async def write(self, values: Mapping[str, Any]) -> None:
        await self._actor.write.remote(dict(values))


class SharedLimiter:
    def __init__(self, limiter_actor: Any, number: int) -> None:
        self._actor, self._number = limiter_actor, number

    def acquire(self, *tokens: int) -> None:
        _get(self._actor.acquire.remote(self._number, tokens))

    async def async_acquire(self, *tokens: int) -> None:
        await self._actor.acquire.remote(self._number, tokens)


class LimiterActor:
    def __init__(self) -> None:
        self._tickets = itertools.count(1)
        self._waiting: dict[int, tuple[int, tuple[int, ...], asyncio.Future[None]]] = {}
        self._changed = asyncio.Event()

    async def acquire(self, number: int, tokens: tuple[int, ...]) -> None:
        ticket = next(self._tickets)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = (number, tokens, admitted)
        self._changed.set()
        try:
            await admitted
        finally:
            del self._waiting[ticket]

    async def request(self, last: int) -> tuple[int, int, tuple[int, ...]]:
        """The first request after a ticket, perhaps asked for again: ticket, limiter, tokens."""
        while not (later := [ticket for ticket in self._waiting if ticket > last]):
            self._changed.clear()
            await self._changed.wait()
        ticket = min(later)
        number, tokens, _ = self._waiting[ticket]
        return ticket, number, tokens

    async def answer(self, ticket: int, error: str | None) -> None:
        admitted = self._waiting[ticket][2] if ticket in self._waiting else None
        if admitted is None or admitted.done():
            return
        if error is None:
            admitted.set_result(None)
        else:
            admitted.set_exception(RuntimeError(error))


class Limiters:
    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.actor: Any = None

    def pack(self, packed: object) -> bytes:
        """Pickle an object for the workers, who `unpack` it; limiters in it stay here."""
        buffer = io.BytesIO()
        try:
            _pickler(self.kept)(buffer).dump(packed)
        except _UNPICKLABLE as error:
            expected = "a factory, metrics and postprocessors that can be pickled"
            remedy = "Connections are opened, and models loaded, in the factory."
            reason = describe_error(error)
            raise InvalidInput("what goes to the workers", reason, expected, remedy) from error
        if self.kept:
            self.actor = driver_node_actor(LimiterActor)
        return buffer.getvalue()

    async def serve(self) -> None:
        """Admit what workers ask for, as the limiters allow, until cancelled."""
        under_way: set[asyncio.Task[None]] = set()
        ticket = 0
        try:
            while self.actor is not None:
                ticket, number, tokens = await self.actor.request.remote(ticket)
                task = asyncio.create_task(self._admit(ticket, number, tokens))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
        finally:
            for task in under_way:
                task.cancel()

    async def _admit(self, ticket: int, number: int, tokens: tuple[int, ...]) -> None:
        error = None
        try:
            await admission(self.kept[number], *tokens)
        except Exception as raised:  # noqa: BLE001 - any limiter, any error: for who asked
            error = describe_error(raised)
        await self.actor.answer.remote(ticket, error)


def unpack(packed: bytes, limiter_actor: Any) -> Any:
    """Unpickle what `Limiters.pack` packed, with stand-ins for the limiters."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> SharedLimiter:
            return SharedLimiter(limiter_actor, pid)

    return Unpickler(io.BytesIO(packed)).load()


def start_store_actor(cache: Any, journal: str | Path | None = None) -> Any:
    store = Cache.of(cache, journal).store
    if isinstance(store, stores.SQLiteStore):
        store = stores.SQLiteStore(store.path.absolute())
    return driver_node_actor(StoreActor, store)


async def copy_to_driver(store_actor: Any, cache: Any) -> None:
    if isinstance(cache, Cache) and isinstance(cache.store, stores.MemoryStore):
        await cache.store.write(await store_actor.values.remote())


def driver_node_actor(kind: type, *arguments: Any) -> Any:
    """Start an actor on the driver's node, where the loss of another node doesn't touch it."""
    ray = import_ray("distributed.ray.evaluate()")
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "max_concurrency": _MOST_CALLS, "scheduling_strategy": here}
    options |= {"max_task_retries": -1}  # for calls lost on the way: all of them may come twice
    return ray.remote(kind).options(**options).remote(*arguments)


def _pickler(limiters: list[Any]) -> Any:
    from ray import cloudpickle

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def persistent_id(self, part: Any) -> int | None:
            if not _is_limiter(part):
                return None
            if all(known is not part for known in limiters):
                limiters.append(part)
            return next(number for number, known in enumerate(limiters) if known is part)

    return Pickler


def _is_limiter(part: Any) -> bool:
    """Whether it admits requests; a lock, which can be released, doesn't."""
    kind = type(part)
    if isinstance(part, SharedLimiter) or issubclass(kind, type):
        return False
    return hasattr(kind, "async_acquire") or (
        hasattr(kind, "acquire") and not hasattr(kind, "release")
    )


def _get(reference: Any) -> Any:
    return import_ray("distributed.ray.evaluate()").get(reference)
