"""Live retrieval on a Ray cluster: actors retrieve, the driver does all the rest.

What is paid for (metrics of texts), the cache, the journal and the keys stay in the driver, which
sends hundreds of requests at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.indices.base import BaseIndex

from llama_index_rag_metrics.evaluation import evaluator
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.runtime.amounts import WORKERS, check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, RagMetricsError
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import run_sync, synchronous
from llama_index_rag_metrics.scores.batches import Metrics

__all__ = ["aevaluate", "evaluate"]

_ATTEMPTS = 3  # of a question whose worker is lost each time
_LEAST_DEPTH = 10  # nodes that an index is asked for, at least


async def aevaluate(
    build: Callable[[], Any],
    dataset: RetrievalDataset,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    workers: int = WORKERS,
    concurrency: int = 8,
    num_cpus: float = 1,
    actor_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> EvaluationResults:
    """Ask the questions of a dataset on the workers of a Ray cluster, and score what comes back.

    The scores are those of the package's own `evaluate`, to the last bit. A worker that is lost is
    replaced, and its questions are asked again, each of them alone: a question that kills its
    worker three times has failed, and no other with it.

    Args:
        build: builds a retriever, an index, a query engine that retrieves, or a function; called
            once on every worker. It must be picklable: models are loaded, and connections opened,
            in it.
        dataset: as of the package's own `evaluate`.
        metrics: names or metrics; those of texts are computed here.
        workers: how many actors retrieve.
        concurrency: how many questions each of them is asked at once.
        num_cpus: CPUs of a worker.
        actor_options: further options of Ray's for the workers, such as `{"num_gpus": 1}` or a
            `runtime_env`.
        options: those of the package's own `evaluate`, such as `journal`, `cache`, `name`.

    Raises:
        InvalidInput: an argument can't be used.
        RagMetricsError: no worker could build its retriever, or none is left.
        MissingExtra: Ray isn't installed.
    """
    ray = _import_ray()
    check_integer("workers", workers)
    check_integer("concurrency", concurrency)
    if not callable(build):
        remedy = "Wrap it: lambda: retriever. It is then built anew on every worker."
        raise InvalidInput("build", build, "a function", remedy)
    try:
        packed = ray.put(build)
    except TypeError as error:
        remedy = "Load models, and open connections, in the function."
        reason = describe_error(error)
        raise InvalidInput("build", reason, "a function that can be pickled", remedy) from error
    resolved = resolve(metrics)
    depth = max([_LEAST_DEPTH, *(getattr(metric, "k", None) or 0 for metric in resolved)])
    actor_class = ray.remote(_Worker).options(
        num_cpus=num_cpus, **(actor_options or {}), max_concurrency=concurrency, max_restarts=0
    )
    pool = _Pool(ray, lambda: actor_class.remote(packed, depth), workers, concurrency)
    try:
        built = await pool.start()
        options.setdefault("name", built.name)
        ask = pool.ask_of_asker if built.takes_metadata else pool.ask
        at_once = workers * concurrency
        return await evaluator.aevaluate(ask, dataset, resolved, workers=at_once, **options)
    finally:
        pool.close()


evaluate = synchronous(aevaluate)


@dataclass(frozen=True)
class _Built:
    """What a worker built: its name, and whether it is told the metadata of questions."""

    name: str
    takes_metadata: bool


class _Worker:
    """Retrieves, on whatever machine Ray starts it."""

    def __init__(self, build: Callable[[], Any], depth: int) -> None:
        source = build()
        self._retrieve: Callable[..., Any] = getattr(source, "retrieve", source)
        takes_metadata = False
        if isinstance(source, BaseIndex):
            self._retrieve = source.as_retriever(similarity_top_k=depth).retrieve
        elif not callable(self._retrieve) or isinstance(source, type):
            expected = "a retriever, an index, a query engine that retrieves, or a function"
            raise InvalidInput("what build() returned", type(source), expected)
        elif self._retrieve is source:
            takes_metadata = "metadata" in inspect.signature(source).parameters
        self._built = _Built(getattr(source, "__name__", type(source).__name__), takes_metadata)

    def built(self) -> _Built:
        return self._built

    def retrieve(self, query: str, **beside: Any) -> Any:
        retrieved = self._retrieve(query, **beside)
        return run_sync(retrieved) if inspect.iscoroutine(retrieved) else retrieved


@dataclass(eq=False)
class _Member:
    """A worker that is ready, and how many questions it can be asked now."""

    actor: Any
    free: int


def _least_busy(members: Sequence[_Member]) -> _Member | None:
    return max(members, key=lambda member: member.free, default=None)


class _Pool:
    """Asks questions on workers; a lost one is replaced, and its questions are asked again."""

    def __init__(self, ray: Any, launch: Callable[[], Any], workers: int, concurrency: int) -> None:
        self._ray, self._launch = ray, launch
        self._workers, self._concurrency = workers, concurrency
        self._members: list[_Member] = []
        self._reserved: _Member | None = None
        self._starting: set[asyncio.Task[_Built]] = set()
        self._n_starting = 0
        self._changed = asyncio.Condition()
        self._alone = asyncio.Lock()
        self._failure = ""
        errors = ray.exceptions
        self._losses = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
        )

    async def start(self) -> _Built:
        """Start the workers; what the first one that is ready has built."""
        tasks = [self._start_one() for _ in range(self._workers)]
        for ready in asyncio.as_completed(tasks):
            try:
                return await ready
            except self._ray.exceptions.RayError:
                continue
        raise self._nobody()

    async def ask(self, query: str) -> Any:
        return await self._ask(query, {})

    async def ask_of_asker(self, query: str, metadata: Mapping[str, Any]) -> Any:
        return await self._ask(query, {"metadata": dict(metadata)})

    def close(self) -> None:
        for task in self._starting:
            task.cancel()
        for member in self._members:
            self._ray.kill(member.actor)

    async def _ask(self, query: str, beside: Mapping[str, Any]) -> Any:
        try:
            return await self._ask_member(await self._take(), 1, query, beside)
        except self._losses as error:
            loss: Exception = error
        async with self._alone:
            for _ in range(_ATTEMPTS - 1):
                member = await self._take_whole()
                try:
                    return await self._ask_member(member, self._concurrency, query, beside)
                except self._losses as error:
                    loss = error
        reason = describe_error(loss).partition("\n")[0]
        raise RagMetricsError(f"the worker was lost each of {_ATTEMPTS} times: {reason}")

    async def _ask_member(
        self, member: _Member, slots: int, query: str, beside: Mapping[str, Any]
    ) -> Any:
        try:
            return await member.actor.retrieve.remote(query, **beside)
        except self._losses:
            if member in self._members:
                self._members.remove(member)
                self._ray.kill(member.actor)
                self._start_one()
            raise
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from None
        finally:
            await self._give_back(member, slots)

    async def _take(self) -> _Member:
        """A worker with a free slot, the least busy one."""
        async with self._changed:
            while True:
                unreserved = [member for member in self._members if member is not self._reserved]
                member = _least_busy(unreserved)
                if member is not None and member.free > 0:
                    member.free -= 1
                    return member
                await self._wait()

    async def _take_whole(self) -> _Member:
        """A worker that is asked nothing else."""
        async with self._changed:
            while True:
                if self._reserved not in self._members:
                    self._reserved = _least_busy(self._members)
                member = self._reserved
                if member is not None and member.free == self._concurrency:
                    member.free = 0
                    return member
                await self._wait()

    async def _wait(self) -> None:
        if not self._members and not self._n_starting:
            raise self._nobody()
        await self._changed.wait()

    async def _give_back(self, member: _Member, slots: int) -> None:
        async with self._changed:
            member.free += slots
            if slots == self._concurrency:
                self._reserved = None
            self._changed.notify_all()

    def _start_one(self) -> asyncio.Task[_Built]:
        self._n_starting += 1
        task = asyncio.create_task(self._add())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return task

    async def _add(self) -> _Built:
        actor = self._launch()
        try:
            built: _Built = await actor.built.remote()
            self._members.append(_Member(actor, self._concurrency))
            return built
        except self._ray.exceptions.RayError as error:
            self._failure = describe_error(getattr(error, "cause", None) or error)
            raise
        finally:
            self._n_starting -= 1  # before who waits looks, while this task isn't done yet
            async with self._changed:
                self._changed.notify_all()

    def _nobody(self) -> RagMetricsError:
        return RagMetricsError(
            f"none of {self._workers} workers is left that could build the retriever: "
            f"{self._failure}"
        )


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("distributed.ray.evaluate()", "ray") from error
    return ray
