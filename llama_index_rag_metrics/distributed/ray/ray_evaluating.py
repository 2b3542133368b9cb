"""Live retrieval on a Ray cluster: an evaluation whose queries are asked by actors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from typing_extensions import Unpack

from llama_index_rag_metrics.distributed.ray.sharing import (
    Limiters,
    SharedStore,
    copy_to_driver,
    import_ray,
    start_store_actor,
    worker_options,
)
from llama_index_rag_metrics.distributed.ray.worker_pool import Job, WorkerPool
from llama_index_rag_metrics.evaluation.asking.pipeline import listed_postprocessors
from llama_index_rag_metrics.evaluation.asking.run_options import (
    EvaluateOptions,
    RunOptions,
    check_count,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.evaluation.run_evaluation import Plan, run_evaluation
from llama_index_rag_metrics.evaluation.source import Source, retrieval_depth
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matcher_names import MatcherLike, as_matcher
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.scores.scoring.batches import Metrics


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
        cache: one actor on the driver's node keeps it for all workers; what one of them is asking
            for, the others wait for. A store that can't be pickled is given as a function that
            makes it.

    These and the further arguments are those of `EvaluateOptions`. `tokenizer` goes to the workers;
    `journal`, `forbidden` and `filters` stay here. `latency="alone"` times a query while no worker
    asks another.

    Raises:
        InvalidInput: an argument can't be used.
        WorkersFailed: no worker could build its retriever or a metric, or none is left.
        RetrievalFailed: with `raise_on_error`.
        JournalMismatch: the journal's dataset, match_on, retriever or postprocessors differ.
        MissingExtra: Ray isn't installed.
    """
    ray = import_ray("distributed.ray.evaluate()")
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
        plan.permissions is not None and plan.permissions.needs_nodes,
    )
    cache = options.get("cache")
    store_actor = start_store_actor(cache, run_options.journal)
    limiters = Limiters()
    pool = WorkerPool(
        ray.put(limiters.pack(job)),
        job.plan,
        store_actor,
        limiters.actor,
        workers=workers,
        options=worker_options(num_cpus, actor_options or {}),
        rate_limiter=rate_limiter,
    )
    serving = asyncio.create_task(limiters.serve())
    try:
        retriever_id = await pool.start()
        store = SharedStore(store_actor, "driver")
        return await run_evaluation(
            pool,
            replace(plan, options=replace(run_options, cache=Cache(store))),
            retriever_id=retriever_id,
        )
    finally:
        pool.close()
        serving.cancel()
        with contextlib.suppress(ray.exceptions.RayError):
            await copy_to_driver(store_actor, cache)
        for actor in (store_actor, limiters.actor):
            ray.kill(actor)


evaluate = synchronous(aevaluate)


def _worker_plan(plan: Plan, concurrency: int) -> Plan:
    """The plan without what stays on the driver: matchers, permissions, metrics of rankings."""
    metrics = [
        metric.portable() if isinstance(metric, TextMetric) else metric for metric in plan.computed
    ]
    questions = plan.questions if metrics else RetrievalDataset({}, mode=plan.questions.mode)
    options = replace(plan.options, workers=concurrency, matcher=None, forbidden=None, filters=None)
    return replace(
        plan,
        questions=questions,
        wanted=metrics,
        options=options,
        permissions=None,
        filters=None if plan.filters is None else {},
    )
