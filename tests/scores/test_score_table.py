"""Scoring tables: one row in, one row out, the numbers of score_rankings."""

import math
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frames import frame_of
from support.strategies import Query, plain_metrics, queries

from llama_index_rag_metrics import EmbeddingSimilarity, score_rankings, score_schema, score_table
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.scores import score_tables as tables

MIXED = pa.table(
    {
        "query_id": ["found", "missed", "unjudged", "barren", "empty", "broken"],
        "retrieved_ids": [["x", "a"], ["x"], ["a"], ["x"], [], []],
        "expected_ids": [["a", "b"], ["a"], None, ["x"], ["a"], ["a"]],
        "grades": [[2.0, 1.0], None, None, [0.0], None, None],
        "error": [None, None, None, None, None, "timeout"],
    }
)


@pytest.mark.slow
@given(st.lists(queries().filter(lambda query: query.relevance.alternatives is None), min_size=1))
def test_bits_are_those_of_score_rankings(batch: list[Query]) -> None:
    """Every metric, and the table in slices of one query each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_USUAL_IDS", 1)
        scored = score_table(frame_of(batch), plain_metrics(), no_relevant="zero")
    expected = [query.relevance for query in batch]
    lists = score_rankings(
        expected, [query.ranking for query in batch], plain_metrics(), no_relevant="zero"
    )
    for metric in lists:
        assert scored[metric].to_numpy().tobytes() == lists[metric].tobytes()


def test_row_for_every_query() -> None:
    """Of a, b (grades 2, 1), a at rank 2: recall 1/2, mrr 1/2."""
    rows = score_table(MIXED, ["recall", "mrr"]).to_pylist()
    assert rows == [
        row("found", 0.5, 0.5, None, 2, 2),
        row("missed", 0.0, 0.0, None, 1, 1),
        row("unjudged", None, None, "unjudged", 1, 0),
        row("barren", None, None, "no_relevant", 1, 0),
        row("empty", 0.0, 0.0, None, 0, 1),
        row("broken", 0.0, 0.0, None, 0, 1, error="timeout"),
    ]


def row(*values: Any, error: str | None = None) -> dict[str, Any]:
    names = ("query_id", "recall", "mrr", "excluded", "n_retrieved", "n_relevant")
    return {**dict(zip(names, values, strict=True)), "error": error}


def test_failed_and_barren_queries_by_choice() -> None:
    scored = score_table(MIXED, "recall", no_relevant="zero", failed="exclude")
    assert scored["excluded"].to_pylist() == [None, None, "unjudged", None, None, "failed"]


def test_questions_with_nothing_relevant_as_an_error() -> None:
    with pytest.raises(InvalidInput, match="relevance of question 'barren'"):
        score_table(MIXED, "recall", no_relevant="error")


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch, pl.DataFrame])
def test_table_comes_back_as_the_same_kind(kind: type) -> None:
    table = {
        pa.Table: MIXED,
        pa.RecordBatch: MIXED.to_batches()[0],
        pl.DataFrame: pl.from_arrow(MIXED),
    }[kind]
    scored = score_table(table, "recall")
    assert isinstance(scored, kind)
    column = list_of(scored["recall"])  # type: ignore[index]
    values = [None if score is None or math.isnan(score) else score for score in column]
    assert values == [0.5, 0.0, None, None, 0.0, 0.0]


def list_of(column: Any) -> list[Any]:
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


@pytest.mark.parametrize("rows", [0, 6])
def test_schema_is_known_beforehand(rows: int) -> None:
    table = MIXED.slice(0, rows)
    schema = score_schema(table.schema, ["recall", "ndcg@10"])
    assert score_table(table, ["recall", "ndcg@10"]).schema == schema
    for batch in table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]:
        assert score_table(batch, ["recall", "ndcg@10"]).schema == schema


def test_sliced_batch() -> None:
    """Arrow's slices share the buffers of the whole."""
    part = MIXED.to_batches()[0].slice(1, 2)
    assert score_table(part, "recall")["query_id"].to_pylist() == ["missed", "unjudged"]


def test_columns_that_dont_matter() -> None:
    """Neither types that Polars doesn't know, nor names that the scores have, too."""
    notes = pa.array([[("a", 1)]] * 6, pa.map_(pa.string(), pa.int64()))
    further = {"notes": notes, "recall": pa.array([9] * 6), "n_retrieved": pa.array(["9"] * 6)}
    table = MIXED
    for name, column in further.items():
        table = table.append_column(name, column)
    assert score_table(table, "recall") == score_table(MIXED, "recall")
    assert score_schema(table.schema, "recall") == score_schema(MIXED.schema, "recall")


def test_grades_of_no_judgements_are_none() -> None:
    """Arrow infers a list of nulls where every list is empty."""
    table = pa.table({"retrieved_ids": [["a"]], "expected_ids": [[]], "grades": [[]]})
    assert score_table(table, "mrr")["excluded"].to_pylist() == ["no_relevant"]


def test_tables_that_cant_be_scored() -> None:
    groups = pa.table({"retrieved_ids": [["a"]], "expected_ids": [[["a"]]], "grades": [[1.0]]})
    with pytest.raises(InvalidInput, match="Groups are binary"):
        score_table(groups, "mrr")
    with pytest.raises(InvalidInput, match=r"record batch .* got 'DataFrame'. Of pandas, pyarrow"):
        score_table(MIXED.to_pandas(), "recall")
    with pytest.raises(InvalidInput, match="metrics of rankings"):
        score_table(MIXED, [EmbeddingSimilarity()])
    with pytest.raises(UnknownMetric):
        score_table(MIXED, "recal")
    with pytest.raises(InvalidInput, match="failed: expected 'zero' or 'exclude'"):
        score_table(MIXED, "recall", failed="skip")  # type: ignore[arg-type]


def test_queries_with_numbers_for_ids() -> None:
    table = pa.table({"query_id": [7], "retrieved_ids": [[1, 2]], "expected_ids": [[2]]})
    scored = score_table(table, "mrr")
    assert scored.schema.field("query_id").type == pa.int64()
    assert np.asarray(scored["mrr"]).tolist() == [0.5]
