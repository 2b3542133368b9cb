"""Everything that can be asked, in one shape: retrievers, indexes, engines, agents, functions."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.multi_modal.base import MultiModalVectorStoreIndex
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

from .capturing import Retrieval, capture
from .nodes import RetrieverOutput, as_nodes
from .question import Answer, Ask, Context, Question

SourceLike: TypeAlias = (
    "BaseRetriever | BaseIndex[Any] | BaseQueryEngine | BaseChatEngine | Workflow"
    " | Callable[..., RetrieverOutput] | Callable[..., Awaitable[Any]]"
)
"""What `evaluate` takes."""

_QUESTION = ("query", "question", "input", "user_msg", "message", "query_str", "topic")
"""Names of the question in workflows, in the order in which their start events are searched."""

_BESIDE: Mapping[str, Context] = {"metadata": "metadata", "chat_history": "history"}
"""Names of what else the start event of a workflow may take."""

_METHODS: Mapping[type, tuple[str, ...]] = {
    BaseQueryEngine: ("query",),
    BaseChatEngine: ("chat", "achat", "stream_chat", "astream_chat"),
    Workflow: ("run",),
}
"""The methods that ask a program; others of a user's class may well retrieve."""

_CANT_WAIT = re.compile(r"sync|await|event loop|different loop|not initiali[sz]ed", re.IGNORECASE)
"""What errors say of asynchronous methods that can't work, as without an asynchronous client."""

_OF_ANOTHER_LOOP = re.compile(r"different (event )?loop|event loop is closed", re.IGNORECASE)
_NO_NODE = re.compile(r"'(\w+)' object has no attribute 'node'$")
"""LlamaIndex's error for a retriever that returned something else than nodes with scores."""

_NO_LOOP = "no running event loop"
"""asyncio's error where a blocking function starts asynchronous code, such as an agent."""

_CAPTURED = (
    "What a program retrieves on its way to an answer is captured if it is an asynchronous "
    "function that returns the answer as text."
)
_LEAST_DEPTH = 10  # nodes for a metric without a cutoff, at least


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
        retriever = _retriever_of(source, depth)
        return Source(_ask_retriever(retriever), type(retriever).__name__, retriever, depth=depth)
    if isinstance(source, BaseRetriever):
        return Source(_ask_retriever(source), type(source).__name__, source)
    if not callable(source) or inspect.isasyncgenfunction(_function(source)):
        raise _refusal(source)
    return _callable(source)


def as_ask(source: SourceLike) -> Ask:
    """The function that asks a source a question."""
    return as_source(source).ask


class SourceRetriever(BaseRetriever):
    """A source as LlamaIndex's evaluator wants it: a retriever."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_sync(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = query_bundle
        if not isinstance(question, Question):
            question = Question(query_bundle.query_str)
        answer = await ask_captured(self.source, question)
        if answer.error is not None:
            raise answer.error
        if answer.calls is None:
            return as_nodes(answer.items)
        return each_once(node for call in answer.calls for node in call.nodes or ())


def as_retriever(source: SourceLike, depth: int | None = None) -> BaseRetriever:
    """The source as a retriever."""
    if isinstance(source, SourceRetriever):
        return source
    ready = as_source(source, depth)
    asked = ready.asked
    if isinstance(source, BaseRetriever):
        return source
    if isinstance(source, BaseIndex) and isinstance(asked, BaseRetriever):
        return asked
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
    if answer.is_silent and not session.retrievals:
        as_nodes(None, _CAPTURED)  # which says what to return
    if session.retrievals:
        return Answer(calls=session.retrievals, notes=answer.notes)
    # a client that sends no event, but says what its answer was made from
    return Answer(calls=answer.calls, by_sources=bool(answer.calls), notes=answer.notes)


async def _limited(awaitable: Awaitable[Answer], timeout: float | None) -> Answer:
    if timeout is None:
        return await awaitable
    return await within(timeout, awaitable)


def _retriever_of(index: BaseIndex[Any], depth: int | None) -> BaseRetriever:
    if depth is None:
        return index.as_retriever()
    if isinstance(index, MultiModalVectorStoreIndex):
        return index.as_retriever(similarity_top_k=depth, image_similarity_top_k=depth)
    return index.as_retriever(similarity_top_k=depth)


def overrides(component: object, base: type, *methods: str) -> bool:
    """Whether a class has one of these methods itself; its base's only call the blocking one."""
    classes = type(component).__mro__
    own = classes[: classes.index(base)]
    return any(method in vars(owner) for owner in own for method in methods)


def _waits(retriever: BaseRetriever) -> bool:
    """Whether a retriever has an asynchronous method that waits, as far as classes tell."""
    store = getattr(retriever, "_vector_store", None)
    if isinstance(store, BasePydanticVectorStore):
        return overrides(store, BasePydanticVectorStore, "aquery")
    return overrides(retriever, BaseRetriever, "_aretrieve", "aretrieve")


class DualCall:
    """Calls an asynchronous method, or in a thread the blocking one that does the same.

    An asynchronous method that can't work, such as that of a store without an asynchronous client,
    shows it by its error: then the blocking one is called, and a note says so.
    """

    def __init__(self, owner: object, asynchronous: Any, blocking: Callable[..., Any]) -> None:
        self._owner = type(owner).__name__
        self._asynchronous, self._blocking = asynchronous, blocking
        self.note = ""

    async def __call__(self, *arguments: Any) -> Any:
        if self._asynchronous is None:
            return await in_thread(self._blocking, *arguments)
        try:
            return await self._asynchronous(*arguments)
        except Exception as error:
            if not _cannot_wait(error):
                raise
            reason = error
        answer = await in_thread(self._blocking, *arguments)
        self._give_up_waiting(reason)
        return answer

    @property
    def notes(self) -> list[str]:
        return [self.note] if self.note else []

    def _give_up_waiting(self, error: Exception) -> None:
        reason = " ".join(describe_error(error).split())
        if _OF_ANOTHER_LOOP.search(reason):
            reason = re.sub("<.*>", "…", reason)  # the tasks and futures
            reason = f"its connections belong to another event loop ({reason})"
        if self._asynchronous is not None:
            names = self._asynchronous.__name__, self._blocking.__name__
            self.note = _NO_ASYNC.format(self._owner, *names, reason)
        self._asynchronous = None


_NO_ASYNC = "{}: {} doesn't work here, so {} was called in threads instead: {}"


def _cannot_wait(error: Exception) -> bool:
    is_missing = isinstance(error, (NotImplementedError, AttributeError, ImportError))
    return is_missing or _CANT_WAIT.search(describe_error(error)) is not None


def _ask_retriever(retriever: BaseRetriever) -> Ask:
    waits = _waits(retriever)
    retrieve = DualCall(retriever, retriever.aretrieve if waits else None, retriever.retrieve)

    async def ask(question: Question) -> Answer:
        try:
            nodes = await retrieve(question.query_str)
        except AttributeError as error:
            if (returned := _NO_NODE.search(str(error))) is None:
                raise
            owner = f"_retrieve of {type(retriever).__name__}"
            remedy = "Return NodeWithScore(node=..., score=...)."
            raise UnusableAnswer(owner, returned[1], "a list of NodeWithScore", remedy) from error
        return Answer(nodes, notes=retrieve.notes)

    return ask


def _query_engine(engine: BaseQueryEngine) -> Source:
    """Ask an engine for the nodes that it would answer from, or else capture an answer's."""
    name = type(engine).__name__
    waits = getattr(engine, "_use_async", True) is not False
    query = DualCall(engine, engine.aquery if waits else None, engine.query)
    if type(engine).retrieve is BaseQueryEngine.retrieve:

        async def answer(question: Question) -> Answer:
            response = await query(question.query_str)
            return _noted(_program_answer(question, response), query.notes)

        return Source(answer, name, engine, captures=True)
    aretrieve = getattr(engine, "aretrieve", None) if waits else None
    retrieve = DualCall(engine, aretrieve, engine.retrieve)
    can_retrieve = True

    async def ask(question: Question) -> Answer:
        nonlocal can_retrieve
        bundle = QueryBundle(question.query_str)
        if can_retrieve:
            try:
                return Answer(list(await retrieve(bundle)), notes=retrieve.notes)
            except NotImplementedError as error:
                if "support retrieve" not in str(error):
                    raise
                can_retrieve = False
        return _sources_of(name, await query(bundle), query.notes)

    return Source(ask, name, engine)


def _noted(answer: Answer, notes: Sequence[str]) -> Answer:
    answer.notes = notes
    return answer


def _sources_of(name: str, response: Any, notes: Sequence[str]) -> Answer:
    sources = getattr(response, "source_nodes", None)
    if sources is None:
        remedy = "Evaluate the retriever that it uses."
        expected = "a response with source_nodes"
        raise UnusableAnswer(f"answer of {name}", type(response), expected, remedy)
    said = [
        *notes,
        f"{name} can't retrieve without answering: what it retrieved are the source nodes of its "
        "answers, without texts that it wrote itself",
    ]
    if not sources:
        said.append(f"{name} gave answers without source nodes: nothing was retrieved")
    return Answer([node for node in sources if not _is_written(node)], notes=said)


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
        return _noted(_program_answer(question, response), chat.notes)

    name = type(engine).__name__
    return Source(ask, name, engine, context="history", captures=True, most_at_once=1)


def _workflow(workflow: Workflow) -> Source:
    names, further = _arguments(workflow)
    context = next((_BESIDE[name] for name in _BESIDE if name in further), None)

    async def ask(question: Question) -> Answer:
        arguments: dict[str, Any] = dict.fromkeys(names, question.query_str)
        beside = {"chat_history": question.history, "metadata": question.copied_metadata()}
        arguments.update({name: beside[name] for name in further})
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
            return ("user_msg",), ("chat_history",)
    event_class: Any = getattr(workflow, "start_event_class", StartEvent)  # core 0.12.0 has none
    if event_class is StartEvent:
        return _QUESTION, tuple(_BESIDE)
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


def _callable(function: Callable[..., Any]) -> Source:
    _check_signature(function)
    takes_metadata = _takes_metadata(function)
    is_async = inspect.iscoroutinefunction(_function(function))

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
        if is_async and _is_program(returned):
            return _program_answer(question, returned)
        return Answer(_checked_items(returned))

    inner = _function_of(function)
    name = getattr(inner, "__name__", type(inner).__name__)
    name = "function" if name == "<lambda>" else name
    context: Context | None = "metadata" if takes_metadata else None
    return Source(ask, name, function, context, captures=is_async)


async def _in_thread(function: Callable[..., Any], text: str) -> Any:
    try:
        return await in_thread(function, text)
    except RuntimeError as error:
        if str(error) != _NO_LOOP:
            raise
        expected = "an asynchronous function"
        remedy = "Write async def ask(question): return await agent.run(question)."
        shown = "one that starts asynchronous code"
        raise UnusableAnswer("retriever", shown, expected, remedy) from error


def _is_program(returned: Any) -> bool:
    """Whether what a function returned is an answer in words: its retrievals are captured."""
    # an agent's answer is iterable, too
    if isinstance(returned, (str, BaseModel, Mapping)):
        return True
    return not has_order(returned) and any(map(partial(hasattr, returned), _RESPONSE))


def _checked_items(returned: Any) -> Sequence[NodeWithScore | str]:
    if type(returned) is list and all(type(item) is str for item in returned):
        return returned
    return as_nodes(returned, _CAPTURED)


def _program_answer(question: Question, response: Any) -> Answer:
    """The answer of a program: its calls are captured, or else its sources stand for one."""
    sources = answer_nodes(response)
    if sources:
        return Answer(calls=[Retrieval(question.query_str, nodes=sources)])
    return Answer(calls=())


def answer_nodes(answer: Any) -> list[NodeWithScore]:
    """The source nodes of an answer, or of the tools that an agent called."""
    sources = getattr(answer, "source_nodes", None)
    if isinstance(sources, list):
        return [node for node in sources if not _is_written(node)]
    nodes: list[NodeWithScore] = []
    for call in getattr(answer, "tool_calls", None) or ():
        output = getattr(getattr(call, "tool_output", None), "raw_output", None)
        nodes.extend(_nodes_of(output))
    return each_once(nodes)


def each_once(nodes: Iterable[NodeWithScore]) -> list[NodeWithScore]:
    first: dict[str, NodeWithScore] = {}
    for node in nodes:
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


_RESPONSE = ("response", "source_nodes")  # what answers of engines and agents have

_EXPECTED = "a retriever, an index, a query engine, an agent, a workflow or a callable"


def _refusal(source: Any) -> InvalidInput:
    """The error for an unusable source, which shows its type: its repr might hold a key."""
    if isinstance(source, type):
        remedy = f"Give an instance of it, built as {source.__name__}(...)."
        return InvalidInput("retriever", source, _EXPECTED, remedy)
    if _asks_program(source):
        remedy = f"Give the {type(source.__self__).__name__} itself."
        return InvalidInput("retriever", f"its {source.__name__} method", _EXPECTED, remedy)
    if inspect.isasyncgenfunction(_function(source)):
        remedy = (
            "Collect what it yields: async def ask(question): "
            "return ''.join([part async for part in agent(question)])."
        )
        return InvalidInput("retriever", "an asynchronous generator", _EXPECTED, remedy)
    remedy = "It is a coroutine: await it." if inspect.iscoroutine(source) else ""
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
    is_shown = source is None or isinstance(source, (int, float))
    return InvalidInput("retriever", source if is_shown else type(source), _EXPECTED, remedy)


def _asks_program(source: Any) -> bool:
    """Whether it is a program's own method for questions, which keeps one conversation."""
    program, method = getattr(source, "__self__", None), getattr(source, "__name__", "")
    return any(isinstance(program, kind) and method in names for kind, names in _METHODS.items())


def _check_signature(function: Callable[..., Any]) -> None:
    if (signature := _signature_of(function)) is None:
        return
    metadata: dict[str, Any] = {"metadata": {}} if _takes_metadata(function) else {}
    try:
        signature.bind("", **metadata)
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
    if (signature := _signature_of(function)) is None:
        return False
    if isinstance(function, partial) and "metadata" in function.keywords:
        return False
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    inner = function.func if isinstance(function, partial) else function
    if inspect.Parameter.VAR_KEYWORD in kinds and hasattr(inner, "__wrapped__"):
        return _takes_metadata(inner.__wrapped__)
    return "metadata" in signature.parameters


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:  # of the function itself: a decorator may supply what the one that it wraps needs
        return inspect.signature(function, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - some functions have none, and others compute theirs
        return None


def _function_of(source: Any) -> Any:
    while isinstance(source, partial):
        source = source.func
    return source


def _function(source: Any) -> Any:
    inner = _function_of(source)
    return inner if inspect.isroutine(inner) else getattr(inner, "__call__", None)  # noqa: B004
