"""Asking every query of a dataset, several at once, and keeping what came back."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)

from llama_index_rag_metrics.errors import RetrievalFailed
from llama_index_rag_metrics.evaluation.journal import Journal
from llama_index_rag_metrics.evaluation.matching import Matched, Matching
from llama_index_rag_metrics.evaluation.pipeline import Pipeline
from llama_index_rag_metrics.evaluation.progress import Advance, progress
from llama_index_rag_metrics.matching import LabelCheck, MatchOn, item_id, node_span
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Ranking, Run
from llama_index_rag_metrics.text_metrics import TextMetric

if TYPE_CHECKING:
    from llama_index.core.schema import NodeWithScore

    from llama_index_rag_metrics.dataset import RetrievalDataset


@dataclass
class Collected:
    """What asking a dataset gave.

    Attributes:
        run: the rankings.
        results: metric name to query id to result, of metrics computed query by query.
        metric_errors: metric name to query id to error, of those that failed.
        label_note: what is wrong with the labels, if anything.
        matched: matcher's name to what it made of the rankings.
    """

    run: Run
    results: dict[str, dict[str, RetrievalMetricResult]] = field(default_factory=dict)
    metric_errors: dict[str, dict[str, str]] = field(default_factory=dict)
    label_note: str | None = None
    matched: dict[str, Matched] = field(default_factory=dict)


class Collector:
    """Asks the queries of a dataset.

    Args:
        pipeline: what is asked.
        dataset: the queries.
        match_on: which id of a node the labels speak of.
        metrics: metrics to compute on each query at once, with its texts; metrics of rankings are
            computed later, on all of them.
        by_id: whether any metric compares ids, so that labels have to be ids.
        matchings: the matchers that metrics want, on this dataset.
        journal: where finished queries are kept, and read from.
        stored: rankings that are known, whose queries aren't asked.
        raise_on_error: end at the first failing query instead of recording it.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        dataset: RetrievalDataset,
        *,
        match_on: MatchOn,
        metrics: Sequence[BaseRetrievalMetric] = (),
        by_id: bool = True,
        matchings: Sequence[Matching] = (),
        journal: Journal | None = None,
        stored: Mapping[str, Ranking] | None = None,
        raise_on_error: bool = False,
    ) -> None:
        self.pipeline = pipeline
        self.dataset = dataset
        self.match_on = match_on
        self.metrics = metrics
        self.matchings = matchings
        self.journal = journal
        self.stored = stored or {}
        self.raise_on_error = raise_on_error
        labels = {label for relevance in dataset.relevance.values() for label in relevance}
        self._labels = LabelCheck(labels if by_id else (), match_on, dataset.corpus)
        self._rankings: dict[str, Ranking] = {}
        self._stopping = False
        self._collected = Collected(
            Run(),
            {metric.metric_name: {} for metric in metrics},
            {metric.metric_name: {} for metric in metrics},
        )

    async def collect(
        self, *, workers: int, name: str = "", show_progress: bool = False
    ) -> Collected:
        """Ask every query, `workers` at once.

        Raises:
            RetrievalFailed: a query failed, and `raise_on_error` is set.
        """
        queries = self.dataset.queries
        finished = self.stored if self.journal is None else self.journal.finished
        n_finished = sum(query_id in finished for query_id in queries)
        with ExitStack() as stack:
            stack.callback(self.pipeline.close)
            advance = stack.enter_context(
                progress(name or "evaluating", len(queries), n_finished, show_progress)
            )
            todo = iter(queries.items())
            tasks = [
                asyncio.create_task(self._work(todo, finished, advance)) for _ in range(workers)
            ]
            try:
                # gather() would wait for its tasks when cancelled, before anything could stop them
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
                for task in ended:
                    task.result()
            finally:
                self._stopping = True
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        self._collected.run = Run({one: self._rankings[one] for one in queries}, name=name)
        self._collected.matched = {
            one.matcher.name: one.finish(self._collected.run) for one in self.matchings
        }
        notes = [one.label_note for one in self._collected.matched.values()]
        self._collected.label_note = next(filter(None, [self._labels.note, *notes]), None)
        return self._collected

    async def _work(
        self, todo: Iterator[tuple[str, str]], finished: Mapping[str, Ranking], advance: Advance
    ) -> None:
        for query_id, query in todo:
            if self._stopping:
                return
            ranking = finished.get(query_id)
            if ranking is None:
                ranking = await self._ask(query_id, query)
                advance(failed=ranking.error is not None)
            else:
                self._labels.see(ranking.ids)
            self._rankings[query_id] = ranking
            if ranking.error is None:
                for matching in self.matchings:
                    await matching.match(query_id, ranking, self.pipeline.in_thread)
            await self._compute(query_id, query, ranking)

    async def _ask(self, query_id: str, query: str) -> Ranking:
        start = time.perf_counter()
        try:
            nodes, ranking = await self._retrieve(query_id, query)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            description = _describe(error)
            if self.raise_on_error:
                raise RetrievalFailed(query_id, description) from error
            return Ranking(latency=time.perf_counter() - start, error=description)
        self._labels.see(ranking.ids, nodes)
        if self.journal is not None:
            self.journal.record(query_id, ranking)
        return ranking

    async def _retrieve(self, query_id: str, query: str) -> tuple[Sequence[NodeWithScore], Ranking]:
        start = time.perf_counter()
        nodes = await self.pipeline.ask(query)
        return nodes, self._ranking(nodes, time.perf_counter() - start)

    def _ranking(self, nodes: Sequence[NodeWithScore], latency: float) -> Ranking:
        return Ranking(
            ids=[item_id(node, self.match_on) for node in nodes],
            scores=[None if node.score is None else float(node.score) for node in nodes],
            texts=[node.node.get_content() for node in nodes],
            latency=latency,
            spans=[node_span(node.node) for node in nodes],
        )

    async def _compute(self, query_id: str, query: str, ranking: Ranking) -> None:
        for metric in self.metrics:
            # a failed retrieval is an empty ranking: a metric of texts may give that a value, for
            # all others it scores 0
            if ranking.error is not None and not isinstance(metric, TextMetric):
                zero = RetrievalMetricResult(score=0.0, metadata={"error": ranking.error})
                self._collected.results[metric.metric_name][query_id] = zero
                continue
            try:
                result = await compute(
                    metric,
                    self.pipeline,
                    query,
                    self.dataset.relevance.get(query_id),
                    ranking,
                    self.dataset.expected_texts.get(query_id),
                )
            except Exception as error:  # noqa: BLE001 - any metric, any error: recorded by query
                self._collected.metric_errors[metric.metric_name][query_id] = _describe(error)
            else:
                self._collected.results[metric.metric_name][query_id] = result


async def compute(
    metric: BaseRetrievalMetric,
    pipeline: Pipeline,
    query: str,
    expected_ids: Relevance | None,
    ranking: Ranking,
    expected_texts: list[str] | None,
) -> RetrievalMetricResult:
    """One metric of one query; a metric without an asynchronous method runs in the pool."""
    arguments: tuple[Any, ...] = (
        query,
        expected_ids,
        list(ranking.ids),
        expected_texts,
        list(ranking.texts or ()),
    )
    acompute = getattr(metric, "acompute", None)
    if inspect.iscoroutinefunction(acompute):
        result: RetrievalMetricResult = await acompute(*arguments)
        return result
    return await pipeline.in_thread(metric.compute, *arguments)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _is_cancelled() -> bool:
    """Whether this task is to end; else a cancellation came from inside the retriever."""
    task = asyncio.current_task()
    cancelling = getattr(task, "cancelling", None)  # from Python 3.11 on
    return cancelling is None or bool(cancelling())
