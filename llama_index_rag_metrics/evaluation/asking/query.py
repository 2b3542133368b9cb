"""Asking one query: the retriever and its postprocessors, and what metrics of its texts say."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, QueryType

from llama_index_rag_metrics.evaluation.asking.dual import Answer, DualCall
from llama_index_rag_metrics.evaluation.retrieved.nodes import node_texts
from llama_index_rag_metrics.evaluation.source import AsyncCallableRetriever, QueryEngineRetriever
from llama_index_rag_metrics.evaluation.who_asks import Query, Told
from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.runs.run_records import plain_score
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.metrics.texts.text_metric import HasCorpus
from llama_index_rag_metrics.rankings.judging.beside import compute_arguments
from llama_index_rag_metrics.rankings.matching.id_matcher import item_ids, names_of
from llama_index_rag_metrics.rankings.matching.places import node_span
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer
from llama_index_rag_metrics.runtime.masking import describe_error, register_secrets_of
from llama_index_rag_metrics.runtime.retries import http_status
from llama_index_rag_metrics.runtime.sync import in_thread
from llama_index_rag_metrics.runtime.threads import Threads, within
from llama_index_rag_metrics.runtime.usage import Usage

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.evaluator import Plan

# LlamaIndex's error for a retriever that returned something else than nodes with scores
_NO_NODE = re.compile(r"'(\w+)' object has no attribute 'node'$")
_POSTPROCESSORS = "a list of LlamaIndex's postprocessors"


def listed_postprocessors(postprocessors: object) -> list[BaseNodePostprocessor]:
    if postprocessors is None:  # as LlamaIndex has it
        return []
    argument = "node_postprocessors"
    is_one = isinstance(postprocessors, BaseNodePostprocessor)
    if is_one or not isinstance(postprocessors, Iterable):
        remedy = "Write [postprocessor]."
        raise InvalidInput(argument, type(postprocessors), _POSTPROCESSORS, remedy)
    return [checked_postprocessor(argument, postprocessor) for postprocessor in postprocessors]


def checked_postprocessor(argument: str, postprocessor: object) -> BaseNodePostprocessor:
    if isinstance(postprocessor, BaseNodePostprocessor):
        return postprocessor
    if isinstance(postprocessor, type):
        remedy = f"Give an instance of it, built as {postprocessor.__name__}(...)."
        raise InvalidInput(argument, postprocessor, _POSTPROCESSORS, remedy)
    # its type alone: it may hold a key
    raise InvalidInput(argument, type(postprocessor), _POSTPROCESSORS)


class Pipeline:
    """A retriever and its node postprocessors; blocking code runs in as many threads as workers."""

    def __init__(self, retriever: BaseRetriever, plan: Plan) -> None:
        use_async = plan.options.use_async
        if use_async is False and isinstance(retriever, AsyncCallableRetriever):
            sentence = "use_async=False can't call a retriever that is an asynchronous function."
            raise InvalidInput("use_async", use_async, sentence=sentence)
        self.retriever = retriever
        self.told: Told | None = getattr(retriever, "told", None)
        self.timeout, self.use_async = plan.options.timeout, use_async
        self.threads = Threads(plan.options.workers, "rag-metrics")
        has_async = _overrides(retriever, BaseRetriever, "_aretrieve", "aretrieve")
        if isinstance(retriever, QueryEngineRetriever):
            has_async = retriever.is_async
        self._retrieve: DualCall[list[NodeWithScore]] = DualCall(
            type(retriever).__name__,
            aretrieve if has_async or use_async else None,
            None if isinstance(retriever, AsyncCallableRetriever) else retrieve,
            self.threads,
            use_async,
            self.timeout,
        )
        self._postprocess = [self.postprocess(each) for each in plan.postprocessors]

    @property
    def notes(self) -> list[str]:
        calls = [self._retrieve, *self._postprocess]
        own = self.retriever.notes if isinstance(self.retriever, QueryEngineRetriever) else []
        return [*own, *(note for call in calls for note in call.notes)]

    async def ask(self, query: Query) -> Answer[list[NodeWithScore]]:
        """The nodes retrieved for a query, best first, and the seconds that it took."""
        asked = query if getattr(self.retriever, "takes_query", False) else query.query_str
        try:
            nodes, total = await self._retrieve(self.retriever, asked)
        except AttributeError as error:
            if (returned := _NO_NODE.search(str(error))) is None:
                raise
            owner = f"_retrieve of {type(self.retriever).__name__}"
            remedy = "Return NodeWithScore(node=..., score=...)."
            raise UnusableAnswer(owner, returned[1], "a list of NodeWithScore", remedy) from error
        for postprocess in self._postprocess:
            nodes, seconds = await postprocess(nodes, QueryBundle(query.query_str))
            total += seconds
        return nodes, total

    def postprocess(self, postprocessor: BaseNodePostprocessor) -> DualCall[list[NodeWithScore]]:
        own = ("_apostprocess_nodes", "apostprocess_nodes")
        has_async = _overrides(postprocessor, BaseNodePostprocessor, *own)
        return DualCall(
            type(postprocessor).__name__,
            # core 0.12.0 has none
            getattr(postprocessor, "apostprocess_nodes", None) if has_async else None,
            postprocessor.postprocess_nodes,
            self.threads,
            timeout=self.timeout,
        )


async def aretrieve(retriever: BaseRetriever, query: QueryType) -> list[NodeWithScore]:
    return await retriever.aretrieve(query)


def retrieve(retriever: BaseRetriever, query: QueryType) -> list[NodeWithScore]:
    return retriever.retrieve(query)


def _overrides(component: object, base: type, *methods: str) -> bool:
    """Whether a class has one of these methods itself; its base's only call the blocking one."""
    classes = type(component).__mro__
    own = classes[: classes.index(base)]
    return any(method in vars(owner) for owner in own for method in methods)


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
        self.pipeline = Pipeline(retriever, plan)
        self.plan, self.metrics = plan, metrics
        self.place_of = node_span if plan.places is None else plan.places.of_node

    @property
    def notes(self) -> list[str]:
        return []

    @property
    def uncounted_notes(self) -> list[str]:
        """The notes without their numbers, as one of several workers reports them."""
        return self.notes

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
            notes=[*self.pipeline.notes, *self.notes_on(query, nodes)],
            nodes=nodes,
        )

    def notes_on(self, query: Query, nodes: Sequence[NodeWithScore]) -> list[str]:
        """What a reader should know of who asked a query, and of what came."""
        notes = []
        if self.pipeline.told is None and query.metadata.get(HISTORY):
            notes.append(UNTOLD)
        if any(plain_score(node.score) != node.score for node in nodes):
            notes.append(
                "scores of some passages are NaN, which counts as none: what was sorted by them "
                "may be in any order"
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
        tokens = None
        if self.plan.counter is not None and is_counted:
            prompts = (node.node.get_content(MetadataMode.LLM) for node in nodes)
            tokens = self.plan.counter.count(prompts)
        return Ranking(
            ids=item_ids(nodes, self.plan.options.match_on),
            scores=[plain_score(node.score) for node in nodes],
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
