"""A function that exists twice, asynchronous and blocking, called in the way that works.

No class shows which way blocks or can't work: the first call is watched, whether it ever waits.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from llama_index_rag_metrics.runtime.errors import QueryTimeout
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.threads import Threads, within

T = TypeVar("T")
Way: TypeAlias = Literal["asynchronous", "blocking"]
_OTHER: dict[Way, Way] = {"asynchronous": "blocking", "blocking": "asynchronous"}

# errors of a way that can never work, unlike those of a service that was busy
_CANNOT = (NotImplementedError, AttributeError, TypeError, ImportError)
_SAYS_CANNOT = re.compile(r"sync|await|event loop|not initiali[sz]ed", re.IGNORECASE)
_OF_ANOTHER_LOOP = re.compile(r"different (event )?loop|event loop is closed", re.IGNORECASE)
# the result of a call, and its seconds, without attempts that failed
Answer: TypeAlias = "tuple[T, float]"


class CallModes:
    """The way in which a call is made: the first, until it turns out that it can't work."""

    def __init__(self, owner: str, methods: Mapping[Way, str]) -> None:
        self.methods = methods
        self.current: Way = next(iter(methods))
        self.notes: list[str] = []
        self._owner = owner

    @property
    def method(self) -> str:
        return self.methods[self.current]

    def switch_from(self, way: Way, error: Exception) -> None:
        """Take the other way from now on, and note the error that shows why."""
        other = _OTHER[way]
        self.current = other
        problem = f"{self._owner}: {self.methods[way]} doesn't work here"
        if any(note.startswith(problem) for note in self.notes):
            return
        how = f"{self.methods[other]} was called{' in threads' * (other == 'blocking')}"
        reason = " ".join(describe_error(error).split())
        if _OF_ANOTHER_LOOP.search(reason):
            reason = re.sub("<.*>", "…", reason)  # the tasks and futures
            reason = f"its connections belong to another event loop ({reason})"
        self.notes.append(f"{problem}, so {how} instead: {reason}")


class DualCall(Generic[T]):
    """Calls the asynchronous or the blocking one, in `threads`, of two methods that do the same."""

    def __init__(
        self,
        owner: str,
        asynchronous: Callable[..., Awaitable[T]] | None,
        blocking: Callable[..., T] | None,
        threads: Threads,
        use_async: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        methods: dict[Way, str] = {}
        self._calls: dict[Way, Callable[..., Awaitable[T]]] = {}
        if asynchronous is not None and (use_async is not False or blocking is None):
            self._calls["asynchronous"] = partial(self._awaited, timeout, asynchronous)
            methods["asynchronous"] = asynchronous.__name__
        if blocking is not None and (use_async is not True or asynchronous is None):
            self._calls["blocking"] = partial(threads.call_within, timeout, blocking)
            methods["blocking"] = blocking.__name__
        self._modes = CallModes(owner, methods)
        self._untried = len(self._calls) > 1
        self._waits = False
        self._worked: set[Way] = set()
        self._first = asyncio.Lock()

    @property
    def notes(self) -> list[str]:
        return self._modes.notes

    async def __call__(self, *arguments: Any) -> Answer[T]:
        if self._untried:
            async with self._first:
                if self._untried:
                    return await self._call_first(*arguments)
        return await self._call(*arguments)

    async def _call_first(self, *arguments: Any) -> Answer[T]:
        try:
            return await self._attempt("asynchronous", *arguments)
        except QueryTimeout:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other way may work
            return await self._call_other("asynchronous", error, *arguments)
        finally:
            self._untried = False
            if not self._waits:
                self._modes.current = "blocking"

    async def _call(self, *arguments: Any) -> Answer[T]:
        way = self._modes.current
        try:
            return await self._attempt(way, *arguments)
        except Exception as error:
            if len(self._calls) > 1 and self._may_never_work(way, error):
                return await self._call_other(way, error, *arguments)
            raise

    def _may_never_work(self, way: Way, error: Exception) -> bool:
        is_late = isinstance(error, QueryTimeout)
        return not is_late and (way not in self._worked or says_it_cannot(error))

    async def _call_other(self, way: Way, error: Exception, *arguments: Any) -> Answer[T]:
        has_worked = _OTHER[way] in self._worked
        try:
            answer = await self._attempt(_OTHER[way], *arguments)
        except Exception:
            if says_it_cannot(error):
                raise
            raise error from None
        if has_worked and way == "blocking" and way not in self._worked:
            self._modes.current = "asynchronous"  # which only seemed to block
        # a way that has worked since then failed on this query alone
        elif self._may_never_work(way, error):
            self._modes.switch_from(way, error)
        return answer

    async def _awaited(
        self, timeout: float | None, call: Callable[..., Awaitable[T]], *arguments: Any
    ) -> T:
        return await within(timeout, self._watched(call(*arguments)))

    async def _watched(self, awaitable: Awaitable[T]) -> T:
        """Check at every turn of the loop whether the first call waits."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()

        def look() -> None:
            if self._untried and task is not None and not task.done():
                self._waits |= _waits(task)
                if not self._waits:
                    loop.call_soon(look)

        if self._untried:
            loop.call_soon(look)
        return await awaitable

    async def _attempt(self, way: Way, *arguments: Any) -> Answer[T]:
        start = time.perf_counter()
        result = await self._calls[way](*arguments)
        self._worked.add(way)
        return result, time.perf_counter() - start


def _waits(task: asyncio.Task[Any]) -> bool:
    """Whether a task is suspended by anything but tasks, which may themselves block the loop."""
    waits_for = getattr(task, "_fut_waiter", None)
    if isinstance(waits_for, asyncio.Task):
        return _waits(waits_for)
    gathered = getattr(waits_for, "_children", None)
    if gathered is not None:
        return any(_waits(child) for child in gathered if isinstance(child, asyncio.Task))
    return not task.done() and getattr(task.get_coro(), "cr_await", None) is not None


def says_it_cannot(error: Exception) -> bool:
    return isinstance(error, _CANNOT) or bool(_SAYS_CANNOT.search(describe_error(error)))
