"""Columns of types that Arrow has and Polars reads otherwise, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llama_index_rag_metrics import score_table
from llama_index_rag_metrics.runtime.errors import InvalidInput

pa = pytest.importorskip("pyarrow", reason="tables of Arrow need the extra `batch`")
pytest.importorskip("polars", reason="tables need the extra `batch`")

IDS = [["x", "b"], None]


def mrr(retrieved: Any) -> list[float]:
    """1/2 where b is at rank 2, and 0 where nothing was retrieved."""
    table = pa.table({"retrieved_ids": retrieved, "expected_ids": [["b"], ["b"]]})
    scores: list[float] = score_table(table, "mrr")["mrr"].to_pylist()
    return scores


KINDS: dict[str, Callable[[], Any]] = {
    "fixed size": lambda: pa.list_(pa.string(), 2),
    "large": lambda: pa.large_list(pa.large_string()),
    "dictionary": lambda: pa.list_(pa.dictionary(pa.int32(), pa.string())),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_of_list_is_read(kind: Callable[[], Any]) -> None:
    assert mrr(pa.array(IDS, kind())) == [0.5, 0.0]


ODD: dict[str, Callable[[], Any]] = {
    "map": lambda: pa.array([[("b", 1)], None], pa.map_(pa.string(), pa.int64())),
    "union": lambda: pa.UnionArray.from_sparse(
        pa.array([0, 0], pa.int8()), [pa.array(IDS), pa.array([1, 2])]
    ),
    "runs of the same list": lambda: pa.RunEndEncodedArray.from_arrays([2], pa.array([["b"]])),
    "bytes": lambda: pa.array([[b"b"], None]),
    "structs": lambda: pa.array([[{"id": "b"}], None]),
    "lists": lambda: pa.array([[["b"]], None]),
    "texts": lambda: pa.array(["b", None]),
    "durations": lambda: pa.array([[1], None], pa.list_(pa.duration("s"))),
}


@pytest.mark.parametrize("made", ODD.values(), ids=ODD)
def test_what_cant_be_a_ranking_is_an_error_of_this_package(made: Callable[[], Any]) -> None:
    with pytest.raises((InvalidInput, InvalidInput), match="retrieved_ids"):
        mrr(made())


def test_ids_of_several_fields_are_refused_in_both_columns() -> None:
    structs = pa.array([[{"id": "b"}]])
    table = pa.table({"retrieved_ids": structs, "expected_ids": structs})
    with pytest.raises((InvalidInput, InvalidInput), match="expected_ids"):
        score_table(table, "mrr")
