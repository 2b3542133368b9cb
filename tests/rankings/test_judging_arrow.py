"""Judging from columns, of whatever types, gives what judging from lists gives, to the last bit."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frames import TEXTS, frame_of
from support.strategies import Query, queries

from llama_index_rag_metrics import Relevance, score_table
from llama_index_rag_metrics.rankings.judging import arrow
from llama_index_rag_metrics.rankings.judging.arrow import judge_table
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.runtime.errors import InvalidInput

pa: Any = pytest.importorskip("pyarrow", reason="tables of Arrow need the extra `batch`")
pytest.importorskip("polars", reason="tables need the extra `batch`")


def assert_same_bits(ours: JudgedRankings, theirs: JudgedRankings) -> None:
    for field in fields(JudgedRankings):
        if field.init:
            field_here, field_there = getattr(ours, field.name), getattr(theirs, field.name)
            if field.name in ("tokens", "spans"):  # which have tests of their own
                assert field_here is field_there is None
                continue
            if field.name == "groups":
                for name, array in vars(field_there).items():
                    assert getattr(field_here, name).tobytes() == array.tobytes(), name
                continue
            assert field_here.dtype == field_there.dtype, field.name
            assert field_here.tobytes() == field_there.tobytes(), field.name


ungrouped = queries().filter(lambda query: query.relevance.alternatives is None)
batches = st.lists(ungrouped, max_size=12)


@given(batches)
def test_bits_are_those_of_lists(batch: list[Query]) -> None:
    theirs = judge([query.relevance for query in batch], [query.ranking for query in batch])
    assert_same_bits(judge_table(frame_of(batch)), theirs)


@pytest.mark.slow
@given(batches, st.integers(0, 3), st.sampled_from([0, 60]))
def test_bits_dont_depend_on_the_hash(batch: list[Query], n_bits: int, shift: int) -> None:
    """A hash of 3 bits collides at once, one of 0 bits always: the ids decide.

    Bits of the upper half alone collide in the lower one, which is compared first.
    """

    def poor(ids: Any) -> Any:
        value = np.array([hash(item) % (1 << n_bits) for item in ids], np.uint64)
        return value << np.uint64(shift)

    theirs = judge([query.relevance for query in batch], [query.ranking for query in batch])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "_hashes", poor)
        assert_same_bits(judge_table(frame_of(batch)), theirs)


def test_hashes_that_agree_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """b has the hash 2, which fills up the first list, and i that of a: neither is a hit there."""

    def poor(ids: Any) -> Any:
        return np.array([sum(map(ord, item)) % 8 for item in ids], np.uint64)

    monkeypatch.setattr(arrow, "_hashes", poor)
    rankings, labels = [["h", "a"], ["b", "c", "d"]], [["b", "i"], ["b"]]
    frame = pl.DataFrame({"retrieved_ids": rankings, "expected_ids": labels})
    assert_same_bits(arrow._judge_hashed(frame), judge(labels, rankings))


# views hold up to 12 bytes of a text, and 4 of a longer one
STEMS = ["a", "a\0", "é", "e\u0301", "doc1234", "doc12345", "doc123456", "doc123456789"]
STEMS += [STEMS[-1] + rest for rest in ("0", "0123", "01234", "01235", "\0", "é" * 9)]
texts = st.none() | st.lists(st.sampled_from(STEMS), max_size=40)
text_rows = st.lists(st.tuples(texts, texts), min_size=1, max_size=8)
TYPES = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("text", TYPES, ids=str)
@given(text_rows, st.integers(0, 7), st.integers(0, 7))
def test_arrow_is_judged_as_lists(text: Any, rows: list[Any], start: int, cut: int) -> None:
    """Texts of any length and any bytes, in slices and chunks, with lists that aren't there."""
    columns = [pa.array(column, pa.list_(text)) for column in zip(*rows, strict=True)]
    whole = pa.table(columns, ["retrieved_ids", "expected_ids"])
    table = pa.concat_tables([whole.slice(start), whole.slice(0, cut), whole.slice(cut, 2)])
    order = [*rows[start:], *rows[: cut + 2]]
    theirs = judge([labels for _, labels in order], [ranking or [] for ranking, _ in order])
    assert_same_bits(judge_table(arrow.frame_of(table)), theirs)


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 70])
def test_rankings_of_one_length_with_repeats(length: int) -> None:
    """Comparing pairs and sorting, with 16 and with 32 bits of hashes, find what sets find."""
    rng = np.random.default_rng(length)
    rankings = [[f"d{n}" for n in rng.integers(0, 3 * length, length)] for _ in range(3000)]
    labels = [[f"d{n}" for n in rng.integers(0, 3 * length, 4)] for _ in range(3000)]
    frame = pl.DataFrame({"retrieved_ids": rankings, "expected_ids": labels})
    assert_same_bits(judge_table(frame), judge(labels, rankings))


def test_queries_of_uneven_size() -> None:
    """Enough ids that some share a slot of the table that they are looked up in."""
    rng = np.random.default_rng(3)
    rankings = [[f"d{n}" for n in rng.integers(0, 400, size)] for size in rng.integers(0, 200, 300)]
    grades = [
        {f"d{n}": float(rng.integers(-1, 4)) for n in rng.integers(0, 400, size)}
        for size in rng.integers(0, 90, 300)
    ]
    frame = pl.DataFrame(
        {
            "retrieved_ids": rankings,
            "expected_ids": [list(judged) for judged in grades],
            "grades": [list(judged.values()) for judged in grades],
        }
    )
    assert_same_bits(judge_table(frame), judge(grades, rankings))


def test_plain_ids_have_grade_1_and_repeat_once() -> None:
    frame = pl.DataFrame({"retrieved_ids": [["b", "a", "b"]], "expected_ids": [["b", "b", "c"]]})
    judged = judge_table(frame)
    assert_same_bits(judged, judge([["b", "b", "c"]], [["b", "a", "b"]]))
    assert judged.depth.tolist() == [2]
    assert judged.judged_grade.tolist() == [1.0, 1.0]


def test_rows_with_and_without_grades() -> None:
    frame = pl.DataFrame(
        {
            "retrieved_ids": [["a"], ["b"], ["c"], None],
            "expected_ids": [["a", "x"], ["b"], None, ["d"]],
            "grades": [[3.0, 0.0], None, None, None],
        }
    )
    theirs = judge([{"a": 3, "x": 0}, ["b"], None, ["d"]], [["a"], ["b"], ["c"], []])
    assert_same_bits(judge_table(frame), theirs)


def test_groups() -> None:
    frame = pl.DataFrame({"retrieved_ids": [["a", "b"]], "expected_ids": [[["b", "c"], ["d"]]]})
    theirs = judge([Relevance(groups=[["b", "c"], ["d"]])], [["a", "b"]])
    assert_same_bits(judge_table(frame), theirs)


@pytest.mark.parametrize(
    "dtype", [pl.Categorical, pl.Int8, pl.UInt32], ids=["categorical", "int8", "uint32"]
)
def test_ids_of_other_types(dtype: Any) -> None:
    ids = ["3", "1", "2"] if dtype is pl.Categorical else [3, 1, 2]
    retrieved = pl.Series("retrieved_ids", [ids], pl.List(dtype))
    expected = pl.Series("expected_ids", [ids[2:]], pl.List(dtype))
    assert judge_table(pl.DataFrame([retrieved, expected])).item_rank.tolist() == [3]


def test_lists_of_one_length() -> None:
    retrieved = pl.Series("retrieved_ids", [["a", "b"], ["c", "d"]], pl.Array(pl.String, 2))
    expected = pl.Series("expected_ids", [["b"], ["c"]], pl.Array(pl.String, 1))
    assert judge_table(pl.DataFrame([retrieved, expected])).item_rank.tolist() == [2, 1]


def test_table_without_rows() -> None:
    frame = pl.DataFrame(schema={"retrieved_ids": TEXTS, "expected_ids": TEXTS})
    assert len(judge_table(frame)) == 0


def test_arrays_of_nothing_retrieved_and_nothing_expected() -> None:
    frame = pl.DataFrame({"retrieved_ids": [None, []], "expected_ids": [[], None]})
    assert_same_bits(judge_table(frame), judge([[], None], [[], []]))


ONE: dict[str, Any] = {"retrieved_ids": [["a"]], "expected_ids": [["a"]]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"expected_ids": [["a"]]}, "table: expected a column retrieved_ids"),
        (
            {"retrieved_ids": ["a"], "expected_ids": [["a"]]},
            "retrieved_ids of question '0': expected a list of ids",
        ),
        (
            {"query_id": ["q7"], "retrieved_ids": [["a", None]], "expected_ids": [["a"]]},
            "retrieved_ids, rank 2 of question 'q7': expected an id",
        ),
        (
            {"retrieved_ids": [["a"]], "expected_ids": [["a", "b"]], "grades": [[1.0]]},
            "grades of row 0: expected a list of 2, one for each that is expected, got [1.0]",
        ),
        (
            {**ONE, "grades": [1.0]},
            "grades of row 0: expected a list of 1, one for each that is expected, got 1.0",
        ),
        (
            {**ONE, "error": [False]},
            "column error: expected texts, null where the retriever answered, got 'Boolean'",
        ),
        ({**ONE, "grades": [[float("nan")]]}, "grade of 'a' of row 0: expected a finite number"),
        ({**ONE, "grades": [["high"]]}, "grade of 'a' of row 0: expected a finite number"),
        (
            {"retrieved_ids": [["a"]], "expected_ids": [["a", "a"]], "grades": [[1.0, 2.0]]},
            "grades of row 0: expected one for 'a', which is repeated",
        ),
    ],
)
def test_columns_that_cant_be_used_are_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        score_table(pl.DataFrame(columns), "mrr")
    assert message in str(raised.value)


def test_ids_of_different_types() -> None:
    with pytest.raises(InvalidInput):
        judge_table(pl.DataFrame({"retrieved_ids": [["1"]], "expected_ids": [[1]]}))


@pytest.mark.parametrize("column", ["retrieved_ids", "expected_ids"])
def test_table_without_a_column_of_ids_is_refused_by_its_name(column: str) -> None:
    with pytest.raises(InvalidInput, match=f"a column {column}"):
        score_table(pl.DataFrame(ONE).drop(column), "mrr")


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
def test_lists_of_every_kind_are_read(kind: Callable[[], Any]) -> None:
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
def test_values_that_cant_be_a_ranking_are_errors_of_this_package(made: Callable[[], Any]) -> None:
    with pytest.raises((InvalidInput, InvalidInput), match="retrieved_ids"):
        mrr(made())


@pytest.mark.parametrize("item", ["a", "b"])
def test_labels_of_several_fields_are_refused_whether_or_not_one_was_retrieved(item: str) -> None:
    mapping = pa.array([[(item, 1.0)]], pa.map_(pa.string(), pa.float64()))
    for labels in (pa.array([{item: 1}]), mapping, pa.array([[{"id": item}]])):
        table = pa.table({"retrieved_ids": [["a"]], "expected_ids": labels})
        for frame in (table, pl.from_arrow(table)):
            with pytest.raises(
                InvalidInput, match=r"column expected_ids: expected lists of ids, got"
            ):
                score_table(frame, "mrr")


def test_ids_of_several_fields_are_refused_in_both_columns() -> None:
    structs = pa.array([[{"id": "b"}]])
    table = pa.table({"retrieved_ids": structs, "expected_ids": structs})
    with pytest.raises((InvalidInput, InvalidInput), match="expected_ids"):
        score_table(table, "mrr")
