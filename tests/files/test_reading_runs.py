"""Runs and qrels of files: how they are ordered and told apart, and what is wrong in them."""

import csv
import gzip
import json
import subprocess
import sys
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.runs import ids_of

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    Run,
    read_qrels,
    read_run,
    write_run,
)
from llama_index_rag_metrics.files.fields import NAMES
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, MissingExtra

pa = pytest.importorskip("pyarrow", reason="Arrow's files need the extra `batch`")
pytest.importorskip("polars", reason="the extra batch isn't installed")


def scores_of(run: Run) -> dict[str, list[float | None]]:
    return {query_id: list(ranking.scores or []) for query_id, ranking in run.items()}


def error_of(path: Path, text: str) -> str:
    """What is wrong with a run of this text, after the name of its file."""
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_run(path)
    file, _, error = str(caught.value).partition(", ")
    assert file == str(path)
    return error


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
def test_trec_run_is_ordered_as_trec_eval_does(tmp_path: Path, text: str, pack: bool) -> None:
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
    ("q1 Q0 d1 1 0.5 tq1 Q0 d2 2 0.4 t", "6 columns"),  # two lines in one
    ("q1 Q0 d1 1 nan t", "a score, a number, got 'nan'"),
    ("q1 Q0 d1 1 1_0 t", "a score, a number, got '1_0'"),
    ("q1 Q0 d1 1 high t", "a score, a number, got 'high'"),
    ("ok Q0 d1 1 0.1 t", "every document once a question, got 'ok d1'"),
]


@pytest.mark.parametrize(("line", "wording"), BAD_RUNS)
def test_bad_line_of_a_run_ends_the_reading(tmp_path: Path, line: str, wording: str) -> None:
    error = error_of(tmp_path / "run.txt", f"ok Q0 d1 1 0.5 t\n{line}\nok Q0 d2 2 0.7 t\n")
    assert error.startswith(f"line 2: expected {wording}")


def test_numbers_of_records_are_those_of_trec(tmp_path: Path) -> None:
    (path := tmp_path / "run.csv").write_text("query_id,doc_id,score\nq,a,.4\nq,b,+1e-1\n")
    assert read_run(path)["q"].scores == [0.4, 0.1]
    lines = tmp_path / "run.jsonl"
    lines.write_text('{"query_id": "q", "retrieved_ids": ["a"], "scores": [NaN]}\n')
    with pytest.raises(FileFormatError, match="line 1: expected a score, a number, got nan"):
        read_run(lines)
    path.write_text("query_id;doc_id;score\nq;a;1\n")
    with pytest.raises(FileFormatError, match="line 1: expected commas, not semicolons"):
        read_run(path)


def test_ids_in_braces_are_no_json(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("{5F1A} Q0 [d1] 1 0.5 t\n")
    assert ids_of(read_run(tmp_path / "run")) == {"{5F1A}": ["[d1]"]}
    (tmp_path / "qrels").write_text("[1] 0 {d1} 1\n")
    assert read_qrels(tmp_path / "qrels") == {"[1]": Relevance(["{d1}"])}


@pytest.mark.parametrize("name", ["run", "run.gz", "r.csv", "r.tsv", "r.jsonl"])
def test_empty_file_is_an_empty_run(tmp_path: Path, name: str) -> None:
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
    error = error_of(tmp_path / "run.csv", text)
    assert error.startswith(f"line {line}: expected {wording}")


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
FIELD_ERRORS = [
    *((f'"repeat": {repeat}', "a number from 1 on") for repeat in ("true", 0, 1.5, '"one"', -1)),
    ('"retrieval_calls": 3', "a list of calls, got"),
    ('"retrieval_calls": [["a"]]', "a list of calls, got"),
    ('"retrieval_calls": [{"query": "x"}]', "a list, got None"),
    ('"retrieval_calls": [{"query": 1, "retrieved_ids": []}]', "texts, got"),
    ('"retrieval_calls": [{"retrieved_ids": ["a"], "scores": []}]', "lists of the same length"),
]
JSONL_ERRORS += [
    (f'{{"query_id": "q", "retrieved_ids": ["a"], {field}}}', said) for field, said in FIELD_ERRORS
]


@pytest.mark.parametrize(("line", "wording"), JSONL_ERRORS)
def test_errors_in_jsonl_runs(tmp_path: Path, line: str, wording: str) -> None:
    first = '{"query_id": "ok", "retrieved_ids": ["a"]}'
    error = error_of(tmp_path / "run.jsonl", f"{first}\n{line}\n")
    assert error.startswith(f"line 2: expected {wording}")


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
        *product(QRELS_TEXTS.values(), (".tsv", ".txt", ".tsv.gz")),
        *product(QRELS_TABLES.values(), (".tsv", ".tsv.gz")),
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


def test_bad_parquet_file_and_a_bad_row(tmp_path: Path) -> None:
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


def test_parquet_names_the_extra_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (read_run, read_qrels, lambda path: write_run({"q": ["a"]}, path)):
        with pytest.raises(MissingExtra, match=r"pip install .*\[batch\]'"):
            use(tmp_path / "run.parquet")


def test_source_that_is_nothing_of_the_kind(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"this int isn't a run: .* forms: a TREC run"):
        read_run(7)
    with pytest.raises(FileFormatError, match="isn't qrels: it is a folder"):
        read_qrels(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "none")


WIDE = [{"question_no": "q1", "hits": ["d2", "d1"], "gold": ["d1"]}]
LONG = [{"question_no": "q1", "passage": "d2", "score": 2.0}]


def test_columns_of_a_table_are_named() -> None:
    columns = {"query_id": "question_no", "retrieved_ids": "hits", "expected_ids": "gold"}
    for source in (pd.DataFrame(WIDE), WIDE):
        assert list(read_run(source, columns=columns)["q1"].ids) == ["d2", "d1"]
        assert list(read_qrels(source, columns=columns)["q1"]) == ["d1"]
    long = {"query_id": "question_no", "doc_id": "passage"}
    assert list(read_run(pd.DataFrame(LONG), columns=long)["q1"].ids) == ["d2"]


def test_column_called_like_the_field_gives_way() -> None:
    frame = pd.DataFrame([{"query_id": 7, "qid2": "q1", "retrieved_ids": ["a"]}])
    assert list(read_run(frame, columns={"query_id": "qid2"})) == ["q1"]


@pytest.mark.parametrize(
    ("source", "wording"),
    [
        (pd.DataFrame(WIDE), r"a field 'retrieved_ids'.*'gold', 'hits', 'question_no'"),
        (pd.DataFrame([{"doc_id": "d", "score": 1}]), r"a field 'query_id'.*'doc_id', 'score'"),
        ([{"retrieved_ids": ["d"], "no": 1}], r"a field 'query_id'.*'no', 'retrieved_ids'"),
    ],
)
def test_missing_field_is_named_with_what_is_there(source: Any, wording: str) -> None:
    with pytest.raises(FileFormatError, match=wording):
        read_run(source)


@pytest.mark.parametrize("name", NAMES["query_id"])
def test_ids_of_questions(name: str) -> None:
    rows = [{name: 0, "question": "What?", "expected_ids": ["d1"]}]
    assert RetrievalDataset.load(rows).relevance == read_qrels(rows) == {"0": ["d1"]}
    assert list(read_run([{name: 0, "retrieved_ids": ["d1"]}])) == ["0"]


def test_columns_of_a_dataset() -> None:
    golden = {"input": "Why?", "gold_ids": ["d1"], "context": ["T"], "query_id": "q1"}
    columns = {"question": "input", "labels": "gold_ids", "expected_texts": "context"}
    dataset = RetrievalDataset.load([golden], columns=columns)
    assert dataset == RetrievalDataset({"q1": "Why?"}, {"q1": ["d1"]}, expected_texts={"q1": ["T"]})
    with pytest.raises(FileFormatError, match=r"record 1: .*or columns=.*'gold_ids', 'input'"):
        RetrievalDataset.load([golden])
    with pytest.raises(InvalidInput, match="columns: expected fields such as"):
        RetrievalDataset.load([golden], columns={"prompt": "input"})


SEVERAL = [
    *("['d1', 'd2']", "{'d1': 2, 'd2': 1}", "d2,d3", "d2, d3", "d4|d5", "d4;d5", "d4 d5"),
    *("doc-a doc-b", "[d4, d5]", "[d4]", "array(['d1'])", "{{}}"),
]
ONE = ["d1", "Saturn's moons", "annual report 2023.pdf", "5F1A-09"]


def load(tmp_path: Path, form: str, name: str, text: str) -> RetrievalDataset:
    record = {"query_id": "q1", "query": "why?", name: text}
    path = tmp_path / form
    if form == "memory":
        return RetrievalDataset.load([record])
    if form == "pandas":
        pd = pytest.importorskip("pandas", reason="the extra pandas")
        return RetrievalDataset.load(pd.DataFrame([record]))
    if form == "arrow":
        pa = pytest.importorskip("pyarrow", reason="the extra batch")
        return RetrievalDataset.load(pa.Table.from_pylist([record]))
    if form == "table.csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([record.keys(), record.values()])
    else:
        path.write_text(json.dumps(record))
    return RetrievalDataset.load(path)


FORMS = pytest.mark.parametrize("form", ["memory", "lines.jsonl", "pandas", "arrow", "table.csv"])


@FORMS
@pytest.mark.parametrize("name", ["expected_ids", "relevance"])
def test_ids_are_one_or_several(tmp_path: Path, form: str, name: str) -> None:
    for text in ONE:
        assert load(tmp_path, form, name, text).relevance == {"q1": Relevance([text])}
    for text in SEVERAL:
        with pytest.raises(FileFormatError, match=r"(line \d|row 1|record 1): expected one id, a"):
            load(tmp_path, form, name, text)


@FORMS
def test_texts_are_one_or_several(tmp_path: Path, form: str) -> None:
    for name in ("expected_texts", "reference_contexts"):
        for text in ("why", "[1] a", "{{}}"):
            assert load(tmp_path, form, name, text).expected_texts == {"q1": [text]}
        with pytest.raises(FileFormatError, match="expected a list of texts, or"):
            load(tmp_path, form, name, "['a', 'b']")


@pytest.mark.parametrize(
    ("text", "relevance"),
    [
        ('["d1", "d2"]', Relevance(["d1", "d2"])),
        ("[1, 2]", Relevance(["1", "2"])),
        ('{"d1": 2, "d2": 0.5}', Relevance({"d1": 2, "d2": 0.5})),
        ('[["a", "b"], ["c"]]', Relevance(groups=[["a", "b"], ["c"]])),
        ("[]", Relevance([])),
        *((json.dumps([text]), Relevance([text])) for text in SEVERAL),
    ],
)
def test_json_in_csv(tmp_path: Path, text: str, relevance: Relevance) -> None:
    assert load(tmp_path, "table.csv", "expected_ids", text).relevance == {"q1": relevance}
    with pytest.raises(FileFormatError, match="expected one id, a list such as"):
        load(tmp_path, "pandas", "expected_ids", text)
    texts = load(tmp_path, "table.csv", "expected_texts", '["a", "b"]').expected_texts
    assert texts == {"q1": ["a", "b"]}
    assert load(tmp_path, "table.csv", "query", "[1, 2]").queries == {"q1": "[1, 2]"}
    assert load(tmp_path, "table.csv", "note", '{"a": 1}').metadata == {"q1": {"note": {"a": 1}}}
    for odd in ("{['a']}", "[" + "-" * 200_000 + "1]", "[" * 200_000):
        assert load(tmp_path, "table.csv", "note", odd).metadata == {"q1": {"note": odd}}


def test_cell_and_the_reading_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError) as caught:
        load(tmp_path, "table.csv", "expected_ids", "d2,d3")
    assert str(caught.value) == (
        f"{tmp_path / 'table.csv'}, line 2: expected one id, a list such as "
        '["d1", "d2"], or ["d2,d3"] if it is one id, got \'d2,d3\'.'
    )


@pytest.mark.parametrize(
    ("relevance", "wording"),
    [
        ({"facets": {"a": 1}}, "group: expected a collection of ids, got 1"),
        ({"facets": {"a": "d1"}}, "group: expected a collection of ids"),
        ({"groups": ["d1"]}, "group: expected a collection of ids"),
        ({"facets": {"a": ["d1"]}, "weights": [1]}, "expected spans, ids, {id: grade}, groups"),
    ],
)
def test_groups_are_lists(tmp_path: Path, relevance: Any, wording: str) -> None:
    for form, labels in (("memory", relevance), ("table.csv", json.dumps(relevance))):
        with pytest.raises(FileFormatError) as caught:
            load(tmp_path, form, "relevance", labels)
        assert wording in str(caught.value)


FLIP = """
    import random, sys
    from pathlib import Path
    from llama_index_rag_metrics import read_run, write_run
    from llama_index_rag_metrics.runtime.errors import RagMetricsError

    path, step = Path(sys.argv[1]), int(sys.argv[2])
    run = {f"q{n}": [f"d{n + k}" for k in range(5)] for n in range(30)}
    write_run(run, path)
    whole = path.read_bytes()
    rng = random.Random(step)
    for position in range(rng.randrange(step), len(whole), step):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            read_run(path)
        except RagMetricsError as error:
            # what can be read may have become other names and types: errors of the content
            named = [str(path), "in common", "column", "query"]
            assert any(name in str(error) for name in named), (position, error)
    for length in range(1, len(whole), step):
        path.write_bytes(whole[:length])
        try:
            read_run(path)
        except RagMetricsError as error:
            assert str(path) in str(error), (length, error)
        else:
            raise AssertionError(length)
"""


@pytest.mark.slow
def test_damaged_files_are_named_and_never_end_the_process(tmp_path: Path) -> None:
    script = [sys.executable, "-c", textwrap.dedent(FLIP), str(tmp_path / "run.parquet"), "11"]
    ended = subprocess.run(script, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2_000:])
