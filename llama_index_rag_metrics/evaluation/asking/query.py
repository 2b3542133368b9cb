"""Asking one query: what is retrieved for it, and what metrics of its texts say."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from llama_index.core import Settings
from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)
from llama_index.core.schema import MetadataMode

from llama_index_rag_metrics.evaluation.asking.pipeline import Pipeline
from llama_index_rag_metrics.evaluation.identity import with_told
from llama_index_rag_metrics.evaluation.retrieved.nodes import mode_note, node_texts, of_mode
from llama_index_rag_metrics.evaluation.who_asks import Query, check_filterable
from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.metrics.texts.text_metric import HasCorpus
from llama_index_rag_metrics.rankings.judging.columns import compute_arguments
from llama_index_rag_metrics.rankings.matching.id_matcher import item_ids, names_of
from llama_index_rag_metrics.rankings.matching.span_matcher import node_span
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Usage
from llama_index_rag_metrics.runtime.errors import UnusableAnswer
from llama_index_rag_metrics.runtime.masking import describe_error, register_secrets_of
from llama_index_rag_metrics.runtime.retries import http_status
from llama_index_rag_metrics.runtime.sync import in_thread
from llama_index_rag_metrics.runtime.threads import within

if TYPE_CHECKING:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore

    from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity
    from llama_index_rag_metrics.evaluation.run_evaluation import Plan

T = TypeVar("T")

UNTOLD = (
    "questions have a history, which this retriever takes no account of: chat engines, agents and "
    "functions with a parameter metadata do"
)


class Question(NamedTuple):
    """A query; `relevant_texts`, also those of the corpus, are for metrics of texts alone."""

    query: str
    relevance: Relevance | None = None
    expected_texts: list[str] | None = None
    relevant_texts: list[str] | None = None


@dataclass(frozen=True)
class Asked:
    """The outcome of asking a query: a ranking, with an error if the retriever failed."""

    ranking: Ranking
    names: Iterable[tuple[str, str]] = ()
    cause: BaseException | None = None
    dropped: Iterable[str] = ()
    refusal: UnusableAnswer | None = None
    notes: Sequence[str] = ()
    status: int | None = None
    nodes: Sequence[NodeWithScore] = ()

    @classmethod
    def failed(cls, error: Exception, seconds: float, calls: Sequence[Call] | None = None) -> Asked:
        refusal = error if isinstance(error, UnusableAnswer) else None
        # keys in the error's text are masked
        ranking = Ranking(latency=seconds, error=describe_error(error), calls=calls)
        return cls(ranking, cause=error, refusal=refusal, status=http_status(error))


@dataclass(frozen=True)
class Computed:
    """Metrics of one ranking: their results, or their errors and the HTTP statuses of these."""

    results: dict[str, RetrievalMetricResult | str]
    usage: dict[str, Usage] = field(default_factory=dict)
    statuses: dict[str, int | None] = field(default_factory=dict)


class Asker(Protocol):
    """Where queries are asked and metrics of single queries are computed."""

    @property
    def notes(self) -> Sequence[str]:
        """How all queries were asked, where a reader of the results should know."""

    async def ask(self, query: Query) -> Asked:
        """Retrieve for a query; an error is part of the answer."""

    async def compute(
        self, question: Question, ranking: Ranking, without: Collection[str] = ()
    ) -> Computed:
        """Compute the metrics of a ranking, `without` some; errors are part of the answer."""

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a blocking function in a thread of this process."""

    def close(self) -> None:
        """Start nothing more."""


class LocalAsker:
    def __init__(
        self, retriever: BaseRetriever, plan: Plan, metrics: Sequence[BaseRetrievalMetric] = ()
    ) -> None:
        # before anything fails: a client may put its key into the first error
        register_secrets_of(Settings, retriever, *plan.postprocessors, *metrics)
        if plan.filters is not None:
            check_filterable(retriever)
        self.pipeline = Pipeline(retriever, plan)
        self.plan, self.metrics, self.mode = plan, metrics, plan.questions.mode
        self.place_of = node_span if plan.places is None else plan.places.of_node

    @property
    def notes(self) -> list[str]:
        return []

    @property
    def uncounted_notes(self) -> list[str]:
        """The notes without their numbers, as one of several workers reports them."""
        return self.notes

    def identity(self, retriever: str | RetrieverIdentity) -> str | RetrieverIdentity:
        return with_told(retriever, self.pipeline.told)

    async def ask(self, query: Query) -> Asked:
        start = time.perf_counter()
        try:
            return await self.retrieve(query)
        except Exception as error:  # noqa: BLE001 - any retriever, any error: recorded by query
            return Asked.failed(error, time.perf_counter() - start)

    async def retrieve(self, query: Query) -> Asked:
        nodes, seconds = await self.pipeline.ask(query)
        return Asked(
            self.ranking(nodes, seconds),
            names_of(nodes),
            notes=[
                *self.pipeline.notes,
                *mode_note(nodes, self.mode),
                *self.notes_on(query, nodes),
            ],
            nodes=of_mode(nodes, self.mode),
        )

    def notes_on(self, query: Query, nodes: Sequence[NodeWithScore]) -> list[str]:
        """What a reader should know of who asked a query, and of what came."""
        notes = []
        if self.pipeline.told is None and query.metadata.get(HISTORY):
            notes.append(UNTOLD)
        if query.filters is not None and not nodes:
            notes.append(
                "filters left no passage for some questions: a passage without the key of a filter "
                "is left out, and in most stores 1 isn't '1'"
            )
        notes += [
            f"whether passages fit the filters can't be seen: they have no metadata {key!r}"
            for key in query.unseen(nodes)
        ]
        if query.forbids(nodes):
            notes.append(
                "passages were retrieved that the filters of their question leave out: a part of "
                "the retriever, or its store, applies none"
            )
        return notes

    async def compute(
        self, question: Question, ranking: Ranking, without: Collection[str] = ()
    ) -> Computed:
        results: dict[str, RetrievalMetricResult | str] = {}
        statuses: dict[str, int | None] = {}
        for metric in self.metrics:
            if metric.metric_name in without:
                continue
            # a failed retrieval is an empty ranking: a metric of texts may give that a value, for
            # all others it scores 0
            if ranking.error is not None and not isinstance(metric, TextMetric):
                zero = RetrievalMetricResult(score=0.0, metadata={"error": ranking.error})
                results[metric.metric_name] = zero
                continue
            try:
                computing = compute(metric, self.pipeline, question, ranking)
                results[metric.metric_name] = await within(self.pipeline.timeout, computing)
            except Exception as error:  # noqa: BLE001 - any metric, any error: recorded by query
                results[metric.metric_name] = describe_error(error)
                statuses[metric.metric_name] = http_status(error)
        of_texts = [metric for metric in self.metrics if isinstance(metric, TextMetric)]
        usage = {metric.metric_name: spent for metric in of_texts if (spent := metric.take_usage())}
        return Computed(results, usage, statuses)

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.pipeline.threads.call(function, *arguments)

    def close(self) -> None:
        self.pipeline.threads.close()

    def ranking(
        self,
        nodes: Sequence[NodeWithScore],
        latency: float | None = None,
        *,
        is_counted: bool = True,
    ) -> Ranking:
        nodes = of_mode(nodes, self.mode)
        tokens = None
        if self.plan.counter is not None and is_counted:
            prompts = (node.node.get_content(MetadataMode.LLM) for node in nodes)
            tokens = self.plan.counter.count(prompts)
        return Ranking(
            ids=item_ids(nodes, self.plan.options.match_on),
            scores=[None if node.score is None else float(node.score) for node in nodes],
            texts=node_texts(nodes),
            latency=latency,
            spans=[self.place_of(node.node) for node in nodes],
            tokens=tokens,
        )


async def prepare(
    metrics: Iterable[BaseRetrievalMetric], dataset: HasCorpus, cache: Cache
) -> list[BaseRetrievalMetric]:
    """Make metrics ready for one run: metrics of texts know the dataset and use the cache."""
    return [
        await in_thread(metric.prepare, dataset, cache)
        if isinstance(metric, TextMetric)
        else metric
        for metric in metrics
    ]


async def compute(
    metric: BaseRetrievalMetric, pipeline: Pipeline, question: Question, ranking: Ranking
) -> RetrievalMetricResult:
    """Compute one metric of one query; a metric without an asynchronous method runs in the pool."""
    arguments: tuple[Any, ...] = (
        question.query,
        question.relevance,
        list(ranking.ids),
        question.relevant_texts if isinstance(metric, TextMetric) else question.expected_texts,
        list(ranking.texts or ()),
    )
    beside = compute_arguments(metric, ranking)
    acompute = getattr(metric, "acompute", None)
    if inspect.iscoroutinefunction(acompute):
        result: RetrievalMetricResult = await acompute(*arguments, **beside)
        return result
    return await pipeline.threads.call(partial(metric.compute, *arguments, **beside))
