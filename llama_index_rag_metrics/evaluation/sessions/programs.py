"""Programs that answer questions: agents, workflows, chat engines. Each starts from nothing."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import StartEvent, Workflow

from llama_index_rag_metrics.evaluation.asking.dual import CallModes, says_it_cannot
from llama_index_rag_metrics.evaluation.retrieved.run_matching import InThread
from llama_index_rag_metrics.evaluation.who_asks import Query, Told
from llama_index_rag_metrics.runtime.errors import InvalidInput

_QUESTION = ("query", "question", "input", "user_msg", "message", "query_str", "topic")
"""Names of the question in workflows, in the order in which their start events are searched."""

_BESIDE = ("chat_history", "metadata", "filters")
"""Names of what else the start event of a workflow may take."""

_MEMORY, _HISTORY = "_memory", "_chat_history"
"""Where chat engines keep a conversation."""

Engine = TypeVar("Engine", bound=BaseQueryEngine | BaseChatEngine)


class Program(Protocol):
    retrieves: bool
    told: Told | None

    @property
    def name(self) -> str:
        """The name in journals and reports."""

    async def answer(self, query: Query, in_thread: InThread) -> Any:
        """Answer in a conversation that has nothing but the question's history."""


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
        self.takes_filters = "filters" in self._further

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
        known = {"chat_history": query.history, "metadata": query.told(), "filters": query.filters}
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
    """A chat engine, of which each question gets a copy that remembers its history alone.

    An engine whose memory isn't found is reset instead, and asked one question at a time.
    """

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


def _is_agent(workflow: Workflow) -> bool:
    with suppress(ImportError):  # core 0.12.0 has no agents yet
        from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent

        return isinstance(workflow, (AgentWorkflow, BaseWorkflowAgent))
    return False


def _arguments(workflow: Workflow) -> tuple[Sequence[str], Sequence[str]]:
    """The arguments of `run` that may take the question, and those that say who asks it."""
    if _is_agent(workflow):
        return ("user_msg",), ("chat_history",)
    event_class: Any = getattr(workflow, "start_event_class", StartEvent)  # core 0.12.0 has none
    if event_class is StartEvent:  # what it does with filters can't be known
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
