"""Asking all questions, several at once: failures are data, and a journal keeps the answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from llama_index.core.schema import QueryBundle

from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    RetrievalFailed,
    StrayError,
    UnusableAnswer,
)
from llama_index_rag_metrics.runtime.masking import describe_error, mask
from llama_index_rag_metrics.runtime.progress import Advance, progress
from llama_index_rag_metrics.runtime.retries import refuses_key
from llama_index_rag_metrics.runtime.sync import as_exception, within

from .answers_kept import Attempt, Journal
from .as_ask import Source, ask_captured, postprocessor_call
from .capturing import listening
from .plan import Plan
from .question import Answer, Ask, Question, as_nodes
from .reading import AnswerReader

NOT_ASKED = "not asked: "
"""The beginning of the error of a question that came after a run was given up."""

RETRIEVER = "the retriever"
"""The key of the retriever's failures; metrics have their names."""

_GRACE = 0.3  # seconds that cancelled code may take to end

_WITHOUT = (
    "{} answered without a retrieval that could be seen, and scored as empty: record_retrieval() "
    "records those of clients that send no event"
)
_BY_SOURCES = (
    "{} made no retrieval that could be seen: the source nodes of the answer stand for one"
)


class Refusals:
    """Stops asking a retriever, or a metric, whose service refuses the key."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._answered: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._unasked: Counter[str] = Counter()

    def succeeded(self, component: str) -> None:
        self._answered.add(component)

    def record(self, component: str, error: Exception) -> None:
        """Note a failure of a metric or the `RETRIEVER`."""
        if refuses_key(error, has_answered=component in self._answered):
            reason = f"the service refuses the key: {describe_error(error)}"
            self._reasons.setdefault(component, reason)

    def unasked(self, component: str) -> str | None:
        """The error of a question that isn't asked any more; None where it is to be asked."""
        if (reason := self._reasons.get(component)) is None:
            return None
        self._unasked[component] += 1
        return f"{NOT_ASKED}{reason}"

    @property
    def notes(self) -> list[str]:
        notes = []
        for component, n in self._unasked.items():
            extent = f"{n} of {self._total} questions"
            if component == RETRIEVER:
                extent += ", which count as failed"
            reason = self._reasons[component]
            notes.append(f"{component} wasn't asked for {extent}, since {reason}")
        return notes


def pipeline(source: Source, plan: Plan) -> Ask:
    """Ask a source, and hand what it retrieved to the postprocessors of the plan."""
    calls = [postprocessor_call(postprocessor) for postprocessor in plan.node_postprocessors]

    async def ask(question: Question) -> Answer:
        answer = await ask_captured(source, question, plan.timeout)
        if not calls or answer.error is not None:
            return answer
        if answer.calls is not None:
            raise no_postprocessors(plan)
        bundle = QueryBundle(question.query_str)
        for call in calls:
            answer.items = await within(plan.timeout, call(as_nodes(answer.items), bundle))
            answer.notes = [*answer.notes, *call.notes]
        return answer

    return ask


def no_postprocessors(plan: Plan) -> InvalidInput:
    """The error of postprocessors for what retrieves several times."""
    kinds = plan.postprocessor_kinds
    remedy = "Give them to the tools or engines that retrieve."
    sentence = f"node_postprocessors can't be given for an agent, got {kinds}."
    return InvalidInput("node_postprocessors", kinds, sentence=sentence, remedy=remedy)


@dataclass
class Answers:
    """What came for all questions, each time that they were asked."""

    rankings: dict[Attempt, Ranking]
    refusals: Refusals
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
        self.refusals = Refusals(len(self.attempts))
        self.has_answered = bool(kept)
        self.is_stopping = False
        self.n_without = self.n_by_sources = 0

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
        if (unasked := self.refusals.unasked(RETRIEVER)) is not None:
            return Ranking(error=unasked)
        question = self.plan.question(attempt.query_id)
        begin = time.perf_counter()
        answer = await self.asked(question)
        if answer.seconds is None:
            answer.seconds = time.perf_counter() - begin
        if answer.error is None:
            try:
                ranking = self.reader.read(question, answer)
            except Exception as error:  # noqa: BLE001 - recorded by question
                answer.error = error
        if answer.error is not None:
            return self.failure(question, answer, answer.error)
        self.refusals.succeeded(RETRIEVER)
        self.has_answered |= bool(ranking.ids)
        if answer.calls is not None:
            self.n_without += not answer.calls
            self.n_by_sources += answer.by_sources
        ranking = self.reader.filled(ranking)
        ranking = replace(ranking, latency=answer.seconds, concurrency=self.at_once)
        if self.journal is not None:
            self.journal.record(attempt, question, self.reader.context, ranking)
        return ranking

    async def asked(self, question: Question) -> Answer:
        """The answer to a question; whatever other people's code raises is its error."""
        try:
            return await self.ask(question)
        except asyncio.CancelledError as error:
            if self.is_stopping:
                raise
            return Answer(error=StrayError(error))
        except BaseException as error:
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and isinstance(error, KeyboardInterrupt):  # Ctrl-C
                raise
            return Answer(error=as_exception(error))

    def failure(self, question: Question, answer: Answer, error: Exception) -> Ranking:
        """The ranking of a question that failed; raises where the run is to end there."""
        if isinstance(error, UnusableAnswer) and not self.has_answered:
            raise error
        calls = None
        if answer.calls is not None:
            calls = self.reader.read(question, Answer(calls=answer.calls)).calls
        words = describe_error(error)  # without keys
        if self.plan.raise_on_error:
            # a cause that holds a key would show it in the traceback
            is_safe = mask(str(error)) == str(error)
            raise RetrievalFailed(question.query_id, words) from (error if is_safe else None)
        self.refusals.record(RETRIEVER, error)
        return Ranking(latency=answer.seconds, error=words, calls=calls)

    @property
    def notes(self) -> list[str]:
        notes = [*self.reader.notes, *self.refusals.notes]
        if n := self.n_without:
            notes.append(_WITHOUT.format(counted(n, "question was", "questions were")))
        if n := self.n_by_sources:
            notes.append(_BY_SOURCES.format(counted(n, "question", "questions")))
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
    return Answers(rankings, asking.refusals, asking.notes)
