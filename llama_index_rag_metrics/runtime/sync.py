"""From synchronous code to a coroutine, in a notebook too; and from there into a thread."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from typing_extensions import ParamSpec

from .errors import RagMetricsError, note_caller
from .masking import describe_error

P = ParamSpec("P")
T = TypeVar("T")

WORKERS = 8  # questions or requests that are under way at once, by default

_QUICK = 0.001  # seconds: a blocking call that takes less is quick
_MOST_QUEUED = 0.005  # seconds that quick calls wait for one that isn't
_PATIENCE = 0.5  # seconds that a coroutine may take to end after Ctrl-C, and the loop at the end

_waits = contextvars.ContextVar[deque[float]]("waits")  # seconds of calls without a thread


def stopwatch() -> Callable[[], float]:
    """Measure seconds without those in which blocking calls wait for a thread."""
    begin, waits = time.perf_counter(), deque[float]()
    _waits.set(waits)
    return lambda: time.perf_counter() - begin - sum(waits)


class _LoopThread(threading.Thread):
    """A thread that runs an event loop, in which the connections of clients live on."""

    def __init__(self) -> None:
        super().__init__(name="rag-metrics-loop", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.start()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)


_threads: list[_LoopThread] = []
_lock = threading.Lock()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, whether or not this thread has a running event loop."""
    __tracebackhide__ = True  # pytest and IPython leave such frames out of tracebacks
    note_caller()
    if isinstance(threading.current_thread(), _LoopThread):  # asynchronous code blocks that loop
        inner = _LoopThread()
        try:
            return _run_in(inner, coroutine)
        finally:
            inner.stop()
    # all other calls share one thread; a new one after a fork, or where code blocks the old one
    with _lock:
        if not (_threads and _threads[-1].is_alive()):
            _threads[:] = [_LoopThread()]
        thread = _threads[-1]
    return _run_in(thread, coroutine)


def synchronous(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The synchronous twin of an asynchronous function whose name begins with "a"."""

    @wraps(function)
    def twin(*arguments: P.args, **options: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            coroutine = function(*arguments, **options)
        except TypeError as error:  # the arguments don't fit, and nothing has run yet
            raise TypeError(str(error).replace(function.__name__, twin.__name__, 1)) from None
        return run_sync(coroutine)

    twin.__name__ = twin.__qualname__ = function.__name__.removeprefix("a")
    return twin


def synchronous_method(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The synchronous twin of an asynchronous method, or of that of a subclass."""

    @wraps(method)
    def of_object(*arguments: P.args, **options: P.kwargs) -> Any:
        owner, *others = arguments
        return getattr(owner, method.__name__)(*others, **options)

    return synchronous(of_object)


def _run_in(thread: _LoopThread, coroutine: Coroutine[Any, Any, T]) -> T:
    __tracebackhide__ = True
    outcome: Future[T] = Future()

    async def run() -> None:
        __tracebackhide__ = True
        try:
            outcome.set_result(await coroutine)
        except asyncio.CancelledError as error:
            outcome.set_exception(as_exception(error))
        except BaseException as error:  # noqa: BLE001 - handed over to the caller
            outcome.set_exception(error)

    task: Future[None] | None = None
    try:  # Ctrl-C may come while the coroutine is handed over, which has begun by then
        task = asyncio.run_coroutine_threadsafe(run(), thread.loop)
        while not wait([outcome], 0.2).done:
            if _is_cancelled():
                raise KeyboardInterrupt
    except BaseException:
        if task is not None:
            task.cancel()
        if not wait([outcome], _PATIENCE).done:
            with suppress(ValueError):  # the thread is blocked: the next call gets another one
                _threads.remove(thread)
        raise
    error = outcome.exception()
    if error is None:
        return outcome.result()
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


@atexit.register
def _stop() -> None:
    for thread in filter(_LoopThread.is_alive, _threads):
        thread.stop()
        thread.join(_PATIENCE / 2)


def _is_cancelled() -> bool:
    """Whether the waiting task was cancelled, as by the first Ctrl-C under asyncio.run."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    cancelling = getattr(task, "cancelling", None)  # since Python 3.11
    return cancelling is not None and cancelling() > 0


Settle: TypeAlias = Callable[[], None]
Call: TypeAlias = Callable[[], Settle]  # made in a thread; the loop settles its outcome
Jobs: TypeAlias = SimpleQueue[Callable[[], None] | None]


class _Calls:
    """The blocking calls of an event loop, each in a thread of its own, but for quick ones.

    Quick ones wait in a queue, and one thread makes them, since to change threads costs more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: list[Jobs] = []  # the job queues of threads that wait for one
        self._queue, self._ended = deque[Call](), deque[Settle]()
        self._has_thread = False  # whether a thread works on the queue, or is about to
        self._are_quick = False

    def __del__(self) -> None:
        for jobs in self._idle:
            jobs.put(None)  # ends the thread

    def put(self, call: Call) -> None:
        if not self._are_quick:
            self._start(deque([call]))
            return
        self._queue.append(call)
        if not self._has_thread:
            # as the loop's next step: a thread that began now would wait until all have been put
            self._loop.call_soon(self._start_queue)
            self._has_thread = True

    def _start(self, calls: deque[Call]) -> None:
        jobs = self._idle.pop() if self._idle else _jobs_of_thread()
        jobs.put(partial(self._make, calls, jobs))

    def _start_queue(self) -> None:
        self._start(self._queue)
        self._loop.call_later(_MOST_QUEUED, self._watch, self._queue)

    def _make(self, calls: deque[Call], jobs: Jobs) -> None:
        """Make calls up to one that isn't quick."""
        with suppress(IndexError):  # no call is left
            is_quick = True
            while is_quick:
                call, begin = calls.popleft(), time.perf_counter()
                self._ended.append(call())
                self._are_quick = is_quick = time.perf_counter() - begin < _QUICK
        self._idle.append(jobs)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._end, calls)

    def _end(self, calls: deque[Call]) -> None:
        self._settle()
        if calls is self._queue:
            self._put_again(calls)

    def _watch(self, calls: deque[Call]) -> None:
        """Give calls that wait for one that isn't quick threads of their own."""
        if calls is not self._queue:
            return
        if self._ended:
            self._settle()
            self._loop.call_later(_MOST_QUEUED, self._watch, calls)
            return
        self._are_quick = False
        self._put_again(calls)

    def _put_again(self, calls: deque[Call]) -> None:
        self._queue, self._has_thread = deque(), False
        with suppress(IndexError):  # no call is left to put
            while True:
                self.put(calls.popleft())

    def _settle(self) -> None:
        while self._ended:
            self._ended.popleft()()


def _jobs_of_thread() -> Jobs:
    jobs = Jobs()

    def serve() -> None:
        while (job := jobs.get()) is not None:
            job()
            del job  # it would keep its loop alive

    threading.Thread(target=serve, name="rag-metrics", daemon=True).start()
    return jobs


_CALLS = "rag_metrics_calls"  # the attribute of a loop that has its calls, which go with it


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a daemon thread; one that hangs holds up no other call."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    outcome: asyncio.Future[T] = loop.create_future()
    times = [time.perf_counter()]  # when it was queued, begun, ended, and awaited

    def settle(method: Callable[[Any], None], value: Any) -> None:
        if not outcome.done():
            method(value)

    def call() -> Settle:
        times.append(time.perf_counter())
        try:
            return partial(settle, outcome.set_result, context.run(function, *arguments))
        except BaseException as error:  # noqa: BLE001 - handed over to the coroutine that waits
            return partial(settle, outcome.set_exception, as_exception(error))
        finally:
            times.append(time.perf_counter())

    if not hasattr(loop, _CALLS):
        setattr(loop, _CALLS, _Calls(loop))
    getattr(loop, _CALLS).put(call)
    try:
        return await outcome
    finally:
        times.append(time.perf_counter())
        waits = zip(times[::2], times[1::2], strict=False)
        _waits.get(deque()).extend(end - begin for begin, end in waits)


def as_exception(error: BaseException) -> Exception:
    """An error of other people's code, wrapped where it would end more than the call."""
    if isinstance(error, Exception) and not isinstance(error, (StopIteration, StopAsyncIteration)):
        return error
    exception = RagMetricsError(describe_error(error))
    exception.__cause__ = error
    return exception


async def within(seconds: float | None, awaitable: Awaitable[T]) -> T:
    """Await other people's code for a limited time; its cancellation isn't the caller's."""
    task = asyncio.ensure_future(_handled(awaitable))
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        raise TimeoutError(f"not finished within {seconds:g} s (timeout={seconds:g})")
    if task.cancelled():
        raise as_exception(asyncio.CancelledError())
    return task.result()


async def _handled(awaitable: Awaitable[T]) -> T:
    try:
        return await awaitable
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - handed over to the coroutine that waits
        raise as_exception(error) from error.__cause__


async def each(
    jobs: Iterable[T],
    do: Callable[[T], Awaitable[None]],
    workers: int,
    stop: Callable[[], None] = lambda: None,
) -> None:
    """Do every job, `workers` at once; if one fails, or this is cancelled, none goes on.

    `stop` is called before those that are under way are cancelled.
    """
    queue = iter(jobs)

    async def work() -> None:
        for job in queue:
            await do(job)

    tasks = [asyncio.create_task(work()) for _ in range(max(workers, 1))]
    try:
        # unlike gather, it doesn't wait for what swallows a cancellation
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in ended:
            task.result()
    finally:
        stop()
        for _ in queue:
            pass
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_PATIENCE / 2)
