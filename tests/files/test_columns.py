"""Foreign names of columns, and errors that say which field is missing."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from llama_index_rag_metrics import RetrievalDataset, read_qrels, read_run
from llama_index_rag_metrics.files.fields import NAMES
from llama_index_rag_metrics.files.lines import LacksField
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

WIDE = [{"question_no": "q1", "hits": ["d2", "d1"], "gold": ["d1"]}]
LONG = [{"question_no": "q1", "passage": "d2", "score": 2.0}]


def test_columns_of_a_table_are_named() -> None:
    columns = {"query_id": "question_no", "retrieved_ids": "hits", "expected_ids": "gold"}
    for source in (pd.DataFrame(WIDE), WIDE):
        assert list(read_run(source, columns=columns)["q1"].ids) == ["d2", "d1"]
        assert list(read_qrels(source, columns=columns)["q1"]) == ["d1"]
    long = {"query_id": "question_no", "doc_id": "passage"}
    assert list(read_run(pd.DataFrame(LONG), columns=long)["q1"].ids) == ["d2"]


def test_a_column_called_like_the_field_gives_way() -> None:
    frame = pd.DataFrame([{"query_id": 7, "qid2": "q1", "retrieved_ids": ["a"]}])
    assert list(read_run(frame, columns={"query_id": "qid2"})) == ["q1"]


@pytest.mark.parametrize(
    ("source", "wording"),
    [
        (pd.DataFrame(WIDE), r"a field 'retrieved_ids'.*'gold', 'hits', 'question_no'"),
        (pd.DataFrame([{"doc_id": "d", "score": 1}]), r"a field 'query_id'.*'doc_id', 'score'"),
        ([{"retrieved_ids": ["d"], "no": 1}], r"a field 'query_id'.*'no', 'retrieved_ids'"),
    ],
)
def test_a_missing_field_is_named_with_what_is_there(source: Any, wording: str) -> None:
    with pytest.raises(LacksField, match=wording):
        read_run(source)


@pytest.mark.parametrize("name", NAMES["query_id"])
def test_ids_of_questions(name: str) -> None:
    rows = [{name: 0, "question": "What?", "expected_ids": ["d1"]}]
    assert RetrievalDataset.load(rows).relevance == read_qrels(rows) == {"0": ["d1"]}
    assert list(read_run([{name: 0, "retrieved_ids": ["d1"]}])) == ["0"]


def test_columns_of_a_dataset() -> None:
    golden = {"input": "Why?", "gold_ids": ["d1"], "context": ["T"], "query_id": "q1"}
    columns = {"question": "input", "labels": "gold_ids", "expected_texts": "context"}
    dataset = RetrievalDataset.load([golden], columns=columns)
    assert dataset == RetrievalDataset({"q1": "Why?"}, {"q1": ["d1"]}, expected_texts={"q1": ["T"]})
    with pytest.raises(FileFormatError, match=r"record 1: .*or columns=.*'gold_ids', 'input'"):
        RetrievalDataset.load([golden])
    with pytest.raises(InvalidInput, match="columns: expected fields such as"):
        RetrievalDataset.load([golden], columns={"prompt": "input"})
