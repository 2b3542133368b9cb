"""Damaged tables in memory are refused, whoever reads them."""

from __future__ import annotations

from typing import Any

import pytest

from llama_index_rag_metrics import read_qrels, read_run, score_table
from llama_index_rag_metrics.runtime.errors import InvalidInput

pa = pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pytest.importorskip("polars", reason="the extra batch isn't installed")

GOOD: dict[str, Any] = {
    "query_id": ["q1", "q2"],
    "retrieved_ids": [["a", "b"], ["c"]],
    "expected_ids": [["a"], ["c"]],
}


def damaged() -> Any:
    """A table one of whose texts ends before it begins."""
    texts = pa.array(["a", "b", "c"])
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 1, 3)))
    broken = pa.StringArray.from_buffers(3, offsets, texts.buffers()[2])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), broken)
    return pa.table({**GOOD, "retrieved_ids": lists})


def test_damaged_tables_in_memory_are_refused() -> None:
    with pytest.raises(InvalidInput, match="an Arrow table that isn't damaged"):
        score_table(damaged(), ["mrr"], validate=True)
    # what is made into Python's objects is always checked first
    for read in (read_run, read_qrels):
        with pytest.raises(InvalidInput, match="an Arrow table that isn't damaged"):
            read(damaged())
