"""Runs and qrels there and back, in every format; repeats, and every call of agents."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.command_line import columns_of, run
from support.examples import examples
from support.runs import ids_of

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    Run,
    Span,
    read_qrels,
    read_run,
    score_rankings,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.rankings.run import Call, combine_calls
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pl = pytest.importorskip("polars", reason="the extra batch isn't installed")

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
def test_trec_run_keeps_the_order(folder: Path, rankings: dict[str, Ranking]) -> None:
    for name in ("run.trec", "run.run.gz"):
        write_run(Run(rankings, name="my run"), folder / name)
        again = read_run(folder / name)
        assert ids_of(again) == {
            query_id: list(ranking.ids) for query_id, ranking in rankings.items() if ranking.ids
        }
        assert again.name == ("my-run" if again else "run")


@pytest.mark.parametrize("form", WHOLE)
@given(rankings=rankings_of(anything))
def test_records_hold_all_rankings(folder: Path, form: str, rankings: dict[str, Ranking]) -> None:
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
def test_whole_run_in_one_file(tmp_path: Path, form: str) -> None:
    write_run(FULL, file_of(tmp_path, form))
    assert read_run(file_of(tmp_path, form)) == FULL
    assert read_run(file_of(tmp_path, form), name="other").name == "other"
    with pytest.raises(FileFormatError, match="1: expected a field 'expected_ids'"):
        read_qrels(file_of(tmp_path, form))


def test_run_whose_score_or_count_would_change_is_refused(tmp_path: Path) -> None:
    twice = Run({"q1": ["d1", "d2", "d1"]})
    failing, repeating = "that the retriever failed", "an id twice in one ranking"
    for one, wording in ((FULL, failing), (twice, repeating)):
        with pytest.raises(InvalidInput, match=wording):
            write_run(one, tmp_path / "run.trec")
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
    fraction, nothing = Relevance({"d": 0.5}), Relevance([])
    grouped, faceted = Relevance(groups=[["a", "b"], ["c"]]), Relevance(facets={"x": ["a"]})
    refused = {"a.trec": [fraction, grouped, nothing], "a.parquet": [grouped, faceted]}
    for name, labels in refused.items():
        for judged in labels:
            with pytest.raises(InvalidInput):
                write_qrels({"q": judged}, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    held = {"a.jsonl": [fraction, grouped, nothing], "a.parquet": [fraction, nothing]}
    for name, labels in held.items():
        for judged in labels:
            write_qrels({"q": judged}, tmp_path / name)
            assert read_qrels(tmp_path / name) == {"q": judged}


def test_field_called_skipped_drops_no_judgements_of_a_whole_query(tmp_path: Path) -> None:
    path = tmp_path / "qrels.jsonl"
    path.write_text('{"query_id": "q", "expected_ids": ["a"], "skipped": false}\n')
    assert read_qrels(path) == {"q": Relevance(["a"])}


def test_scores_of_a_run_are_written_where_they_stand_for_its_order(tmp_path: Path) -> None:
    run = {"q1": Ranking(["a", "b"], [0.75, 0.5]), "q2": Ranking(["a", "b"], [0.5, 0.5])}
    write_run(Run(run, name="bm25"), tmp_path / "run")
    # the tie of q2 would put b first, so ranks are written
    assert (tmp_path / "run").read_text().splitlines() == [
        "q1 Q0 a 1 0.75 bm25",
        "q1 Q0 b 2 0.5 bm25",
        "q2 Q0 a 1 2.0 bm25",
        "q2 Q0 b 2 1.0 bm25",
    ]


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
        "failed": Ranking([], error="TimeoutError: stopped", calls=(FOUND,)),
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
    write_run(SESSIONS, path := tmp_path / "run.parquet")
    for read in (pl.read_parquet, pd.read_parquet):  # arrays inside of dicts inside of arrays
        assert read_run(read(path)) == SESSIONS


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@settings(examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.dictionaries(texts.filter(bool), rankings, max_size=3))
def test_sessions_of_any_kind(tmp_path: Path, form: str, made: dict[str, Ranking]) -> None:
    path = tmp_path / f"run.{form}"
    write_run(made, path)
    assert read_run(path) == Run(made)


JUDGED = {"q1": ["a"], "q2": ["b"]}
FIRST, SECOND = {"q1": ["a", "x"], "q2": ["x", "b"]}, {"q1": ["x", "a"], "q2": ["b"]}
THRICE = Run(repeats=[Run(FIRST), Run(SECOND), Run({"q1": ["x"]})], name="agent")


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_repeats_go_there_and_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"agent.{ending}"
    write_run(THRICE, path)
    again = read_run(path)
    assert [*map(ids_of, again.repeats)] == [*map(ids_of, THRICE.repeats)]
    scores = score_rankings(JUDGED, again, ["mrr"])
    # q1: 1, 1/2 and 0; q2: 1/2 and 1
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 0.75}


@pytest.mark.parametrize("ending", ["trec", "txt"])
def test_formats_that_tell_no_times_apart_say_so(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InvalidInput, match="which hold several runs of each question"):
        write_run(THRICE, tmp_path / f"run.{ending}")


def test_columns_of_other_tools_in_any_order() -> None:
    records: list[dict[str, Any]] = [
        {"query_id": "q1", "epoch": 7, "retrieved_ids": ["x", "a"]},
        {"query_id": "q1", "epoch": 2, "retrieved_ids": ["a"]},
        {"query_id": "q2", "epoch": 2, "retrieved_ids": ["b"]},
    ]
    asked = read_run(records, columns={"repeat": "epoch"})
    assert [*map(ids_of, asked.repeats)] == [{"q1": ["a"], "q2": ["b"]}, {"q1": ["x", "a"]}]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_tables_of_other_tools(tmp_path: Path, separator: str) -> None:
    rows = ["query_id repeat doc_id rank", "q1 1 a 1", "q1 1 x 2", "q2 1 b 1", "q1 2 x 1"]
    path = tmp_path / ("run.csv" if separator == "," else "run.tsv")
    path.write_text("\n".join(rows).replace(" ", separator), encoding="utf-8")
    asked = read_run(path)
    assert [*map(ids_of, asked.repeats)] == [{"q1": ["a", "x"], "q2": ["b"]}, {"q1": ["x"]}]
    scores = score_rankings(JUDGED, asked, "mrr")
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 1.0}
    # a line a passage can't tell a run in which nothing was retrieved from one that wasn't
    assert any("fewer than 2 runs: 1 of 2 questions" in note for note in scores.notes)


def test_time_given_twice_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = '{"query_id": "q1", "repeat": 2, "retrieved_ids": ["a"]}\n'
    path.write_text(2 * line, encoding="utf-8")
    with pytest.raises(FileFormatError, match="line 2: expected every query id once"):
        read_run(path)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_stored_repeats_on_the_command_line(tmp_path: Path, ending: str) -> None:
    path, page = tmp_path / f"run.{ending}", tmp_path / "page.html"
    write_run(THRICE, path)
    write_qrels(JUDGED, tmp_path / "qrels.jsonl")
    qrels = str(tmp_path / "qrels.jsonl")
    shown = run("score", str(path), "--qrels", qrels, "-m", "mrr", "--html", str(page))
    assert shown.exit_code == 0, shown.output
    assert columns_of(shown.stdout)["mrr"] == ["0.62"]  # the mean of 0.5 and 0.75 is 0.625
    assert "Asked 3 times, 2 of 2 questions score differently" in " ".join(shown.stdout.split())
    assert "differently from run to run on mrr" in page.read_text(encoding="utf-8")
