"""A program as a retriever: what it retrieves for a question is what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.evaluation.retrievers.callables import is_written
from llama_index_rag_metrics.evaluation.sessions.capturing import capture
from llama_index_rag_metrics.evaluation.sessions.programs import Program
from llama_index_rag_metrics.runtime.sync import run_sync


class SessionRetriever(BaseRetriever):
    """Asks a program, and returns all nodes that it retrieved, in order.

    An evaluation of a dataset goes to the program itself, and keeps the calls apart.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with capture() as session:
            await self.program.answer(query_bundle.query_str, asyncio.to_thread)
        return _each_once(retrieval.nodes or () for retrieval in session.retrievals)


def answer_nodes(answer: Any) -> list[NodeWithScore] | None:
    """The source nodes of an answer; None where it names none.

    Of an agent, the outputs of its tools, in order, each node once.
    """
    sources = getattr(answer, "source_nodes", None)
    if isinstance(sources, list):
        return [node for node in sources if not is_written(node)]
    tool_calls = getattr(answer, "tool_calls", None)
    if not tool_calls:
        return None
    outputs = (getattr(call, "tool_output", None) for call in tool_calls)
    return _each_once(_nodes_of(getattr(output, "raw_output", None)) for output in outputs) or None


def _each_once(retrieved: Iterable[Sequence[NodeWithScore]]) -> list[NodeWithScore]:
    """All nodes in order, without repetitions."""
    first: dict[str, NodeWithScore] = {}
    for node in chain.from_iterable(retrieved):
        first.setdefault(node.node.node_id, node)
    return list(first.values())


def _nodes_of(output: Any) -> Sequence[NodeWithScore]:
    nodes = output if isinstance(output, list) else getattr(output, "source_nodes", None)
    return [
        node for node in nodes or () if isinstance(node, NodeWithScore) and not is_written(node)
    ]
