"""Live retrieval on a Ray cluster: actors retrieve, the driver does all the rest.

What is paid for (metrics of texts), the cache, the journal and the keys stay in the driver, which
sends hundreds of requests at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor

from llama_index_rag_metrics.evaluation import evaluator
from llama_index_rag_metrics.evaluation.as_ask import (
    Answer,
    Question,
    Source,
    as_source,
    ask_captured,
    retrieval_depth,
)
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.rankings.judging.beside import Tokenizer
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    MissingExtra,
    RagMetricsError,
    check_integer,
)
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import WORKERS, run_sync, synchronous
from llama_index_rag_metrics.scores.batches import Failed, Metrics

__all__ = ["aevaluate", "evaluate"]

_LOST = "the worker was lost each of 3 times: {reason}"
_NOBODY = "none of {n} workers is left that could build the retriever: {failure}"


async def aevaluate(
    build: Callable[[], Any],
    dataset: Any,
    metrics: Metrics = metric_names.DEFAULT_METRICS,
    *,
    workers: int = WORKERS,
    concurrency: int = 8,
    actor_options: Mapping[str, Any] | None = None,
    name: str = "",
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    node_postprocessors: Sequence[BaseNodePostprocessor] = (),
    timeout: float | None = None,
    journal: str | Path | None = None,
    run: str = "",
    cache: Cache | str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    min_score: float | None = None,
    repeats: int = 1,
    failed: Failed = "zero",
    show_progress: bool = False,
    raise_on_error: bool = False,
) -> EvaluationResults:
    """Ask the questions of a dataset on the workers of a Ray cluster, and score what comes back.

    The scores are those of the package's own `evaluate`, to the last bit. A worker that is lost is
    replaced, and its questions are asked again, one after another: a question that kills its worker
    three times has failed, and no other with it.

    Args:
        build: builds, on every worker, a retriever, an index, a query engine that retrieves, or a
            function. It must be picklable: models are loaded, and connections opened, in it.
        workers: how many actors retrieve.
        concurrency: how many questions each of them is asked at once.
        actor_options: options of Ray's for the workers, such as `{"num_gpus": 1}`; a CPU each.

    The other arguments are those of `evaluate`; metrics of texts are computed here.

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
    packed, resolved = _packed(ray, build), metric_names.metrics(metrics)
    options = {"num_cpus": 1, "max_concurrency": concurrency, **(actor_options or {})}
    actor_class, depth = ray.remote(_Worker).options(**options), retrieval_depth(resolved)
    pool = _Pool(ray, lambda: actor_class.remote(packed, depth), workers, concurrency)
    try:
        built, context = await pool.start()
        source = Source(pool.ask, built, context=context)
        return await evaluator.aevaluate(
            source,
            dataset,
            resolved,
            name=name or built,
            match_on=match_on,
            matcher=matcher,
            node_postprocessors=node_postprocessors,
            workers=workers * concurrency,
            timeout=timeout,
            journal=journal,
            run=run,
            cache=cache,
            tokenizer=tokenizer,
            min_score=min_score,
            repeats=repeats,
            failed=failed,
            show_progress=show_progress,
            raise_on_error=raise_on_error,
        )
    finally:
        pool.close()


evaluate = synchronous(aevaluate)


def _packed(ray: Any, build: object) -> Any:
    if not callable(build):
        remedy = "Wrap it: lambda: retriever. It is then built anew on every worker."
        raise InvalidInput("build", build, "a function", remedy)
    try:
        return ray.put(build)
    except TypeError as error:
        remedy = "Load models, and open connections, in the function."
        reason = describe_error(error)
        raise InvalidInput("build", reason, "a function that can be pickled", remedy) from error


class _Worker:
    """Builds the retriever and asks it, on whatever machine Ray starts it."""

    def __init__(self, build: Callable[[], Any], depth: int) -> None:
        self._source = as_source(build(), depth)

    def built(self) -> tuple[str, str]:
        """Return the name of what it built, and the context that this takes beside questions."""
        return self._source.name, self._source.context

    def ask(self, question: Question) -> Answer:
        return run_sync(ask_captured(self._source, question))


class _Lost(Exception):
    """A worker was lost with its question."""


class _Pool:
    """Asks questions on workers; a lost one is replaced, and its questions are asked again."""

    def __init__(self, ray: Any, launch: Callable[[], Any], workers: int, concurrency: int) -> None:
        self._ray, self._launch = ray, launch
        self._workers, self._concurrency = workers, concurrency
        self._actors: set[Any] = set()
        # an actor for each question that it can be asked now; None once no actor is left
        self._slots: asyncio.Queue[Any] = asyncio.Queue()
        self._starting: set[asyncio.Task[tuple[str, str]]] = set()
        self._again = asyncio.Lock()
        self._failure = ""

    async def start(self) -> tuple[str, str]:
        """Start the workers; return what the first one to be ready has built."""
        tasks = [self._start_one() for _ in range(self._workers)]
        for ready in asyncio.as_completed(tasks):
            with suppress(self._ray.exceptions.RayError):
                return await ready
        raise self._nobody()

    async def ask(self, question: Question) -> Answer:
        with suppress(_Lost):
            return await self._ask(question)
        # one after another: one that kills its worker takes no other lost one along again
        async with self._again:
            with suppress(_Lost):
                return await self._ask(question)
            try:
                return await self._ask(question)
            except _Lost as loss:
                raise RagMetricsError(_LOST.format(reason=loss)) from loss

    def close(self) -> None:
        for task in self._starting:
            task.cancel()
        for actor in self._actors:
            self._ray.kill(actor)

    async def _ask(self, question: Question) -> Answer:
        actor = await self._slots.get()
        while actor is not None and actor not in self._actors:
            actor = await self._slots.get()
        try:
            if actor is None:
                raise self._nobody()
            answer: Answer = await actor.ask.remote(question)
            return answer
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from None
        except self._ray.exceptions.RayError as error:
            if actor in self._actors:
                self._actors.remove(actor)
                self._ray.kill(actor)
                self._start_one()
            raise _Lost(describe_error(error).partition("\n")[0]) from error
        finally:
            self._slots.put_nowait(actor)

    def _start_one(self) -> asyncio.Task[tuple[str, str]]:
        task = asyncio.create_task(self._add())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return task

    async def _add(self) -> tuple[str, str]:
        actor = self._launch()
        try:
            built: tuple[str, str] = await actor.built.remote()
        except self._ray.exceptions.RayError as error:
            self._failure = describe_error(getattr(error, "cause", None) or error)
            if not self._actors and len(self._starting) == 1:
                self._slots.put_nowait(None)
            raise
        self._actors.add(actor)
        for _ in range(self._concurrency):
            self._slots.put_nowait(actor)
        return built

    def _nobody(self) -> RagMetricsError:
        return RagMetricsError(_NOBODY.format(n=self._workers, failure=self._failure))
