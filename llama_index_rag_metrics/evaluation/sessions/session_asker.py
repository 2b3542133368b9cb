"""Asking a question of a program, and what it retrieved meanwhile as a session."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from llama_index_rag_metrics.evaluation.asking.query import Asked, LocalAsker
from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity
from llama_index_rag_metrics.evaluation.retrieved.nodes import CAPTURED, as_nodes
from llama_index_rag_metrics.evaluation.retrieved.score_by_matcher import matcher_of
from llama_index_rag_metrics.evaluation.retrievers.callables import AsyncCallableRetriever
from llama_index_rag_metrics.evaluation.sessions.capturing import (
    CapturedSession,
    as_call,
    capturing,
)
from llama_index_rag_metrics.evaluation.sessions.programs import EngineProgram
from llama_index_rag_metrics.evaluation.sessions.recording import (
    RECORDER,
    Retrieval,
    end_at_next_event,
)
from llama_index_rag_metrics.evaluation.sessions.session_retriever import (
    SessionRetriever,
    answer_nodes,
)
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.rankings.combining import Combine, check_combine, combine_calls
from llama_index_rag_metrics.rankings.matching import Matcher, names_of
from llama_index_rag_metrics.rankings.run import Call, has_order
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import check_whole
from llama_index_rag_metrics.runtime.errors import InvalidInput, TooManyCalls, UnusableAnswer
from llama_index_rag_metrics.runtime.sync import out_of_reach
from llama_index_rag_metrics.runtime.threads import within

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
    from llama_index.core.schema import NodeWithScore

    from llama_index_rag_metrics.evaluation.retrievers.pipeline import Pipeline

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


@dataclass(frozen=True)
class SessionIdentity(RetrieverIdentity):
    """A program, and how its calls are combined."""

    depth: int = 0
    combine: Combine = "first_seen"

    def __str__(self) -> str:
        return self.name

    @property
    def aspects(self) -> dict[str, str]:
        return {"retriever": self.name, "combine": self.combine}


class SessionAsker(LocalAsker):
    """Asks a program in this process.

    `combine` makes one ranking of a session's calls; more than `max_calls` stop a question.
    """

    def __init__(
        self, *arguments: Any, combine: Combine, max_calls: int | None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        if self.pipeline.postprocessors:
            remedy = "Give them to the tools or engines that retrieve."
            kinds = [type(postprocessor).__name__ for postprocessor in self.pipeline.postprocessors]
            sentence = f"node_postprocessors can't be given for an agent, got {kinds}."
            raise InvalidInput("node_postprocessors", kinds, sentence=sentence, remedy=remedy)
        self.combine = combine
        self.max_calls = max_calls
        retriever = self.pipeline.retriever
        program = retriever.program if isinstance(retriever, SessionRetriever) else None
        self._engine = program if isinstance(program, EngineProgram) else None
        if self._engine is not None and self.pipeline.use_async is not None:
            self._engine.modes.current = "asynchronous" if self.pipeline.use_async else "blocking"
        self._strays = RECORDER.strays
        self._n_without = self._n_by_sources = 0
        self._retrieves = False

    @property
    def notes(self) -> list[str]:
        return [
            *self._found_out,
            *(f"{counted(n, *noun)} {what}" for *noun, what, n in self._counted()),
        ]

    @property
    def uncounted_notes(self) -> list[str]:
        return [*self._found_out, *(f"some {many} {what}" for _, many, what, _ in self._counted())]

    @property
    def _found_out(self) -> Sequence[str]:
        return self._engine.modes.notes if self._engine else []

    def _counted(self) -> Iterator[tuple[str, str, str, int]]:
        """Notes with something to count: singular, plural, the rest, the number."""
        n_strays = RECORDER.strays - self._strays
        for note, n in (
            (_WITHOUT, self._n_without),
            (_BY_SOURCES, self._n_by_sources),
            (_STRAYS, n_strays),
        ):
            if n:
                yield *note, n

    def identity(self, retriever: str | RetrieverIdentity) -> RetrieverIdentity:
        return SessionIdentity(str(retriever), combine=self.combine)

    async def ask(self, query: str) -> Asked:
        engine = self._engine
        may_switch = (
            engine is not None
            and engine.modes.current == "asynchronous"
            and self.pipeline.use_async is None
        )
        asked = await self._ask_once(query)
        if engine is not None and may_switch and isinstance(asked.cause, Exception):
            # in a session of its own: what the first attempt retrieved is no part of the answer
            return await self._ask_once(query) if engine.switch(asked.cause) else asked
        return asked

    async def _ask_once(self, query: str) -> Asked:
        start = time.perf_counter()
        session = CapturedSession()
        try:
            answer = await self._answer(query, session)
            seconds = time.perf_counter() - start
            return self._asked(query, session, answer, seconds)
        except Exception as error:  # noqa: BLE001 - any program, any error: recorded by query
            seconds = time.perf_counter() - start
            return Asked.failed(error, seconds, self._calls(session)[: self.max_calls])

    async def _answer(self, query: str, session: CapturedSession) -> Any:
        """Ask the program, and stop it when it takes too long or retrieves too often."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def count(n_calls: int) -> None:
            if self.max_calls is not None and n_calls > self.max_calls:
                loop.call_soon_threadsafe(over.set)
                end_at_next_event()

        session.on_call = count
        with capturing(session):
            program = within(self.pipeline.timeout, self._program(query))
            answering = out_of_reach(asyncio.create_task(program))
            watching = out_of_reach(asyncio.create_task(over.wait()))
            try:
                await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                unfinished = not answering.done()
                answering.cancel()
                watching.cancel()
                if unfinished:
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await answering
            if self.max_calls is not None and len(session.retrievals) > self.max_calls:
                raise TooManyCalls(self.max_calls)
            return answering.result()

    async def _program(self, query: str) -> Any:
        retriever = self.pipeline.retriever
        if isinstance(retriever, SessionRetriever):
            return await retriever.program.answer(query, self.pipeline.in_thread)
        assert isinstance(retriever, AsyncCallableRetriever)
        return await retriever.function(query)

    def _asked(self, query: str, session: CapturedSession, answer: Any, seconds: float) -> Asked:
        is_function = isinstance(self.pipeline.retriever, AsyncCallableRetriever)
        self._retrieves |= bool(session.retrievals)
        is_mistaken = not self._retrieves and _is_mistaken(answer)
        if is_function and (_is_ranking(answer) or is_mistaken):
            nodes = as_nodes(answer, CAPTURED)
            return Asked(self.ranking(nodes, seconds), names_of(nodes), nodes=nodes)
        if not session.retrievals and (sources := answer_nodes(answer)):
            # a client that sends no event, but says what its answer was made from
            self._n_by_sources += 1
            session.add(Retrieval(query, "", 0.0, nodes=sources))
        self._n_without += not session.retrievals
        calls = self._calls(session)
        context = self._context(session, answer)
        ranking = combine_calls(
            calls, self.combine, None if context is None else self.ranking(context)
        )
        seen = [node for retrieval in session.retrievals for node in retrieval.nodes or ()]
        # a merged parent, say, went to the model though no call retrieved it
        seen += context or ()
        return Asked(replace(ranking, latency=seconds), names_of(seen), nodes=seen)

    def _context(self, session: CapturedSession, answer: Any) -> Sequence[NodeWithScore] | None:
        """The nodes that finally went to the model, if they can be seen."""
        nodes = answer_nodes(answer)
        if nodes is None:
            nodes = session.context
        if nodes is None and not session.retrievals:
            nodes = []
        if nodes is None and self.combine == "context":
            expected = "an answer with source_nodes, or a response synthesizer's"
            remedy = "Combine the calls otherwise: combine='first_seen'."
            raise UnusableAnswer("what went to the model", type(answer), expected, remedy)
        return nodes

    def _calls(self, session: CapturedSession) -> tuple[Call, ...]:
        return tuple(as_call(retrieval, self.ranking) for retrieval in session.retrievals)


def _is_ranking(answer: object) -> bool:
    """Whether a function returned what it retrieved; an agent's answer is iterable, too."""
    return has_order(answer) and not isinstance(answer, BaseModel)


def _is_mistaken(answer: object) -> bool:
    """Whether a function without a retrieval returned neither an answer nor nodes."""
    is_answer = isinstance(answer, str) or hasattr(answer, "response")
    return not is_answer and not hasattr(answer, "source_nodes")


def check_calls(
    metrics: Sequence[BaseRetrievalMetric], matcher: Matcher[Any] | None, combine: Combine | None
) -> None:
    """Refuse rankings that lack some calls' items, where metrics of calls match all of them."""
    if combine not in ("last", "context"):
        return
    for metric in metrics:
        if (
            isinstance(metric, RankingMetric)
            and "calls" in metric.needs
            and matcher_of(metric, matcher) is not None
        ):
            remedy = f"{metric.metric_name} needs all that the calls retrieved to be matched."
            raise InvalidInput("combine", combine, "'first_seen' or 'rrf'", remedy)


def asker_of(
    pipeline: Pipeline, *arguments: Any, combine: Combine | None, max_calls: int | None
) -> LocalAsker:
    """Asks a pipeline, or as a whole the program that its retriever stands for.

    Without `combine` the calls of a program are combined as "first_seen".
    """
    check_combine(combine or "first_seen")
    if max_calls is not None:
        check_whole("max_calls", max_calls, 1, "a number of retrievals from 1 on, or None")
    if not isinstance(pipeline.retriever, (SessionRetriever, AsyncCallableRetriever)):
        if combine is not None:
            remedy = "To capture what other code retrieves, pass an asynchronous function."
            sentence = (
                "combine can't be given for a retriever, which is called once for a question."
            )
            raise InvalidInput("combine", combine, sentence=sentence, remedy=remedy)
        return LocalAsker(pipeline, *arguments)
    chosen = combine or "first_seen"
    return SessionAsker(pipeline, *arguments, combine=chosen, max_calls=max_calls)
