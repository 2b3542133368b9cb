"""Runs of agents in files: every call, there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples

from llama_index_rag_metrics import Ranking, Run, Span, read_run, write_run
from llama_index_rag_metrics.rankings.run import Call, combine_calls
from llama_index_rag_metrics.runtime.errors import FileFormatError

pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pl = pytest.importorskip("polars", reason="the extra batch isn't installed")

WHOLE = ("jsonl", "jsonl.gz", "parquet")
METRICS = ["recall", "mrr"]

FOUND = Call(
    ["d1", "d2", "d1"],
    [0.1, None, 1 / 3],
    ["one", "", "one"],
    0.123456789012345,
    spans=[Span("doc", 0, 3), None, Span("doc", 0, 3)],
    tokens=[3, 0, 3],
    query="\nmoons of Saturn\n",
    asked_by="search",
)
FAILED = Call([], None, None, 0.5, "TimeoutError: slow", query="rings")
NOTHING = Call([], [], [], query="rings")

SESSIONS = Run(
    {
        "two calls": combine_calls([FOUND, FAILED, NOTHING]),
        "no call": Ranking([], calls=()),
        "failed": Ranking([], error="QueryTimeout: stopped", calls=(FOUND,)),
        "plain": Ranking(["d1"]),
    }
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(texts.filter(bool), max_size=3))

    def column(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | st.lists(values, min_size=len(ids), max_size=len(ids)))

    return {
        "ids": ids,
        "scores": column(st.none() | st.floats(allow_nan=False)),
        "texts": column(texts),
        "latency": draw(st.none() | st.floats(0, 1e6)),
        "error": draw(st.none() | texts),
        "spans": column(st.none() | st.builds(Span, texts, st.integers(0, 9), st.integers(9, 12))),
        "tokens": column(st.integers(0, 1000)),
    }


calls = st.builds(lambda fields, **asked: Call(**fields, **asked), columns(), query=texts)
rankings = st.builds(
    lambda fields, calls: Ranking(**fields, calls=calls),
    columns(),
    st.none() | st.lists(calls, max_size=3).map(tuple),
)


def test_sessions_in_data_frames(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="pandas isn't installed")
    write_run(SESSIONS, tmp_path / "run.parquet")
    frames = [
        pl.read_parquet(tmp_path / "run.parquet"),
        pd.read_parquet(tmp_path / "run.parquet"),  # arrays inside of dicts inside of arrays
    ]
    for frame in frames:
        assert read_run(frame) == SESSIONS


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@settings(examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.dictionaries(texts.filter(bool), rankings, max_size=3))
def test_any_session(tmp_path: Path, form: str, made: dict[str, Ranking]) -> None:
    path = tmp_path / f"run.{form}"
    write_run(made, path)
    assert read_run(path) == Run(made)


@pytest.mark.parametrize(
    ("field", "wording"),
    [
        ('"retrieval_calls": 3', "a list of calls, got"),
        ('"retrieval_calls": [["a"]]', "a list of calls, got"),
        ('"retrieval_calls": [{"query": "x"}]', "a list, got None"),
        ('"retrieval_calls": [{"query": 1, "retrieved_ids": []}]', "texts, got"),
        ('"retrieval_calls": [{"retrieved_ids": ["a"], "scores": []}]', "lists of the same length"),
    ],
)
def test_what_is_no_session(tmp_path: Path, field: str, wording: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"query_id": "q", "retrieved_ids": ["a"], {field}}}\n')
    with pytest.raises(FileFormatError) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}, line 1: expected {wording}")
