"""Conversations: a question's `history`, `conversation` and `turn`, in its metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated, without_secrets

_OURS = CONVERSATION, TURN, HISTORY = "conversation", "turn", "history"

_ROLE, _CONTENT = ("role", "speaker", "type"), ("content", "text")
"""LlamaIndex's, OpenAI's and DeepEval's; other tools'; ragas'."""

_ROLES = {
    **dict.fromkeys(("agent", "ai", "chatbot", "model"), "assistant"),
    **{"human": "user", "developer": "system", "function": "tool"},
}
_KNOWN = {"user", "assistant", "system", "tool"}
_KEPT = 2
"""Messages of a history that scores keep, for reports."""

_WHOLE = re.compile(r"\d+(\.0)?")

_A_HISTORY = 'a history: earlier messages, such as {"role": "user", "content": "Hello"}'
_A_CONVERSATION = "the id of a conversation, a text or a number; what was said in it is history"
_A_TURN = "a turn of a conversation, a whole number from 1 on"


def read_conversation(row: dict[str, Any]) -> dict[str, Any]:
    """A question's metadata, its conversation in one form; a ValueError has what it expected."""
    row = {name: value for name, value in row.items() if name not in _OURS or value is not None}
    if HISTORY in row:
        row[HISTORY] = read_history(row[HISTORY])
    conversation = row.get(CONVERSATION, 0)
    if not isinstance(conversation, (str, Real)) or str(conversation) in ("", "nan"):
        raise ValueError(_A_CONVERSATION, conversation)
    if isinstance(conversation, float) and conversation.is_integer():  # beside a missing one
        row[CONVERSATION] = int(conversation)
    if is_turn(row):
        if not _WHOLE.fullmatch(str(row[TURN])) or not float(row[TURN]):
            raise ValueError(_A_TURN, row[TURN])
        row[TURN] = int(float(row[TURN]))
    return row


def read_history(value: object) -> list[dict[str, str]]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(_A_HISTORY, value)
    return [_message(message) for message in value]


def _message(message: object) -> dict[str, str]:
    fields = {name: getattr(message, name, None) for name in (*_ROLE, *_CONTENT)}
    known = message if isinstance(message, Mapping) else fields
    role, content = (_first(known, names) for names in (_ROLE, _CONTENT))
    role = getattr(role, "value", role)
    role = _ROLES.get(str(role), str(role))
    if role not in _KNOWN or not isinstance(content, str):
        raise ValueError(_A_HISTORY, message)
    return {"role": role, "content": content}


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    values = (fields.get(name) for name in names)
    return next((value for value in values if value is not None), None)


def is_turn(row: Mapping[str, Any]) -> bool:
    """Whether a question says which turn of what it is; a turn of nothing is plain metadata."""
    return TURN in row and (CONVERSATION in row or HISTORY in row)


def with_turns(
    queries: Mapping[str, str], metadata: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Metadata with turns: 1 + the user's messages before, or the place in the conversation."""
    with_history = {str(row.get(CONVERSATION)) for row in metadata.values() if HISTORY in row}
    asked: Counter[str] = Counter()
    turned = dict(metadata)
    for query_id, query in queries.items():
        row = metadata.get(query_id, {})
        if CONVERSATION not in row and HISTORY not in row:
            continue
        conversation, history = str(row.get(CONVERSATION, query_id)), row.get(HISTORY, [])
        asked[conversation] += 1
        turn = asked[conversation]
        if HISTORY in row or conversation in with_history:
            turn = 1 + sum(message["role"] == "user" for message in history)
        last = history[-1] if history else {}
        if last.get("role") == "user" and last["content"].strip() == query.strip():
            expected = "a history that ends before the question"
            raise InvalidInput(f"metadata[{query_id!r}]", history[-1], expected)
        turned[query_id] = {**row, TURN: row.get(TURN, turn)}
    return turned


def shortened(metadata: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Metadata as scores keep them: no secrets, and the beginning of what was said last."""
    kept = {query_id: without_secrets(row) for query_id, row in metadata.items()}
    last = {
        query_id: {
            **row,
            HISTORY: [{**each, "content": truncated(each["content"])} for each in said],
        }
        for query_id, row in kept.items()
        if (said := _messages(row)[-_KEPT:])
    }
    return {**kept, **last}


def _messages(row: Mapping[str, Any]) -> list[dict[str, str]]:
    try:
        return read_history(row.get(HISTORY, ()))
    except ValueError:
        return []


def place_of(row: Mapping[str, Any]) -> str:
    """A sentence: which turn a question is, and what was said last; "" for other questions."""
    if not is_turn(row):
        return ""
    of = f" of conversation {row[CONVERSATION]}" if CONVERSATION in row else ""
    said = "; ".join(f"{each['role']}: {each['content']}" for each in _messages(row))
    return f"Turn {row[TURN]}{of}{f', after {said}' if said else ''}"


def conversations_of(
    query_ids: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]
) -> list[Hashable] | None:
    """What each question belongs to: its conversation, or itself; None where no two share one."""
    rows = [(query_id, metadata.get(query_id, {})) for query_id in query_ids]
    of_query: list[Hashable] = [
        query_id if (name := row.get(CONVERSATION)) is None else (CONVERSATION, str(name))
        for query_id, row in rows
    ]
    return of_query if len(set(of_query)) < len(of_query) else None


def by_turn(query_ids: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """The questions, those of a conversation together, by turn, where its first one stands."""
    of_query = conversations_of(query_ids, metadata)
    if of_query is None:
        return query_ids
    first = {name: place for place, name in reversed([*enumerate(of_query)])}
    places = {}
    for query_id, name in zip(query_ids, of_query, strict=True):
        turn = metadata.get(query_id, {}).get(TURN)
        places[query_id] = first[name], turn if isinstance(turn, (int, float)) else 0
    return sorted(query_ids, key=places.__getitem__)
