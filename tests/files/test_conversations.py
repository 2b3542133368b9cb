"""Conversations in datasets: what was said before, and which questions belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

PLAIN = [
    {"role": "user", "content": "Which moon has geysers?"},
    {"role": "assistant", "content": "Enceladus."},
]


def test_a_history_has_roles_and_contents() -> None:
    history = [{**PLAIN[0], "name": "Ann"}, PLAIN[1]]
    dataset = RetrievalDataset({"q": "Who found it?"}, metadata={"q": {"history": history}})
    assert dataset.metadata == {"q": {"history": PLAIN}}


@pytest.mark.parametrize(
    "history",
    ["Hello", 3, ["Hello"], [{"role": "cat", "content": "?"}], [{"role": "user"}], {"a": 1}],
)
def test_what_is_no_history_is_refused(history: Any) -> None:
    with pytest.raises(InvalidInput, match=r"history of 'q': expected earlier messages"):
        RetrievalDataset({"q": "?"}, metadata={"q": {"history": history}})
    with pytest.raises(FileFormatError, match=r"history of 'q-.*: expected earlier messages"):
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


def test_files_keep_conversations(tmp_path: Path) -> None:
    dataset = conversations()
    dataset.save(tmp_path / "dataset.json")
    assert RetrievalDataset.load(tmp_path / "dataset.json").metadata == dataset.metadata


@pytest.mark.parametrize("conversation", [["c"], "", float("nan")])
def test_what_is_no_conversation_is_refused(conversation: Any) -> None:
    with pytest.raises(InvalidInput, match=r"conversation of 'q': expected the id of a conv"):
        RetrievalDataset({"q": "Who?"}, metadata={"q": {"conversation": conversation}})


def test_what_is_missing_is_no_mistake_and_a_turn_is_metadata() -> None:
    rows: dict[str, dict[str, Any]] = {
        "a": {"conversation": 0, "turn": None},
        "b": {"conversation": None, "history": None, "turn": "left"},
    }
    assert RetrievalDataset({"a": "?", "b": "?"}, metadata=rows).metadata == rows
