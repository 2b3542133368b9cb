"""Scores of what was retrieved: by ids, by what a matcher recognised, and by texts."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)

from llama_index_rag_metrics.files.retrieval_dataset import unread_labels
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.judging.beside import SPANS, compute_arguments, needs_of
from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.errors import EveryQueryFailed
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import each, in_thread, within
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.score_rankings import score_with

from .plan import Plan

_CORE = "llama_index.core.evaluation.retrieval.metrics"
_MIXED = "{names}: by LlamaIndex's definition; the others by this package's"
_UNPLACED = (
    "{n:,} of {all:,} retrieved passages have no place in a document, so span metrics leave "
    "them out"
)

Computed: TypeAlias = "dict[str, dict[str, RetrievalMetricResult]]"
"""Metric's name to query id to result, of metrics that are computed question by question."""


async def score_run(
    plan: Plan, run: Run, matched: Matched | None, metrics: Sequence[BaseRetrievalMetric]
) -> tuple[Scores, Computed]:
    """Score a run by all metrics of a plan, with the notes on them; `metrics` are the computed."""
    computed: Computed = {metric.metric_name: {} for metric in metrics}
    errors: dict[str, dict[str, str]] = {name: {} for name in computed}
    dataset = plan.dataset

    async def score(query_id: str) -> None:
        labels, texts = dataset.relevance.get(query_id), dataset.expected_texts.get(query_id)
        for metric in metrics:
            name, ranking = metric.metric_name, run[query_id]
            # a failed retrieval is an empty ranking: a metric of texts may give that a value, for
            # all others it scores 0
            if ranking.error is not None and not isinstance(metric, TextMetric):
                failed = {"error": ranking.error}
                computed[name][query_id] = RetrievalMetricResult(score=0.0, metadata=failed)
                continue
            value = _compute(metric, dataset.queries[query_id], labels, ranking, texts)
            try:
                computed[name][query_id] = await within(plan.timeout, value)
            except Exception as error:  # noqa: BLE001 - any metric, any error: recorded by question
                errors[name][query_id] = describe_error(error)

    if metrics:
        await each(run, score, plan.workers)
    by_rank = _score_rankings(plan, run, matched)
    excluded = by_rank.failed if plan.failed == "exclude" else ()
    columns: dict[str, dict[str, float]] = {}
    for name, results in computed.items():
        columns[name] = {}
        for query_id, result in results.items():
            if query_id not in excluded and not _is_empty(result):
                columns[name][query_id] = result.score
    scores = by_rank.join(columns, order=plan.metric_names)
    notes = [*scores.notes, *_notes(plan, run, computed, errors)]
    return scores.replace(notes=notes), computed


async def _compute(
    metric: BaseRetrievalMetric,
    query: str,
    labels: Relevance | None,
    ranking: Ranking,
    expected_texts: list[str] | None,
) -> RetrievalMetricResult:
    """Compute one metric of one question; one without an asynchronous method, in a thread."""
    ids, texts = list(ranking.ids), list(ranking.texts or ())
    arguments: tuple[Any, ...] = (query, labels, ids, expected_texts, texts)
    columns = compute_arguments(metric, ranking)
    acompute = getattr(metric, "acompute", None)
    if inspect.iscoroutinefunction(acompute):
        result: RetrievalMetricResult = await acompute(*arguments, **columns)
        return result
    return await in_thread(partial(metric.compute, *arguments, **columns))


def _score_rankings(plan: Plan, run: Run, matched: Matched | None) -> Scores:
    """Score all metrics of rankings: by ids, or those that recognise passages by the matcher."""
    members = [metric for metric in plan.metrics if isinstance(metric, RankingMetric)]
    if matched is None:
        scores = _score(plan, members, plan.dataset.relevance, run)
    else:
        recognising = [metric for metric in members if metric.recognises]
        by_id = [metric for metric in members if not metric.recognises]
        # one that stands for several makes it longer, repetitions make it shorter
        judged_run = _without_errors(matched)
        scores = _score(plan, recognising, matched.relevance, judged_run, run.depth)
        # what knows no items counts the queries that the others count
        labels = {**matched.relevance, **plan.dataset.relevance}
        scores_by_id = _score(plan, by_id, labels, run)
        columns = {}
        for metric in scores:
            columns[metric] = dict(scores.by_query(metric))
            for query_id in matched.errors:
                columns[metric].pop(query_id, None)
        for metric in scores_by_id:
            columns[metric] = dict(scores_by_id.by_query(metric))
        scores = scores.join(columns, order=list(columns))
    notes = [*scores.notes]
    if SPANS in needs_of(members):
        spans = list(chain.from_iterable(ranking.spans or () for ranking in run.values()))
        if n := spans.count(None):
            notes.append(_UNPLACED.format(n=n, all=len(spans)))
    if matched is not None:
        notes += [*run.notes, *matched.notes]
    # a matcher that failed leaves no ranking, but something was retrieved
    empty = [query_id for query_id in scores.empty if not run[query_id].ids]
    return scores.replace(empty=empty, notes=dict.fromkeys(notes))


def _score(
    plan: Plan,
    metrics: Sequence[RankingMetric],
    labels: Mapping[str, Relevance],
    run: Run,
    deepest: int | None = None,
) -> Scores:
    dataset = plan.dataset
    options = replace(plan.scoring, tokenizer=plan.counter, tolerant=True, checks_ids=False)
    return score_with(
        metrics,
        {query_id: labels.get(query_id) for query_id in dataset.queries},
        run,
        options,
        queries=dataset.queries,
        metadata=dataset.metadata,
        name=run.name,
        deepest=deepest,
    )


def _without_errors(matched: Matched) -> Run:
    """The run in which a matcher that failed isn't a retriever that failed."""
    rankings = dict(matched.run)
    for query_id in matched.errors:
        rankings[query_id] = replace(rankings[query_id], error=None)
    run = matched.run.replaced(rankings)
    run.notes = ()
    return run


def _is_empty(result: RetrievalMetricResult) -> bool:
    return result.metadata.get("empty") is True


def every_query_failed(run: Run) -> EveryQueryFailed | None:
    if not run.failed or len(run.failed) < len(run):
        return None
    error, n = Counter(run.failed.values()).most_common(1)[0]
    times = "once" if n == 1 else f"{n} times"
    return EveryQueryFailed(f"retrieval failed on every question, {times} with: {error}")


def _notes(
    plan: Plan, run: Run, computed: Computed, errors: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    metrics = plan.metrics
    cores = [metric.metric_name for metric in metrics if type(metric).__module__ == _CORE]
    if cores and len(cores) < len(metrics):
        yield _MIXED.format(names=", ".join(cores))
    if any(isinstance(metric, RankingMetric) and metric.needs_relevance for metric in metrics):
        yield from unread_labels(plan.dataset)
    if (warning := every_query_failed(run)) is not None:
        yield str(warning)
    for name, results in computed.items():
        if errors[name]:
            query_id, error = next(iter(errors[name].items()))
            yield f"{name} has no value for {questions(len(errors[name]))}; {query_id!r}: {error}"
        if any(math.isnan(result.score) for result in results.values()):
            yield f"{name} gave NaN for some questions, which have no value"
        if n := sum(map(_is_empty, results.values())):
            yield f"{name} has no value where nothing was retrieved: {n} questions"
