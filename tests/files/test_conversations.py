"""Conversations in datasets: what was said before, and which questions belong together."""

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
        # ragas' names
        [
            {"type": "human", "content": PLAIN[0]["content"]},
            {"type": "ai", "content": "Enceladus."},
        ],
    ],
)
def test_a_history_in_any_form(history: Any) -> None:
    dataset = RetrievalDataset({"q": "Who found it?"}, metadata={"q": {"history": history}})
    assert dataset.metadata == {"q": {"history": PLAIN}}


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


def test_a_missing_conversation_makes_no_fractions_of_the_others() -> None:
    frame = pd.DataFrame(
        {"query_id": ["a", "b", "c"], "query": "?", "relevance": "x", "conversation": [1, None, 2]}
    )
    assert RetrievalDataset.load(frame).metadata == {
        "a": {"conversation": 1},
        "c": {"conversation": 2},
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


def test_what_is_missing_is_no_mistake_and_a_turn_is_metadata() -> None:
    rows: dict[str, dict[str, Any]] = {
        "a": {"conversation": 0, "turn": None},
        "b": {"conversation": None, "history": None, "turn": "left"},
    }
    dataset = RetrievalDataset({"a": "?", "b": "?"}, metadata=rows)
    assert dataset.metadata == {"a": {"conversation": 0, "turn": None}, "b": {"turn": "left"}}
