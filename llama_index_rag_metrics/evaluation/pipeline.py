"""A retriever and its postprocessors, asked without ever blocking the event loop.

Most of LlamaIndex's asynchronous methods call blocking code in the end: a query engine over a
retriever without one, a fusion of such, an index whose embedding has only a synchronous method.
None of that can be read off a class. So an asynchronous retriever is watched on its first query:
where it held up the loop most of the time, the further ones go to threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore

from llama_index_rag_metrics.threads import Threads, within

T = TypeVar("T")

_BEAT = 0.001
_HARMLESS = 0.005
"""Seconds that a query may hold up the loop."""


class Pipeline:
    """A retriever and its node postprocessors.

    A retriever that blocks, and every postprocessor, runs in a pool of as many threads as there are
    workers.

    Args:
        retriever: the retriever.
        postprocessors: applied to what it returns, in this order.
        workers: how many queries are asked at once.
        timeout: seconds that a query may take, postprocessors included; None: any time.
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        postprocessors: Sequence[BaseNodePostprocessor],
        workers: int,
        timeout: float | None = None,
    ) -> None:
        self.retriever = retriever
        self.postprocessors = postprocessors
        self.timeout = timeout
        self._threads = Threads(workers, "rag-metrics")
        self._blocks = None if _has_asynchronous_method(retriever) else True
        self._first = asyncio.Lock()

    async def ask(self, query: str) -> list[NodeWithScore]:
        """The nodes retrieved for a query, best first.

        Raises:
            QueryTimeout: it took longer than `timeout`, not counting the wait for its turn.
            StrayError: it raised what isn't an error to be handled, such as SystemExit.
        """
        if self._blocks is None:
            async with self._first:
                if self._blocks is None:
                    return await within(self.timeout, self._ask(query, self._retrieve_watched))
        return await within(self.timeout, self._ask(query, self._retrieve))

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a blocking function in the pool, in the caller's context."""
        return await self._threads.call(function, *arguments)

    def close(self) -> None:
        """Start nothing more; what is under way in the pool isn't waited for."""
        self._threads.close()

    async def _ask(
        self, query: str, retrieve: Callable[[str], Awaitable[list[NodeWithScore]]]
    ) -> list[NodeWithScore]:
        nodes = await retrieve(query)
        if self.postprocessors:
            nodes = await self.in_thread(self._postprocess, nodes, query)
        return nodes

    async def _retrieve(self, query: str) -> list[NodeWithScore]:
        if self._blocks:
            try:
                return await self.in_thread(self.retriever.retrieve, query)
            except NotImplementedError:
                if not _has_asynchronous_method(self.retriever):
                    raise
                self._blocks = False
        return await self.retriever.aretrieve(query)

    async def _retrieve_watched(self, query: str) -> list[NodeWithScore]:
        heartbeat = _Heartbeat()
        try:
            return await self.retriever.aretrieve(query)
        finally:
            held_up, elapsed = heartbeat.stop()
            self._blocks = held_up > max(_HARMLESS, elapsed / 2)

    def _postprocess(self, nodes: list[NodeWithScore], query: str) -> list[NodeWithScore]:
        for postprocessor in self.postprocessors:
            nodes = postprocessor.postprocess_nodes(nodes, query_str=query)
        return nodes


class _Heartbeat:
    """Measures for how long the running event loop is held up."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._held_up = 0.0
        self._schedule()

    def stop(self) -> tuple[float, float]:
        """Seconds held up, and seconds in all."""
        self._handle.cancel()
        now = self._loop.time()
        return self._held_up + max(0.0, now - self._due), now - self._start

    def _schedule(self) -> None:
        self._due = self._loop.time() + _BEAT
        self._handle = self._loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        self._held_up += self._loop.time() - self._due
        self._schedule()


def _has_asynchronous_method(retriever: BaseRetriever) -> bool:
    """Whether its class has an asynchronous method; the base's only calls the blocking one."""
    classes = type(retriever).__mro__
    own = classes[: classes.index(BaseRetriever)]
    return any(method in vars(one) for one in own for method in ("_aretrieve", "aretrieve"))
