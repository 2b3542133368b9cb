"""From synchronous code to a coroutine, in a notebook too, and back into a thread.

All synchronous calls share one event loop, in a thread of the package: clients that keep
connections, as most of LlamaIndex's asynchronous ones do, can use them in that loop only.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import cache, partial
from typing import Any, TypeVar

from llama_index_rag_metrics.callers import note_caller
from llama_index_rag_metrics.threads import Threads

T = TypeVar("T")

_PATIENCE = 0.6
"""Seconds that a coroutine may take to end after Ctrl-C, and the loop when the process ends."""


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, whether or not this thread has a running event loop.

    Ctrl-C cancels the coroutine, and comes out within a second even where it doesn't end.
    """
    note_caller()
    return _background().run(coroutine)


class _BackgroundLoop:
    """An event loop that runs in a thread of its own as long as the process does.

    Attributes:
        inner: runs coroutines for code that blocks this very loop, such as an asynchronous
            retriever that calls a synchronous method of this package.
    """

    def __init__(self) -> None:
        self.inner: _BackgroundLoop | None = None
        self.is_stuck = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="rag-metrics-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the caller's context, as if it were awaited there."""
        outcome = self._outcome(coroutine)
        error = outcome.exception()
        if error is None:
            return outcome.result()
        try:
            raise error
        finally:
            del error, outcome  # its traceback holds this frame

    def _outcome(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(partial(_hand_over, outcome))

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        try:
            self._loop.call_soon_threadsafe(start, context=contextvars.copy_context())
            while not _wait(outcome, 0.2):
                if _is_cancelled():
                    raise KeyboardInterrupt
        except BaseException:
            self._loop.call_soon_threadsafe(cancel)
            self.is_stuck = not _wait(outcome, _PATIENCE)
            raise
        return outcome

    def stop(self) -> None:
        """Cancel what runs, close what is open, and end the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)

    def _serve(self) -> None:
        _of_thread.loop = self
        asyncio.set_event_loop(self._loop)
        while not self._run():
            pass
        for task in (tasks := asyncio.all_tasks(self._loop)):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        # what was closed just now ends in one more turn of the loop
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _run(self) -> bool:
        """Whether the loop was stopped; a task that raises SystemExit or its like ends it, too."""
        try:
            self._loop.run_forever()
        except BaseException:  # noqa: BLE001 - the task has it, and hands it over
            return False
        return True


_of_thread = threading.local()
_lock = threading.Lock()
_outermost: _BackgroundLoop | None = None
_inherited: list[_BackgroundLoop | None] = []


def _background() -> _BackgroundLoop:
    """The loop that serves this thread: one that isn't blocked by the call."""
    global _outermost  # noqa: PLW0603 - there is one
    with _lock:
        own: _BackgroundLoop | None = getattr(_of_thread, "loop", None)
        if own is not None:
            if own.inner is None or own.inner.is_stuck:
                own.inner = _BackgroundLoop()
            return own.inner
        if _outermost is None or _outermost.is_stuck:
            _outermost = _BackgroundLoop()
        return _outermost


@atexit.register
def _stop() -> None:
    loop = _outermost
    while loop is not None:
        if not loop.is_stuck:
            loop.stop()
        loop = loop.inner


def _after_fork() -> None:
    """A child has no threads of its parent, and must not touch the parent's loop: not close it."""
    global _lock, _outermost
    _inherited.append(_outermost)
    _lock, _outermost = threading.Lock(), None
    _of_thread.__dict__.clear()
    _pool.cache_clear()


def _hand_over(outcome: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _wait(outcome: Future[Any], seconds: float) -> bool:
    return bool(wait([outcome], seconds).done)


def _is_cancelled() -> bool:
    """Whether the task that waits here is to end: what asyncio.run makes of the first Ctrl-C."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and bool(getattr(task, "cancelling", int)())


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread, in the caller's context.

    asyncio's own pool has a few threads more than the machine has cores: too few to wait in. For
    what comes of errors see `Threads.call`.
    """
    return await _pool().call(function, *arguments)


@cache
def _pool() -> Threads:
    return Threads(64, "rag-metrics-texts")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
