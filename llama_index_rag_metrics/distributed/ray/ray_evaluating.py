"""Live retrieval on a Ray cluster: an evaluation whose queries are asked by actors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from typing_extensions import Unpack

from llama_index_rag_metrics.distributed.ray import sharing
from llama_index_rag_metrics.evaluation.asking.query import (
    Asked,
    Computed,
    Question,
    listed_postprocessors,
    prepare,
)
from llama_index_rag_metrics.evaluation.asking.run_options import (
    EvaluateOptions,
    RunOptions,
    check_count,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.evaluator import Plan, run_evaluation
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.evaluation.sessions.session_asker import asker_of
from llama_index_rag_metrics.evaluation.source import (
    Source,
    SourceInfo,
    as_retriever,
    retrieval_depth,
)
from llama_index_rag_metrics.evaluation.who_asks import Query
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike, as_matcher
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, WorkersFailed, WorkerWarning
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.retries import admission
from llama_index_rag_metrics.runtime.sync import in_thread, synchronous
from llama_index_rag_metrics.scores.scoring.batches import Metrics

T = TypeVar("T")

_ATTEMPTS = 3
"""Times that a query is given to a worker, or a retriever is built, before it has failed itself."""


@dataclass(frozen=True)
class Job:
    """The plan of a worker: its metrics are those of single queries, its workers one actor's."""

    retriever_factory: Callable[[], Source]
    similarity_top_k: int
    plan: Plan
    labels: frozenset[str]


class Built(NamedTuple):
    """What a worker built, or the error."""

    info: SourceInfo = SourceInfo()
    error: str | None = None


class Worker:
    """Asks queries on a cluster, as `LocalAsker` does in one process."""

    def __init__(self, store_actor: Any, limiter_actor: Any) -> None:
        self._store = sharing.SharedStore(store_actor)
        self._limiter_actor = limiter_actor

    async def build(self, packed: bytes) -> Built:
        try:
            job: Job = sharing.unpack(packed, self._limiter_actor)
            source = await in_thread(job.retriever_factory)
            retriever = as_retriever(source, job.similarity_top_k)
            metrics = await prepare(job.plan.metrics, job.plan.questions, Cache.on(self._store))
            self._asker = asker_of(retriever, job.plan, metrics)
        except Exception as error:  # noqa: BLE001 - any factory, any error: the driver decides
            return Built(error=describe_error(error))
        self._labels = job.labels
        match_on = job.plan.options.match_on
        return Built(SourceInfo.of(source, retriever, job.similarity_top_k, match_on))

    async def ask(self, query: Query) -> Asked:
        """Retrieve for a query; of the names only those that are labels are returned."""
        asked = await self._asker.ask(query)
        names = {name: None for name in asked.names if name[1] in self._labels}
        return Asked(
            asked.ranking,
            list(names),
            refusal=asked.refusal,
            notes=[*asked.notes, *self._asker.uncounted_notes],
            status=asked.status,
            nodes=(),
        )

    async def compute(
        self, question: Question, ranking: Ranking, without: Collection[str] = ()
    ) -> Computed:
        return await self._asker.compute(question, ranking, without)


@dataclass(eq=False)
class _Member:
    """A worker that is ready; if reserved, for a call that is to have it alone."""

    actor: Any
    running: int = 0
    reserved: bool = False


class WorkerPool:
    """Asks queries on workers; a lost one is replaced, and its queries asked again, each alone."""

    notes: Sequence[str] = ()

    def __init__(
        self,
        packed: Any,
        plan: Plan,
        store_actor: Any,
        limiter_actor: Any,
        *,
        workers: int,
        options: Mapping[str, Any],
        rate_limiter: Any = None,
    ) -> None:
        self._ray = sharing.import_ray("distributed.ray.evaluate()")
        self._packed = packed
        self._store_actor, self._limiter_actor = store_actor, limiter_actor
        self._workers, self._concurrency = workers, plan.options.workers
        self._metrics = [metric.metric_name for metric in plan.metrics]
        self._actor_class = self._ray.remote(Worker).options(
            **{**options, "max_concurrency": max(2, self._concurrency), "max_restarts": 0}
        )
        self._rate_limiter = rate_limiter
        self._members: list[_Member] = []
        self._building: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._built: SourceInfo | None = None
        self._failure: str | None = None
        errors = self._ray.exceptions
        self._losses = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
        )

    async def start(self) -> SourceInfo:
        """Start the workers; what the first one that is ready has built."""
        for _ in range(self._workers):
            self._launch()
        while self._built is None:
            await self._change()
        return self._built

    async def ask(self, query: Query) -> Asked:
        await admission(self._rate_limiter)
        answer: Asked | str = await self._call("ask", query)
        return Asked(Ranking(error=answer)) if isinstance(answer, str) else answer

    async def compute(
        self, question: Question, ranking: Ranking, without: Collection[str] = ()
    ) -> Computed:
        answer: Computed | str = await self._call("compute", question, ranking, list(without))
        if isinstance(answer, str):
            asked = (metric for metric in self._metrics if metric not in without)
            return Computed(dict.fromkeys(asked, answer))
        return answer

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await in_thread(function, *arguments)

    def close(self) -> None:
        for task in self._building:
            task.cancel()
        while self._members:
            self._kill(self._members.pop())

    async def _call(self, method: str, *arguments: Any) -> Any:
        loss = ""
        for attempt in range(_ATTEMPTS):
            alone = attempt > 0
            member = await (self._take_alone() if alone else self._take())
            try:
                return await getattr(member.actor, method).remote(*arguments)
            except self._losses as error:
                loss = _first_line(error)
                self._replace(member)
            except self._ray.exceptions.RayTaskError as error:
                return describe_error(getattr(error, "cause", None) or error)
            finally:
                member.running -= 1
                member.reserved = member.reserved and not alone
                self._changed.set()
        return f"WorkerLost: the worker was lost each of {_ATTEMPTS} times: {loss}"

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
        task.add_done_callback(self._building.discard)
        task.add_done_callback(lambda _: self._changed.set())

    async def _build(self) -> None:
        for _ in range(_ATTEMPTS):
            member = _Member(self._actor_class.remote(self._store_actor, self._limiter_actor))
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
            self._built = self._built or built.info
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


def _first_line(error: Exception) -> str:
    return describe_error(str(error).partition("\n")[0])


@shows(EvaluateOptions)
async def aevaluate(
    dataset: Any,
    retriever_factory: Callable[[], Source],
    metrics: Metrics = DEFAULT_METRICS,
    *,
    workers: int = WORKERS,
    concurrency: int = 8,
    num_cpus: float = 1,
    actor_options: Mapping[str, Any] | None = None,
    rate_limiter: Any = None,
    node_postprocessors: Sequence[BaseNodePostprocessor] = (),
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    show_progress: bool = False,
    **options: Unpack[EvaluateOptions],
) -> EvaluationResults:
    """Ask every query of a dataset on the workers of a Ray cluster, and score what comes back.

    Retrieval and metrics of texts happen on the workers, one actor each; scores are made on the
    driver, and are those of the package's own `evaluate`, to the last bit. A worker that dies is
    replaced and its queries are asked again: each counts once. A query that kills its worker three
    times has failed.

    Args:
        dataset, match_on, show_progress: as of the package's own `evaluate`.
        retriever_factory: builds a retriever, an index, a query engine, a callable, an agent or a
            workflow; called once on every worker.
        metrics: names or metrics. Metrics of texts go to the workers with the models that they, or
            LlamaIndex's `Settings` here, name. Cohere's goes without its key: workers read
            CO_API_KEY from their environment.
        workers: how many actors ask queries.
        concurrency: how many queries each of them asks at once.
        num_cpus: CPUs of a worker, also for Polars, if it uses that.
        actor_options: further options of Ray's for the workers, such as `{"num_gpus": 1}` or a
            `runtime_env`.
        rate_limiter: asked before every retrieval: an object with `async_acquire` or `acquire`,
            such as LlamaIndex's TokenBucketRateLimiter. It, and those that metrics or what the
            factory encloses hold, stay here, so that each is one limit for the whole cluster.
        node_postprocessors: applied to what is retrieved, in this order.
        matcher: how expected items are recognised, such as "text". It runs on the driver.
        cache: one actor on the driver's node keeps it for all workers.

    These and the further arguments are those of `EvaluateOptions`. `tokenizer` goes to the workers;
    `journal`, `forbidden` and `filters` stay here.

    Raises:
        InvalidInput: an argument can't be used.
        WorkersFailed: no worker could build its retriever or a metric, or none is left.
        RetrievalFailed: with `raise_on_error`.
        JournalMismatch: the journal's run, depth, match_on, tokenizer or postprocessors differ.
        MissingExtra: Ray isn't installed.
    """
    ray = sharing.import_ray("distributed.ray.evaluate()")
    check_known(aevaluate, options)
    check_count("workers", workers, "actors that ask questions")
    check_count("concurrency", concurrency, "questions that an actor asks at once")
    if not callable(retriever_factory):
        remedy = "Wrap it: lambda: retriever. It is then built anew on every worker."
        raise InvalidInput("retriever_factory", retriever_factory, "a function", remedy)
    postprocessors = listed_postprocessors(node_postprocessors)
    run_options = RunOptions.of(
        {**options, "cache": Cache()},  # the workers' is kept by an actor
        workers=workers * concurrency,
        show_progress=show_progress,
        match_on=match_on,
        matcher=as_matcher(matcher),
    )
    plan = Plan.of(dataset, resolve(metrics), run_options, postprocessors)
    job = Job(
        retriever_factory,
        retrieval_depth(plan.metrics),
        _worker_plan(plan, concurrency),
        frozenset(label for labels in plan.questions.relevance.values() for label in labels),
    )
    cache = options.get("cache")
    store_actor = sharing.start_store_actor(cache, run_options.journal)
    limiters = sharing.Limiters()
    pool = WorkerPool(
        ray.put(limiters.pack(job)),
        job.plan,
        store_actor,
        limiters.actor,
        workers=workers,
        options=sharing.worker_options(num_cpus, actor_options or {}),
        rate_limiter=rate_limiter,
    )
    serving = asyncio.create_task(limiters.serve())
    try:
        info = await pool.start()
        store = sharing.SharedStore(store_actor)
        return await run_evaluation(
            pool, replace(plan, options=replace(run_options, cache=Cache.on(store))), info=info
        )
    finally:
        pool.close()
        serving.cancel()
        with contextlib.suppress(ray.exceptions.RayError):
            await sharing.copy_to_driver(store_actor, cache)
        for actor in filter(None, (store_actor, limiters.actor)):
            ray.kill(actor)


evaluate = synchronous(aevaluate)


def _worker_plan(plan: Plan, concurrency: int) -> Plan:
    """The plan without what stays on the driver: matchers, metrics of rankings."""
    metrics = [
        metric.portable() if isinstance(metric, TextMetric) else metric for metric in plan.computed
    ]
    questions = plan.questions if metrics else RetrievalDataset({})
    options = replace(plan.options, workers=concurrency, matcher=None)
    return replace(plan, questions=questions, metrics=metrics, options=options)
