"""Conversations: a question's `history` and `conversation`, in its metadata."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated

CONVERSATION, HISTORY = "conversation", "history"

_ROLE, _CONTENT = ("role", "type"), ("content",)
"""LlamaIndex's, OpenAI's and DeepEval's names; ragas'."""

_ROLES = {
    **{"user": "user", "human": "user", "system": "system", "developer": "system"},
    **dict.fromkeys(("assistant", "ai", "chatbot", "model"), "assistant"),
    **{"tool": "tool", "function": "tool"},
}
_SHOWN = 2
"""Messages of a history that a sentence repeats."""

_A_HISTORY = 'a history: earlier messages, such as {"role": "user", "content": "Hello"}'
_A_CONVERSATION = "the id of a conversation, a text or a number; what was said in it is history"


def read_conversation(row: Mapping[str, Any]) -> dict[str, Any]:
    """A question's metadata, its conversation in one form; a ValueError has what it expected."""
    empty = [name for name in (CONVERSATION, HISTORY) if name in row and row[name] is None]
    metadata = {name: value for name, value in row.items() if name not in empty}
    if HISTORY in metadata:
        metadata[HISTORY] = read_history(metadata[HISTORY])
    conversation = metadata.get(CONVERSATION, 0)
    if not isinstance(conversation, (str, Real)) or str(conversation) in ("", "nan"):
        raise ValueError(_A_CONVERSATION, conversation)
    if isinstance(conversation, float) and conversation.is_integer():  # beside a missing one
        metadata[CONVERSATION] = int(conversation)
    return metadata


def read_history(value: object) -> list[dict[str, str]]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(_A_HISTORY, value)
    return [_message(message) for message in value]


def _message(message: object) -> dict[str, str]:
    role, content = _first(message, _ROLE), _first(message, _CONTENT)
    role = str(getattr(role, "value", role))
    if role not in _ROLES or not isinstance(content, str):
        raise ValueError(_A_HISTORY, message)
    return {"role": _ROLES[role], "content": content}


def _first(message: Any, names: Sequence[str]) -> Any:
    for name in names:
        value = message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)
        if value is not None:
            return value
    return None


def check_histories(queries: Mapping[str, str], metadata: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a history that ends with the question itself, which would be asked twice."""
    for query_id, row in metadata.items():
        question = {"role": "user", "content": queries.get(query_id, "").strip()}
        last = (row.get(HISTORY) or [{}])[-1]
        if {**last, "content": last.get("content", "").strip()} == question:
            expected = "a history that ends before the question"
            raise InvalidInput(f"metadata[{query_id!r}]", last, expected)


def conversation_sentence(row: Mapping[str, Any]) -> str:
    """Which conversation a question is part of, and what was said last; "" for other questions."""
    try:
        history = read_history(row.get(HISTORY, ()))[-_SHOWN:]
    except ValueError:
        history = []
    messages = [f"{message['role']}: {truncated(message['content'])}" for message in history]
    parts = []
    if CONVERSATION in row:
        parts.append(f"part of conversation {row[CONVERSATION]}")
    if messages:
        parts.append(f"after {'; '.join(messages)}")
    sentence = ", ".join(parts)
    return sentence[:1].upper() + sentence[1:]


def conversations_of(
    query_ids: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]
) -> list[Hashable] | None:
    """What each question belongs to: its conversation, or itself; None where no two share one."""
    clusters: list[Hashable] = []
    for query_id in query_ids:
        name = metadata.get(query_id, {}).get(CONVERSATION)
        clusters.append(query_id if name is None else (CONVERSATION, str(name)))
    return clusters if len(set(clusters)) < len(clusters) else None
