"""Foreign names of columns, and errors that say which field is missing."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from llama_index_rag_metrics import read_qrels, read_run
from llama_index_rag_metrics.files.lines import LacksField

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
