"""Metrics that are computed question by question: of retrieved texts, and of other packages."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)

from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.metrics.texts.text_metric import HasCorpus, Usage
from llama_index_rag_metrics.rankings.judging.beside import compute_arguments
from llama_index_rag_metrics.rankings.matching.matched import expected_texts
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import each, in_thread, within

from .ask_all import Refusals
from .plan import Plan


class Expected(NamedTuple):
    """What a metric is told of a question; `relevant_texts`, also the corpus's, are for texts."""

    query: str
    relevance: Relevance | None = None
    expected_texts: list[str] | None = None
    relevant_texts: list[str] | None = None


@dataclass
class TextScores:
    """The results of metrics by question, or their errors, and what they asked for."""

    results: dict[str, dict[str, RetrievalMetricResult]] = field(default_factory=dict)
    errors: dict[str, dict[str, str]] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)


async def prepare(
    metrics: Iterable[BaseRetrievalMetric], dataset: HasCorpus, cache: Cache
) -> list[BaseRetrievalMetric]:
    """Make metrics ready for one run: metrics of texts know the dataset and use the cache."""
    ready = []
    for metric in metrics:
        own = metric
        if isinstance(metric, TextMetric):
            own = await in_thread(metric.prepare, dataset, cache)
        ready.append(own)
    return ready


async def score_texts(
    metrics: Sequence[BaseRetrievalMetric], run: Run, plan: Plan, refusals: Refusals
) -> TextScores:
    """Compute the metrics of every question of a run, several questions at once."""
    names = [metric.metric_name for metric in metrics]
    scores = TextScores({name: {} for name in names}, {name: {} for name in names})

    async def score(query_id: str) -> None:
        dataset, ranking = plan.dataset, run[query_id]
        expected = Expected(
            dataset.queries[query_id],
            dataset.relevance.get(query_id),
            dataset.expected_texts.get(query_id),
            expected_texts(dataset, query_id),
        )
        for metric in metrics:
            name = metric.metric_name
            if (unasked := refusals.unasked(name)) is not None:
                scores.errors[name][query_id] = unasked
                continue
            # a failed retrieval is an empty ranking: a metric of texts may give that a value, for
            # all others it scores 0
            if ranking.error is not None and not isinstance(metric, TextMetric):
                failed = {"error": ranking.error}
                scores.results[name][query_id] = RetrievalMetricResult(score=0.0, metadata=failed)
                continue
            try:
                result = await within(plan.timeout, compute(metric, expected, ranking))
            except Exception as error:  # noqa: BLE001 - any metric, any error: recorded by question
                scores.errors[name][query_id] = describe_error(error)
                refusals.record(name, error)
                continue
            scores.results[name][query_id] = result
            if ranking.error is None:
                refusals.succeeded(name)

    if metrics:
        await each(run, score, plan.workers)
    for metric in metrics:
        if isinstance(metric, TextMetric) and (usage := metric.take_usage()) is not None:
            scores.usage[metric.metric_name] = usage
    return scores


async def compute(
    metric: BaseRetrievalMetric, expected: Expected, ranking: Ranking
) -> RetrievalMetricResult:
    """Compute one metric of one question; one without an asynchronous method, in a thread."""
    texts = expected.expected_texts
    if isinstance(metric, TextMetric):
        texts = expected.relevant_texts
    arguments: tuple[Any, ...] = (
        expected.query,
        expected.relevance,
        list(ranking.ids),
        texts,
        list(ranking.texts or ()),
    )
    beside = compute_arguments(metric, ranking)
    acompute = getattr(metric, "acompute", None)
    if inspect.iscoroutinefunction(acompute):
        result: RetrievalMetricResult = await acompute(*arguments, **beside)
        return result
    return await in_thread(partial(metric.compute, *arguments, **beside))
