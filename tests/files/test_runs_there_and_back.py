"""Runs and qrels there and back, in every format."""

from __future__ import annotations

import json
import math
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
    register_format,
    score_rankings,
    unregister_format,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.runtime.errors import FormatTooNarrow, InvalidInput, LinesSkipped

pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pytest.importorskip("polars", reason="the extra batch isn't installed")

WHOLE = ("jsonl", "parquet", "arrow")
BY_SCORE = ("trec", "json")
TABLES = ("csv", "tsv")
ENDINGS = {"trec": "trec", "beir": "tsv", "arrow": "feather"}


def file_of(folder: Path, form: str) -> Path:
    return folder / f"file.{ENDINGS.get(form, form)}"


anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
in_columns = anything.filter(
    lambda item: not set(item) & set(" \t\v\f\r\n") and item[0] not in "\ufeff#"
)
in_cells = anything.filter(
    lambda item: not set(item) & set("\t\r\n\0") and item[0] != "\ufeff" and item.strip(" ")
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


@given(rankings_of(anything))
def test_nested_json_keeps_the_order(folder: Path, rankings: dict[str, Ranking]) -> None:
    write_run(rankings, folder / "run.json")
    assert ids_of(read_run(folder / "run.json")) == ids_of(Run(rankings))
    nested = json.loads((folder / "run.json").read_text("utf-8"))
    assert ids_of(read_run(nested)) == ids_of(Run(rankings))


@pytest.mark.parametrize("form", TABLES)
@given(rankings=rankings_of(in_cells))
def test_tables_keep_order_and_scores(
    folder: Path, form: str, rankings: dict[str, Ranking]
) -> None:
    write_run(rankings, file_of(folder, form))
    kept = {query_id: ranking for query_id, ranking in rankings.items() if ranking.ids}
    assert read_run(file_of(folder, form)) == Run(kept)


@given(rankings=rankings_of(anything))
def test_csv_quotes_line_ends(folder: Path, rankings: dict[str, Ranking]) -> None:
    if not any(
        "\0" in item for query, ranking in rankings.items() for item in (query, *ranking.ids)
    ):
        write_run(rankings, folder / "run.csv")
        assert ids_of(read_run(folder / "run.csv")) == {
            query_id: list(ranking.ids) for query_id, ranking in rankings.items() if ranking.ids
        }


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
def test_records_hold_all_of_a_run(tmp_path: Path, form: str) -> None:
    write_run(FULL, file_of(tmp_path, form))
    assert read_run(file_of(tmp_path, form)) == FULL
    assert read_run(file_of(tmp_path, form), name="other").name == "other"


@pytest.mark.parametrize("form", WHOLE)
def test_runs_and_relevance_in_one_file(tmp_path: Path, form: str) -> None:
    relevance = {"q1": {"d1": 2, "d9": 0}, "q3": [], "unasked": ["d1"]}
    write_run(FULL, file_of(tmp_path, form), relevance=relevance)
    assert read_run(file_of(tmp_path, form)) == FULL
    # q2 has no judgements, and a query without a ranking no line
    if form == "jsonl":
        with pytest.warns(LinesSkipped, match="line 2: expected a field 'expected_ids'"):
            qrels = read_qrels(file_of(tmp_path, form), on_error="skip")
    else:
        with pytest.warns(LinesSkipped, match="row 2: expected a field 'expected_ids'"):
            qrels = read_qrels(file_of(tmp_path, form), on_error="skip")
    assert qrels == {"q1": Relevance({"d1": 2, "d9": 0}), "q3": Relevance([])}


@pytest.mark.parametrize("form", [*BY_SCORE, *TABLES])
def test_what_would_change_a_score_or_a_count_is_refused_unless_lossy(
    tmp_path: Path, form: str
) -> None:
    path = file_of(tmp_path, form)
    with pytest.raises(FormatTooNarrow, match=r"failed on 'q2'|twice in one ranking \('q1'\)"):
        write_run(FULL, path)
    assert list(tmp_path.iterdir()) == []
    write_run(FULL, path, lossy=True)
    again = read_run(path)
    assert list(again["q1"].ids) == (["d1", "d2", "d1"] if form in TABLES else ["d1", "d2"])
    metrics = ["ap", "ndcg@10", "mrr"]
    expected = {"q1": ["d2"], "q2": ["d1"]}
    scores = score_rankings(expected, again, metrics), score_rankings(expected, FULL, metrics)
    assert scores[0].means == scores[1].means


@pytest.mark.parametrize(
    ("form", "query_id", "item"),
    [
        ("trec", "q 1", "d"),
        ("trec", "q", "d\n"),
        ("trec", "", "d"),
        ("trec", "\ufeffq", "d"),
        ("tsv", "q", "d\t1"),
        ("tsv", "q", "d\r1"),
        ("csv", "q", "d\ud800"),
    ],
)
def test_ids_that_would_break_a_file_are_refused(
    tmp_path: Path, form: str, query_id: str, item: str
) -> None:
    with pytest.raises(
        FormatTooNarrow, match=r"can't hold the id.* JSONL holds everything"
    ) as caught:
        write_run({query_id: [item]}, file_of(tmp_path, form))
    assert "lossy" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


grades = st.integers(-2, 5)
nested_qrels = st.dictionaries(
    in_columns, st.dictionaries(in_columns, grades, min_size=1, max_size=5), max_size=4
)


@pytest.mark.parametrize("form", ["trec", "beir", "jsonl", "json", "csv", "parquet", "arrow"])
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


def test_grades_that_are_not_whole(tmp_path: Path) -> None:
    for form in ("beir", "jsonl", "json", "csv", "parquet", "arrow"):
        write_qrels({"q": {"d": 0.5}}, file_of(tmp_path, form))
        assert read_qrels(file_of(tmp_path, form)) == {"q": Relevance({"d": 0.5})}
    with pytest.raises(FormatTooNarrow, match=r"grade 0\.5, since trec_eval cuts it off"):
        write_qrels({"q": {"d": 0.5}}, tmp_path / "qrels")


def test_groups_are_for_json_and_jsonl(tmp_path: Path) -> None:
    relevance = {"q": Relevance.groups([["a", "b"], ["c"]])}
    for form in ("json", "jsonl"):
        write_qrels(relevance, file_of(tmp_path, form))
        assert read_qrels(file_of(tmp_path, form)) == relevance
    for form in ("trec", "beir", "csv", "parquet", "arrow"):
        with pytest.raises(FormatTooNarrow, match=r"groups of alternatives \('q'\). JSONL holds"):
            write_qrels(relevance, tmp_path / "x", form)


def test_a_field_called_skipped_drops_no_judgements_of_a_whole_query(tmp_path: Path) -> None:
    path = tmp_path / "qrels.jsonl"
    path.write_text('{"query_id": "q", "expected_ids": ["a"], "skipped": false}\n')
    assert read_qrels(path) == {"q": Relevance(["a"])}


def test_nothing_relevant_and_no_document_judged(tmp_path: Path) -> None:
    for form in ("json", "jsonl", "parquet", "arrow"):
        write_qrels({"q": []}, file_of(tmp_path, form))
        assert read_qrels(file_of(tmp_path, form)) == {"q": Relevance([])}
    for form in ("trec", "beir", "csv"):
        with pytest.raises(FormatTooNarrow, match="a question of which no passage is labelled"):
            write_qrels({"q": []}, tmp_path / "x", form)


@pytest.mark.parametrize("form", ["run.csv", "run.tsv", "run.jsonl", "run.parquet", "run.arrow"])
def test_a_score_that_is_none_is_read_back_as_none(tmp_path: Path, form: str) -> None:
    write_run({"q": Ranking(["a", "b"], [2.0, math.nan])}, tmp_path / form)
    assert read_run(tmp_path / form)["q"] == Ranking(["a", "b"], [2.0, None])


def test_a_query_id_equal_to_a_document_id(tmp_path: Path) -> None:
    write_run({"1": ["1", "2"], "2": ["1"]}, tmp_path / "run")
    write_qrels({"1": ["1"], "2": ["2"]}, tmp_path / "qrels")
    scores = score_rankings(read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run"), "mrr")
    assert scores.by_query("mrr") == {"1": 1.0, "2": 0.0}


def test_what_is_only_read_isnt_written(tmp_path: Path) -> None:
    written = "format: expected one of trec, jsonl, json, csv, tsv, parquet, arrow"
    with pytest.raises(InvalidInput, match=written):
        write_run({"q1": ["d1"]}, tmp_path / "run", "traces")
    with pytest.raises(InvalidInput, match=written):
        write_run({"q1": ["d1"]}, tmp_path / "run", "text")
    register_format("mine", [".mine"], run=lambda path: {})
    try:
        with pytest.raises(InvalidInput, match=f"{written}, got 'mine'"):
            write_run({"q1": ["d1"]}, tmp_path / "run.mine")
    finally:
        unregister_format("mine")


def test_format_overrules_the_name(tmp_path: Path) -> None:
    write_run({"q": ["a", "b"]}, tmp_path / "file.csv", "trec")
    assert (tmp_path / "file.csv").read_text() == "q Q0 a 1 2.0 file\nq Q0 b 2 1.0 file\n"
    assert ids_of(read_run(tmp_path / "file.csv", format="trec")) == {"q": ["a", "b"]}


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
