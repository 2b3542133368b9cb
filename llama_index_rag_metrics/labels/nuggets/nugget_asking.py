"""Many questions to an LLM at once: what fails is named, and the rest goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from llama_index_rag_metrics.evaluation.asking.query_runner import FailedQueries
from llama_index_rag_metrics.evaluation.asking.run_options import check_count
from llama_index_rag_metrics.labels.nuggets.nugget_passages import pieces, windows
from llama_index_rag_metrics.labels.nuggets.prompts import (
    COLLECT,
    LABEL,
    MOST_FACTS,
    PER_CALL,
    SUPPORT,
    Facts,
    collect_prompt,
    importances_of,
    label_prompt,
    support_prompt,
    supports_of,
)
from llama_index_rag_metrics.rankings.nugget import Importance, Support
from llama_index_rag_metrics.rankings.tokens import TokenCounter
from llama_index_rag_metrics.runtime.cache import Cache, Request, Tally, Usage, identity
from llama_index_rag_metrics.runtime.errors import BadAnswer, InvalidInput
from llama_index_rag_metrics.runtime.llms import context_window, structured_answer
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.progress import progress
from llama_index_rag_metrics.runtime.retries import attempts, http_status
from llama_index_rag_metrics.runtime.sync import each

if TYPE_CHECKING:
    from llama_index.core.llms import LLM


Answer = TypeVar("Answer", bound=BaseModel)

_MOST_ATTEMPTS, _FIRST_PAUSE = 3, 0.5
_FORM, _LABELS, _LIST = 400, 200, 1_000
"""Tokens that the form of an answer, a few labels, and a list of facts may take."""

_LEAST_ROOM = 100
"""Tokens of a passage that are read at once, at least."""

_NO_USE_AGAIN = frozenset({400, 401, 403, 404, 422})
"""Statuses of HTTP by which a service says that it will never answer this."""


class Asking:
    """An LLM that is asked about nuggets; `tally` counts what is asked."""

    def __init__(self, llm: LLM, cache: Cache, asked_by: str) -> None:
        self.tally = Tally(Usage(llm.metadata.model_name))
        self._llm = llm
        self._cache = cache
        self._asked_by = asked_by
        self._counter = TokenCounter()

    async def facts(self, question: str, passages: Mapping[str, str]) -> list[str]:
        """The facts that an answer states, the most needed first, read window by window."""
        facts: list[str] = []
        # the list grows up to its most, so that room for it is kept from the beginning
        room = self._room(collect_prompt(question, [], []), 2 * _LIST)
        for window in windows(passages, room, self._counter, PER_CALL):
            texts = [passage.text for passage in window]
            facts = await self._updated(question, facts, texts)
        return facts

    async def importances(self, question: str, facts: Sequence[str]) -> list[Importance]:
        """How important each fact is; a few at a time, kept one by one."""
        requests = [self._request("importance", LABEL, question, fact) for fact in facts]

        async def ask(positions: list[int]) -> list[Any]:
            asked = [facts[position] for position in positions]
            return await self._labels(importances_of(len(asked)), label_prompt(question, asked))

        return await self._fetched(requests, ask, ("vital", "okay"))

    async def supports(self, question: str, facts: Sequence[str], passage: str) -> list[Support]:
        """How much of each fact a passage states: of a long one, its best piece."""
        requests = [self._request("support", SUPPORT, question, [fact, passage]) for fact in facts]

        async def ask(positions: list[int]) -> list[Any]:
            asked = [facts[position] for position in positions]
            room = self._room(support_prompt(question, asked, ""), _LABELS)
            best = ["none"] * len(asked)
            for piece in pieces(passage, room, self._counter):
                prompt = support_prompt(question, asked, piece)
                labels = await self._labels(supports_of(len(asked)), prompt)
                best = [max(both, key=_MORE.index) for both in zip(best, labels, strict=True)]
            return best

        return await self._fetched(requests, ask, _MORE)

    async def _updated(
        self, question: str, facts: Sequence[str], passages: Sequence[str]
    ) -> list[str]:
        request = self._request("facts", COLLECT, question, passages, facts=list(facts))

        async def ask(_: list[int]) -> list[list[str]]:
            prompt = collect_prompt(question, facts, passages)
            answer = await self._answer(Facts, prompt)
            lines = (" ".join(fact.split()) for fact in answer.facts)
            each_once = {line.casefold(): line for line in lines if line}
            return [list(each_once.values())[:MOST_FACTS]]

        fetched = await self._cache.fetch([request], ask, is_valid=_is_list)
        self.tally.usage += Usage(fresh=fetched.fresh, cached=fetched.cached)
        updated: list[str] = fetched.values[0]
        return updated

    async def _fetched(
        self, requests: Sequence[Request], ask: Any, labels: Sequence[str]
    ) -> list[Any]:
        fetched = await self._cache.fetch(
            requests, ask, batch_size=PER_CALL, is_valid=lambda value: value in labels
        )
        self.tally.usage += Usage(fresh=fetched.fresh, cached=fetched.cached)
        return fetched.values

    async def _labels(self, answer_class: type[BaseModel], prompt: str) -> list[str]:
        labels: list[str] = (await self._answer(answer_class, prompt)).model_dump()["labels"]
        return labels

    async def _answer(self, answer_class: type[Answer], prompt: str) -> Answer:
        answer: Answer = await attempts(_MOST_ATTEMPTS, _FIRST_PAUSE, _may_pass)(
            structured_answer,
            self._llm,
            answer_class,
            prompt,
            asked_by=self._asked_by,
            tally=self.tally,
        )
        return answer

    def _request(
        self, kind: str, prompt: str, question: str, text: str | Sequence[str], **parameters: Any
    ) -> Request:
        asked = {"llm": identity(self._llm), "prompt": prompt, **parameters}
        model = self._llm.metadata.model_name
        return Request(f"nugget {kind}", model, "", asked, question, text)

    def _room(self, prompt: str, for_answer: int) -> int:
        """How many tokens of passages go with a prompt into the LLM's context window."""
        metadata = self._llm.metadata
        window = context_window(self._llm)
        (spent,) = self._counter.count([prompt])
        room = window - max(metadata.num_output, for_answer) - _FORM - spent
        if room < _LEAST_ROOM:
            expected = f"at least {window - room + _LEAST_ROOM:,} tokens for this question"
            argument = f"context window of {metadata.model_name or 'the LLM'}"
            raise InvalidInput(argument, window, expected)
        return room


_MORE = ("none", "partial", "full")


def _may_pass(error: BaseException) -> bool:
    return (
        not isinstance(error, (BadAnswer, InvalidInput)) and http_status(error) not in _NO_USE_AGAIN
    )


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(fact, str) for fact in value)


Job = TypeVar("Job")

_LLM = "the LLM"


async def run_jobs(
    jobs: Sequence[Job],
    do: Callable[[Job], Awaitable[None]],
    *,
    workers: int,
    description: str,
    show_progress: bool,
) -> dict[Job, str]:
    """Do all jobs, some at once; errors by job, secrets masked.

    A service that refuses the key isn't asked any more.
    """
    check_count("workers", workers, "workers")
    errors: dict[Job, str] = {}
    limit = FailedQueries(None, len(jobs))
    with progress(description, len(jobs), 0, show_progress) as advance:

        async def attempt(job: Job) -> None:
            if (reason := limit.unasked(_LLM)) is not None:
                errors[job] = reason
            else:
                try:
                    await do(job)
                    limit.succeeded(_LLM)
                except Exception as error:  # noqa: BLE001 - recorded by job
                    errors[job] = describe_error(error)
                    limit.record(_LLM, errors[job], http_status(error))
            advance(failed=job in errors)

        await each(jobs, attempt, min(workers, len(jobs)))
    return errors
