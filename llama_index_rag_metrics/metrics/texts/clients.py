"""Clients of services: each for a few requests at a time, and for one event loop."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from llama_index_rag_metrics.runtime.sync import in_thread

Client = TypeVar("Client")
Opened: TypeAlias = tuple[Client, Callable[[], Awaitable[None]]]
"""A client, and what closes it."""

_AT_ONCE = 8
"""Requests of one client. httpcore looks through all of a client's connections, squared, whenever a
request begins or ends: 32 of them would take more time than all the rest; opening clients takes
time, too."""


class ClientPool(Generic[Client]):
    """Opens a client for every few requests at once, and keeps it for the next ones.

    Connections can't be used in another event loop, so each loop has clients of its own. They are
    closed when the pool is no longer used, or when the loop shuts down: `asyncio.run` and its like
    close asynchronous generators, and one holds them. Copies and pickles start empty.
    """

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients[Client]] = (
            WeakKeyDictionary()
        )

    @asynccontextmanager
    async def client(
        self, opened: Callable[[], Awaitable[Opened[Client]]]
    ) -> AsyncIterator[Client]:
        """A client for one request.

        Args:
            opened: gives a new client, and what closes it.
        """
        loop = asyncio.get_running_loop()
        clients = self._by_loop.setdefault(loop, _Clients())
        if not clients.idle:
            async with clients.opening:
                if clients.holder is None:
                    clients.holder = _hold(clients.closers)
                    await clients.holder.__anext__()
                    weakref.finalize(self, _close_soon, loop, clients.closers).atexit = False
                if not clients.idle:
                    client, close = await opened()
                    clients.idle.extend([client] * _AT_ONCE)
                    clients.closers.append(close)
                client = clients.idle.pop()
        else:
            client = clients.idle.pop()
        try:
            yield client
        finally:
            clients.idle.append(client)

    def __deepcopy__(self, memo: object) -> ClientPool[Client]:
        return type(self)()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


async def _close(closers: list[Callable[[], Awaitable[None]]]) -> None:
    while closers:
        await closers.pop()()


async def _hold(closers: list[Callable[[], Awaitable[None]]]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await _close(closers)


def _close_soon(
    loop: asyncio.AbstractEventLoop, closers: list[Callable[[], Awaitable[None]]]
) -> None:
    """Close clients in their loop, from whatever thread collects garbage."""
    if closers and not loop.is_closed():
        loop.call_soon_threadsafe(lambda: loop.create_task(_close(closers)))


async def admission(limiter: Any, *tokens: int) -> None:
    """Wait until a rate limiter admits a request.

    Args:
        limiter: an object with `async_acquire` or `acquire`, such as LlamaIndex's; None admits all.
        tokens: an estimate of the request's tokens, where the caller has one.
    """
    if limiter is None:
        return
    acquire = getattr(limiter, "async_acquire", None)
    if inspect.iscoroutinefunction(acquire):
        await acquire(*tokens)
    else:
        await in_thread(limiter.acquire, *tokens)


class _Clients(Generic[Client]):
    """The clients of one loop."""

    def __init__(self) -> None:
        self.idle: list[Client] = []  # as often as it may take a further request
        self.closers: list[Callable[[], Awaitable[None]]] = []
        self.opening = asyncio.Lock()  # one at a time: threads that open hold up the loop
        self.holder: AsyncGenerator[None, None] | None = None
