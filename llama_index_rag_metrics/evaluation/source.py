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
from llama_index_rag_metrics.evaluation.who_asks import Query, Told, signature_of
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.fusion import WRITTEN
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer, unawaited
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync

_NO_LOOP = "no running event loop"
"""asyncio's error where a blocking function starts asynchronous code, such as an agent."""

Source: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine | BaseChatEngine | Workflow"
    " | Callable[..., RetrieverOutput] | Callable[..., Awaitable[Any]]"
)
"""What `evaluate` takes."""

_ASKED_BY: dict[type, tuple[str, ...]] = {
    BaseQueryEngine: ("query",),
    BaseChatEngine: ("chat", "achat", "stream_chat", "astream_chat"),
    Workflow: ("run",),
}
"""The methods that ask a program; others of a user's class may well retrieve."""

_METADATA = "metadata"
"""The parameter of a function that gets the question's metadata."""

_LEAST_DEPTH = 10
"""Nodes for a metric without a cutoff, at least."""


def retrieval_depth(metrics: Iterable[BaseRetrievalMetric]) -> int:
    cutoffs = [getattr(metric, "k", None) or _LEAST_DEPTH for metric in metrics]
    return max(cutoffs, default=_LEAST_DEPTH)


def as_retriever(source: Source, similarity_top_k: int | None = None) -> BaseRetriever:
    """A retriever that asks the source; an index is asked for `similarity_top_k` nodes."""
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
    takes_filters = False

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.told: Told | None = "metadata" if _takes_metadata(function) else None
        self.takes_query = self.told is not None

    def call(self, query: QueryBundle) -> Any:
        if self.told is None:
            return self.function(query.query_str)
        metadata = query.told() if isinstance(query, Query) else {}
        return self.function(query.query_str, metadata=metadata)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        try:
            retrieved = self.call(query_bundle)
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
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return as_nodes(await self.call(query_bundle), CAPTURED)


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
        self.told = program.told
        self.takes_query = True

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with capture() as session:
            query = query_bundle
            if not isinstance(query, Query):
                query = Query(query_bundle.query_str)
            await self.program.answer(query, asyncio.to_thread)
        return _each_once(retrieval.nodes or () for retrieval in session.retrievals)


def asked_name(retriever: BaseRetriever) -> str:
    """A retriever's class, or what it stands for: a function's name, an engine's class."""
    asked: object = retriever
    if isinstance(retriever, CallableRetriever):
        asked = _function(retriever.function)
    elif isinstance(retriever, QueryEngineRetriever):
        asked = retriever.engine
    elif isinstance(retriever, SessionRetriever):
        program = retriever.program
        asked = getattr(program, "engine", getattr(program, "workflow", program))
    name = getattr(asked, "__name__", type(asked).__name__)
    return "function" if name == "<lambda>" else name


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
    if (signature := signature_of(function)) is None:
        return
    try:
        signature.bind("", **({"metadata": {}} if _takes_metadata(function) else {}))
    except TypeError:
        expected = "a function that can be called with the question alone"
        remedy = (
            "Bind its other arguments: lambda question: search(question, k). One called metadata "
            "gets the question's."
        )
        shown = f"a function of {', '.join(signature.parameters)}"  # a default might be a key
        raise InvalidInput("retriever", shown, expected, remedy) from None


def _takes_metadata(function: Callable[..., Any]) -> bool:
    """Whether it has a parameter `metadata` that isn't bound, maybe behind a decorator's `**`."""
    if (signature := signature_of(function)) is None:
        return False
    if isinstance(function, partial) and _METADATA in function.keywords:
        return False
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    inner = function.func if isinstance(function, partial) else function
    if inspect.Parameter.VAR_KEYWORD in kinds and hasattr(inner, "__wrapped__"):
        return _takes_metadata(inner.__wrapped__)
    return _METADATA in signature.parameters


def _answers(source: Any) -> bool:
    """Whether it is a program's own method for questions, which keeps one conversation."""
    program, method = getattr(source, "__self__", None), getattr(source, "__name__", "")
    return any(isinstance(program, kind) and method in names for kind, names in _ASKED_BY.items())


def _function(source: Any) -> Any:
    while isinstance(source, partial):
        source = source.func
    return source if inspect.isroutine(source) else getattr(source, "__call__", None)  # noqa: B004
