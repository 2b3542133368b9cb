"""Retrievers of all that can be evaluated: an index, a query engine, a program or a callable."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.multi_modal.base import MultiModalVectorStoreIndex
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, QueryBundle, TransformComponent
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import StartEvent, Workflow

from llama_index_rag_metrics.evaluation.asking.dual import CallModes, says_it_cannot
from llama_index_rag_metrics.evaluation.retrieved.nodes import CAPTURED, RetrieverOutput, as_nodes
from llama_index_rag_metrics.evaluation.retrieved.run_matching import InThread
from llama_index_rag_metrics.evaluation.retrieved.stock import indexed_ids
from llama_index_rag_metrics.evaluation.sessions.capturing import capture
from llama_index_rag_metrics.evaluation.who_asks import Query, Told, signature_of
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.run import WRITTEN
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer, unawaited
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync

# names of the question in workflows, in the order in which their start events are searched
_QUESTION = ("query", "question", "input", "user_msg", "message", "query_str", "topic")
# names of what else the start event of a workflow may take
_BESIDE = ("chat_history", "metadata")
_MEMORY, _HISTORY = "_memory", "_chat_history"  # where chat engines keep a conversation
Engine = TypeVar("Engine", bound=BaseQueryEngine | BaseChatEngine)


Program: TypeAlias = "EngineProgram[Any] | WorkflowProgram"


def as_program(source: Any) -> Program | None:
    if isinstance(source, Workflow):
        return WorkflowProgram(source)
    if isinstance(source, BaseChatEngine):
        return ChatProgram(source)
    if isinstance(source, BaseQueryEngine) and type(source).retrieve is BaseQueryEngine.retrieve:
        return EngineProgram(source)
    return None


class EngineProgram(Generic[Engine]):
    """An engine that can't retrieve without answering, asked in threads if nothing else works."""

    retrieves = True
    told: Told | None = None

    def __init__(
        self, engine: Engine, asynchronous: str = "aquery", blocking: str = "query"
    ) -> None:
        self.engine = engine
        self.name = type(engine).__qualname__
        self.modes = CallModes(self.name, {"asynchronous": asynchronous, "blocking": blocking})
        if getattr(engine, "_use_async", True) is False:
            self.modes.current = "blocking"

    async def answer(self, query: Query, in_thread: InThread) -> Any:
        return await self.ask(self.engine, in_thread, query.query_str)

    async def ask(self, engine: object, in_thread: InThread, *question: Any) -> Any:
        method = getattr(engine, self.modes.method)
        if self.modes.current == "asynchronous":
            return await method(*question)
        return await in_thread(method, *question)

    def switch(self, error: Exception) -> bool:
        """Ask in threads from now on, if this error says that nothing else can work."""
        can_never_work = says_it_cannot(error)
        # another question, asked at the same time, may have found it out
        if can_never_work and self.modes.current == "asynchronous":
            self.modes.switch_from("asynchronous", error)
        return can_never_work


class WorkflowProgram:
    """A workflow or an agent, run with the question and what else it takes of who asks."""

    retrieves = True

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self._arguments, self._further = _arguments(workflow)
        kinds: dict[str, Told] = {"metadata": "metadata", "chat_history": "history"}
        self.told = next((kinds[name] for name in kinds if name in self._further), None)

    @property
    def name(self) -> str:
        """The class; of agents, also their tools."""
        agents = list((getattr(self.workflow, "agents", None) or {}).values()) or [self.workflow]
        tools = [tool for agent in agents for tool in getattr(agent, "tools", None) or ()]
        names = [str(getattr(getattr(tool, "metadata", None), "name", "")) for tool in tools]
        with_tools = f" with {', '.join(filter(None, names))}" if names else ""
        return type(self.workflow).__qualname__ + with_tools

    async def answer(self, query: Query, in_thread: InThread) -> Any:
        arguments: dict[str, Any] = dict.fromkeys(self._arguments, query.query_str)
        known = {"chat_history": query.history, "metadata": query.told()}
        arguments |= {name: known[name] for name in self._further}
        handler: Any = self.workflow.run(**arguments)
        try:
            return await handler
        except asyncio.CancelledError:
            # its steps run in tasks of their own, which nobody else would end
            if (cancel_run := getattr(handler, "cancel_run", None)) is not None:
                await cancel_run()
            raise


class ChatProgram(EngineProgram[BaseChatEngine]):
    """A chat engine, of which each question gets a copy, or which is reset, asked one by one."""

    told: Told | None = "history"

    def __init__(self, engine: BaseChatEngine) -> None:
        super().__init__(engine, "achat", "chat")
        self._alone = asyncio.Lock()

    async def answer(self, query: Query, in_thread: InThread) -> Any:
        question = (query.query_str, *([query.history] if query.history else []))
        if (engine := _forgetful(self.engine)) is not None:
            return await self.ask(engine, in_thread, *question)
        async with self._alone:
            await in_thread(self.engine.reset)
            return await self.ask(self.engine, in_thread, *question)


def _forgetful(engine: BaseChatEngine) -> BaseChatEngine | None:
    """A copy of the engine with an empty memory; None where the memory isn't found."""
    state = vars(engine)
    fresh = copy.copy(engine)
    if _MEMORY in state:
        limit = getattr(state[_MEMORY], "token_limit", None)
        llm = state.get("_llm")
        memory = ChatMemoryBuffer.from_defaults(token_limit=limit, llm=None if limit else llm)
        setattr(fresh, _MEMORY, memory)
    elif _HISTORY in state:
        setattr(fresh, _HISTORY, [])
    else:
        return None
    return fresh


def _arguments(workflow: Workflow) -> tuple[Sequence[str], Sequence[str]]:
    """The arguments of `run` that may take the question, and those that say who asks it."""
    with suppress(ImportError):  # core 0.12.0 has no agents yet
        from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent

        if isinstance(workflow, (AgentWorkflow, BaseWorkflowAgent)):
            return ("user_msg",), ("chat_history",)
    event_class: Any = getattr(workflow, "start_event_class", StartEvent)  # core 0.12.0 has none
    if event_class is StartEvent:
        return _QUESTION, ("chat_history", "metadata")
    fields = event_class.model_fields
    further = [name for name in _BESIDE if name in fields]
    named = [name for name in _QUESTION if name in fields]
    needed = [name for name, field in fields.items() if field.is_required() and name not in _BESIDE]
    if len(needed) == 1:
        return needed, further
    if named and not needed:
        return named[:1], further
    expected = f"one field for the question, such as {_QUESTION[0]!r}"
    remedy = "Give an asynchronous function: async def ask(question): return await workflow.run(…)."
    raise InvalidInput(f"fields of {event_class.__name__}", list(fields), expected, remedy)


# asyncio's error where a blocking function starts asynchronous code, such as an agent
_NO_LOOP = "no running event loop"
# what `evaluate` takes
Source: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine | BaseChatEngine | Workflow"
    " | Callable[..., RetrieverOutput] | Callable[..., Awaitable[Any]]"
)
# the methods that ask a program; others of a user's class may well retrieve
_ASKED_BY: dict[type, tuple[str, ...]] = {
    BaseQueryEngine: ("query",),
    BaseChatEngine: ("chat", "achat", "stream_chat", "astream_chat"),
    Workflow: ("run",),
}
_METADATA = "metadata"  # the parameter of a function that gets the question's metadata
_LEAST_DEPTH = 10  # nodes for a metric without a cutoff, at least


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


class SourceInfo(NamedTuple):
    """What is asked: its name, the depth if it is an index, and what it is told of the asker."""

    name: str = ""
    depth: int | None = None
    told: Told | None = None
    indexed: Collection[str] = ()  # the ids of all nodes, where they are known

    @classmethod
    def of(
        cls, source: object, retriever: BaseRetriever, depth: int, match_on: MatchOn
    ) -> SourceInfo:
        is_index = isinstance(source, BaseIndex) or getattr(source, "stands_for_index", False)
        told = getattr(retriever, "told", None)
        known = depth if is_index else None
        return cls(asked_name(retriever), known, told, indexed_ids(source, match_on))


class CallableRetriever(BaseRetriever):
    stands_for_index = False

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
    """Asks a query engine for the nodes that it would answer from, or else for an answer's."""

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
