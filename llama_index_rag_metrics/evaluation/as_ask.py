"""Everything that can be asked, in one shape: retrievers, indexes, engines, agents, functions."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.workflow import StartEvent, Workflow
from pydantic import BaseModel

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.runtime.containers import picked
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync, within

from .capturing import REMEDY, CapturedRetrieval, RetrieverOutput, as_nodes, capture

SourceLike: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine | BaseChatEngine | Workflow"
    " | Callable[..., RetrieverOutput] | Callable[..., Awaitable[Any]]"
)
"""What `evaluate` takes."""

_EXPECTED = (
    "a retriever, an index, a query engine, an agent, a workflow or a function (of a vector store, "
    "the index is VectorStoreIndex.from_vector_store(store))"
)
_ASYNCHRONOUS = (
    "What a program retrieves on its way to an answer is captured if it is an asynchronous "
    "function that returns the answer: async def ask(question): return await agent.run(question)."
)
_SAID = (str, BaseModel, Mapping)  # answers in words: an agent's is iterable, too
_LEAST_DEPTH = 10  # nodes for a metric without a cutoff, at least

_QUESTION = ("query", "question", "input", "user_msg", "message", "query_str", "topic")
"""Names of the question in workflows, in the order in which their start events are searched."""

# what else the start event of a workflow may take, by name
_CONTEXTS: Mapping[str, str] = {"metadata": "metadata", "chat_history": "history"}

_CANT_WAIT = re.compile(r"sync|await|event loop|different loop|not initiali[sz]ed", re.IGNORECASE)
"""What errors say of asynchronous methods that can't work, as without an asynchronous client."""


@dataclass
class Question(QueryBundle):
    """A question as a system is asked it."""

    query_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def copied_metadata(self) -> dict[str, Any]:
        """A copy of the metadata, which the system that gets it may change."""
        return deepcopy(dict(self.metadata))

    @property
    def history(self) -> list[ChatMessage]:
        return [ChatMessage(**message) for message in self.metadata.get(HISTORY) or ()]


@dataclass
class Answer:
    """What a system retrieved for a question."""

    items: Sequence[NodeWithScore | str] = ()  # nodes or ids, best first
    # the retrievals that make up the answer, where a question could have several
    calls: Sequence[CapturedRetrieval] | None = None
    seconds: float | None = None  # how long it took
    notes: Sequence[str] = ()  # what a reader of the results should know

    def nodes(self) -> list[NodeWithScore]:
        """Every node that was retrieved, by any call, once."""
        if self.calls is None:
            return as_nodes(self.items)
        by_id: dict[str, NodeWithScore] = {}
        for node in chain.from_iterable(call.nodes or () for call in self.calls):
            by_id.setdefault(node.node.node_id, node)
        return list(by_id.values())


Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]  # everything that can be asked


@dataclass
class Source:
    """What is evaluated, ready to be asked."""

    ask: Ask
    name: str = ""  # the class, or the name of a function
    asked: object = None  # the object that is asked
    # what it is told beside the question: "history" (what was said before), "metadata" (all), or ""
    context: str = ""
    depth: int | None = None  # how many nodes an index is asked for
    captures: bool = False  # whether it may retrieve several times, which is captured


def retrieval_depth(metrics: Iterable[BaseRetrievalMetric]) -> int:
    """How many nodes an index is asked for: the largest cutoff, 10 for a metric without one."""
    cutoffs = [getattr(metric, "k", None) or _LEAST_DEPTH for metric in metrics]
    return max(cutoffs, default=_LEAST_DEPTH)


def as_source(source: SourceLike | Source, depth: int | None = None) -> Source:
    """Whatever can be asked, ready to be asked; an index for `depth` nodes."""
    if isinstance(source, Source):
        return source
    if isinstance(source, SourceRetriever):
        return source.source
    if isinstance(source, BaseIndex):
        top_k = {} if depth is None else {"similarity_top_k": depth}
        return replace(_retriever(source.as_retriever(**top_k)), depth=depth)
    for kind, adapter in _ADAPTERS.items():
        if isinstance(source, kind):
            return adapter(source)
    if isinstance(source, type):
        remedy = f"Give an instance of it, built as {source.__name__}(...)."
        raise InvalidInput("retriever", source, _EXPECTED, remedy)
    if not callable(source):
        # its type alone: its repr might hold a key
        raise InvalidInput("retriever", type(source), _EXPECTED, _ASYNCHRONOUS)
    return _function(source)


class SourceRetriever(BaseRetriever):
    """A source as LlamaIndex's evaluator wants it: a retriever."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return (await ask_captured(self.source, Question(query_bundle.query_str))).nodes()


async def ask_captured(source: Source, question: Question, timeout: float | None = None) -> Answer:
    """Ask a question, with the retrievals that were made for it where there can be several."""
    with capture() if source.captures else nullcontext() as session:
        asking = source.ask(question)
        if source.captures or timeout is not None:
            asking = within(timeout, asking)  # in a context of its own
        answer = await asking
    if answer.calls is not None and session is not None:
        answer.calls = session.retrievals
    return answer


class DualCall:
    """Calls an asynchronous method, or, where that can't work, its blocking twin in a thread."""

    def __init__(self, owner: object, asynchronous: Any, blocking: Callable[..., Any]) -> None:
        self._owner = type(owner).__name__
        self._asynchronous, self._blocking = asynchronous, blocking
        self.notes: list[str] = []

    async def __call__(self, *arguments: Any) -> Any:
        if self._asynchronous is None:
            return await in_thread(self._blocking, *arguments)
        try:
            return await self._asynchronous(*arguments)
        except Exception as error:
            is_missing = isinstance(error, (NotImplementedError, AttributeError, ImportError))
            if not is_missing and _CANT_WAIT.search(describe_error(error)) is None:
                raise
            reason = " ".join(describe_error(error).split())
        answer = await in_thread(self._blocking, *arguments)
        if self._asynchronous is not None:
            method, twin = self._asynchronous.__name__, self._blocking.__name__
            note = f"{self._owner}: {method} doesn't work here, so {twin} was called in threads"
            self.notes = [f"{note} instead: {reason}"]
            self._asynchronous = None
        return answer


def _overrides(component: object, base: type, *methods: str) -> bool:
    """Whether a class overrides one of these methods; the base's only call the blocking one."""
    classes = type(component).__mro__
    subclasses = classes[: classes.index(base)]
    return any(vars(owner).keys() & set(methods) for owner in subclasses)


def postprocessor_call(postprocessor: BaseNodePostprocessor) -> DualCall:
    asynchronous, base = None, BaseNodePostprocessor
    if _overrides(postprocessor, base, "_apostprocess_nodes", "apostprocess_nodes"):
        asynchronous = getattr(postprocessor, "apostprocess_nodes", None)  # core 0.12.0 has none
    return DualCall(postprocessor, asynchronous, postprocessor.postprocess_nodes)


def _retriever(retriever: BaseRetriever) -> Source:
    store = getattr(retriever, "_vector_store", None)
    if isinstance(store, BasePydanticVectorStore):
        waits = _overrides(store, BasePydanticVectorStore, "aquery")
    else:
        waits = _overrides(retriever, BaseRetriever, "_aretrieve", "aretrieve")
    retrieve = DualCall(retriever, retriever.aretrieve if waits else None, retriever.retrieve)

    async def ask(question: Question) -> Answer:
        return Answer(await retrieve(question.query_str), notes=retrieve.notes)

    return Source(ask, type(retriever).__name__, retriever)


def _query_engine(engine: BaseQueryEngine) -> Source:
    """Ask an engine for the nodes that it would answer from, or else capture an answer's."""
    name = type(engine).__name__
    query = DualCall(engine, engine.aquery, engine.query)
    retrieve = DualCall(engine, getattr(engine, "aretrieve", None), engine.retrieve)

    async def answer(question: Question) -> Answer:
        await query(question.query_str)
        return Answer(calls=(), notes=query.notes)

    async def ask(question: Question) -> Answer:
        nodes = await retrieve(QueryBundle(question.query_str))
        return Answer(list(nodes), notes=retrieve.notes)

    if type(engine).retrieve is BaseQueryEngine.retrieve:
        return Source(answer, name, engine, captures=True)
    return Source(ask, name, engine)


def _chat_engine(engine: BaseChatEngine) -> Source:
    """Ask a chat engine, which keeps one conversation: one question after another."""
    chat = DualCall(engine, engine.achat, engine.chat)

    async def ask(question: Question) -> Answer:
        history = question.history
        await in_thread(engine.reset)
        try:
            await chat(question.query_str, *([history] if history else []))
        finally:
            engine.reset()
        return Answer(calls=(), notes=chat.notes)

    return Source(ask, type(engine).__name__, engine, context="history", captures=True)


def _workflow(workflow: Workflow) -> Source:
    names, extras = _arguments(workflow)
    context = _CONTEXTS.get(next(iter(extras), ""), "")

    async def ask(question: Question) -> Answer:
        contexts: dict[str, Any] = {"chat_history": question.history}
        contexts["metadata"] = question.copied_metadata()
        arguments = {**dict.fromkeys(names, question.query_str), **picked(contexts, extras)}
        handler: Any = workflow.run(**arguments)
        try:
            await handler
        except asyncio.CancelledError:
            # its steps run in tasks of their own, which nobody else would end
            if (cancel_run := getattr(handler, "cancel_run", None)) is not None:
                await cancel_run()
            raise
        return Answer(calls=())

    return Source(ask, type(workflow).__name__, workflow, context, captures=True)


def _arguments(workflow: Workflow) -> tuple[Sequence[str], Sequence[str]]:
    """Return the arguments of `run` that may take the question, and those that take its context."""
    with suppress(ImportError):  # core 0.12.0 has no agents yet
        from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent

        if isinstance(workflow, (AgentWorkflow, BaseWorkflowAgent)):
            return ["user_msg"], ["chat_history"]
    event_class: Any = getattr(workflow, "start_event_class", StartEvent)  # core 0.12.0 has none
    if event_class is StartEvent:
        return _QUESTION, list(_CONTEXTS)
    fields = event_class.model_fields
    required = [name for name, field in fields.items() if field.is_required()]
    names = [name for name in required if name not in _CONTEXTS]
    names = names or [name for name in _QUESTION if name in fields][:1]
    if len(names) == 1:
        return names, [name for name in _CONTEXTS if name in fields]
    expected = f"one field for the question, such as {_QUESTION[0]!r}"
    remedy = "Give an asynchronous function: async def ask(question): return await workflow.run(…)."
    raise InvalidInput(f"fields of {event_class.__name__}", list(fields), expected, remedy)


def _function(function: Callable[..., Any]) -> Source:
    takes_metadata = _takes_metadata(function)
    is_async = any(map(inspect.iscoroutinefunction, [function, type(function).__call__]))

    async def ask(question: Question) -> Answer:
        call = partial(function, question.query_str)
        if takes_metadata:
            call = partial(call, metadata=question.copied_metadata())
        try:
            returned = await (call() if is_async else in_thread(call))
        except RuntimeError as error:
            if is_async or "no running event loop" not in str(error):
                raise
            raise InvalidInput(name, error, "what works in a thread", _ASYNCHRONOUS) from error
        if inspect.isawaitable(returned):
            returned = await returned
        if is_async and (isinstance(returned, _SAID) or not isinstance(returned, Iterable)):
            return Answer(calls=())  # whose retrievals are captured
        if type(returned) is list and all(type(item) is str for item in returned):
            return Answer(returned)
        return Answer(as_nodes(returned, f"{REMEDY} {_ASYNCHRONOUS}"))

    inner = getattr(function, "func", function)  # the function of a partial
    name = getattr(inner, "__name__", type(inner).__name__).replace("<lambda>", "function")
    return Source(ask, name, function, "metadata" if takes_metadata else "", captures=is_async)


def _takes_metadata(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `metadata` that no `partial` has filled."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some written in C have no signature
        return False
    return "metadata" in parameters and "metadata" not in getattr(function, "keywords", ())


_ADAPTERS: Mapping[type, Callable[[Any], Source]] = {  # how each kind is asked
    BaseRetriever: _retriever,
    BaseQueryEngine: _query_engine,
    BaseChatEngine: _chat_engine,
    Workflow: _workflow,
}
