"""Runs and qrels in and out: every format there and back, and what other tools hold in memory."""

from __future__ import annotations

import gzip
import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Span,
    read_qrels,
    read_run,
    score_rankings,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.errors import (
    FileFormatError,
    FormatTooNarrow,
    InvalidInput,
    LinesSkipped,
    MissingExtra,
    UnknownFormat,
)

pa = pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pl = pytest.importorskip("polars", reason="the extra batch isn't installed")

WHOLE = ("jsonl", "parquet", "arrow")
BY_SCORE = ("trec", "json")
TABLES = ("csv", "tsv")
ENDINGS = {"trec": "trec", "beir": "tsv", "arrow": "feather"}


def ids_of(run: Run) -> dict[str, list[str]]:
    return {query_id: list(ranking.ids) for query_id, ranking in run.items()}


def scores_of(run: Run) -> dict[str, list[float | None]]:
    return {query_id: list(ranking.scores or []) for query_id, ranking in run.items()}


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


@settings(deadline=None)
@given(rankings_of(in_columns))
def test_a_trec_run_keeps_the_order(folder: Path, rankings: dict[str, Ranking]) -> None:
    for name in ("run.trec", "run.run.gz"):
        write_run(Run(rankings, name="my run"), folder / name)
        again = read_run(folder / name)
        assert ids_of(again) == {
            query_id: list(ranking.ids) for query_id, ranking in rankings.items() if ranking.ids
        }
        assert again.name == ("my-run" if again else "run")


@settings(deadline=None)
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
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
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
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
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
        with pytest.raises(FormatTooNarrow, match="a judgement of no document at all"):
            write_qrels({"q": []}, tmp_path / "x", form)


# trec_eval's rules: 2.0 first; among the three 1.0 the highest id, b over a over A, by bytes
TREC = """\
q1 Q0 a 1 1.0 first
q1 Q0 A 2 1.0 first
q2 Q0 d 1 -3 first
q1 Q0 b 3 1.0 first
q1 Q0 é 4 1e0 first
q1 Q0 c 9 2.0 last
"""


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("text", [TREC, TREC.replace("\n", "\r\n"), "\ufeff\n" + TREC + "\n \t\n"])
def test_a_trec_run_is_ordered_as_trec_eval_does(tmp_path: Path, text: str, pack: bool) -> None:
    raw = text.encode()
    (tmp_path / "some.run").write_bytes(gzip.compress(raw) if pack else raw)
    path = tmp_path / "some.run"
    if pack:
        path = path.rename(tmp_path / "some.run.gz")
    run = read_run(path)
    assert ids_of(run) == {"q1": ["c", "é", "b", "a", "A"], "q2": ["d"]}
    assert scores_of(run) == {"q1": [2.0, 1.0, 1.0, 1.0, 1.0], "q2": [-3.0]}
    assert run.name == "last"


def test_scores_are_compared_as_64_bit_floats(tmp_path: Path) -> None:
    # equal as 32-bit floats, where the tie would put b first
    (tmp_path / "run").write_text("q Q0 a 1 1.00000000002 t\nq Q0 b 2 1.00000000001 t\n")
    assert ids_of(read_run(tmp_path / "run")) == {"q": ["a", "b"]}


BAD_RUNS = [
    ("q1 Q0 d1 1 0.5", "6 columns: query id, Q0, document id, rank, score, tag, got 'q1 Q0 d1 1"),
    ("q1 Q0 my doc 1 0.5 t", "6 columns"),
    ("q1 Q0 d1 1 nan t", "a score, a number, got 'nan'"),
    ("q1 Q0 d1 1 1_0 t", "a score, a number, got '1_0'"),
    ("q1 Q0 d1 1 high t", "a score, a number, got 'high'"),
    ("ok Q0 d1 1 0.1 t", "every document once a query, got 'ok d1'"),
]


@pytest.mark.parametrize(("line", "wording"), BAD_RUNS)
def test_a_bad_line_of_a_run_ends_the_read_or_is_skipped(
    tmp_path: Path, line: str, wording: str
) -> None:
    path = tmp_path / "run.txt"
    path.write_text(f"ok Q0 d1 1 0.5 t\n{line}\nok Q0 d2 2 0.7 t\n")
    with pytest.raises(FileFormatError) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}, line 2: expected {wording}")
    with pytest.warns(LinesSkipped) as warned:
        run = read_run(path, on_error="skip")
    assert warned[0].filename == __file__
    assert str(warned[0].message) == f"1 skipped: {caught.value}"
    assert ids_of(run) == {"ok": ["d2", "d1"]}
    assert [str(error) for error in run.skipped] == [str(caught.value)]


def test_what_is_skipped_is_counted_and_listed(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_bytes(b"q 0 d1 1\nq 0 d1\n\xff\xfe\nq 0 d2 x\nq 0 d1 2\nq d\n")
    with pytest.warns(LinesSkipped, match=r"^5 skipped: .*line 2.*line 3.*line 4.* And 2 more"):
        qrels = read_qrels(tmp_path / "qrels", on_error="skip")
    assert qrels == {"q": Relevance({"d1": 1})}
    assert [error.line for error in qrels.skipped] == [2, 3, 4, 5, 6]
    with pytest.raises(InvalidInput, match="on_error: expected 'raise' or 'skip', got 'ignore'"):
        read_qrels(tmp_path / "qrels", on_error="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["run.csv", "run.tsv", "run.jsonl", "run.parquet", "run.arrow"])
def test_a_score_that_is_none_is_read_back_as_none(tmp_path: Path, form: str) -> None:
    write_run({"q": Ranking(["a", "b"], [2.0, math.nan])}, tmp_path / form)
    assert read_run(tmp_path / form)["q"] == Ranking(["a", "b"], [2.0, None])


def test_ids_in_braces_are_no_json(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("{5F1A} Q0 [d1] 1 0.5 t\n")
    assert ids_of(read_run(tmp_path / "run")) == {"{5F1A}": ["[d1]"]}
    (tmp_path / "qrels").write_text("[1] 0 {d1} 1\n")
    assert read_qrels(tmp_path / "qrels") == {"[1]": Relevance(["{d1}"])}


def test_a_gzip_file_cut_off_is_an_error_even_when_skipping(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"q Q0 d%d 1 0.5 t\n" % number for number in range(9999)))
    (tmp_path / "run.gz").write_bytes(whole[:-20])
    with pytest.raises(FileFormatError, match="a whole gzip file"):
        read_run(tmp_path / "run.gz", on_error="skip")


@pytest.mark.parametrize(
    "name", ["run", "run.gz", "r.csv", "r.tsv", "r.jsonl", "r.json", "r.parquet", "r.arrow"]
)
def test_an_empty_file_is_an_empty_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    assert read_run(tmp_path / name) == Run()
    assert read_qrels(tmp_path / name) == {}


def test_a_query_id_equal_to_a_document_id(tmp_path: Path) -> None:
    write_run({"1": ["1", "2"], "2": ["1"]}, tmp_path / "run")
    write_qrels({"1": ["1"], "2": ["2"]}, tmp_path / "qrels")
    scores = score_rankings(read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run"), "mrr")
    assert scores.by_query("mrr") == {"1": 1.0, "2": 0.0}


CSV_RUNS = {
    "by rank": ("query_id,doc_id,rank\nq,a,2\nq,b,1\n", ["b", "a"]),
    "rank over score": ("qid,docno,score,rank\nq,a,9,1\nq,b,1,0\n", ["b", "a"]),
    "by score, ties by id": ("q_id,doc_id,score\nq,a,1\nq,b,1\nq,c,2\n", ["c", "b", "a"]),
    "as they come": ("\ufeffquery_id,doc_id\r\nq,a\r\nq,b\r\nq,a\r\n", ["a", "b", "a"]),
    "quoted": ('query_id,doc_id,rank\nq,"a,1\n2",1\n', ["a,1\n2"]),
    "lists": ('query_id,retrieved_ids\nq,"[""a"", ""b""]"\n', ["a", "b"]),
}


@pytest.mark.parametrize(("text", "ids"), CSV_RUNS.values(), ids=CSV_RUNS)
def test_csv_runs(tmp_path: Path, text: str, ids: list[str]) -> None:
    (tmp_path / "run.csv").write_bytes(text.encode())
    assert ids_of(read_run(tmp_path / "run.csv")) == {"q": ids}
    if '"' not in text:
        (tmp_path / "run.tsv").write_bytes(text.replace(",", "\t").encode())
        assert ids_of(read_run(tmp_path / "run.tsv")) == {"q": ids}


CSV_ERRORS = [
    ("query,document\nq,a", 2, "a field 'retrieved_ids', or 'doc_id' with a 'score' or a 'rank'"),
    ("query_id,doc_id,rank\nq,a,1\nq,b,1", 3, "every rank once a query, got 'q 1.0'"),
    ("query_id,doc_id,rank\nq,a,1\nq,b,", 3, "a rank, a number, as in the first record"),
    ("query_id,doc_id,score\nq,a,1\nq,b,x", 3, "a number, got 'x'"),
    ("query_id,doc_id,score\nq,a,1\nq,a,2", 3, "every document once a query, got 'q a'"),
    ("query_id,doc_id,score\nq,a,1,2", 2, r"3 cells, got ['2']"),
    ("query_id,doc_id,score\n,a,1", 2, "an id, a text that isn't empty, got None"),
    ('query_id,doc_id\nq,"a', 2, "CSV (unexpected end of data)"),
    ("query_id,retrieved_ids\nq,a", 2, "a list, got 'a'"),
]


@pytest.mark.parametrize(("text", "line", "wording"), CSV_ERRORS)
def test_errors_in_csv_runs(tmp_path: Path, text: str, line: int, wording: str) -> None:
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}, line {line}: expected {wording}")


JSONL_ERRORS = [
    ('{"query_id": "q"}', "a field 'retrieved_ids'"),
    ('{"query_id": "q", "retrieved_ids": "a"}', "a list, got 'a'"),
    ('{"query_id": "q", "retrieved_ids": [null]}', "an id, a text that isn't empty, got None"),
    ('{"query_id": "q", "retrieved_ids": ["a"], "scores": [1, 2]}', "lists of the same length"),
    ('{"query_id": "q", "retrieved_ids": ["a"], "scores": ["x"]}', "a number, got 'x'"),
    ('{"query_id": "q", "retrieved_ids": ["a"], "spans": [[1]]}', "a span: source, start and end"),
    ('{"query_id": "ok", "retrieved_ids": []}', "every query id once, got 'ok'"),
    ('{"query_id": "q", "query_id": "r", "retrieved_ids": []}', "every key once, got 'query_id'"),
    ("[1]", "a record, {field: value}"),
    ("{", "JSON (Expecting property name"),
]


@pytest.mark.parametrize(("line", "wording"), JSONL_ERRORS)
def test_errors_in_jsonl_runs(tmp_path: Path, line: str, wording: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"query_id": "ok", "retrieved_ids": ["a"]}}\n{line}\n')
    with pytest.raises(FileFormatError) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}, line 2: expected {wording}")
    with pytest.warns(LinesSkipped):
        assert ids_of(read_run(path, on_error="skip")) == {"ok": ["a"]}


QRELS_TEXTS = {
    "trec": "q 0 d1 2\nq 0 d2 0\n",
    "trec with tabs": "q\t0\td1\t2\r\nq\t0\td2\t0\r\n",
    "trec with tabs and spaces": "q 0\td1\t2\nq 0\td2\t0\n",
    "trec with two tabs in all": "q\t0 d1\t2\nq\t0 d2\t0\n",
    "trec with two tabs each": "q\t\t0\t\td1\t\t2\nq\t\t0\t\td2\t\t0\n",
    "trec below a comment": "# two\ttabs\there\nq\t0 d1\t2\nq\t0 d2\t0\n",
    "beir": "query-id\tcorpus-id\tscore\nq\td1\t2\nq\td2\t0\n",
    "beir without headings": "q\td1\t2\nq\td2\t0\n",
    "named columns in another order": "doc_id\tlabel\tqid\nd1\t2\tq\nd2\t0\tq\n",
}


@pytest.mark.parametrize("ending", [".tsv", ".txt", ".tsv.gz"])
@pytest.mark.parametrize("text", QRELS_TEXTS.values(), ids=QRELS_TEXTS)
def test_qrels_in_columns_are_told_apart(tmp_path: Path, text: str, ending: str) -> None:
    raw = text.encode()
    path = tmp_path / f"qrels{ending}"
    path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    assert read_qrels(path) == {"q": Relevance({"d1": 2, "d2": 0})}


def test_a_bad_parquet_file_and_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "run.parquet").write_text("no parquet")
    with pytest.raises(FileFormatError, match=r"run\.parquet: expected a Parquet file"):
        read_run(tmp_path / "run.parquet")
    (tmp_path / "run.arrow").write_text("no arrow at all")
    with pytest.raises(FileFormatError, match="expected an Arrow IPC or Feather file"):
        read_run(tmp_path / "run.arrow")
    table = pa.table({"query_id": ["q", "r"], "retrieved_ids": [["a"], None]})
    pa.parquet.write_table(table, tmp_path / "run.parquet")
    with pytest.raises(FileFormatError, match=r"run\.parquet, row 2: expected a field 'retrieved_"):
        read_run(tmp_path / "run.parquet")


def test_an_arrow_stream(tmp_path: Path) -> None:
    table = pa.table({"query_id": [1, 2], "retrieved_ids": [[7, 8], []], "other": ["x", "y"]})
    with pa.ipc.new_stream(str(tmp_path / "run.arrow"), table.schema) as stream:
        stream.write_table(table)
    assert ids_of(read_run(tmp_path / "run.arrow")) == {"1": ["7", "8"], "2": []}


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (read_run, read_qrels, lambda path: write_run({"q": ["a"]}, path)):
        with pytest.raises(MissingExtra, match=r"pip install 'llama-index-rag-metrics\[batch\]'"):
            use(tmp_path / "run.parquet")


LONG = {"query_id": ["q", "q", "q"], "doc_id": ["a", "b", "c"], "score": [0.5, 0.5, 0.75]}
RANX = {"q_id": ["q", "q", "q"], "doc_id": ["a", "b", "c"], "score": [0.5, 0.5, 0.75]}
WIDE = {"query_id": ["q"], "retrieved_ids": [["c", "b", "a"]]}


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    made = [pd.DataFrame(columns), pl.DataFrame(columns), pl.DataFrame(columns).lazy()]
    return [*made, pa.table(columns), pa.RecordBatch.from_pydict(columns)]


@pytest.mark.parametrize("columns", [LONG, RANX, WIDE], ids=["long", "ranx", "wide"])
@pytest.mark.parametrize("kind", range(5), ids=["pandas", "polars", "lazy", "table", "batch"])
def test_runs_of_data_frames(columns: dict[str, list[Any]], kind: int) -> None:
    assert ids_of(read_run(frames(columns)[kind])) == {"q": ["c", "b", "a"]}


@pytest.mark.parametrize("kind", range(5), ids=["pandas", "polars", "lazy", "table", "batch"])
def test_qrels_of_data_frames(kind: int) -> None:
    long: dict[str, Any] = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "relevance": [2, 0]}
    wide: dict[str, Any] = {"query_id": ["q"], "expected_ids": [["a", "b"]], "grades": [[2.0, 0.0]]}
    binary = {"query_id": ["q"], "expected_ids": [["a"]]}
    expected = {"q": Relevance({"a": 2, "b": 0})}
    assert read_qrels(frames(long)[kind]) == read_qrels(frames(wide)[kind]) == expected
    assert read_qrels(frames(binary)[kind]) == {"q": Relevance(["a"])}  # type: ignore[arg-type]


def test_a_frame_with_a_missing_score_and_an_index() -> None:
    frame = pd.DataFrame({**LONG, "score": [0.5, None, 1.0]}).set_index("query_id")
    with pytest.raises(FileFormatError, match="data frame, row 2: expected a number, got nan"):
        read_run(frame)
    with pytest.warns(LinesSkipped):
        assert ids_of(read_run(frame, on_error="skip")) == {"q": ["c", "a"]}


def test_datasets_of_polars_and_arrow_need_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"query_id": ["q"], "query": ["why?"], "relevance": [["a"]]}
    monkeypatch.setitem(sys.modules, "pandas", None)
    for frame in (pl.DataFrame(columns), pl.DataFrame(columns).lazy(), pa.table(columns)):
        dataset = RetrievalDataset.of(frame)
        assert dataset.queries == {"q": "why?"}
        assert dataset.relevance == {"q": Relevance(["a"])}


class ScoredDoc(NamedTuple):
    """As ir_measures has it."""

    query_id: str
    doc_id: str
    score: float


class Qrel(NamedTuple):
    """As ir_measures has it."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


def test_iterables_of_scored_documents_and_judgements() -> None:
    scored = (ScoredDoc("q", item, score) for item, score in [("a", 0.5), ("b", 0.5), ("c", 1)])
    assert ids_of(read_run(scored)) == {"q": ["c", "b", "a"]}
    judged = [Qrel("q", "a", 2), Qrel("q", "b", 0)]
    assert read_qrels(iter(judged)) == {"q": Relevance({"a": 2, "b": 0})}
    assert ids_of(read_run([{"query_id": "q", "retrieved_ids": ["a"]}])) == {"q": ["a"]}
    with pytest.raises(FileFormatError, match="item 2: expected every judgement once, got 'q a'"):
        read_qrels([judged[0], judged[0]])


def test_ir_measures_itself() -> None:
    peer = pytest.importorskip("ir_measures", reason="ir_measures isn't installed")
    text = "q Q0 a 1 0.5 t\nq Q0 b 2 0.5 t\nq Q0 c 3 0.7 t\n"
    assert ids_of(read_run(peer.read_trec_run(text))) == {"q": ["c", "b", "a"]}
    assert read_qrels(peer.read_trec_qrels("q 0 a 2\n")) == {"q": Relevance({"a": 2})}


def test_ranx_itself() -> None:
    ranx = pytest.importorskip("ranx", reason="ranx isn't installed: it needs numba")
    nested = {"q": {"a": 0.5, "b": 0.5, "c": 0.75}}
    run = read_run(ranx.Run(nested, name="bm25"))
    assert (ids_of(run), run.name) == ({"q": ["c", "b", "a"]}, "bm25")
    assert read_qrels(ranx.Qrels({"q": {"a": 2}})) == {"q": Relevance({"a": 2})}
    assert ids_of(read_run(ranx.Run(nested).to_dataframe())) == {"q": ["c", "b", "a"]}


def test_nested_dicts() -> None:
    run = read_run({1: {10: 0.5, 20: 0.7}, "q": ["b", "a"], "r": Ranking(["x"])}, name="mine")
    assert ids_of(run) == {"1": ["20", "10"], "q": ["b", "a"], "r": ["x"]}
    assert run.name == "mine"
    assert read_run(run) == run
    assert read_run(run, name="other").name == "other"
    judged = read_qrels({"q": {"a": 1, "b": 0}, "r": ["x"], "g": [["x", "y"]]})
    assert judged["g"].alternatives == (("x", "y"),)
    assert read_qrels(judged) is judged


@pytest.mark.parametrize(
    ("nested", "wording"),
    [
        ({"q": {"a": float("nan")}}, "query 'q': expected a score, a number, got nan"),
        ({"q": {"a": "high"}}, "query 'q': expected a score, a number, got 'high'"),
        ({"q": {1: 0.5, "1": 0.7}}, "query 'q': expected every document once"),
        ({1: ["a"], "1": ["b"]}, "query '1': expected every query id once"),
        ({"q": "a"}, "query 'q': expected a list, got 'a'"),
        ({"q": None}, "query 'q': expected a list, got None"),
    ],
)
def test_errors_in_nested_dicts(nested: dict[Any, Any], wording: str) -> None:
    with pytest.raises(FileFormatError, match=wording):
        read_run(nested)
    with pytest.warns(LinesSkipped):
        assert len(read_run(nested, on_error="skip")) <= 1


def test_what_is_nothing_of_the_kind(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownFormat, match=r"this int isn't a run: .* Supported forms: a TREC run"
    ):
        read_run(7)
    with pytest.raises(UnknownFormat, match="isn't qrels: it is a folder"):
        read_qrels(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "none")
    with pytest.raises(InvalidInput, match="format: expected one of trec, jsonl, json, csv, tsv"):
        read_run(tmp_path / "none", format="beir")
    with pytest.raises(InvalidInput, match="format: expected one of trec, beir, jsonl"):
        write_qrels({}, tmp_path / "x", "xlsx")
    with pytest.raises(InvalidInput, match="a path to a file of that format as the source"):
        read_run({}, format="json")
    with pytest.raises(InvalidInput, match="which hold relevance, too"):
        write_run({}, tmp_path / "x", relevance={})


def test_format_overrules_the_name(tmp_path: Path) -> None:
    write_run({"q": ["a", "b"]}, tmp_path / "file.csv", "trec")
    assert (tmp_path / "file.csv").read_text() == "q Q0 a 1 2.0 file\nq Q0 b 2 1.0 file\n"
    assert ids_of(read_run(tmp_path / "file.csv", format="trec")) == {"q": ["a", "b"]}


def test_a_format_that_is_given_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "run.tsv").write_text("q\tQ0\ta\t1\t0.5\tt\n")
    assert ids_of(read_run(tmp_path / "run.tsv")) == {"q": ["a"]}
    assert read_run(tmp_path / "run.tsv", format="tsv") == Run()  # the line is its headings
    assert read_qrels(RetrievalDataset({"q": "?"}, {"q": {"a": 2}})) == {"q": Relevance({"a": 2})}


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
