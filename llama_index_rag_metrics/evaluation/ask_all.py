"""Asking all questions, several at once: failures are data, and a journal keeps the answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from llama_index.core.schema import QueryBundle

from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.errors import RetrievalFailed, UnusableAnswer
from llama_index_rag_metrics.runtime.masking import describe_error, mask
from llama_index_rag_metrics.runtime.progress import Advance, progress
from llama_index_rag_metrics.runtime.sync import as_exception, within

from .answers_kept import Attempt, Journal
from .as_ask import Source, ask_captured, postprocessor_call
from .capturing import listening
from .plan import Plan
from .question import Answer, Ask, Question, as_nodes
from .reading import AnswerReader

_GRACE = 0.3  # seconds that cancelled code may take to end

_WITHOUT = (
    "{} answered without a retrieval that could be seen, and scored as empty: record_retrieval() "
    "records those of clients that send no event"
)


def pipeline(source: Source, plan: Plan) -> Ask:
    """Ask a source, and hand what it retrieved to the postprocessors of the plan."""
    calls = [postprocessor_call(postprocessor) for postprocessor in plan.node_postprocessors]

    async def ask(question: Question) -> Answer:
        answer = await ask_captured(source, question, plan.timeout)
        if calls and answer.calls is not None:
            kinds = plan.postprocessor_kinds
            remedy = "Give them to the tools or engines that retrieve."
            expected = "none for an agent"
            raise UnusableAnswer("node_postprocessors", kinds, expected, remedy)
        bundle = QueryBundle(question.query_str)
        for call in calls:
            answer.items = await within(plan.timeout, call(as_nodes(answer.items), bundle))
            answer.notes = [*answer.notes, *call.notes]
        return answer

    return ask


@dataclass
class Answers:
    """What came for all questions, each time that they were asked."""

    rankings: dict[Attempt, Ranking]
    notes: list[str]


class _Asking:
    """The state of `ask_all`."""

    def __init__(
        self,
        ask: Ask,
        plan: Plan,
        reader: AnswerReader,
        kept: Mapping[Attempt, Ranking],
        journal: Journal | None,
    ) -> None:
        self.ask, self.plan, self.reader = ask, plan, reader
        self.kept, self.journal = kept, journal
        pairs = product(range(1, plan.repeats + 1), plan.dataset.queries)
        self.attempts = [Attempt(query_id, number) for number, query_id in pairs]
        self.n_kept = sum(attempt in kept for attempt in self.attempts)
        self.at_once = max(1, min(plan.workers, len(self.attempts)))
        self.rankings: dict[Attempt, Ranking] = {}
        self.has_answered = bool(kept)
        self.is_stopping = False
        self.n_without = 0

    async def work(self, attempts: Iterator[Attempt], advance: Advance) -> None:
        for attempt in attempts:
            if self.is_stopping:
                return
            ranking = self.kept.get(attempt)
            if ranking is not None:
                self.reader.labels.see(ranking.ids)
                self.rankings[attempt] = self.reader.filled(ranking)
                continue
            ranking = await self.attempt(attempt)
            advance(failed=ranking.error is not None)
            self.rankings[attempt] = ranking

    async def attempt(self, attempt: Attempt) -> Ranking:
        question = self.plan.question(attempt.query_id)
        begin = time.perf_counter()
        seconds: float | None = None
        try:
            answer = await self.ask(question)
            seconds = answer.seconds
            if seconds is None:
                seconds = time.perf_counter() - begin
            ranking = self.reader.read(answer)
        except BaseException as error:  # whatever other people's code raises
            is_main = threading.current_thread() is threading.main_thread()
            is_ctrl_c = is_main and isinstance(error, KeyboardInterrupt)
            if is_ctrl_c or (self.is_stopping and isinstance(error, asyncio.CancelledError)):
                raise
            if seconds is None:
                seconds = time.perf_counter() - begin
            return self.failure(question, as_exception(error), seconds)
        self.has_answered |= bool(ranking.ids)
        self.n_without += answer.calls is not None and not answer.calls
        ranking = self.reader.filled(ranking)
        ranking = replace(ranking, latency=seconds, concurrency=self.at_once)
        if self.journal is not None:
            self.journal.record(attempt, question, ranking)
        return ranking

    def failure(self, question: Question, error: Exception, seconds: float) -> Ranking:
        """The ranking of a question that failed; raises where the run is to end there."""
        if isinstance(error, UnusableAnswer) and not self.has_answered:
            raise error
        words = describe_error(error)  # without keys
        if self.plan.raise_on_error:
            # a cause that holds a key would show it in the traceback
            is_safe = mask(str(error)) == str(error)
            raise RetrievalFailed(question.query_id, words) from (error if is_safe else None)
        return Ranking(latency=seconds, error=words)

    @property
    def notes(self) -> list[str]:
        notes = [*self.reader.notes]
        if n := self.n_without:
            notes.append(_WITHOUT.format(counted(n, "question was", "questions were")))
        if self.journal is not None and self.n_kept:
            notes.insert(0, self.journal.resumed(self.n_kept, len(self.attempts) - self.n_kept))
        return notes


async def ask_all(
    ask: Ask,
    plan: Plan,
    reader: AnswerReader,
    *,
    kept: Mapping[Attempt, Ranking] | None = None,
    journal: Journal | None = None,
) -> Answers:
    """Ask every question of a plan, `workers` at once, but for what is kept.

    Raises:
        RetrievalFailed: with `raise_on_error`.
        UnusableAnswer: no answer can be read.
    """
    asking = _Asking(ask, plan, reader, kept or {}, journal)
    attempts = iter(asking.attempts)
    name = plan.name or "evaluating"
    bar = progress(name, len(asking.attempts), asking.n_kept, plan.show_progress)
    with bar as advance, listening():
        tasks = [asyncio.create_task(asking.work(attempts, advance)) for _ in range(asking.at_once)]
        try:
            # unlike gather, it doesn't wait for what swallows a cancellation
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                task.result()
        finally:
            asking.is_stopping = True
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_GRACE)
    rankings = {attempt: asking.rankings[attempt] for attempt in asking.attempts}
    return Answers(rankings, asking.notes)
