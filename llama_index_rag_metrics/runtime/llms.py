"""Asking LLMs: texts quoted safely in a prompt, and answers that fit a pydantic model."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from llama_index_rag_metrics.runtime.cache.fetching import Tally, Usage
from llama_index_rag_metrics.runtime.errors import BadAnswer
from llama_index_rag_metrics.runtime.masking import mask_and_cut, register_secrets_of
from llama_index_rag_metrics.runtime.sync import in_thread

if TYPE_CHECKING:
    from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.llms import LLM

AnyAnswer = TypeVar("AnyAnswer", bound=BaseModel)
Response: TypeAlias = "ChatResponse | CompletionResponse"

_BRACKET = re.compile(r"[<‹«〈⟨⟪《❬❮❰⧼⦑˂≺ᐸᚲ]|&(?:lt|#0*60|#x0*3c)\b", re.IGNORECASE)
"""What reads like the beginning of a tag, once compatibility forms such as ＜ are resolved."""


class Quoted(NamedTuple):
    name: str
    blocks: list[str]


def quote(name: str, texts: Sequence[str], *, numbered: bool = False) -> Quoted:
    """Put texts between tags, with a suffix that no text has where one might close them."""
    tag = name
    if any(_BRACKET.search(unicodedata.normalize("NFKC", text)) for text in texts):
        seed = "\n".join(texts)
        while (tag := f"{name}-{_hash(seed)}") in seed:
            seed += tag
    numbers = [f' number="{number}"' if numbered else "" for number in range(1, len(texts) + 1)]
    blocks = [
        f"<{tag}{number}>\n{text}\n</{tag}>" for number, text in zip(numbers, texts, strict=True)
    ]
    return Quoted(tag, blocks)


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def context_window(llm: LLM) -> int:
    """The tokens that an LLM reads at once; LlamaIndex's default where it says 0 or -1."""
    from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW

    window: int = llm.metadata.context_window
    return window if window > 0 else DEFAULT_CONTEXT_WINDOW


_REASONING_BEGINS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_REASONING_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_CUT_OFF = re.compile(r"(?:^|(?<=[.!?:]))[ \t]{0,8}<think(?:ing)?>", re.IGNORECASE | re.MULTILINE)
"""Where reasoning begins that is never closed; amid a sentence, the tag is merely mentioned."""
_JSON_BEGINS = re.compile(r"[{\[]")


def without_reasoning(text: str) -> str:
    """A text without what an LLM thinks aloud, also where one of the two tags is missing."""
    parts, end = [], 0
    while (begins := _REASONING_BEGINS.search(text, end)) and (
        ends := _REASONING_ENDS.search(text, begins.end())
    ):
        parts.append(text[end : begins.start()])
        end = ends.end()
    rest = text[end:]
    if not parts and (ends := _REASONING_ENDS.search(rest)):
        rest = rest[ends.end() :]
    if begins := _CUT_OFF.search(rest):
        rest = rest[: begins.start()]
    return "".join([*parts, rest])


def json_and_text(text: str) -> tuple[list[Any], str]:
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    values, around, position, end = [], [], 0, 0
    while begins := _JSON_BEGINS.search(text, position):
        try:
            value, position = decoder.raw_decode(text, begins.start())
        except json.JSONDecodeError:
            position = begins.end()
        except RecursionError:
            break
        else:
            values.append(value)
            around.append(text[end : begins.start()])
            end = position
    return values, "".join([*around, text[end:]])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    for key, value in pairs:
        if record[key] != value:
            raise ValueError(f"{key!r} is given twice, with different values")
    return record


def json_answer(answer_class: type[AnyAnswer], text: str) -> AnyAnswer:
    """The one answer that the JSON in a text gives, or a ValueError."""
    fitting: list[AnyAnswer] = []
    refused: ValidationError | None = None
    for value in json_and_text(without_reasoning(text))[0]:
        try:
            fitting.append(_validated(answer_class, value))
        except ValidationError as error:
            refused = refused or error
    if not fitting:
        raise refused or ValueError(f"no JSON in {shortened(text)}")
    first = fitting[0]
    if differing := [answer for answer in fitting if answer != first]:
        both = " and ".join(
            shortened(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False), quoted=False)
            for answer in (first, differing[0])
        )
        raise ValueError(f"two answers that differ: {both}")
    return first


def shortened(text: str, most: int = 80, *, quoted: bool = True) -> str:
    """A text in one line for an error, cut where it is long."""
    line = " ".join(text.split())
    line = line if len(line) <= most else f"{line[:most]}…"
    return repr(line) if quoted else line


def _validated(answer_class: type[AnyAnswer], value: Any) -> AnyAnswer:
    """Validated as JSON, in which strict models take lists for tuples and texts for enums."""
    try:
        return answer_class.model_validate_json(json.dumps(value))
    except ValidationError:
        inner = [*value.values()] if isinstance(value, dict) else []
        if len(inner) != 1 or not isinstance(inner[0], (dict, list)):
            raise
        return answer_class.model_validate_json(json.dumps(inner[0]))


_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
"""OpenAI and its like, Anthropic, Google, Ollama."""


@contextmanager
def _overhearing() -> Iterator[list[Response]]:
    """Hear what LLMs answer in this block, and in threads and tasks that it begins."""
    heard: list[Response] = []
    _attach(1)
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)
        _attach(-1)


_listener: ContextVar[list[Response] | None] = ContextVar("rag_metrics_overhearing", default=None)
_lock = threading.Lock()
_listening = 0


@cache
def _handler() -> BaseEventHandler:
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent

    class Handler(BaseEventHandler):
        @classmethod
        def class_name(cls) -> str:
            return "RagMetricsOverhearing"

        def handle(self, event: Any, **_: Any) -> None:
            heard = _listener.get()
            new = getattr(event, "response", None)
            is_end = isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent))
            if heard is None or not is_end or new is None:
                return
            last = heard[-1] if heard else new
            # a completion that is made of a chat, or the other way round, ends both
            is_same = type(last) is not type(new) and last.raw is not None and last.raw is new.raw
            if not is_same:
                heard.append(new)

    return Handler()


def _attach(change: int) -> None:
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]

    global _listening
    with _lock:
        before, _listening = _listening, _listening + change
        root = get_dispatcher()
        if not before:
            root.add_event_handler(_handler())
        elif not _listening:  # a new list: others may be walking along the old one
            root.event_handlers = [each for each in root.event_handlers if each is not _handler()]


def _tokens(response: Response) -> tuple[int, int]:
    """The tokens read and written, as far as the LLM says."""
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
    read: Callable[[str], AnyAnswer] | None = None,
    check: Callable[[AnyAnswer], None] = lambda answer: None,
    reminder: str = REMINDER,
) -> AnyAnswer:
    """Ask an LLM, in a thread, for an answer that fits a model, or raise a BadAnswer.

    An LLM that calls functions is asked by LlamaIndex's `structured_predict`; where what it says
    doesn't fit, the text and the arguments of its call are read as those of other LLMs are: JSON,
    fenced or amid chatter, or whatever `read` understands. Other LLMs are told the model's schema.
    An answer that is refused, as by a ValueError of `read` or `check`, is asked for once more, with
    the reason and a reminder of the form.
    """
    register_secrets_of(llm)
    counted = Tally() if tally is None else tally
    reading = read or partial(json_answer, answer_class)
    question, problem = prompt, ""
    for _ in range(2):
        counted.usage += Usage(requests=1)
        answer, heard = await in_thread(_ask, llm, answer_class, question)
        for read_tokens, written in map(_tokens, heard):
            counted.usage += Usage(tokens_in=read_tokens, tokens_out=written)
        try:
            if isinstance(answer, Exception):
                raise answer
            checked = reading(answer) if isinstance(answer, str) else answer
            check(checked)
            return checked
        except ValueError as error:
            problem = _problem(error)
            question = prompt + REPAIR.format(problem=problem, reminder=reminder)
    raise BadAnswer(asked_by, f"no usable answer in two tries: {problem}")


def _ask(
    llm: LLM, answer_class: type[AnyAnswer], prompt: str
) -> tuple[AnyAnswer | str | ValueError, list[Response]]:
    """An answer, its text, or why there is none; and all that the LLM answered."""
    from llama_index.core.output_parsers import PydanticOutputParser
    from llama_index.core.prompts import PromptTemplate
    from llama_index.core.types import PydanticProgramMode

    with _overhearing() as heard:
        if llm.metadata.is_function_calling_model and (
            llm.pydantic_program_mode != PydanticProgramMode.LLM
        ):
            with suppress(NotImplementedError):
                return _called(llm, answer_class, prompt, heard), heard
        form = PydanticOutputParser(answer_class).get_format_string(escape_json=False)
        question = f"{prompt}\n\n{form}"
        return llm.predict(PromptTemplate(_VERBATIM), question=question), heard


def _called(
    llm: LLM, answer_class: type[AnyAnswer], prompt: str, heard: list[Response]
) -> AnyAnswer | str | ValueError:
    from llama_index.core.prompts import PromptTemplate

    try:
        template = PromptTemplate(_VERBATIM)
        answer = llm.structured_predict(answer_class, template, question=prompt)
    except (ValueError, TypeError, AssertionError) as error:
        if text := _last_text(llm, heard):
            return text
        if isinstance(error, ValueError):
            return error
        raise
    if isinstance(answer, answer_class):
        return answer
    return _last_text(llm, heard) or str(answer)  # as old versions of LlamaIndex may do


def _last_text(llm: LLM, heard: list[Response]) -> str:
    """The text of the last answer, and the arguments of its function calls."""
    if not heard:
        return ""
    response: Any = heard[-1]
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
