"""Calls of other people's code: in threads that may hang, and for a limited time."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from llama_index_rag_metrics.runtime.errors import QueryTimeout, StrayError

T = TypeVar("T")

_Outcome: TypeAlias = "tuple[Any, BaseException | None]"

_GRACE = 0.3
"""Seconds that cancelled code may take to end."""


class _State(Enum):
    WAITING, RUNNING, DONE, GIVEN_UP = range(4)


class _Call:
    __slots__ = ("arguments", "context", "function", "future", "loop", "state")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[_Outcome] = self.loop.create_future()
        self.state = _State.WAITING

    def run(self) -> _Outcome:
        try:
            return self.context.run(self.function, *self.arguments), None
        except BaseException as error:  # noqa: BLE001 - handed over to the coroutine that waits
            return None, error

    def deliver(self, outcome: _Outcome) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._set, outcome)

    def expire(self, seconds: float) -> None:
        if not self.future.done():
            self.future.set_exception(QueryTimeout(seconds))

    def _set(self, outcome: _Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class Threads:
    """Threads for blocking calls, at most `most` at once."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._running = 0
        self._closed = False

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.call_within(None, function, *arguments)

    async def call_within(
        self, seconds: float | None, function: Callable[..., T], *arguments: Any
    ) -> T:
        """`call`, for a limited time; None: any."""
        call = _Call(function, arguments)
        with self._lock:
            self._calls.put(call)
            is_idle = self._idle > 0
            self._idle -= is_idle
        if not is_idle:
            self._start()
        timer = None if seconds is None else call.loop.call_later(seconds, call.expire, seconds)
        try:
            value, error = await call.future
        except BaseException:
            self._give_up(call)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if error is not None:
            try:
                raise_handled(error)
            finally:
                del error  # its traceback holds this frame
        result: T = value
        return result

    def close(self) -> None:
        """Let the threads end, without waiting for calls that hang."""
        self._closed = True
        self._calls.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._running >= self._most:
                return
            self._running += 1
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def _give_up(self, call: _Call) -> None:
        with self._lock:
            was, call.state = call.state, _State.GIVEN_UP
            if was is _State.RUNNING:
                self._running -= 1
        if was is _State.RUNNING and not self._calls.empty():
            self._start()

    def _serve(self) -> None:
        while (call := self._next()) is not None:
            with self._lock:
                if call.state is _State.GIVEN_UP:
                    continue
                call.state = _State.RUNNING
            outcome = call.run()
            with self._lock:
                is_replaced = call.state is _State.GIVEN_UP
                call.state = _State.DONE
            call.deliver(outcome)
            del call, outcome
            if is_replaced:
                return
        self._calls.put(None)  # for the next thread

    def _next(self) -> _Call | None:
        with self._lock:  # a call that is put meanwhile would be no idle thread's
            try:
                return self._calls.get_nowait()
            except Empty:
                if self._closed:
                    return None
                self._idle += 1
        return self._calls.get()


async def within(seconds: float | None, awaitable: Awaitable[T]) -> T:
    """Await other people's code in a task of its own, whose cancellation isn't the caller's."""
    task = asyncio.ensure_future(_handled(awaitable))
    # what asyncio.wait does, which takes several times as long
    ended = task.get_loop().create_future()
    task.add_done_callback(partial(_wake, ended))
    timer = None if seconds is None else task.get_loop().call_later(seconds, _wake, ended)
    try:
        await ended
    except BaseException:
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE)
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if not task.done():
        task.cancel()
        raise QueryTimeout(seconds or 0.0)
    if task.cancelled():
        raise StrayError(asyncio.CancelledError())
    return task.result()


def raise_handled(error: BaseException) -> None:
    """Raise an error of other people's code, wrapped where it would end more than the call."""
    if isinstance(error, Exception) and not isinstance(error, (StopIteration, StopAsyncIteration)):
        raise error
    raise StrayError(error) from error


def _wake(ended: asyncio.Future[None], _: object = None) -> None:
    if not ended.done():
        ended.set_result(None)


async def _handled(awaitable: Awaitable[T]) -> T:
    try:
        return await awaitable
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and isinstance(error, KeyboardInterrupt):  # Ctrl-C
            raise
        raise StrayError(error) from error
