"""Retrievers of all that can be evaluated: an index, a query engine, a program or a callable."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.multi_modal.base import MultiModalVectorStoreIndex
from llama_index.core.schema import NodeWithScore, QueryBundle, TransformComponent
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow

from llama_index_rag_metrics.evaluation.retrieved.nodes import CAPTURED, RetrieverOutput, as_nodes
from llama_index_rag_metrics.evaluation.sessions.capturing import capture
from llama_index_rag_metrics.evaluation.sessions.programs import Program, as_program
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.fusion import WRITTEN
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer, unawaited
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync

_NO_LOOP = "no running event loop"
"""asyncio's error where a blocking function starts asynchronous code, such as an agent."""

Source: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine | BaseChatEngine | Workflow"
    " | Callable[[str], RetrieverOutput] | Callable[[str], Awaitable[Any]]"
)
"""What `evaluate` takes."""

_ASKED_BY: dict[type, tuple[str, ...]] = {
    BaseQueryEngine: ("query",),
    BaseChatEngine: ("chat", "achat", "stream_chat", "astream_chat"),
    Workflow: ("run",),
}
"""The methods that ask a program; others of a user's class may well retrieve."""

_LEAST_DEPTH = 10
"""Nodes for a metric without a cutoff, at least."""


def retrieval_depth(metrics: Iterable[BaseRetrievalMetric]) -> int:
    """How many nodes an index is asked for: as many as the largest cutoff."""
    cutoffs = [getattr(metric, "k", None) or _LEAST_DEPTH for metric in metrics]
    return max(cutoffs, default=_LEAST_DEPTH)


def as_retriever(source: Source, similarity_top_k: int | None = None) -> BaseRetriever:
    """A retriever that asks the source; an index is asked for `similarity_top_k` nodes.

    Agents, workflows, chat engines, and query engines that can't retrieve without answering are
    asked the question, and their retrievals are captured. A callable maps the query text to nodes
    or ids, best first; an asynchronous one may return an answer instead.
    """
    if isinstance(source, (type, BaseTool, TransformComponent)) or _answers(source):
        raise _refusal(source)
    if (program := as_program(source)) is not None:
        return SessionRetriever(program)
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
    function: Any = source
    if not callable(function) or inspect.isasyncgenfunction(_function(function)):
        raise _refusal(function)
    _check_signature(function)
    is_async = inspect.iscoroutinefunction(_function(function))
    return AsyncCallableRetriever(function) if is_async else CallableRetriever(function)


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


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class QueryEngineRetriever(BaseRetriever):
    """Asks a query engine for the nodes that it would answer from.

    An engine that can't retrieve without answering, such as a router, is queried: it retrieved the
    source nodes of its answer. One built with `use_async=False` calls stores without async methods.
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
                self._cannot_retrieve(error)
        return self._sources(self.engine.query(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._retrieves:
            aretrieve = getattr(self.engine, "aretrieve", None)
            if aretrieve is None:
                return await in_thread(self._retrieve, query_bundle)
            try:
                return list(await aretrieve(query_bundle))
            except NotImplementedError as error:
                self._cannot_retrieve(error)
        return self._sources(await self.engine.aquery(query_bundle))

    def _cannot_retrieve(self, error: NotImplementedError) -> None:
        """Remember that an inner engine can't retrieve."""
        if "support retrieve" not in str(error):
            raise error
        self._retrieves = False

    def _sources(self, answer: Any) -> list[NodeWithScore]:
        sources = getattr(answer, "source_nodes", None)
        if sources is None:
            remedy = "Evaluate the retriever that it uses."
            expected = "a response with source_nodes"
            raise UnusableAnswer(f"answer of {self._name}", type(answer), expected, remedy)
        notes = [
            f"{self._name} can't retrieve without answering: what it retrieved are the source "
            "nodes of its answers, without texts that it wrote itself"
        ]
        if not sources:
            notes.append(f"{self._name} gave answers without source nodes: nothing was retrieved")
        self.notes.extend(note for note in notes if note not in self.notes)
        return [node for node in sources if not _is_written(node)]


class SessionRetriever(BaseRetriever):
    """Asks a program for all nodes that it retrieves; an evaluation keeps its calls apart."""

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
    """The source nodes of an answer, or of the tools that an agent called; None without any."""
    sources = getattr(answer, "source_nodes", None)
    if isinstance(sources, list):
        return [node for node in sources if not _is_written(node)]
    outputs = [
        getattr(getattr(call, "tool_output", None), "raw_output", None)
        for call in getattr(answer, "tool_calls", None) or ()
    ]
    return _each_once(map(_nodes_of, outputs)) or None


def _each_once(retrieved: Iterable[Sequence[NodeWithScore]]) -> list[NodeWithScore]:
    first: dict[str, NodeWithScore] = {}
    for node in chain.from_iterable(retrieved):
        first.setdefault(node.node.node_id, node)
    return list(first.values())


def _nodes_of(output: Any) -> Sequence[NodeWithScore]:
    nodes = output if isinstance(output, list) else getattr(output, "source_nodes", None)
    return [
        node for node in nodes or () if isinstance(node, NodeWithScore) and not _is_written(node)
    ]


def _is_written(node: NodeWithScore) -> bool:
    """Whether an engine wrote the node of an answer itself."""
    inner = node.node
    is_bare = node.score is None and not inner.metadata and not inner.relationships
    return is_bare and WRITTEN.match(inner.get_content()) is not None


def _refusal(source: Any) -> InvalidInput:
    """The error for an unusable source, which shows its type: its repr might hold a key."""
    expected = "a retriever, an index, a query engine, an agent, a workflow or a callable"
    if isinstance(source, type):
        remedy = f"Give an instance of it, built as {source.__name__}(...)."
        return InvalidInput("retriever", source, expected, remedy)
    if _answers(source):
        remedy = f"Give the {type(source.__self__).__name__} itself."
        return InvalidInput("retriever", f"its {source.__name__} method", expected, remedy)
    if inspect.isasyncgenfunction(_function(source)):
        remedy = (
            "Collect what it yields: async def ask(question): "
            "return ''.join([part async for part in agent(question)])."
        )
        return InvalidInput("retriever", "an asynchronous generator", expected, remedy)
    remedy = unawaited(source)
    if isinstance(source, RetrievalDataset):
        remedy = "The retriever comes first: evaluate(retriever, dataset)."
    elif isinstance(source, (Mapping, list, tuple)):
        remedy = "Evaluate one at a time; compare() takes the results, by name."
    elif isinstance(source, BaseTool):
        remedy = "Give the retriever or query engine that the tool was made from."
    elif hasattr(source, "run"):
        remedy = (
            "Give an asynchronous function that runs it with the question: what is retrieved "
            "meanwhile is captured."
        )
    shown = source if source is None or isinstance(source, (int, float)) else type(source)
    return InvalidInput("retriever", shown, expected, remedy)


def _check_signature(function: Callable[..., Any]) -> None:
    """Refuse a function that can't be called with the question alone."""
    try:  # of the function itself: a decorator may supply what the one that it wraps needs
        signature = inspect.signature(function, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - some functions have none, and others compute theirs
        return
    try:
        signature.bind("")
    except TypeError:
        expected = "a function that can be called with the question alone"
        remedy = "Bind its other arguments: lambda question: search(question, k)."
        shown = f"a function of {', '.join(signature.parameters)}"  # a default might be a key
        raise InvalidInput("retriever", shown, expected, remedy) from None


def _answers(source: Any) -> bool:
    """Whether it is a program's own method for questions, which keeps one conversation."""
    program, method = getattr(source, "__self__", None), getattr(source, "__name__", "")
    return any(isinstance(program, kind) and method in names for kind, names in _ASKED_BY.items())


def _function(source: Any) -> Any:
    """The function inside `functools.partial` and callable objects."""
    while isinstance(source, partial):
        source = source.func
    return source if inspect.isroutine(source) else getattr(source, "__call__", None)  # noqa: B004
