"""Asking LLMs: texts quoted in a prompt, what they think aloud, the tokens that they took."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from .masking import register_secrets_of

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

_REASONING_BEGINS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_REASONING_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_CUT_OFF = re.compile(r"(?:^|(?<=[.!?:]))[ \t]{0,8}<think(?:ing)?>", re.IGNORECASE | re.MULTILINE)
"""Where reasoning begins that is never closed; amid a sentence, the tag is merely mentioned."""

_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
"""OpenAI and its like, Anthropic, Google, Ollama."""


class Reply(NamedTuple):
    """What an LLM answered, and the tokens it read and wrote, 0 where it doesn't say."""

    text: str
    tokens_in: int
    tokens_out: int


def quote(tag: str, text: str) -> str:
    """Put a text between tags, with a suffix that the text doesn't have if it could close them."""
    if "<" in text:
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        tag = f"{tag}-{digest[:16]}"
    return f"<{tag}>\n{text}\n</{tag}>"


def ask_llm(llm: LLM, prompt: str) -> Reply:
    """Ask an LLM, and wait."""
    from llama_index.core.llms import ChatMessage

    register_secrets_of(llm)
    if llm.metadata.is_chat_model:
        response: Any = llm.chat([ChatMessage(role="user", content=prompt)])
        text = response.message.content
    else:
        response = llm.complete(prompt, formatted=True)
        text = response.text
    holders = [response.raw, response.additional_kwargs]
    holders += [_member(response.raw, name) for name in ("usage", "usage_metadata")]
    return Reply(text or "", _count(holders, _TOKENS_IN), _count(holders, _TOKENS_OUT))


def _count(holders: list[Any], names: tuple[str, ...]) -> int:
    for holder in holders:
        for name in names:
            number = _member(holder, name)
            if type(number) is int and number > 0:
                return number
    return 0


def _member(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def without_reasoning(text: str) -> str:
    """A text without what an LLM thinks aloud, also where one of the two tags is missing."""
    parts, end = [], 0
    while (begins := _REASONING_BEGINS.search(text, end)) and (
        ends := _REASONING_ENDS.search(text, begins.end())
    ):
        parts.append(text[end : begins.start()])
        end = ends.end()
    tail = text[end:]
    if not parts and (ends := _REASONING_ENDS.search(tail)):
        tail = tail[ends.end() :]
    if begins := _CUT_OFF.search(tail):
        tail = tail[: begins.start()]
    return "".join([*parts, tail])


def json_and_text(text: str) -> tuple[list[dict[str, Any]], str]:
    """The JSON objects in a text, fenced or amid chatter; and the text around them.

    Raises:
        ValueError: an object gives a name twice, with different values.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    objects: list[dict[str, Any]] = []
    around: list[str] = []
    end = 0
    begin = text.find("{")
    while begin >= 0:
        try:
            value, value_end = decoder.raw_decode(text, begin)
        except json.JSONDecodeError:
            begin = text.find("{", begin + 1)
            continue
        except RecursionError:
            break
        objects.append(value)
        around.append(text[end:begin])
        end = value_end
        begin = text.find("{", end)
    return objects, "".join([*around, text[end:]])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    for key, value in pairs:
        if record[key] != value:
            raise ValueError(f"{key!r} is given twice, with different values")
    return record
