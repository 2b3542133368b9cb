"""A retriever and its postprocessors, asked without ever blocking the event loop."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType

from llama_index_rag_metrics.evaluation.asking.dual import Answer, DualCall
from llama_index_rag_metrics.evaluation.source import AsyncCallableRetriever, QueryEngineRetriever
from llama_index_rag_metrics.evaluation.who_asks import Query, Told, with_filters
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer
from llama_index_rag_metrics.runtime.threads import Threads

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.run_evaluation import Plan

_NO_NODE = re.compile(r"'(\w+)' object has no attribute 'node'$")
"""LlamaIndex's error for a retriever that returned something else than nodes with scores."""

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

    def retriever_for(self, query: Query) -> BaseRetriever:
        if query.filters is None:
            return self.retriever
        return with_filters(self.retriever, query.filters)

    async def ask(self, query: Query) -> Answer[list[NodeWithScore]]:
        """The nodes retrieved for a query, best first, and the seconds that it took."""
        asked = query if getattr(self.retriever, "takes_query", False) else query.query_str
        try:
            nodes, total = await self._retrieve(self.retriever_for(query), asked)
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
