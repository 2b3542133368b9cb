"""Functions of the query text as retrievers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.errors import UnusableAnswer
from llama_index_rag_metrics.evaluation.retrieved.nodes import CAPTURED, as_nodes
from llama_index_rag_metrics.running.sync import run_sync

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
