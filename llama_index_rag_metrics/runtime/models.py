"""LlamaIndex's models: those of its Settings, what tells them apart, and what an LLM answers."""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from .atomic_files import short_hash
from .errors import InvalidInput
from .masking import mask, names_secret, register_secrets_of

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

_WITHOUT_EFFECT = frozenset(
    {"embed_batch_size", "num_workers", "timeout", "max_retries", "reuse_client", "verbose"}
    | {"show_progress_bar", "top_n", "rate_limiter"}
)

_KEY_OR_HEADER = re.compile(r"(^|[-_])key$|header", re.IGNORECASE)

_REASONING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
_REASONING_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_CUT_OFF = re.compile(
    r"(?:^|(?<=[.!?:]))[ \t]{0,8}<think(?:ing)?>.*", re.IGNORECASE | re.MULTILINE | re.DOTALL
)
"""Reasoning that is never closed; amid a sentence, the tag is merely mentioned."""


def settings_of(component: object) -> dict[str, Any]:
    """The class of a LlamaIndex component with its fields and private attributes that are plain.

    Of a model or a prompt in a field likewise. What is called a secret is left out. Lists, which
    may be logs, and other objects aren't seen: a metric's `label` tells such settings apart.
    """
    kind = type(component)
    private = getattr(component, "__pydantic_private__", None) or {}
    values = {name: value for name, value in private.items() if not isinstance(value, dict)}
    for name in getattr(kind, "model_fields", {}):
        if name not in _WITHOUT_EFFECT:
            values[name] = getattr(component, name)
    return {"class": f"{kind.__module__}.{kind.__qualname__}", **_plain(values)}


def _plain(values: dict[Any, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in values.items():
        name = str(key)
        if isinstance(value, Enum):
            plain[name] = repr(value)
        elif isinstance(value, (int, float)) and math.isfinite(value):
            plain[name] = value
        elif names_secret(name) or _KEY_OR_HEADER.search(name):
            continue
        elif isinstance(value, str):
            plain[name] = mask(value)
        elif isinstance(value, dict):
            plain[name] = _plain(value)
        elif isinstance(value, tuple):
            plain[name] = _plain(dict(enumerate(value)))
        elif isinstance(value, BaseModel):
            plain[name] = settings_of(value)
    return plain


def model_of_settings(kind: Literal["llm", "embed_model"], wanted_by: str) -> Any:
    """`Settings.llm` or `Settings.embed_model`, or an error that names what needs it."""
    from llama_index.core import Settings

    try:
        return getattr(Settings, kind)
    except (ImportError, ValueError) as error:
        lines = [line for line in str(error).splitlines() if re.search(r"\w", line)]
        reason = " ".join(next(iter(lines), type(error).__name__).split()).rstrip(".:")
        model = {"llm": "an LLM", "embed_model": "an embedding model"}[kind]
        sentence = f"{wanted_by} needs {model}, and LlamaIndex's default fails: {reason}."
        remedy = f"Pass {kind}=..., or set Settings.{kind}."
        argument = f"{kind} of {wanted_by}"
        raise InvalidInput(argument, None, sentence=sentence, remedy=remedy) from error


def quote(tag: str, text: str) -> str:
    """Put a text between tags, with a suffix that the text doesn't have if it could close them."""
    if "<" in text:
        tag = f"{tag}-{short_hash(text, 16)}"
    return f"<{tag}>\n{text}\n</{tag}>"


def ask_llm(llm: LLM, prompt: str) -> str:
    from llama_index.core.llms import ChatMessage

    register_secrets_of(llm)
    if llm.metadata.is_chat_model:
        reply = llm.chat([ChatMessage(role="user", content=prompt)])
        return reply.message.content or ""
    return llm.complete(prompt, formatted=True).text or ""


def without_reasoning(text: str) -> str:
    """A text without what an LLM thinks aloud, also where one of the two tags is missing."""
    end = max((tag.end() for tag in _REASONING_ENDS.finditer(text)), default=0)
    closed, tail = text[:end], text[end:]  # a search for an end that isn't there takes long
    answer, n_removed = _REASONING.subn("", closed)
    if not n_removed:
        answer = _REASONING_ENDS.split(closed, maxsplit=1)[-1]
    return _CUT_OFF.sub("", answer + tail)


def json_and_text(text: str) -> tuple[list[dict[str, Any]], str]:
    """The JSON objects in a text, and the text around them; ValueError where one contradicts."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    objects: list[dict[str, Any]] = []
    around, end = "", 0
    for brace in re.finditer("{", text):
        if brace.start() < end:  # inside the object before
            continue
        try:
            value, object_end = decoder.raw_decode(text, brace.start())
        except json.JSONDecodeError:
            continue
        except RecursionError:
            break
        objects.append(value)
        around, end = around + text[end : brace.start()], object_end
    return objects, around + text[end:]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    for key, value in pairs:
        if record[key] != value:
            raise ValueError(f"{key!r} is given twice, with different values")
    return record
