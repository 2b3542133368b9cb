"""Live retrieval on a Ray cluster: an evaluation whose queries are asked by actors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_rag_metrics.distributed.ray.environment import import_ray, worker_options
from llama_index_rag_metrics.distributed.ray.sharing import (
    Limiters,
    SharedStore,
    bring_home,
    keep_store,
)
from llama_index_rag_metrics.distributed.ray.worker import Job
from llama_index_rag_metrics.distributed.ray.worker_pool import WorkerPool
from llama_index_rag_metrics.evaluation import DEFAULT_METRICS, EvaluationResults
from llama_index_rag_metrics.evaluation.asking.run_options import (
    LatencyMode,
    RunOptions,
    check_count,
)
from llama_index_rag_metrics.evaluation.conduct import conduct
from llama_index_rag_metrics.evaluation.permissions import ForbiddenLike
from llama_index_rag_metrics.evaluation.plan import Plan
from llama_index_rag_metrics.evaluation.retrievers.pipeline import listed_postprocessors
from llama_index_rag_metrics.evaluation.sessions.session_asker import MOST_CALLS, check_calls
from llama_index_rag_metrics.evaluation.source import Source, retrieval_depth
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.combining import Combine
from llama_index_rag_metrics.rankings.matching import MatcherLike, MatchOn, as_matcher
from llama_index_rag_metrics.rankings.tokens import Tokenizer
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.scores.scoring import Failed, Metrics, NoRelevant, ScoringOptions


async def aevaluate(
    dataset: Any,
    retriever_factory: Callable[[], Source],
    metrics: Metrics = DEFAULT_METRICS,
    *,
    workers: int = 2,
    concurrency: int = 8,
    num_cpus: float = 1,
    actor_options: Mapping[str, Any] | None = None,
    rate_limiter: Any = None,
    use_async: bool | None = None,
    node_postprocessors: Sequence[BaseNodePostprocessor] = (),
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    show_progress: bool = False,
    name: str = "",
    journal: str | Path | None = None,
    retriever_id: str | None = None,
    cache: Cache | BaseKVStore | str | Path | Callable[[], BaseKVStore] | None = None,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    raise_on_error: bool = False,
    on_error: OnError = "raise",
    ignore_identical_ids: bool = False,
    timeout: float | None = None,
    max_failures: float | None = None,
    latency: LatencyMode = "load",
    latency_sample: int | None = None,
    tokenizer: Tokenizer | None = None,
    combine: Combine | None = None,
    max_calls: int | None = MOST_CALLS,
    forbidden: ForbiddenLike | None = None,
    price_per_million: float | None = None,
) -> EvaluationResults:
    """Ask every query of a dataset on the workers of a Ray cluster, and score what comes back.

    Retrieval and metrics of texts happen on the workers, one actor each; scores are made on the
    driver, and are those of the package's own `evaluate`, to the last bit. A worker that dies is
    replaced and its queries are asked again: each counts once. A query that kills its worker three
    times has failed.

    Args:
        dataset: a `RetrievalDataset`, or what `RetrievalDataset.of` takes.
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
        match_on: which id of a retrieved node is compared with the labels.
        matcher: how expected items are recognised, if not by id; such as "text". It runs on the
            driver.
        journal: a file, on the driver, that keeps every finished query. A second call with it goes
            on where the first ended, here or in one process.
        retriever_id: says which retriever this is, for the journal; by default what the package's
            own evaluator takes.
        cache: keeps what was paid for: a `Cache`, a path, a key-value store of LlamaIndex, or a
            function that makes one, for stores that can't be pickled. By default, a file beside the
            journal; without one, memory, for this call only. One actor on the driver's node keeps
            it for all workers; what one of them is asking for, the others wait for.
        tokenizer: as for the package's own `evaluate`; it goes to the workers.
        latency: "load" or "alone", which times a query while no worker asks another.
        forbidden: as for the package's own `evaluate`; it is decided on the driver.

    The further arguments are those of `RetrieverEvaluator.aevaluate_dataset`. The calls of agents
    and workflows are kept.

    Raises:
        InvalidInput: an argument can't be used.
        WorkersFailed: no worker could build its retriever or a metric, or none is left.
        RetrievalFailed: with `raise_on_error`.
        JournalMismatch: the journal's dataset, match_on, retriever or postprocessors differ.
        MissingExtra: Ray isn't installed.
    """
    ray = import_ray("distributed.ray.evaluate()")
    check_count("workers", workers, "actors that ask queries")
    check_count("concurrency", concurrency, "queries that an actor asks at once")
    if not callable(retriever_factory):
        remedy = "Wrap it: lambda: retriever. It is then built anew on every worker."
        raise InvalidInput("retriever_factory", retriever_factory, "a function", remedy)
    postprocessors = listed_postprocessors(node_postprocessors)
    options = RunOptions(
        workers=workers * concurrency,
        show_progress=show_progress,
        name=name,
        match_on=match_on,
        matcher=as_matcher(matcher),
        journal=journal,
        scoring=ScoringOptions(no_relevant, failed),
        raise_on_error=raise_on_error,
        use_async=use_async,
        on_error=on_error,
        ignore_identical_ids=ignore_identical_ids,
        timeout=timeout,
        max_failures=max_failures,
        latency=latency,
        latency_sample=latency_sample,
        tokenizer=tokenizer,
        price_per_million=price_per_million,
    )
    chosen = resolve(metrics)
    check_calls(chosen, options.matcher, combine)
    plan = Plan.of(dataset, chosen, options, forbidden)
    job = replace(
        _job(plan, retriever_factory, postprocessors, concurrency),
        combine=combine,
        max_calls=max_calls,
    )
    keeper = keep_store(cache, journal)
    limiters = Limiters()
    pool = WorkerPool(
        ray.put(limiters.pack(job)),
        keeper,
        limiters.desk,
        workers=workers,
        concurrency=concurrency,
        metrics=[metric.metric_name for metric in job.metrics],
        options=worker_options(num_cpus, actor_options or {}),
        rate_limiter=rate_limiter,
    )
    serving = asyncio.create_task(limiters.serve())
    try:
        built_id = await pool.start()
        return await conduct(
            pool,
            replace(plan, options=replace(options, cache=Cache(SharedStore(keeper, "driver")))),
            retriever_id=retriever_id or built_id,
            postprocessors=postprocessors,
        )
    finally:
        pool.close()
        serving.cancel()
        with contextlib.suppress(ray.exceptions.RayError):
            await bring_home(keeper, cache)
        for actor in (keeper, limiters.desk):
            ray.kill(actor)


evaluate = synchronous(aevaluate)


def _job(
    plan: Plan,
    retriever_factory: Callable[[], Source],
    postprocessors: Sequence[BaseNodePostprocessor],
    concurrency: int,
) -> Job:
    """What every worker does."""
    of_texts = [
        metric.portable() if isinstance(metric, TextMetric) else metric for metric in plan.computed
    ]
    return Job(
        retriever_factory,
        retrieval_depth(plan.metrics),
        postprocessors,
        plan.options.match_on,
        of_texts,
        plan.questions if of_texts else None,
        frozenset(label for labels in plan.questions.relevance.values() for label in labels),
        concurrency,
        plan.options.use_async,
        plan.questions.mode,
        plan.options.timeout,
        plan.counter,
        plan.places,
        plan.permissions is not None and plan.permissions.needs_nodes,
    )
