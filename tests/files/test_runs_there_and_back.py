"""Runs and qrels there and back, in every format."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs import ids_of

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    Run,
    Span,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pytest.importorskip("polars", reason="the extra batch isn't installed")

WHOLE = ("jsonl", "parquet")


def file_of(folder: Path, form: str) -> Path:
    return folder / f"file.{form}"


anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
in_columns = anything.filter(
    lambda item: not set(item) & set(" \t\v\f\r\n") and item[0] not in "\ufeff#"
)
numbers = st.floats(allow_nan=False, allow_infinity=False)


def rankings_of(names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Ranking]]:
    @st.composite
    def ranking(draw: st.DrawFn) -> Ranking:
        ids = draw(st.lists(names, unique=True, max_size=8))
        scores = draw(st.none() | st.lists(numbers, min_size=len(ids), max_size=len(ids)))
        return Ranking(ids, scores)

    return st.dictionaries(names, ranking(), max_size=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@given(rankings_of(in_columns))
def test_a_trec_run_keeps_the_order(folder: Path, rankings: dict[str, Ranking]) -> None:
    for name in ("run.trec", "run.run.gz"):
        write_run(Run(rankings, name="my run"), folder / name)
        again = read_run(folder / name)
        assert ids_of(again) == {
            query_id: list(ranking.ids) for query_id, ranking in rankings.items() if ranking.ids
        }
        assert again.name == ("my-run" if again else "run")


@pytest.mark.parametrize("form", WHOLE)
@given(rankings=rankings_of(anything))
def test_records_hold_rankings_as_they_are(
    folder: Path, form: str, rankings: dict[str, Ranking]
) -> None:
    write_run(rankings, file_of(folder, form))
    assert read_run(file_of(folder, form)) == Run(rankings)


FULL = Run(
    {
        "q1": Ranking(
            ["d1", "d2", "d1"],
            [0.5, None, 0.25],
            ["one", "two", "one"],
            latency=0.125,
            spans=[Span("doc", 0, 3), None, Span("doc", 0, 3)],
        ),
        "q2": Ranking([], error="TimeoutError: slow"),
        "q3": Ranking([]),
    },
    name="full",
)


@pytest.mark.parametrize("form", WHOLE)
def test_runs_and_relevance_in_one_file(tmp_path: Path, form: str) -> None:
    relevance = {"q1": {"d1": 2, "d9": 0}, "q3": [], "unasked": ["d1"]}
    write_run(FULL, file_of(tmp_path, form), relevance=relevance)
    assert read_run(file_of(tmp_path, form)) == FULL
    assert read_run(file_of(tmp_path, form), name="other").name == "other"
    # q2 has no judgements, and a query without a ranking no line
    assert read_qrels(file_of(tmp_path, form)) == {"q1": Relevance({"d1": 2, "d9": 0}), "q3": []}
    write_run(FULL, file_of(tmp_path, form))
    with pytest.raises(FileFormatError, match="1: expected a field 'expected_ids'"):
        read_qrels(file_of(tmp_path, form))


def test_what_would_change_a_score_or_a_count_is_refused(tmp_path: Path) -> None:
    twice = Run({"q1": ["d1", "d2", "d1"]})
    for run, wording in (
        (FULL, "that the retriever failed"),
        (twice, "an id twice in one ranking"),
    ):
        with pytest.raises(InvalidInput, match=wording):
            write_run(run, tmp_path / "run.trec")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("query_id", "item"), [("q 1", "d"), ("q", "d\n"), ("", "d"), ("\ufeffq", "d"), ("#q", "d")]
)
def test_ids_that_would_break_a_file_are_refused(tmp_path: Path, query_id: str, item: str) -> None:
    with pytest.raises(InvalidInput, match="JSONL and Parquet hold everything"):
        write_run({query_id: [item]}, tmp_path / "run.trec")
    assert list(tmp_path.iterdir()) == []


grades = st.integers(-2, 5)
nested_qrels = st.dictionaries(
    in_columns, st.dictionaries(in_columns, grades, min_size=1, max_size=5), max_size=4
)


@pytest.mark.parametrize("form", ["trec", "jsonl", "parquet"])
@given(qrels=nested_qrels)
def test_qrels_there_and_back(folder: Path, form: str, qrels: dict[str, dict[str, int]]) -> None:
    qrels = {
        query_id: grades
        for query_id, grades in qrels.items()
        if "\0" not in query_id + "".join(grades)
    }
    relevance = {query_id: Relevance(grades) for query_id, grades in qrels.items()}
    write_qrels(qrels, file_of(folder, form))
    assert read_qrels(file_of(folder, form)) == relevance


def test_labels_that_a_format_cannot_hold(tmp_path: Path) -> None:
    fraction, grouped, nothing = {"d": 0.5}, Relevance(groups=[["a", "b"], ["c"]]), Relevance([])
    for name, judged in (
        ("a.trec", fraction),
        ("a.trec", grouped),
        ("a.trec", nothing),
        ("a.parquet", grouped),
        ("a.parquet", Relevance(facets={"x": ["a"]})),
    ):
        with pytest.raises(InvalidInput):
            write_qrels({"q": judged}, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    for name, judged in (
        ("a.jsonl", fraction),
        ("a.parquet", fraction),
        ("a.jsonl", grouped),
        ("a.jsonl", nothing),
        ("a.parquet", nothing),
    ):
        write_qrels({"q": judged}, tmp_path / name)
        assert read_qrels(tmp_path / name) == {"q": Relevance(judged)}


def test_a_field_called_skipped_drops_no_judgements_of_a_whole_query(tmp_path: Path) -> None:
    path = tmp_path / "qrels.jsonl"
    path.write_text('{"query_id": "q", "expected_ids": ["a"], "skipped": false}\n')
    assert read_qrels(path) == {"q": Relevance(["a"])}


def test_the_scores_of_a_run_are_written_where_they_stand_for_its_order(tmp_path: Path) -> None:
    run = {"q1": Ranking(["a", "b"], [0.75, 0.5]), "q2": Ranking(["a", "b"], [0.5, 0.5])}
    write_run(Run(run, name="bm25"), tmp_path / "run")
    # the tie of q2 would put b first, so ranks are written
    assert (tmp_path / "run").read_text().splitlines() == [
        "q1 Q0 a 1 0.75 bm25",
        "q1 Q0 b 2 0.5 bm25",
        "q2 Q0 a 1 2.0 bm25",
        "q2 Q0 b 2 1.0 bm25",
    ]
