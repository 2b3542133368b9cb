"""Functions of the query text as retrievers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.evaluation.retrieved.nodes import as_nodes
from llama_index_rag_metrics.running.sync import run_sync

T = TypeVar("T")


class CallableRetriever(BaseRetriever):
    """Asks a function of the query text."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        super().__init__()
        self.function = function

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieved = self.function(query_bundle.query_str)
        if inspect.isawaitable(retrieved):
            retrieved = run_sync(_awaited(retrieved))
        return as_nodes(retrieved)


class AsyncCallableRetriever(CallableRetriever):
    """Asks an asynchronous function of the query text."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return as_nodes(await self.function(query_bundle.query_str))


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
