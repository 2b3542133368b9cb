"""What can be evaluated: a retriever, an index, a query engine or a callable."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.multi_modal.base import MultiModalVectorStoreIndex
from llama_index.core.schema import (
    BaseNode,
    NodeWithScore,
    QueryBundle,
    TextNode,
    TransformComponent,
)
from llama_index.core.tools import BaseTool

from llama_index_rag_metrics.errors import InvalidInput, UnusableAnswer
from llama_index_rag_metrics.evaluation.engines import QueryEngineRetriever
from llama_index_rag_metrics.run import has_order
from llama_index_rag_metrics.sync import run_sync

Retrieved: TypeAlias = "Iterable[NodeWithScore | BaseNode | str]"
Source: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine"
    " | Callable[[str], Retrieved] | Callable[[str], Awaitable[Retrieved]]"
)
"""What `evaluate` takes."""

T = TypeVar("T")

_RETURNED = "what the retriever returned"
_REMEDY = (
    "Return ids as strings, or NodeWithScore(node=TextNode(id_=..., text=...), score=...), best "
    "first."
)

_LEAST_DEPTH = 10
"""How many nodes a metric without a cutoff wants to see, at least."""


def retrieval_depth(metrics: Iterable[BaseRetrievalMetric]) -> int:
    """How many nodes an index is asked for, wherever it is evaluated.

    As many as the largest cutoff; a metric without one never gets fewer than 10.
    """
    cutoffs = [getattr(metric, "k", None) or _LEAST_DEPTH for metric in metrics]
    return max(cutoffs, default=_LEAST_DEPTH)


def as_retriever(source: Source, similarity_top_k: int | None = None) -> BaseRetriever:
    """A retriever that asks the source.

    Args:
        source: a retriever stays as it is; an index gives its default retriever; a query engine is
            asked to retrieve, its own postprocessors included; a callable, synchronous or not, maps
            the query text to nodes or ids, best first.
        similarity_top_k: how many nodes the retriever of an index is to return; its default, often
            2, where None.

    Raises:
        InvalidInput: it is none of these.
    """
    if isinstance(source, (type, BaseChatEngine, BaseTool, TransformComponent)):
        raise _refusal(source)
    if isinstance(source, BaseRetriever):
        return source
    if isinstance(source, BaseIndex):
        names = ["similarity_top_k"]
        if isinstance(source, MultiModalVectorStoreIndex):
            names.append("image_similarity_top_k")
        depth = {} if similarity_top_k is None else dict.fromkeys(names, similarity_top_k)
        return source.as_retriever(**depth)
    if isinstance(source, BaseQueryEngine):
        return QueryEngineRetriever(source)
    if inspect.iscoroutinefunction(_function(source)):
        return AsyncCallableRetriever(source)
    if callable(source):
        return CallableRetriever(source)
    raise _refusal(source)


def _refusal(source: Any) -> InvalidInput:
    """Why it can't be evaluated, and what can instead; its own repr might hold a key."""
    expected = "a retriever, an index, a query engine or a callable"
    if isinstance(source, type):
        remedy = f"Give an instance of it, built as {source.__name__}(...)."
        return InvalidInput("retriever", source, expected, remedy)
    remedy = ""
    if isinstance(source, BaseTool):
        remedy = "Give the retriever or query engine that the tool was made from."
    elif isinstance(source, BaseChatEngine):
        remedy = "A chat engine can't be evaluated: give the retriever that it was built with."
    elif hasattr(source, "run"):
        remedy = (
            "Agents and workflows can't be evaluated: give the retriever of one of their tools, "
            "or a function from the query to the nodes that they retrieved."
        )
    shown = source if source is None or isinstance(source, (int, float)) else type(source)
    return InvalidInput("retriever", shown, expected, remedy)


class CallableRetriever(BaseRetriever):
    """Asks a function of the query text."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        super().__init__()
        self.function = function

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieved = self.function(query_bundle.query_str)
        if inspect.isawaitable(retrieved):
            retrieved = run_sync(_awaited(retrieved))
        return _nodes(retrieved)


class AsyncCallableRetriever(CallableRetriever):
    """Asks an asynchronous function of the query text."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self.function(query_bundle.query_str))


def _function(source: Any) -> Any:
    return source if inspect.isroutine(source) else getattr(source, "__call__", None)  # noqa: B004


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _nodes(retrieved: Any) -> list[NodeWithScore]:
    if not has_order(retrieved):
        raise UnusableAnswer(_RETURNED, retrieved, "a list of nodes or ids", _REMEDY)
    return [_node(item) for item in retrieved]


def _node(item: Any) -> NodeWithScore:
    if isinstance(item, NodeWithScore):
        return item
    if isinstance(item, BaseNode):
        return NodeWithScore(node=item)
    if isinstance(item, str):
        # metadata of its own: LlamaIndex before 0.14.20 drops nodes of the same text and metadata
        return NodeWithScore(node=TextNode(id_=item, text="", metadata={"id": item}))
    raise UnusableAnswer(_RETURNED, item, "nodes or ids", _REMEDY)
