"""Asking a question of a program, and what it retrieved meanwhile as a session."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from llama_index_rag_metrics.evaluation.asking.query import Asked, LocalAsker
from llama_index_rag_metrics.evaluation.retrieved.nodes import CAPTURED, as_nodes
from llama_index_rag_metrics.evaluation.sessions.capturing import (
    RECORDER,
    CapturedSession,
    Retrieval,
    as_call,
    capturing,
)
from llama_index_rag_metrics.evaluation.source import (
    AsyncCallableRetriever,
    EngineProgram,
    SessionRetriever,
    answer_nodes,
)
from llama_index_rag_metrics.evaluation.who_asks import Query
from llama_index_rag_metrics.rankings.matching.id_matcher import names_of
from llama_index_rag_metrics.rankings.run import Call, combine_calls, has_order
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import out_of_reach
from llama_index_rag_metrics.runtime.threads import within

if TYPE_CHECKING:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
    from llama_index.core.schema import NodeWithScore

    from llama_index_rag_metrics.evaluation.evaluator import Plan

_WITHOUT = (
    "question was",
    "questions were",
    "answered without a retrieval that could be seen, and scored as empty: "
    "record_retrieval() records those of clients that send no event",
)
_BY_SOURCES = (
    "question",
    "questions",
    "made no retrieval that could be seen: the source nodes of the answer stand for one",
)
_STRAYS = (
    "retrieval",
    "retrievals",
    "belonged to no question, and so to no ranking: other code of this process retrieved, or a "
    "tool did in a thread without the question's context. Give function tools an async_fn: before "
    "core 0.14 LlamaIndex calls their fn in such a thread. In your own code asyncio.to_thread "
    "hands the context on, and loop.run_in_executor doesn't",
)


class SessionAsker(LocalAsker):
    """Asks a program in this process."""

    def __init__(
        self, retriever: BaseRetriever, plan: Plan, metrics: Sequence[BaseRetrievalMetric] = ()
    ) -> None:
        super().__init__(retriever, plan, metrics)
        if plan.postprocessors:
            remedy = "Give them to the tools or engines that retrieve."
            kinds = [type(postprocessor).__name__ for postprocessor in plan.postprocessors]
            sentence = f"node_postprocessors can't be given for an agent, got {kinds}."
            raise InvalidInput("node_postprocessors", kinds, sentence=sentence, remedy=remedy)
        program = retriever.program if isinstance(retriever, SessionRetriever) else None
        self._engine = program if isinstance(program, EngineProgram) else None
        if self._engine is not None and self.pipeline.use_async is not None:
            self._engine.modes.current = "asynchronous" if self.pipeline.use_async else "blocking"
        self._strays = RECORDER.strays
        self._n_without = self._n_by_sources = 0
        self._retrieves = False

    @property
    def notes(self) -> list[str]:
        return self._notes(counted)

    @property
    def uncounted_notes(self) -> list[str]:
        return self._notes(lambda _, __, many: f"some {many}")

    def _notes(self, count: Callable[[int, str, str], str]) -> list[str]:
        counts = {
            _WITHOUT: self._n_without,
            _BY_SOURCES: self._n_by_sources,
            _STRAYS: RECORDER.strays - self._strays,
        }
        modes = self._engine.modes.notes if self._engine else []
        return [*modes, *(f"{count(n, *noun)} {what}" for (*noun, what), n in counts.items() if n)]

    async def ask(self, query: Query) -> Asked:
        engine = None if self.pipeline.use_async is not None else self._engine
        may_switch = engine is not None and engine.modes.current == "asynchronous"
        asked = await self._ask_once(query)
        if engine is None or not may_switch or not isinstance(asked.cause, Exception):
            return asked
        # in a session of its own: what the first attempt retrieved is no part of the answer
        return await self._ask_once(query) if engine.switch(asked.cause) else asked

    async def _ask_once(self, query: Query) -> Asked:
        start = time.perf_counter()
        session = CapturedSession()
        try:
            answer = await self._answer(query, session)
            asked = self._asked(query, session, answer, time.perf_counter() - start)
            return replace(asked, notes=self.notes_on(query, asked.nodes))
        except Exception as error:  # noqa: BLE001 - any program, any error: recorded by query
            seconds = time.perf_counter() - start
            return Asked.failed(error, seconds, self._calls(session))

    async def _answer(self, query: Query, session: CapturedSession) -> Any:
        """Ask the program, and stop it when it takes too long."""
        with capturing(session):
            program = within(self.pipeline.timeout, self._program(query))
            answering = out_of_reach(asyncio.create_task(program))
            try:
                await asyncio.wait({answering})
            finally:
                if not answering.done():
                    answering.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await answering
            return answering.result()

    async def _program(self, query: Query) -> Any:
        retriever = self.pipeline.retriever
        if isinstance(retriever, SessionRetriever):
            return await retriever.program.answer(query, self.pipeline.threads.call)
        assert isinstance(retriever, AsyncCallableRetriever)
        return await retriever.call(query)

    def _asked(self, query: Query, session: CapturedSession, answer: Any, seconds: float) -> Asked:
        self._retrieves |= bool(session.retrievals)
        if isinstance(self.pipeline.retriever, AsyncCallableRetriever):
            # what a function returns is its ranking; an agent's answer is iterable, too
            is_ranking = has_order(answer) and not isinstance(answer, BaseModel)
            names = ("response", "source_nodes")
            is_answer = isinstance(answer, str) or any(hasattr(answer, name) for name in names)
            if is_ranking or not (self._retrieves or is_answer):
                nodes = as_nodes(answer, CAPTURED)
                return Asked(self.ranking(nodes, seconds), names_of(nodes), nodes=nodes)
        if not session.retrievals and (sources := answer_nodes(answer)):
            # a client that sends no event, but says what its answer was made from
            self._n_by_sources += 1
            session.add(Retrieval(query.query_str, "", 0.0, nodes=sources))
        self._n_without += not session.retrievals
        context = self._context(session, answer)
        final = None if context is None else self.ranking(context)
        ranking = combine_calls(self._calls(session), final)
        seen = [node for retrieval in session.retrievals for node in retrieval.nodes or ()]
        # a merged parent, say, went to the model though no call retrieved it
        seen += context or ()
        return Asked(replace(ranking, latency=seconds), names_of(seen), nodes=seen)

    def _context(self, session: CapturedSession, answer: Any) -> Sequence[NodeWithScore] | None:
        """The nodes that finally went to the model, if they can be seen."""
        nodes = answer_nodes(answer)
        if nodes is None:
            nodes = session.context
        if nodes is not None or not session.retrievals:
            return nodes or []
        return None

    def _calls(self, session: CapturedSession) -> tuple[Call, ...]:
        return tuple(as_call(retrieval, self.ranking) for retrieval in session.retrievals)


def asker_of(
    retriever: BaseRetriever, plan: Plan, metrics: Sequence[BaseRetrievalMetric]
) -> LocalAsker:
    """Asks a retriever, or as a whole the program that it stands for."""
    if isinstance(retriever, (SessionRetriever, AsyncCallableRetriever)):
        return SessionAsker(retriever, plan, metrics)
    return LocalAsker(retriever, plan, metrics)
