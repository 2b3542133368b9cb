"""Everything that can be asked, in one shape: retrievers, indexes, engines, agents, functions."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TransformComponent
from llama_index.core.tools import BaseTool
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.workflow import StartEvent, Workflow
from pydantic import BaseModel

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.run import WRITTEN, has_order
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import in_thread, run_sync, within

from .capturing import capture
from .question import (
    Answer,
    Ask,
    Context,
    Question,
    Retrieval,
    RetrieverOutput,
    as_nodes,
    each_once,
)

SourceLike: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine | BaseChatEngine | Workflow"
    " | Callable[..., RetrieverOutput] | Callable[..., Awaitable[Any]]"
)
"""What `evaluate` takes."""

_EXPECTED = "a retriever, an index, a query engine, an agent, a workflow or a callable"
_LEAST_DEPTH = 10  # nodes for a metric without a cutoff, at least

_QUESTION = ("query", "question", "input", "user_msg", "message", "query_str", "topic")
"""Names of the question in workflows, in the order in which their start events are searched."""

_CONTEXTS: Mapping[str, Context] = {"metadata": "metadata", "chat_history": "history"}
"""Names of what else the start event of a workflow may take."""

_METHODS: Mapping[type, Sequence[str]] = {
    BaseQueryEngine: ["query"],
    BaseChatEngine: ["chat", "achat", "stream_chat", "astream_chat"],
    Workflow: ["run"],
}
"""The methods that ask a program; others of a user's class may well retrieve."""

_CANT_WAIT = re.compile(r"sync|await|event loop|different loop|not initiali[sz]ed", re.IGNORECASE)
"""What errors say of asynchronous methods that can't work, as without an asynchronous client."""

_OF_ANOTHER_LOOP = re.compile(r"different (event )?loop|event loop is closed", re.IGNORECASE)
_CAPTURED = (
    "What a program retrieves on its way to an answer is captured if it is an asynchronous "
    "function that returns the answer as text."
)


@dataclass
class Source:
    """What is evaluated, ready to be asked.

    Attributes:
        ask: asks a question.
        name: the class, or the name of a function.
        asked: the object that is asked.
        context: what it is told beside the question.
        depth: how many nodes an index is asked for.
        captures: whether it may retrieve several times, which is captured.
        most_at_once: how many questions it can be asked at once; None for any number.
    """

    ask: Ask
    name: str = ""
    asked: object = None
    context: Context | None = None
    depth: int | None = None
    captures: bool = False
    most_at_once: int | None = None


def retrieval_depth(metrics: Iterable[BaseRetrievalMetric]) -> int:
    """How many nodes an index is asked for: the largest cutoff, 10 for a metric without one."""
    cutoffs = [getattr(metric, "k", None) or _LEAST_DEPTH for metric in metrics]
    return max(cutoffs, default=_LEAST_DEPTH)


def as_source(source: SourceLike | Source, depth: int | None = None) -> Source:
    """Whatever can be asked, ready to be asked; an index for `depth` nodes.

    Raises:
        InvalidInput: it can't be asked; the message says what to do.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, SourceRetriever):
        return source.source
    if isinstance(source, (type, BaseTool, TransformComponent)) or _asks_program(source):
        raise _refusal(source)
    if isinstance(source, Workflow):
        return _workflow(source)
    if isinstance(source, BaseChatEngine):
        return _chat_engine(source)
    if isinstance(source, BaseQueryEngine):
        return _query_engine(source)
    if isinstance(source, BaseIndex):
        top_k = {} if depth is None else {"similarity_top_k": depth}
        retriever = source.as_retriever(**top_k)
        return Source(_ask_retriever(retriever), type(retriever).__name__, retriever, depth=depth)
    if isinstance(source, BaseRetriever):
        return Source(_ask_retriever(source), type(source).__name__, source)
    if not callable(source) or inspect.isasyncgenfunction(_code_of(source)):
        raise _refusal(source)
    return _callable(source)


class SourceRetriever(BaseRetriever):
    """A source as LlamaIndex's evaluator wants it: a retriever."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = await ask_captured(self.source, Question(query_bundle.query_str))
        if answer.error is not None:
            raise answer.error
        return answer.nodes()


def as_retriever(source: SourceLike, depth: int | None = None) -> BaseRetriever:
    """The source as a retriever."""
    ready = as_source(source, depth)
    if isinstance(source, (BaseRetriever, BaseIndex)) and isinstance(ready.asked, BaseRetriever):
        return ready.asked
    return SourceRetriever(ready)


async def ask_captured(source: Source, question: Question, timeout: float | None = None) -> Answer:
    """Ask a question, with the retrievals that were made for it where there can be several."""
    if not source.captures:
        return await _limited(source.ask(question), timeout)
    answer, error = Answer(), None
    with capture() as session:
        try:
            answer = await _limited(source.ask(question), timeout)
        except Exception as raised:  # noqa: BLE001 - any program, any error: part of the answer
            error = raised
    if error is not None:
        return Answer(calls=session.retrievals, error=error)
    if answer.calls is None:  # a function that returned its ranking
        return answer
    if session.retrievals:
        return Answer(calls=session.retrievals, notes=answer.notes)
    if answer.is_silent:
        as_nodes(None, _CAPTURED)  # which says what to return
    # a client that sends no event, but says what its answer was made from
    return Answer(calls=answer.calls, by_sources=bool(answer.calls), notes=answer.notes)


async def _limited(awaitable: Awaitable[Answer], timeout: float | None) -> Answer:
    if timeout is None:
        return await awaitable
    return await within(timeout, awaitable)


class DualCall:
    """Calls an asynchronous method, or in a thread the blocking one that does the same.

    An asynchronous method that can't work, such as that of a store without an asynchronous client,
    shows it by its error: then the blocking one is called, and a note says so.
    """

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
        self._give_up(reason)
        return answer

    def _give_up(self, reason: str) -> None:
        if _OF_ANOTHER_LOOP.search(reason):
            reason = re.sub("<.*>", "…", reason)  # the tasks and futures
            reason = f"its connections belong to another event loop ({reason})"
        if self._asynchronous is not None:
            method, twin = self._asynchronous.__name__, self._blocking.__name__
            note = f"{self._owner}: {method} doesn't work here, so {twin} was called in threads"
            self.notes = [f"{note} instead: {reason}"]
        self._asynchronous = None


def _overrides(component: object, base: type, *methods: str) -> bool:
    """Whether a class has one of these methods itself; its base's only call the blocking one."""
    classes = type(component).__mro__
    subclasses = classes[: classes.index(base)]
    return any(vars(owner).keys() & set(methods) for owner in subclasses)


def postprocessor_call(postprocessor: BaseNodePostprocessor) -> DualCall:
    methods = ("_apostprocess_nodes", "apostprocess_nodes")
    asynchronous = None
    if _overrides(postprocessor, BaseNodePostprocessor, *methods):
        asynchronous = getattr(postprocessor, "apostprocess_nodes", None)  # core 0.12.0 has none
    return DualCall(postprocessor, asynchronous, postprocessor.postprocess_nodes)


def _ask_retriever(retriever: BaseRetriever) -> Ask:
    store = getattr(retriever, "_vector_store", None)
    if isinstance(store, BasePydanticVectorStore):
        waits = _overrides(store, BasePydanticVectorStore, "aquery")
    else:
        waits = _overrides(retriever, BaseRetriever, "_aretrieve", "aretrieve")
    retrieve = DualCall(retriever, retriever.aretrieve if waits else None, retriever.retrieve)

    async def ask(question: Question) -> Answer:
        return Answer(await retrieve(question.query_str), notes=retrieve.notes)

    return ask


def _query_engine(engine: BaseQueryEngine) -> Source:
    """Ask an engine for the nodes that it would answer from, or else capture an answer's."""
    name = type(engine).__name__
    waits = getattr(engine, "_use_async", True) is not False
    query = DualCall(engine, engine.aquery if waits else None, engine.query)
    if type(engine).retrieve is BaseQueryEngine.retrieve:

        async def answer(question: Question) -> Answer:
            response = await query(question.query_str)
            return _program_answer(question, response, query.notes)

        return Source(answer, name, engine, captures=True)
    aretrieve = getattr(engine, "aretrieve", None) if waits else None
    retrieve = DualCall(engine, aretrieve, engine.retrieve)

    async def ask(question: Question) -> Answer:
        nodes = await retrieve(QueryBundle(question.query_str))
        return Answer(list(nodes), notes=retrieve.notes)

    return Source(ask, name, engine)


def _chat_engine(engine: BaseChatEngine) -> Source:
    """Ask a chat engine, which keeps one conversation: one question after another."""
    chat = DualCall(engine, engine.achat, engine.chat)

    async def ask(question: Question) -> Answer:
        history = question.history
        await in_thread(engine.reset)
        try:
            response = await chat(question.query_str, *([history] if history else []))
        finally:
            engine.reset()
        return _program_answer(question, response, chat.notes)

    name = type(engine).__name__
    return Source(ask, name, engine, context="history", captures=True, most_at_once=1)


def _workflow(workflow: Workflow) -> Source:
    names, extras = _arguments(workflow)
    context = next((_CONTEXTS[name] for name in _CONTEXTS if name in extras), None)

    async def ask(question: Question) -> Answer:
        arguments: dict[str, Any] = dict.fromkeys(names, question.query_str)
        context_of = {"chat_history": question.history, "metadata": question.copied_metadata()}
        arguments.update({name: context_of[name] for name in extras})
        handler: Any = workflow.run(**arguments)
        try:
            return _program_answer(question, await handler)
        except asyncio.CancelledError:
            # its steps run in tasks of their own, which nobody else would end
            if (cancel_run := getattr(handler, "cancel_run", None)) is not None:
                await cancel_run()
            raise

    return Source(ask, type(workflow).__name__, workflow, context, captures=True)


def _arguments(workflow: Workflow) -> tuple[Sequence[str], Sequence[str]]:
    """The arguments of `run` that may take the question, and those that say who asks it."""
    with suppress(ImportError):  # core 0.12.0 has no agents yet
        from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent

        if isinstance(workflow, (AgentWorkflow, BaseWorkflowAgent)):
            return ["user_msg"], ["chat_history"]
    event_class: Any = getattr(workflow, "start_event_class", StartEvent)  # core 0.12.0 has none
    if event_class is StartEvent:
        return _QUESTION, list(_CONTEXTS)
    fields = event_class.model_fields
    extras = [name for name in _CONTEXTS if name in fields]
    named = [name for name in _QUESTION if name in fields]
    needed = [
        name for name, field in fields.items() if field.is_required() and name not in _CONTEXTS
    ]
    if len(needed) == 1:
        return needed, extras
    if named and not needed:
        return named[:1], extras
    expected = f"one field for the question, such as {_QUESTION[0]!r}"
    remedy = "Give an asynchronous function: async def ask(question): return await workflow.run(…)."
    raise InvalidInput(f"fields of {event_class.__name__}", list(fields), expected, remedy)


def _callable(function: Callable[..., Any]) -> Source:
    takes_metadata = _takes_metadata(function)
    is_async = inspect.iscoroutinefunction(_code_of(function))

    async def ask(question: Question) -> Answer:
        call = function
        if takes_metadata:
            call = partial(function, metadata=question.copied_metadata())
        if is_async:
            returned = await call(question.query_str)
        else:
            returned = await _in_thread(call, question.query_str)
        if inspect.isawaitable(returned):
            returned = await returned
        if is_async and returned is None:
            return Answer(calls=(), is_silent=True)
        if is_async and _is_said(returned):
            return _program_answer(question, returned)
        if type(returned) is list and all(type(item) is str for item in returned):
            return Answer(returned)
        return Answer(as_nodes(returned, _CAPTURED))

    inner = _unbound(function)
    name = getattr(inner, "__name__", type(inner).__name__).replace("<lambda>", "function")
    context: Context | None = "metadata" if takes_metadata else None
    return Source(ask, name, function, context, captures=is_async)


async def _in_thread(function: Callable[..., Any], text: str) -> Any:
    try:
        return await in_thread(function, text)
    except RuntimeError as error:
        if str(error) != "no running event loop":
            raise
        remedy = "Write async def ask(question): return await agent.run(question)."
        kind = "one that starts asynchronous code"
        raise UnusableAnswer("retriever", kind, "an asynchronous function", remedy) from error


def _is_said(returned: Any) -> bool:
    """Whether what a function returned is an answer in words: its retrievals are captured."""
    # an agent's answer is iterable, too
    if isinstance(returned, (str, BaseModel, Mapping)):
        return True
    has_sources = hasattr(returned, "response") or hasattr(returned, "source_nodes")
    return has_sources and not has_order(returned)


def _program_answer(question: Question, response: Any, notes: Sequence[str] = ()) -> Answer:
    """The answer of a program: its calls are captured, or else its sources stand for one."""
    sources = answer_nodes(response)
    calls = [Retrieval(question.query_str, nodes=sources)] if sources else []
    return Answer(calls=calls, notes=notes)


def answer_nodes(answer: Any) -> list[NodeWithScore]:
    """The source nodes of an answer, or of the tools that an agent called."""
    sources = getattr(answer, "source_nodes", None)
    if isinstance(sources, list):
        return [node for node in sources if not _is_written(node)]
    nodes: list[NodeWithScore] = []
    for call in getattr(answer, "tool_calls", None) or ():
        output = getattr(getattr(call, "tool_output", None), "raw_output", None)
        listed = getattr(output, "source_nodes", output)
        if isinstance(listed, list):
            nodes += [node for node in listed if isinstance(node, NodeWithScore)]
    return each_once(node for node in nodes if not _is_written(node))


def _is_written(node: NodeWithScore) -> bool:
    """Whether an engine wrote the node of an answer itself."""
    inner = node.node
    is_bare = node.score is None and not inner.metadata and not inner.relationships
    return is_bare and WRITTEN.match(inner.get_content()) is not None


_REMEDIES: Mapping[type, str] = {
    RetrievalDataset: "The retriever comes first: evaluate(retriever, dataset).",
    Coroutine: "It is a coroutine: await it.",
    BaseTool: "Give the retriever or query engine that the tool was made from.",
    **dict.fromkeys(
        [Mapping, list, tuple], "Evaluate one at a time; compare() takes the results, by name."
    ),
}


def _refusal(source: Any) -> InvalidInput:
    """The error for an unusable source, which shows its type: its repr might hold a key."""
    if isinstance(source, type):
        remedy = f"Give an instance of it, built as {source.__name__}(...)."
        return InvalidInput("retriever", source, _EXPECTED, remedy)
    if _asks_program(source):
        remedy = f"Give the {type(source.__self__).__name__} itself."
        return InvalidInput("retriever", f"its {source.__name__} method", _EXPECTED, remedy)
    remedy = ""
    if hasattr(source, "run") or callable(source):
        remedy = (
            "Give an asynchronous function that runs it with the question and returns the answer: "
            "what is retrieved meanwhile is captured."
        )
    for kind in _REMEDIES:
        if isinstance(source, kind):
            remedy = _REMEDIES[kind]
    if source is None or isinstance(source, (int, float)):
        return InvalidInput("retriever", source, _EXPECTED)
    return InvalidInput("retriever", type(source), _EXPECTED, remedy)


def _asks_program(source: Any) -> bool:
    """Whether it is a program's own method for questions, which keeps one conversation."""
    program, method = getattr(source, "__self__", None), getattr(source, "__name__", "")
    return any(isinstance(program, kind) and method in names for kind, names in _METHODS.items())


def _takes_metadata(function: Callable[..., Any]) -> bool:
    """Whether it has a parameter `metadata` that isn't bound, maybe behind a decorator's `**`."""
    try:  # of the function itself: a decorator may supply what the one that it wraps needs
        parameters = inspect.signature(function, follow_wrapped=False).parameters
    except Exception:  # noqa: BLE001 - some functions have none, and others compute theirs
        return False
    if isinstance(function, partial) and "metadata" in function.keywords:
        return False
    kinds = {parameter.kind for parameter in parameters.values()}
    inner = _unbound(function)
    if inspect.Parameter.VAR_KEYWORD in kinds and hasattr(inner, "__wrapped__"):
        return _takes_metadata(inner.__wrapped__)
    return "metadata" in parameters


def _unbound(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _code_of(function: Any) -> Any:
    """The function that runs: an object's `__call__`."""
    inner = _unbound(function)
    return inner if inspect.isroutine(inner) else getattr(inner, "__call__", None)  # noqa: B004
