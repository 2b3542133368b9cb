"""From synchronous code to a coroutine, in a notebook too, and back into a thread."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from functools import cache
from typing import Any, TypeVar

from llama_index_rag_metrics.callers import note_caller

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, whether or not this thread has a running event loop.

    LlamaIndex's `asyncio_run` does the same, but under a running loop it waits for the whole
    evaluation after Ctrl-C, and a RuntimeError of the coroutine comes out as another error.
    """
    note_caller()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _run_in_thread(coroutine)


def _run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    outcome: Future[T] = Future()
    loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    context = contextvars.copy_context()

    def work() -> None:
        asyncio.set_event_loop(loop)
        try:
            with closing(loop):
                loop.run_until_complete(asyncio.wait([task]))
                loop.run_until_complete(loop.shutdown_asyncgens())
                # what was closed just now ends in one more turn of the loop
                loop.run_until_complete(asyncio.sleep(0))
            outcome.set_result(task.result())
        except BaseException as error:  # noqa: BLE001 - handed over to the waiting thread
            outcome.set_exception(error)

    thread = threading.Thread(
        target=context.run, args=(work,), name="rag-metrics-loop", daemon=True
    )
    thread.start()
    try:
        while not _wait(outcome):
            if _is_cancelled():
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    return outcome.result()


def _wait(outcome: Future[Any], seconds: float = 0.2) -> bool:
    return bool(wait([outcome], seconds).done)


def _is_cancelled() -> bool:
    """Whether the task that waits here is to end: what asyncio.run makes of the first Ctrl-C."""
    task = asyncio.current_task()
    return task is not None and bool(getattr(task, "cancelling", int)())


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread, in the caller's context.

    asyncio's own pool has a few threads more than the machine has cores: too few to wait in.
    """
    return await in_pool(_pool(), function, *arguments)


async def in_pool(pool: Executor, function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread of this pool, in the caller's context."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, lambda: context.run(function, *arguments))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(64, thread_name_prefix="rag-metrics-texts")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
