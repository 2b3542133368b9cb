"""What can be evaluated: a retriever, an index, a query engine or a callable."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.base import BaseIndex
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode

from llama_index_rag_metrics.errors import InvalidInput

Retrieved: TypeAlias = "Iterable[NodeWithScore | BaseNode | str]"
Source: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine"
    " | Callable[[str], Retrieved] | Callable[[str], Awaitable[Retrieved]]"
)
"""What `evaluate` takes."""

T = TypeVar("T")


def as_retriever(source: Source) -> BaseRetriever:
    """A retriever that asks the source.

    Args:
        source: a retriever stays as it is; an index gives its default retriever; a query engine is
            asked to retrieve, its own postprocessors included; a callable, synchronous or not, maps
            the query text to nodes or ids, best first.

    Raises:
        InvalidInput: it is none of these.
    """
    if isinstance(source, BaseRetriever):
        return source
    if isinstance(source, BaseIndex):
        return source.as_retriever()
    if isinstance(source, BaseQueryEngine):
        return QueryEngineRetriever(source)
    if inspect.iscoroutinefunction(_function(source)):
        return AsyncCallableRetriever(source)
    if callable(source) and not isinstance(source, type):
        return CallableRetriever(source)
    raise InvalidInput("retriever", source, "a retriever, an index, a query engine or a callable")


class CallableRetriever(BaseRetriever):
    """Asks a function of the query text."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        super().__init__()
        self.function = function

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self.function(query_bundle.query_str))


class AsyncCallableRetriever(CallableRetriever):
    """Asks an asynchronous function of the query text."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return asyncio.run(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self.function(query_bundle.query_str))


class QueryEngineRetriever(BaseRetriever):
    """Asks a query engine for the nodes that it would answer from."""

    def __init__(self, engine: BaseQueryEngine) -> None:
        super().__init__()
        self.engine = engine

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(self.engine.retrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieve = getattr(self.engine, "aretrieve", None)
        if retrieve is None:
            return await asyncio.to_thread(self._retrieve, query_bundle)
        return list(await retrieve(query_bundle))


class Pipeline:
    """A retriever and its node postprocessors, asked without ever blocking the event loop.

    A retriever without an asynchronous method of its own, and every postprocessor, runs in a pool
    of as many threads as there are workers.

    Args:
        retriever: the retriever.
        postprocessors: applied to what it returns, in this order.
        workers: how many queries are asked at once.
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        postprocessors: Sequence[BaseNodePostprocessor],
        workers: int,
    ) -> None:
        self.retriever = retriever
        self.postprocessors = postprocessors
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="rag-metrics")

    async def ask(self, query: str) -> list[NodeWithScore]:
        """The nodes retrieved for a query, best first."""
        if _is_asynchronous(self.retriever):
            nodes = await self.retriever.aretrieve(query)
        else:
            nodes = await self.in_thread(self.retriever.retrieve, query)
        if self.postprocessors:
            nodes = await self.in_thread(self._postprocess, nodes, query)
        return nodes

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a blocking function in the pool, in the caller's context."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: context.run(function, *arguments))

    def close(self) -> None:
        """Start nothing more; what is under way in the pool isn't waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _postprocess(self, nodes: list[NodeWithScore], query: str) -> list[NodeWithScore]:
        for postprocessor in self.postprocessors:
            nodes = postprocessor.postprocess_nodes(nodes, query_str=query)
        return nodes


def _is_asynchronous(retriever: BaseRetriever) -> bool:
    """Whether its class has an asynchronous method; the base's only calls the blocking one."""
    classes = type(retriever).__mro__
    own = classes[: classes.index(BaseRetriever)]
    return any(method in vars(one) for one in own for method in ("_aretrieve", "aretrieve"))


def _function(source: Any) -> Any:
    return source if inspect.isroutine(source) else getattr(source, "__call__", None)  # noqa: B004


def _nodes(retrieved: Any) -> list[NodeWithScore]:
    if isinstance(retrieved, str) or not isinstance(retrieved, Iterable):
        raise InvalidInput("what the retriever returned", retrieved, "a list of nodes or ids")
    return [_node(one) for one in retrieved]


def _node(one: Any) -> NodeWithScore:
    if isinstance(one, NodeWithScore):
        return one
    if isinstance(one, BaseNode):
        return NodeWithScore(node=one)
    if isinstance(one, str):
        # metadata of its own: LlamaIndex before 0.14.20 drops nodes of the same text and metadata
        return NodeWithScore(node=TextNode(id_=one, text="", metadata={"id": one}))
    raise InvalidInput("what the retriever returned", one, "nodes or ids")
