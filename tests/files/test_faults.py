"""Files as people have them: read right, or an error that says what to write."""

import bz2
import gzip
import json
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    Run,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.metrics.texts.llm_relevancy import GradedRelevance
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

RUN, LABELS, TABLE = "q1 Q0 é1 1 0.9 t\n", "q1 0 é1 1\n", "query,expected_ids\nWhy é?,d1\n"
TEXTS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "x.run": (RUN, read_run),
    "x.txt": (LABELS, read_qrels),
    "x.csv": (TABLE, RetrievalDataset.load),
    "x.tsv": (TABLE.replace(",", "\t"), RetrievalDataset.load),
    "x.jsonl": ('{"query": "Why é?", "expected_ids": ["d1"]}\n', RetrievalDataset.load),
    "x.json": ('[{"query": "Why é?", "expected_ids": ["d1"]}]\n', RetrievalDataset.load),
}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
each_text = pytest.mark.parametrize("name", TEXTS)


@each_text
@pytest.mark.parametrize("ending", PACKED)
def test_packed_files(tmp_path: Path, name: str, ending: str) -> None:
    text, read = TEXTS[name]
    raw = PACKED[ending](text.encode())
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / (name + ending)).write_bytes(raw)
    expected = read(tmp_path / name)
    assert read(tmp_path / (name + ending)) == expected
    assert len(expected) == 1
    # under another name it is an error, and never an empty file; so is half of one
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(
        FileFormatError, match=rf"the content of a \{ending} file: give it that ending"
    ):
        read(tmp_path / name)
    (tmp_path / (name + ending)).write_bytes(raw[:-9])
    with pytest.raises(FileFormatError, match=rf"expected a whole \{ending} file"):
        read(tmp_path / (name + ending))


@each_text
@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-16", "UTF-16: .*'utf-16'"),
        ("utf-16-le", "UTF-16: .*'utf-16-le'"),
        ("utf-16-be", "UTF-16: .*'utf-16-be'"),
        ("cp1252", "Windows-1252: .*'cp1252'.* got .*é"),
    ],
)
def test_encodings_other_than_utf_8(tmp_path: Path, name: str, encoding: str, said: str) -> None:
    text, read = TEXTS[name]
    (tmp_path / name).write_text(text, encoding=encoding)
    with pytest.raises(FileFormatError, match=said):
        read(tmp_path / name)


@pytest.mark.parametrize(
    "raw", ["q1 0 \u30c9\u30ad\u30e5 1\n".encode("shift_jis"), pickle.dumps({"q1": {"d1": 1}})]
)
def test_encoding_that_isnt_known_is_not_named(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.txt").write_bytes(raw)
    with pytest.raises(FileFormatError, match="text in UTF-8; this looks like no text or another"):
        read_qrels(tmp_path / "x.txt")


@each_text
@pytest.mark.parametrize("ends", ["\r", "\r\n"])
def test_line_ends(tmp_path: Path, name: str, ends: str) -> None:
    text, read = TEXTS[name]
    more = text + text.splitlines()[-1].replace("q1", "q2").replace("Why", "How") + "\n"
    if name == "x.json":
        more = json.dumps([*json.loads(text), {"query": "How?"}])
    (tmp_path / name).write_bytes(more.encode())
    expected = len(read(tmp_path / name))
    (tmp_path / name).write_bytes(more.replace("\n", ends).encode())
    assert len(read(tmp_path / name)) == expected == 2


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"PK\x03\x04", "the content of a .zip or .xlsx file: give it that ending, or unpack it"),
        (b"PAR1\x15", "the content of a .parquet file"),
        (b"ARROW1\x00\x8f", "text in UTF-8"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, start: bytes, said: str) -> None:
    (tmp_path / "x.run").write_bytes(start + b" more")
    for read in (read_run, read_qrels):
        with pytest.raises(FileFormatError, match=said):
            read(tmp_path / "x.run")


ROWS: list[tuple[dict[str, Any], Relevance]] = [
    ({"expected_ids": ["a", "b"], "grades": [3, 1]}, Relevance({"a": 3, "b": 1})),
    ({"expected_ids": ["a", "b"], "scores": [3, 1]}, Relevance({"a": 3, "b": 1})),
    ({"retrieval_gt": [["a"], ["b", "c"]]}, Relevance(groups=[["a"], ["b", "c"]])),
    (
        {"expected_spans": [{"source": "h", "start": 1, "end": 5}], "grades": [2]},
        Relevance(spans=[("h", 1, 5)], grades=[2]),
    ),
]


@pytest.mark.parametrize(("row", "relevance"), ROWS)
def test_doors_read_the_same(tmp_path: Path, row: dict[str, Any], relevance: Relevance) -> None:
    row = {"query_id": "q1", "query": "Why?", **row}
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    read = [RetrievalDataset.load(source).relevance for source in (path, [row])]
    for labels in (*read, read_qrels(path), read_qrels([row])):
        assert labels == {"q1": relevance}
        assert labels["q1"].grades == relevance.grades


def test_fields_of_labels_twice_are_an_error() -> None:
    row = {"query_id": "q1", "query": "Why?", "expected_ids": ["d1"], "relevance": "high"}
    for read in (RetrievalDataset.load, read_qrels):
        with pytest.raises(FileFormatError, match=r"columns={'labels': 'expected_ids'} says"):
            read([row])
    with pytest.raises(InvalidInput, match=r"columns: .* of query_id, query, .* got 'grads'"):
        RetrievalDataset.load([row], columns={"labels": "expected_ids", "grades": "grads"})
    dataset = RetrievalDataset.load([row], columns={"labels": "expected_ids"})
    assert (dataset.relevance, dataset.metadata) == ({"q1": ["d1"]}, {"q1": {"relevance": "high"}})


@pytest.mark.parametrize("cell", ["", "nan", "NaN", "None", "NULL", "<NA>", "N/A", " ", "nan "])
def test_cells_that_stand_for_nothing_in_a_column_of_labels(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"query_id,query,expected_ids,note\nq1,x?,{cell},{cell}\nq2,None,d1,\n")
    dataset = RetrievalDataset.load(path)
    assert dataset.relevance == read_qrels(path) == {"q2": ["d1"]}
    assert dataset.queries["q2"] == "None"
    assert dataset.metadata == ({"q1": {"note": cell}} if cell else {})


def test_judgement_repeated_counts_once_and_contradicted_is_an_error(tmp_path: Path) -> None:
    for name, head, line in (
        ("x.txt", "", "q1 0 d1 {}\n"),
        ("x.csv", "qid,docno,label\n", "q1,d1,{}\n"),
    ):
        path = tmp_path / name
        path.write_text(head + line.format(1) + line.format("1.0"))
        assert read_qrels(path) == {"q1": ["d1"]}
        path.write_text(head + line.format(1) + line.format(2))
        with pytest.raises(FileFormatError, match=r"line \d: expected one grade .* are 1 and 2"):
            read_qrels(path)


def test_seconds_are_a_number_and_a_workbook_is_no_trec_run(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="record 1: expected the values of 'latency', got"):
        read_run([{"query_id": "q1", "retrieved_ids": ["a"], "latency": "fast"}])
    with pytest.raises(InvalidInput, match=r"ends in \.jsonl or \.parquet, or another"):
        write_run({"q1": ["a"]}, tmp_path / "run.xlsx")


def test_labels_are_no_run() -> None:
    for name in ("grade", "relevance", "label"):
        with pytest.raises(FileFormatError, match="labels, which have a grade, are read by read_q"):
            read_run([{"query_id": "q1", "doc_id": "d1", name: 1}])


def test_ids_of_questions_are_made_of_their_texts() -> None:
    first = RetrievalDataset.load([{"query": "x"}, {"query": "y"}])
    second = RetrievalDataset.load([{"query": " y "}])
    with pytest.raises(FileFormatError, match=r"record 2: expected every query id once \(without"):
        RetrievalDataset.load([{"query": "x"}, {"query": "x"}])
    assert set(first.queries) & set(second.queries) == {"q-a1fce4363854"}  # SHA-256 of "y"
    row = {"user_input": "y", "retrieved_context_ids": ["a"], "reference_context_ids": ["a"]}
    assert list(read_run([row])) == list(read_qrels([row])) == [*second.queries]
    judged = [{"query": "y", "docid": item, "rating": 1} for item in ("a", "b")]
    assert read_qrels(judged) == {"q-a1fce4363854": ["a", "b"]}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_runs_written_are_read_again(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    run = Run({"q1": ["a"], "q2": []}, queries={"q1": "Why?"})
    write_run(run, path)
    assert (read_run(path), read_run(path).queries) == (run, run.queries)
    broken = Run({"q1": ["half \ud83d"]}, queries={"q1": "\ude00"})
    if ending == "parquet":
        with pytest.raises(InvalidInput, match=r"since Parquet can't hold it .*surrogates"):
            write_run(broken, path)
    else:
        write_run(broken, path)
        assert (read_run(path), read_run(path).queries) == (broken, broken.queries)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_grader_and_log_are_written_too(tmp_path: Path, ending: str) -> None:
    labels = GradedRelevance({"a": 3, "b": 0}, "some LLM")
    run = Run({"q1": ["a"]})
    run.is_log = True
    write_qrels({"q1": labels}, tmp_path / f"qrels.{ending}")
    write_run(run, tmp_path / f"run.{ending}")
    read = [read_qrels(tmp_path / f"qrels.{ending}")["q1"]]
    if ending == "jsonl":
        path = tmp_path / "dataset.json"
        RetrievalDataset({"q1": "Why?"}, {"q1": labels}).save(path)
        read += [RetrievalDataset.load(path).relevance["q1"], read_qrels(path)["q1"]]
    assert [dict(again.grades) for again in read] == len(read) * [{"a": 3, "b": 0}]
    assert [getattr(again, "graded_by", "") for again in read] == len(read) * ["some LLM"]
    assert read_run(tmp_path / f"run.{ending}").is_log


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.csv", "query;expected_ids\nx;d1\n", "line 1: expected commas, .*'query;expected"),
        ("x.csv", "query,query\nx,y\n", "line 1: expected every column once"),
        ("x.json", "null", "it holds None"),
        ("x.json", "[1, 2]", "record 1: expected a record"),
        ("x.xlsx", "", "its name ends in .xlsx"),
        ("x.csv", "input\ny\n", "line 2: expected a question, .*columns=.*'input'"),
    ],
)
def test_file_that_is_no_dataset(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        RetrievalDataset.load(tmp_path / name)
