"""Live retrieval on a Ray cluster: actors retrieve, the driver does all the rest.

What is paid for (metrics of texts), the cache, the journal and the keys stay in the driver, which
sends hundreds of requests at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from llama_index.core.indices.base import BaseIndex

from llama_index_rag_metrics.evaluation import evaluator
from llama_index_rag_metrics.evaluation.as_ask import retrieval_depth
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.runtime.amounts import WORKERS, check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, RagMetricsError
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import run_sync, synchronous
from llama_index_rag_metrics.scores.batches import Metrics

__all__ = ["aevaluate", "evaluate"]

_ATTEMPTS = 3  # of a question whose worker is lost each time
_LOST = "the worker was lost each of {n} times: {reason}"
_NOBODY = "none of {n} workers is left that could build the retriever: {failure}"


async def aevaluate(
    build: Callable[[], Any],
    dataset: Any,
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
        build: builds, on every worker, a retriever, an index, a query engine that retrieves, or a
            function. It must be picklable: models are loaded, and connections opened, in it.
        dataset, metrics, options: as of `evaluate`; metrics of texts are computed here.
        workers: how many actors retrieve.
        concurrency: how many questions each of them is asked at once.
        num_cpus: CPUs of a worker.
        actor_options: further options of Ray's for the workers, such as `{"num_gpus": 1}`.

    Raises:
        InvalidInput: an argument can't be used.
        RagMetricsError: no worker could build its retriever, or none is left.
        MissingExtra: Ray isn't installed.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("distributed.ray.evaluate()", "ray") from error
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
    actor_options = {"num_cpus": num_cpus, **(actor_options or {})}
    actor_class = ray.remote(_Worker).options(
        **actor_options, max_concurrency=concurrency, max_restarts=0
    )
    depth = retrieval_depth(resolved)
    pool = _Pool(ray, lambda: actor_class.remote(packed, depth), workers, concurrency)
    try:
        built = await pool.start()
        options.setdefault("name", built.name)

        async def ask(query: str) -> Any:
            return await pool.ask(query)

        async def ask_with_metadata(query: str, metadata: Mapping[str, Any]) -> Any:
            return await pool.ask(query, metadata=dict(metadata))

        source = ask_with_metadata if built.takes_metadata else ask
        at_once = workers * concurrency
        return await evaluator.aevaluate(source, dataset, resolved, workers=at_once, **options)
    finally:
        pool.close()


evaluate = synchronous(aevaluate)


class _Built(NamedTuple):
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


class _Lost(Exception):
    """A worker was lost with its question."""


class _Pool:
    """Asks questions on workers; a lost one is replaced, and its questions are asked again."""

    def __init__(self, ray: Any, launch: Callable[[], Any], workers: int, concurrency: int) -> None:
        self._ray, self._launch = ray, launch
        self._workers, self._concurrency = workers, concurrency
        self._free: dict[Any, int] = {}  # how many questions each worker can be asked now
        self._reserved: Any = None  # the worker that is to be asked one question alone
        self._starting: set[asyncio.Task[_Built]] = set()
        self._changed = asyncio.Condition()
        self._alone = asyncio.Lock()
        self._failure = ""

    async def start(self) -> _Built:
        """Start the workers; what the first one that is ready has built."""
        tasks = [self._start_one() for _ in range(self._workers)]
        for ready in asyncio.as_completed(tasks):
            try:
                return await ready
            except self._ray.exceptions.RayError:
                continue
        raise self._nobody()

    async def ask(self, query: str, **beside: Any) -> Any:
        with suppress(_Lost):
            return await self._ask(query, beside, alone=False)
        async with self._alone:
            for _ in range(_ATTEMPTS - 2):
                with suppress(_Lost):
                    return await self._ask(query, beside, alone=True)
            try:
                return await self._ask(query, beside, alone=True)
            except _Lost as loss:
                raise RagMetricsError(_LOST.format(n=_ATTEMPTS, reason=loss)) from loss

    def close(self) -> None:
        for task in self._starting:
            task.cancel()
        for actor in self._free:
            self._ray.kill(actor)

    async def _ask(self, query: str, beside: Mapping[str, Any], *, alone: bool) -> Any:
        actor = await self._take(alone)
        try:
            return await actor.retrieve.remote(query, **beside)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from None
        except self._ray.exceptions.RayError as error:
            if self._free.pop(actor, None) is not None:
                self._ray.kill(actor)
                self._start_one()
            raise _Lost(describe_error(error).partition("\n")[0]) from error
        finally:
            async with self._changed:
                if actor in self._free:
                    self._free[actor] += self._concurrency if alone else 1
                if alone:
                    self._reserved = None
                self._changed.notify_all()

    async def _take(self, alone: bool) -> Any:
        """The least busy worker; one that is asked nothing else, if alone."""
        async with self._changed:
            while True:
                free = {actor: n for actor, n in self._free.items() if actor is not self._reserved}
                if alone and self._reserved not in self._free:
                    self._reserved = max(free, key=free.__getitem__, default=None)
                actor, slots = self._reserved, self._concurrency
                if not alone:
                    actor, slots = max(free, key=free.__getitem__, default=None), 1
                if self._free.get(actor, 0) >= slots:
                    self._free[actor] -= slots
                    return actor
                if not self._free and not self._starting:
                    raise self._nobody()
                await self._changed.wait()

    def _start_one(self) -> asyncio.Task[_Built]:
        task = asyncio.create_task(self._add())
        self._starting.add(task)
        return task

    async def _add(self) -> _Built:
        actor = self._launch()
        try:
            built: _Built = await actor.built.remote()
            self._free[actor] = self._concurrency
            return built
        except self._ray.exceptions.RayError as error:
            self._failure = describe_error(getattr(error, "cause", None) or error)
            raise
        finally:
            # before who waits looks, while this task isn't done yet
            self._starting = {task for task in self._starting if task is not asyncio.current_task()}
            async with self._changed:
                self._changed.notify_all()

    def _nobody(self) -> RagMetricsError:
        return RagMetricsError(_NOBODY.format(n=self._workers, failure=self._failure))
