"""Conversations: a question's `history` and `conversation`, in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from numbers import Real
from typing import Any, Literal

import msgspec
from typing_extensions import TypedDict

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated

CONVERSATION, HISTORY = "conversation", "history"

_SHOWN = 2  # messages of a history that a sentence repeats
_A_HISTORY = 'earlier messages, such as [{"role": "user", "content": "Hello"}]'
_A_CONVERSATION = "the id of a conversation, a text or a number; what was said in it is history"


class Message(TypedDict):
    """A message of a conversation, as LlamaIndex and OpenAI write it."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str


def read_history(value: object) -> list[Message]:
    return msgspec.convert(value, list[Message])


def read_conversation(query_id: str, row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(row)
    if metadata.get(HISTORY) is not None:
        try:
            metadata[HISTORY] = read_history(metadata[HISTORY])
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            argument = f"history of {query_id!r}"
            raise InvalidInput(argument, metadata[HISTORY], _A_HISTORY, f"{error}.") from None
    conversation = metadata.get(CONVERSATION)
    is_name = isinstance(conversation, (str, Real)) and str(conversation) not in ("", "nan")
    if conversation is not None and not is_name:
        raise InvalidInput(f"conversation of {query_id!r}", conversation, _A_CONVERSATION)
    return metadata


def conversation_sentence(row: Mapping[str, Any]) -> str:
    """Which conversation a question is part of, and what was said last; "" for other questions."""
    parts = []
    if row.get(CONVERSATION) is not None:
        parts.append(f"part of conversation {row[CONVERSATION]}")
    with suppress(msgspec.ValidationError):
        history = read_history(row.get(HISTORY, []))[-_SHOWN:]
        messages = [f"{message['role']}: {truncated(message['content'])}" for message in history]
        if messages:
            parts.append(f"after {'; '.join(messages)}")
    sentence = ", ".join(parts)
    return sentence[:1].upper() + sentence[1:]
