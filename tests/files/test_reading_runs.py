"""Runs and qrels of files: how they are ordered and told apart, and what is wrong in them."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
from support.runs import ids_of

from llama_index_rag_metrics import Relevance, Run, read_qrels, read_run, write_run
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, MissingExtra

pa = pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pytest.importorskip("polars", reason="the extra batch isn't installed")


def scores_of(run: Run) -> dict[str, list[float | None]]:
    return {query_id: list(ranking.scores or []) for query_id, ranking in run.items()}


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
    ("ok Q0 d1 1 0.1 t", "every document once a question, got 'ok d1'"),
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


def test_ids_in_braces_are_no_json(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("{5F1A} Q0 [d1] 1 0.5 t\n")
    assert ids_of(read_run(tmp_path / "run")) == {"{5F1A}": ["[d1]"]}
    (tmp_path / "qrels").write_text("[1] 0 {d1} 1\n")
    assert read_qrels(tmp_path / "qrels") == {"[1]": Relevance(["{d1}"])}


@pytest.mark.parametrize("name", ["run", "run.gz", "r.csv", "r.tsv", "r.jsonl"])
def test_an_empty_file_is_an_empty_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    assert read_run(tmp_path / name) == Run()
    assert read_qrels(tmp_path / name) == {}


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
    ("query_id,doc_id,rank\nq,a,1\nq,b,1", 3, "every document and every rank once a question"),
    ("query_id,doc_id,rank\nq,a,1\nq,b,", 3, "a rank, a number, as in the first record"),
    ("query_id,doc_id,score\nq,a,1\nq,b,x", 3, "a number, got"),
    ("query_id,doc_id,score\nq,a,1\nq,a,2", 3, "every document and every rank once a question"),
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
    ('{"query_id": "q", "retrieved_ids": ["a"], "scores": ["x"]}', "the values of 'scores', got"),
    (
        '{"query_id": "q", "retrieved_ids": ["a"], "spans": [[1]]}',
        "spans, {source, start, end} each",
    ),
    ('{"query_id": "ok", "retrieved_ids": []}', "every query id once"),
    (
        '{"query_id": "q", "query_id": "r", "retrieved_ids": []}',
        "JSON (every key once, got 'query_id' again",
    ),
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


QRELS_TEXTS = {
    "trec": "q 0 d1 2\nq 0 d2 0\n",
    "trec with tabs": "q\t0\td1\t2\r\nq\t0\td2\t0\r\n",
    "trec with tabs and spaces": "q 0\td1\t2\nq 0\td2\t0\n",
    "trec with two tabs in all": "q\t0 d1\t2\nq\t0 d2\t0\n",
    "trec with two tabs each": "q\t\t0\t\td1\t\t2\nq\t\t0\t\td2\t\t0\n",
    "trec below a comment": "# two\ttabs\there\nq\t0 d1\t2\nq\t0 d2\t0\n",
}
QRELS_TABLES = {
    "beir": "query-id\tcorpus-id\tscore\nq\td1\t2\nq\td2\t0\n",
    "named columns in another order": "doc_id\tlabel\tqid\nd1\t2\tq\nd2\t0\tq\n",
}


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        *(
            (text, ending)
            for text in QRELS_TEXTS.values()
            for ending in (".tsv", ".txt", ".tsv.gz")
        ),
        *((text, ending) for text in QRELS_TABLES.values() for ending in (".tsv", ".tsv.gz")),
    ],
)
def test_qrels_in_columns_are_told_apart(tmp_path: Path, text: str, ending: str) -> None:
    raw = text.encode()
    path = tmp_path / f"qrels{ending}"
    path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    assert read_qrels(path) == {"q": Relevance({"d1": 2, "d2": 0})}


def test_trec_qrels(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 d1 2\n1\t0\td2\t-1\n\n2 Q0  d\u00a01 0\n", "utf-8")
    assert read_qrels(tmp_path / "qrels") == {
        "1": Relevance({"d1": 2, "d2": -1}),
        "2": Relevance({"d\u00a01": 0}),
    }


def test_comments_in_trec_qrels_are_no_judgements(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("# judged by 3\n1 0 d1 2\n  # also 0 1\n#1 0 d2 1\n1 0 #d 1\n")
    assert read_qrels(tmp_path / "qrels") == {"1": Relevance({"d1": 2, "#d": 1})}


def test_a_bad_parquet_file_and_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "run.parquet").write_text("no parquet")
    with pytest.raises(FileFormatError, match=r"run\.parquet: expected a Parquet file"):
        read_run(tmp_path / "run.parquet")
    (tmp_path / "run.parquet").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"run\.parquet: expected a Parquet file"):
        read_run(tmp_path / "run.parquet")
    table = pa.table({"query_id": ["q", "r"], "retrieved_ids": [["a"], None]})
    pa.parquet.write_table(table, tmp_path / "run.parquet")
    with pytest.raises(FileFormatError, match=r"run\.parquet, row 2: expected a field 'retrieved_"):
        read_run(tmp_path / "run.parquet")


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (read_run, read_qrels, lambda path: write_run({"q": ["a"]}, path)):
        with pytest.raises(MissingExtra, match=r"pip install .*\[batch\]'"):
            use(tmp_path / "run.parquet")


def test_what_is_nothing_of_the_kind(tmp_path: Path) -> None:
    with pytest.raises(
        FileFormatError, match=r"this int isn't a run: .* Supported forms: a TREC run"
    ):
        read_run(7)
    with pytest.raises(FileFormatError, match="isn't qrels: it is a folder"):
        read_qrels(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "none")
    with pytest.raises(InvalidInput, match="which hold relevance, too"):
        write_run({}, tmp_path / "x", relevance={})
