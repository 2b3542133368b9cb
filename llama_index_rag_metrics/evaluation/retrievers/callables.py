"""Functions of the query text as retrievers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.evaluation.retrieved.nodes import CAPTURED, as_nodes
from llama_index_rag_metrics.rankings.fusion import WRITTEN
from llama_index_rag_metrics.runtime.errors import UnusableAnswer
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync

T = TypeVar("T")

_NO_LOOP = "no running event loop"
"""What asyncio says where a blocking function starts asynchronous code, such as an agent."""


class CallableRetriever(BaseRetriever):
    """Asks a function of the query text."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        super().__init__()
        self.function = function

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        try:
            retrieved = self.function(query_bundle.query_str)
        except RuntimeError as error:
            if str(error) != _NO_LOOP:
                raise
            expected = "an asynchronous function"
            remedy = "Write async def ask(question): return await agent.run(question)."
            shown = "one that starts asynchronous code"
            raise UnusableAnswer("retriever", shown, expected, remedy) from error
        if inspect.isawaitable(retrieved):
            retrieved = run_sync(_awaited(retrieved))
        return as_nodes(retrieved, CAPTURED)


class AsyncCallableRetriever(CallableRetriever):
    """Asks an asynchronous function of the query text."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return as_nodes(await self.function(query_bundle.query_str), CAPTURED)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


class QueryEngineRetriever(BaseRetriever):
    """Asks a query engine for the nodes that it would answer from.

    An engine that can't retrieve without answering, such as a router, is queried: the source nodes
    of its answer are what was retrieved, in their order.

    Attributes:
        is_async: whether the engine's asynchronous methods may be used: one that was built with
            `use_async=False` calls stores that have none.
    """

    def __init__(self, engine: BaseQueryEngine) -> None:
        super().__init__()
        self.engine = engine
        self.is_async = getattr(engine, "_use_async", True) is not False
        self.notes: list[str] = []
        self._name = type(engine).__name__
        self._retrieves = type(engine).retrieve is not BaseQueryEngine.retrieve

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._retrieves:
            try:
                return list(self.engine.retrieve(query_bundle))
            except NotImplementedError as error:
                self._retrieves_not(error)
        return self._sources(self.engine.query(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._retrieves:
            aretrieve = getattr(self.engine, "aretrieve", None)
            if aretrieve is None:
                return await in_thread(self._retrieve, query_bundle)
            try:
                return list(await aretrieve(query_bundle))
            except NotImplementedError as error:
                self._retrieves_not(error)
        return self._sources(await self.engine.aquery(query_bundle))

    def _retrieves_not(self, error: NotImplementedError) -> None:
        """Remember that an inner engine can't retrieve, as an engine around it reports."""
        if "support retrieve" not in str(error):
            raise error
        self._retrieves = False

    def _sources(self, answer: Any) -> list[NodeWithScore]:
        sources = getattr(answer, "source_nodes", None)
        if sources is None:
            remedy = "Evaluate the retriever that it uses."
            expected = "a response with source_nodes"
            raise UnusableAnswer(f"answer of {self._name}", type(answer), expected, remedy)
        self._note(
            f"{self._name} can't retrieve without answering: the source nodes of its answers, "
            "without texts that it wrote itself, are what it retrieved"
        )
        if not sources:
            self._note(f"{self._name} gave answers without source nodes: nothing was retrieved")
        return [node for node in sources if not is_written(node)]

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def is_written(node: NodeWithScore) -> bool:
    """Whether an engine wrote the node of an answer itself."""
    inner = node.node
    is_bare = node.score is None and not inner.metadata and not inner.relationships
    return is_bare and WRITTEN.match(inner.get_content()) is not None
