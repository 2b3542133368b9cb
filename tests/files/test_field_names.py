"""The names of fields: which are read, and what is said of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import RetrievalDataset, read_qrels, read_run
from llama_index_rag_metrics.files.fields import NAMES
from llama_index_rag_metrics.runtime.errors import FileFormatError

Record = dict[str, Any]


def lines_file(path: Path, *records: Record) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("name", NAMES["query_id"])
def test_ids_of_questions(tmp_path: Path, name: str) -> None:
    path = lines_file(tmp_path / "q.jsonl", {name: 0, "question": "What?", "expected_ids": ["d1"]})
    assert RetrievalDataset.load(path).relevance == {"0": ["d1"]}
    assert read_qrels(path) == {"0": ["d1"]}
    run = lines_file(tmp_path / "r.jsonl", {name: 0, "retrieved_ids": ["d1"]})
    assert list(read_run(run)) == ["0"]


def test_an_id_that_is_there_too_goes_first(tmp_path: Path) -> None:
    record = {"question_id": "a", "id": "b", "question": "What?", "expected_ids": ["d1"]}
    assert list(RetrievalDataset.load(lines_file(tmp_path / "q.jsonl", record)).queries) == ["b"]


@pytest.mark.parametrize("part", ["relevent", "qrels", "expected_ids", "documents"])
def test_parts_of_a_dataset_that_there_arent(part: str) -> None:
    with pytest.raises(FileFormatError, match=f"only the parts queries, .* got '{part}'"):
        RetrievalDataset.load({"queries": {"q1": "why?"}, part: {"q1": ["d1"]}})
