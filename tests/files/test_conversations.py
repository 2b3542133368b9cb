"""Conversations in datasets: histories and turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from llama_index.core.llms import ChatMessage, MessageRole

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

PLAIN = [
    {"role": "user", "content": "Which moon has geysers?"},
    {"role": "assistant", "content": "Enceladus."},
]


class Turn:
    """What DeepEval keeps a message in."""

    def __init__(self, role: str, content: str) -> None:
        self.role, self.content = role, content


@pytest.mark.parametrize(
    "history",
    [
        PLAIN,
        tuple(PLAIN),
        [ChatMessage(**message) for message in PLAIN],
        [ChatMessage(**PLAIN[0]), ChatMessage(role=MessageRole.MODEL, content="Enceladus.")],
        [Turn(**message) for message in PLAIN],
        # other tools' names, then ragas'
        [
            {"speaker": "user", "text": PLAIN[0]["content"]},
            {"speaker": "agent", "text": "Enceladus."},
        ],
        [
            {"type": "human", "content": PLAIN[0]["content"]},
            {"type": "ai", "content": "Enceladus."},
        ],
    ],
)
def test_a_history_in_any_form(history: Any) -> None:
    dataset = RetrievalDataset({"q": "Who found it?"}, metadata={"q": {"history": history}})
    assert dataset.metadata == {"q": {"history": PLAIN, "turn": 2}}


@pytest.mark.parametrize(
    "history", ["Hello", 3, ["Hello"], [{"role": "cat", "content": "?"}], [{"role": "user"}], {}]
)
def test_what_is_no_history_is_refused(history: Any) -> None:
    with pytest.raises(InvalidInput, match=r"metadata\['q'\].*a history: earlier messages"):
        RetrievalDataset({"q": "?"}, metadata={"q": {"history": history}})
    with pytest.raises(FileFormatError, match="a history: earlier messages"):
        RetrievalDataset.load([{"query": "?", "expected_ids": ["d"], "history": history}])


def conversations() -> RetrievalDataset:
    return RetrievalDataset(
        {"a1": "Which moon has geysers?", "b1": "And Mars?", "a2": "Who found it?"},
        {"a1": ["d1"], "b1": ["d2"], "a2": ["d3"]},
        metadata={
            "a1": {"conversation": "a"},
            "b1": {"conversation": "b", "history": PLAIN * 3},
            "a2": {"conversation": "a", "history": PLAIN},
        },
    )


def test_a_turn_is_one_more_than_the_users_messages_before() -> None:
    metadata = conversations().metadata
    assert {query_id: row["turn"] for query_id, row in metadata.items()} == {
        "a1": 1,
        "b1": 4,
        "a2": 2,
    }


def test_without_histories_a_turn_is_the_place_in_the_conversation() -> None:
    conversation = {"a1": "a", "b1": "b", "a2": "a", "a3": "a"}
    dataset = RetrievalDataset(
        dict.fromkeys(conversation, "?"),
        metadata={key: {"conversation": value} for key, value in conversation.items()},
    )
    turns = {query_id: row["turn"] for query_id, row in dataset.metadata.items()}
    assert turns == {"a1": 1, "b1": 1, "a2": 2, "a3": 3}
    # a part of the questions keeps them
    assert dataset.select(["a3"]).metadata["a3"]["turn"] == 3


def test_a_conversation_without_histories_beside_one_that_has_some() -> None:
    rows: dict[str, Any] = {"a1": {"conversation": "a"}, "a2": {"conversation": "a"}}
    rows |= {"b1": {"conversation": "b"}, "b3": {"conversation": "b", "history": PLAIN * 2}}
    metadata = RetrievalDataset(dict.fromkeys(rows, "?"), metadata=rows).metadata
    assert [metadata[key]["turn"] for key in rows] == [1, 2, 1, 3]


def test_a_turn_that_is_given_stays_and_other_questions_have_none() -> None:
    dataset = RetrievalDataset(
        {"a": "?", "b": "?"}, metadata={"a": {"conversation": 1, "turn": "7.0"}, "b": {"x": 1}}
    )
    assert dataset.metadata == {"a": {"conversation": 1, "turn": 7}, "b": {"x": 1}}


def test_a_missing_conversation_makes_no_fractions_of_the_others() -> None:
    frame = pd.DataFrame(
        {"query_id": ["a", "b", "c"], "query": "?", "relevance": "x", "conversation": [1, None, 2]}
    )
    assert RetrievalDataset.load(frame).metadata == {
        "a": {"conversation": 1, "turn": 1},
        "c": {"conversation": 2, "turn": 1},
    }
    whole = [type(row["conversation"]) for row in RetrievalDataset.load(frame).metadata.values()]
    assert whole == [int, int]


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_files_keep_conversations(tmp_path: Path, ending: str) -> None:
    dataset = conversations()
    path = tmp_path / f"dataset.{ending}"
    dataset.save(path)
    assert RetrievalDataset.load(path).metadata == dataset.metadata


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"conversation": ["c"]}, "the id of a conversation, a text or a number"),
        ({"conversation": ""}, "the id of a conversation"),
        ({"conversation": float("nan")}, "the id of a conversation"),
        ({"conversation": "c", "turn": "first"}, "a turn of a conversation, a whole number"),
        ({"conversation": "c", "turn": 0}, "a turn of a conversation, a whole number from 1 on"),
        ({"conversation": "c", "turn": 1.5}, "a turn of a conversation"),
        ({"history": PLAIN, "turn": True}, "a turn of a conversation"),
        (
            {"history": [*PLAIN, {"role": "user", "content": "Who found it?"}]},
            "a history that ends before the question",
        ),
        (
            {"history": [*PLAIN, {"role": "user", "content": " Who found it?\n"}]},
            "a history that ends before the question",
        ),
    ],
)
def test_what_is_no_conversation_is_refused(row: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInput, match=rf"metadata\['q'\]: expected {expected}"):
        RetrievalDataset({"q": "Who found it?"}, metadata={"q": row})


def test_what_is_missing_is_no_mistake() -> None:
    rows: dict[str, dict[str, Any]] = {
        "a": {"conversation": 0, "turn": None},
        "b": {"conversation": None, "history": None, "turn": "left"},
    }
    dataset = RetrievalDataset({"a": "?", "b": "?"}, metadata=rows)
    assert dataset.metadata == {"a": {"conversation": 0, "turn": 1}, "b": {"turn": "left"}}
