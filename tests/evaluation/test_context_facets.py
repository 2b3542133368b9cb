"""Facets from other collections' files: HotpotQA's supporting facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import Relevance, RetrievalDataset
from llama_index_rag_metrics.runtime.errors import FileFormatError


@pytest.mark.parametrize(
    "facts",
    [
        [["Enceladus", 0], ["Cassini", 2], ["Enceladus", 3]],
        {"title": ["Enceladus", "Cassini", "Enceladus"], "sent_id": [0, 2, 3]},
    ],
)
def test_supporting_facts_are_needed_together(tmp_path: Path, facts: Any) -> None:
    path = tmp_path / "hotpot.json"
    row = {"_id": "q", "question": "Which probe?", "supporting_facts": facts, "level": "hard"}
    path.write_text(json.dumps([row]), encoding="utf-8")
    dataset = RetrievalDataset.load(path)
    facets = {"Enceladus": ["Enceladus"], "Cassini": ["Cassini"]}
    assert dataset.relevance == {"q": Relevance.facets(facets)}
    assert dataset.metadata == {"q": {"level": "hard"}}


@pytest.mark.parametrize("facts", ["Enceladus", [[]], [[7, 0]], {"sent_id": [1]}])
def test_what_are_no_supporting_facts(tmp_path: Path, facts: Any) -> None:
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps([{"question": "?", "supporting_facts": facts}]), encoding="utf-8")
    with pytest.raises(FileFormatError, match="supporting facts"):
        RetrievalDataset.load(path)
