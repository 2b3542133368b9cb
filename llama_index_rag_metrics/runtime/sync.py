"""From synchronous code to a coroutine, in a notebook too, and back into a thread."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial, wraps
from typing import Any, TypeVar

from typing_extensions import ParamSpec

from llama_index_rag_metrics.runtime.callers import note_caller
from llama_index_rag_metrics.runtime.errors import StrayError
from llama_index_rag_metrics.runtime.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE = 0.6
"""Seconds that a coroutine may take to end after Ctrl-C, and the loop when the process ends."""


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, whether or not this thread has a running event loop."""
    note_caller()
    return _background().run(coroutine)


def synchronous(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The synchronous twin of an asynchronous function whose name begins with "a"."""

    @wraps(function)
    def twin(*arguments: P.args, **options: P.kwargs) -> T:
        return run_sync(function(*arguments, **options))

    twin.__name__ = twin.__qualname__ = function.__name__.removeprefix("a")
    return twin


class _BackgroundLoop:
    """An event loop that runs in a thread of its own as long as the process does."""

    def __init__(self) -> None:
        # for code that blocks this very loop, as an asynchronous retriever with a synchronous call
        self.inner: _BackgroundLoop | None = None
        self._abandoned: list[asyncio.Task[Any]] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopping = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="rag-metrics-loop", daemon=True)
        self._thread.start()

    @property
    def is_stuck(self) -> bool:
        """Whether something runs that nobody waits for any more."""
        tasks = self._abandoned
        return tasks is not None and not (tasks and all(task.done() for task in tasks))

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

        context = contextvars.copy_context()
        context.run(_outside.set, outcome)

        def start() -> None:
            task = out_of_reach(self._loop.create_task(coroutine))
            tasks.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(partial(_hand_over, outcome))

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        try:
            self._loop.call_soon_threadsafe(start, context=context)
            while not _wait(outcome, 0.2):
                if _is_cancelled():
                    raise KeyboardInterrupt
            if not all(task.done() for task in tasks):  # but `loop_watched` gave the outcome
                self._abandoned = tasks
                self._loop.call_soon_threadsafe(cancel)
        except BaseException:
            self._loop.call_soon_threadsafe(cancel)
            if not _wait(outcome, _PATIENCE):
                self._abandoned = tasks
            raise
        return outcome

    def stop(self) -> None:
        self._is_stopping = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)

    def _serve(self) -> None:
        _of_thread.loop = self
        asyncio.set_event_loop(self._loop)
        while not self._run():
            pass
        for task in (tasks := asyncio.all_tasks(self._loop) | self._tasks):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        # what was closed just now ends in one more turn of the loop
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _run(self) -> bool:
        """Whether the loop is to stop; code that runs in it may end it, too."""
        with suppress(BaseException):  # the task has it, and hands it over
            self._loop.run_forever()
        return self._is_stopping


_outside: ContextVar[Future[Any] | None] = ContextVar("rag_metrics_outside", default=None)
"""The future that the surrounding `run_sync` waits for."""

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


@contextmanager
def loop_watched(seconds: float | None, held_up: Callable[[], BaseException]) -> Iterator[None]:
    """Have `run_sync` raise where its loop is held up for twice these seconds, seen by a thread."""
    outcome = _outside.get()
    if seconds is None or outcome is None:
        yield
        return
    loop, ended = asyncio.get_running_loop(), threading.Event()

    def watch() -> None:
        while not ended.wait(min(seconds, 1)):
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            # what is slow, not stuck, comes to an end as a failed query
            if not turned.wait(2 * seconds) and not ended.is_set():
                with suppress(InvalidStateError):
                    outcome.set_exception(held_up())
                return

    threading.Thread(target=watch, name="rag-metrics-watch", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _hand_over(outcome: Future[T], task: asyncio.Task[T]) -> None:
    if outcome.done():  # the loop was held up, and nobody waits any more
        _ = task.cancelled() or task.exception()
    elif task.cancelled():
        outcome.set_exception(StrayError(asyncio.CancelledError()))
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _wait(outcome: Future[Any], seconds: float) -> bool:
    return bool(wait([outcome], seconds).done)


def _is_cancelled() -> bool:
    """Whether the waiting task was cancelled, as by the first Ctrl-C under asyncio.run."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and bool(getattr(task, "cancelling", int)())


def out_of_reach(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Keep a task of this package from code that cancels all tasks of its event loop."""
    asyncio.tasks._unregister_task(task)
    return task


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all at once; if one fails, or this is cancelled, none goes on."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settled(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T | Exception]:
    outcomes: list[T | Exception] = []
    for outcome in await asyncio.gather(*coroutines, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        outcomes.append(outcome)
    return outcomes


async def each(jobs: Iterable[T], do: Callable[[T], Awaitable[None]], workers: int) -> None:
    """Do every job, `workers` at once; if one fails, or this is cancelled, none goes on."""
    queue = iter(jobs)

    async def work() -> None:
        for job in queue:
            await do(job)

    await together(work() for _ in range(workers))


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread; asyncio's own pool has too few threads to wait in."""
    return await _pool().call(function, *arguments)


@cache
def _pool() -> Threads:
    return Threads(64, "rag-metrics-texts")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
