"""The pool of workers: queries go to whoever is free; what a lost worker had in hand goes back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from llama_index_rag_metrics.distributed.ray.environment import import_ray
from llama_index_rag_metrics.distributed.ray.worker import Built, Worker
from llama_index_rag_metrics.evaluation.asking.query import Asked, Computed, Question
from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import WorkersFailed, WorkerWarning
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.retries import admission
from llama_index_rag_metrics.runtime.sync import in_thread

T = TypeVar("T")

_ATTEMPTS = 3
"""So often a query is given to a worker, and a worker tries to build its retriever, before whatever
kills the worker is put down to them."""


@dataclass(eq=False)
class _Member:
    """A worker that is ready.

    Attributes:
        running: how many calls it has in hand.
        reserved: whether a call is to have it alone.
    """

    actor: Any
    name: str
    running: int = 0
    reserved: bool = False


class _Lost(Exception):
    """A call was lost with its worker, each time."""


class WorkerPool:
    """Asks queries on the workers of a Ray cluster.

    A worker that dies, alone or with its node, is replaced; its queries are asked again by others.
    Since any of them may have killed it, each is then asked alone, so that a query that kills every
    worker fails by itself, and no other with it.

    `packed` refers to the packed `Job`; `options` are Ray's options of a worker.
    """

    notes: Sequence[str] = ()

    def __init__(
        self,
        packed: Any,
        keeper: Any,
        limiter_actor: Any,
        *,
        workers: int,
        concurrency: int,
        metrics: Sequence[str],
        options: Mapping[str, Any],
        rate_limiter: Any = None,
    ) -> None:
        self._ray = import_ray("distributed.ray.evaluate()")
        self._packed = packed
        self._keeper = keeper
        self._limiter_actor = limiter_actor
        self._workers = workers
        self._concurrency = concurrency
        self._metrics = metrics
        self._actor_class = self._ray.remote(Worker).options(
            **{**options, "max_concurrency": max(2, concurrency), "max_restarts": 0}
        )
        self._rate_limiter = rate_limiter
        self._members: list[_Member] = []
        self._building: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()
        self._built: Built | None = None
        self._failure: str | None = None
        errors = self._ray.exceptions
        self._losses = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
        )

    async def start(self) -> str | RetrieverIdentity:
        """Start the workers, and return the retriever's identity as soon as one is ready."""
        for _ in range(self._workers):
            self._launch()
        while self._built is None:
            await self._change()
        return self._built.retriever_id

    async def ask(self, query: str) -> Asked:
        await admission(self._rate_limiter)
        try:
            asked: Asked = await self._call("ask", query)
        except (_Lost, self._ray.exceptions.RayTaskError) as error:
            return Asked(Ranking(error=_describe(error)))
        return asked

    async def compute(
        self, question: Question, ranking: Ranking, without: Collection[str] = ()
    ) -> Computed:
        try:
            computed: Computed = await self._call("compute", question, ranking, list(without))
        except (_Lost, self._ray.exceptions.RayTaskError) as error:
            asked = (metric for metric in self._metrics if metric not in without)
            return Computed(dict.fromkeys(asked, _describe(error)))
        return computed

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a blocking function in a thread of the driver."""
        return await in_thread(function, *arguments)

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for task in self._building:
            task.cancel()
        while self._members:
            self._kill(self._members.pop())

    async def _call(self, method: str, *arguments: Any) -> Any:
        loss: Exception | None = None
        for attempt in range(_ATTEMPTS):
            async with self._one(alone=attempt > 0) as member:
                try:
                    return await getattr(member.actor, method).remote(*arguments)
                except self._losses as error:
                    loss = error
                    self._replace(member)
        raise _Lost(f"the worker was lost each of {_ATTEMPTS} times: {_first_line(loss)}")

    @contextlib.asynccontextmanager
    async def _one(self, *, alone: bool) -> Any:
        member = await (self._take_alone() if alone else self._take())
        try:
            yield member
        finally:
            member.running -= 1
            member.reserved = member.reserved and not alone
            self._changed.set()

    async def _take(self) -> _Member:
        while True:
            free = [
                member
                for member in self._members
                if not member.reserved and member.running < self._concurrency
            ]
            if free:
                member = min(free, key=lambda member: member.running)
                member.running += 1
                return member
            await self._change()

    async def _take_alone(self) -> _Member:
        while True:
            while not (free := [member for member in self._members if not member.reserved]):
                await self._change()
            member = min(free, key=lambda member: member.running)
            member.reserved = True
            try:
                while member in self._members and member.running:
                    await self._change()
            except BaseException:
                member.reserved = False
                raise
            if member in self._members:
                member.running += 1
                return member

    async def _change(self) -> None:
        """Wait until a worker is ready or free."""
        if not self._members and not self._building:
            raise WorkersFailed(self._workers, self._failure or "")
        self._changed.clear()
        await self._changed.wait()

    def _replace(self, member: _Member) -> None:
        if member in self._members:
            self._members.remove(member)
            self._kill(member)
            self._launch()

    def _launch(self) -> None:
        task = asyncio.create_task(self._build())
        self._building.add(task)
        task.add_done_callback(self._launched)

    def _launched(self, task: asyncio.Task[None]) -> None:
        self._building.discard(task)
        self._changed.set()

    async def _build(self) -> None:
        for _ in range(_ATTEMPTS):
            name = f"worker {next(self._numbers)}"
            member = _Member(
                self._actor_class.remote(self._keeper, self._limiter_actor, name), name
            )
            try:
                built: Built = await member.actor.build.remote(self._packed)
            except self._losses as error:
                self._kill(member)
                built = Built(error=f"the worker was lost while building: {_first_line(error)}")
                continue
            except self._ray.exceptions.RayError as error:
                built = Built(error=_first_line(error))
            except BaseException:
                self._kill(member)
                raise
            break
        if built.error is None:
            self._built = self._built or built
            self._members.append(member)
        else:
            self._kill(member)
            self._failure = built.error
        if self._members and self._failure is not None:
            message = f"a worker can't be made ready, and others go on: {self._failure}"
            self._failure = None
            warn_caller(WorkerWarning(message))

    def _kill(self, member: _Member) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(member.actor, no_restart=True)
            self._keeper.forget.remote(member.name)


def _describe(error: Exception) -> str:
    if isinstance(error, _Lost):
        return f"WorkerLost: {error}"
    return describe_error(getattr(error, "cause", None) or error)


def _first_line(error: Exception | None) -> str:
    return describe_error(str(error).partition("\n")[0])
