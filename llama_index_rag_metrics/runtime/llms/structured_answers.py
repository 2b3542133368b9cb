"""Asking an LLM for an answer that fits a pydantic model, forgivingly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent
from llama_index.core.output_parsers import PydanticOutputParser
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import ValidationError

from llama_index_rag_metrics.runtime.cache import Tally, Usage
from llama_index_rag_metrics.runtime.errors import BadAnswer
from llama_index_rag_metrics.runtime.llms.llm_answers import (
    AnyAnswer,
    json_answer,
    without_reasoning,
)
from llama_index_rag_metrics.runtime.masking import mask_and_cut, register_secrets_of
from llama_index_rag_metrics.runtime.sync import in_thread

if TYPE_CHECKING:
    from llama_index.core.llms import LLM


_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
"""OpenAI and its like, Anthropic, Google, Ollama."""


@dataclass
class Heard:
    """The answers of an LLM while somebody listened, in order."""

    responses: list[ChatResponse | CompletionResponse] = field(default_factory=list)

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens read and written, as far as the LLM says."""
        both = [_tokens(response) for response in self.responses]
        return sum(read for read, _ in both), sum(written for _, written in both)


@contextmanager
def overhearing() -> Iterator[Heard]:
    """Hear what LLMs answer in this block, and in threads and tasks that it begins."""
    heard = Heard()
    _attach(1)
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)
        _attach(-1)


_listener: ContextVar[Heard | None] = ContextVar("rag_metrics_overhearing", default=None)
_lock = threading.Lock()
_listening = 0


class _Handler(BaseEventHandler):
    @classmethod
    def class_name(cls) -> str:
        return "RagMetricsOverhearing"

    def handle(self, event: Any, **_: Any) -> None:
        heard = _listener.get()
        if heard is None or not isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            return
        # a completion that is made of a chat, or the other way round, ends both
        if event.response is not None and not (
            heard.responses and _is_inner(heard.responses[-1], event.response)
        ):
            heard.responses.append(event.response)


_handler = _Handler()


def _attach(change: int) -> None:
    global _listening
    with _lock:
        before, _listening = _listening, _listening + change
        root = get_dispatcher()
        if not before:
            root.add_event_handler(_handler)
        elif not _listening:
            # others may be walking along the list
            kept = [handler for handler in root.event_handlers if handler is not _handler]
            root.event_handlers = kept


def _is_inner(
    last: ChatResponse | CompletionResponse, new: ChatResponse | CompletionResponse
) -> bool:
    return type(last) is not type(new) and last.raw is not None and last.raw is new.raw


def _tokens(response: ChatResponse | CompletionResponse) -> tuple[int, int]:
    raw = response.raw
    usage = _member(raw, "usage") or _member(raw, "usage_metadata")
    for holder in (usage, response.additional_kwargs, raw):
        read, written = _first(holder, _TOKENS_IN), _first(holder, _TOKENS_OUT)
        if read or written:
            return read, written
    return 0, 0


def _first(holder: Any, names: tuple[str, ...]) -> int:
    counts = (_member(holder, name) for name in names)
    return next((count for count in counts if type(count) is int and count > 0), 0)


def _member(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


Read: TypeAlias = Callable[[str], AnyAnswer]

REPAIR = """
The answer to this was refused: {problem}
{reminder}
"""
REMINDER = "Answer again, in the form asked for and without anything else."

_VERBATIM = "{question}"
"""A template that takes a whole prompt, whose braces are then no placeholders."""

_MOST_CHARACTERS = 200
"""Of a problem that a repair question or an error quotes."""


async def structured_answer(
    llm: LLM,
    answer_class: type[AnyAnswer],
    prompt: str,
    *,
    asked_by: str,
    tally: Tally | None = None,
    read: Read[AnyAnswer] | None = None,
    check: Callable[[AnyAnswer], None] | None = None,
    reminder: str = REMINDER,
) -> AnyAnswer:
    """Ask an LLM for an answer that fits a model.

    An LLM that calls functions is asked by LlamaIndex's `structured_predict`; where what it says
    doesn't fit, the text and the arguments of its call are read as those of other LLMs are: JSON,
    fenced or amid chatter, or whatever `read` understands. An answer that is refused is asked for
    once more, with the reason. The LLM is called in a thread.

    Args:
        llm: any LLM of LlamaIndex.
        answer_class: the model that the answer has to fit.
        prompt: the prompt as it is; an LLM that doesn't call functions is told the model's schema.
        asked_by: what asks, for errors.
        tally: counts the requests, and the tokens where the LLM reports them.
        read: makes an answer of a text, and raises a ValueError where there is none; None: of the
            JSON in it.
        check: raises a ValueError where the answer fits the model and not the question.
        reminder: how the form is asked for the second time.

    Raises:
        BadAnswer: no answer fits, asked twice. What else the LLM raises comes out as it is.

    Examples:
        >>> import asyncio
        >>> from llama_index.core.llms import CompletionResponse, MockLLM
        >>> from pydantic import BaseModel
        >>> class Colour(BaseModel):
        ...     name: str
        >>> class Painter(MockLLM):
        ...     def complete(self, prompt, formatted=False, **options):
        ...         return CompletionResponse(text='Sure: {"name": "blue"}')
        >>> asyncio.run(structured_answer(Painter(), Colour, "The sky?", asked_by="example"))
        Colour(name='blue')
    """
    register_secrets_of(llm)
    asking = _Asking(llm, answer_class, read or partial(json_answer, answer_class), check)
    counted = Tally() if tally is None else tally

    async def ask(question: str) -> AnyAnswer | _Refused:
        counted.usage += Usage(requests=1)
        answer, (tokens_in, tokens_out) = await in_thread(asking.ask, question)
        counted.usage += Usage(tokens_in=tokens_in, tokens_out=tokens_out)
        return answer

    answer = await ask(prompt)
    if isinstance(answer, _Refused):
        answer = await ask(prompt + REPAIR.format(problem=answer.reason, reminder=reminder))
    if isinstance(answer, _Refused):
        raise BadAnswer(asked_by, f"no answer that fits, asked twice: {answer.reason}")
    return answer


class _Refused(NamedTuple):
    """The answer can't be used."""

    reason: str


@dataclass(frozen=True, repr=False)
class _Asking(Generic[AnyAnswer]):
    """A question, whom to ask, and how to read the answer."""

    llm: LLM
    answer_class: type[AnyAnswer]
    read: Read[AnyAnswer]
    check: Callable[[AnyAnswer], None] | None

    def ask(self, prompt: str) -> tuple[AnyAnswer | _Refused, tuple[int, int]]:
        """The answer, and the tokens that were read and written for it."""
        answer: AnyAnswer | _Refused
        with overhearing() as heard:
            if _calls_functions(self.llm):
                answer = self._called(prompt, heard)
            else:
                answer = self._written(prompt)
        return answer, heard.tokens

    def _called(self, prompt: str, heard: Heard) -> AnyAnswer | _Refused:
        try:
            template = PromptTemplate(_VERBATIM)
            answer = self.llm.structured_predict(self.answer_class, template, question=prompt)
        except NotImplementedError:
            return self._written(prompt)
        except (ValueError, TypeError, AssertionError) as error:
            if said := _said(self.llm, heard):
                return self._understood(said)
            if not isinstance(error, ValueError):
                raise
            return _Refused(_problem(error))
        if not isinstance(answer, self.answer_class):  # as old versions of LlamaIndex may do
            return self._understood(_said(self.llm, heard) or str(answer))
        return self._checked(answer)

    def _written(self, prompt: str) -> AnyAnswer | _Refused:
        form = PydanticOutputParser(self.answer_class).get_format_string(escape_json=False)
        question = f"{prompt}\n\n{form}"
        return self._understood(self.llm.predict(PromptTemplate(_VERBATIM), question=question))

    def _understood(self, text: str) -> AnyAnswer | _Refused:
        try:
            return self._checked(self.read(text))
        except ValueError as error:
            return _Refused(_problem(error))

    def _checked(self, answer: AnyAnswer) -> AnyAnswer | _Refused:
        try:
            if self.check is not None:
                self.check(answer)
        except ValueError as error:
            return _Refused(_problem(error))
        return answer


def _calls_functions(llm: LLM) -> bool:
    is_text_wanted = llm.pydantic_program_mode == PydanticProgramMode.LLM
    return llm.metadata.is_function_calling_model and not is_text_wanted


def _said(llm: LLM, heard: Heard) -> str:
    """The text of the last answer, and the arguments of its function calls."""
    if not heard.responses:
        return ""
    response: Any = heard.responses[-1]
    message = getattr(response, "message", None)
    if message is None:
        return str(response.text or "")
    try:
        calls = llm.get_tool_calls_from_response(  # type: ignore[attr-defined]
            response, error_on_no_tool_call=False
        )
    except (AttributeError, NotImplementedError, ValueError, TypeError):
        calls = []
    arguments = [json.dumps(call.tool_kwargs) for call in calls if call.tool_kwargs]
    return "\n".join([without_reasoning(message.content or ""), *arguments]).strip()


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problems = [
            ".".join(map(str, problem["loc"])) + f": {problem['msg']}"
            for problem in error.errors(include_url=False, include_context=False)
        ]
        text = "; ".join(problem.removeprefix(": ") for problem in problems)
    else:
        text = str(error) or type(error).__name__
    return mask_and_cut(" ".join(text.split()), _MOST_CHARACTERS)
