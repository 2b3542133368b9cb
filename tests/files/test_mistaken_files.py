"""Files given for others: what they are is said, and what reads them; nothing is read wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    pool,
    read_judgements,
    read_qrels,
    read_run,
    write_qrels,
    write_review_page,
    write_run,
)
from llama_index_rag_metrics.files.file_kinds import CONTENTS
from llama_index_rag_metrics.runtime.errors import (
    FileFormatError,
    LinesSkipped,
    MistakenFile,
    UnknownFormat,
)

RUNS = {"a": {"q1": ["d1", "d2"]}, "b": {"q1": ["d3", "d1"]}}
DATASET = RetrievalDataset(
    {"q1": "Who?"}, {"q1": Relevance({"d1": 2, "d2": 0})}, {"d1": "She.", "d2": "He.", "d3": "They"}
)
REVIEWED = {"query_id": "q1", "doc_id": "d1", "grade": 2, "reviewer": "anna", "skipped": False}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Name of a file to the file, as this package writes it, and what it is."""
    kinds = {
        "d.json": "a dataset", "d.jsonl": "a dataset", "beir": "a dataset",
        "a.run": "a run", "a.jsonl": "a run", "q.txt": "qrels", "q.tsv": "qrels",
        "p.jsonl": "a pool to be judged", "j.jsonl": "reviewers' judgements",
    }  # fmt: skip
    files = {name: (tmp_path / name, kind) for name, kind in kinds.items()}
    DATASET.save(files["d.json"][0])
    DATASET.save(files["d.jsonl"][0])
    DATASET.to_beir(files["beir"][0])
    write_run(RUNS["a"], files["a.run"][0])
    write_run(RUNS["a"], files["a.jsonl"][0])
    write_qrels(DATASET.relevance, files["q.txt"][0])
    write_qrels(DATASET.relevance, files["q.tsv"][0])
    pool(RUNS, dataset=DATASET, judgements={}).to_jsonl(files["p.jsonl"][0])
    files["j.jsonl"][0].write_text(json.dumps(REVIEWED))
    return files


def as_page(path: Path) -> object:
    return write_review_page(path, path.with_suffix(".html"))


READS: dict[str, tuple[Callable[[Path], Any], set[str]]] = {
    "a run": (read_run, {"a.run", "a.jsonl"}),
    "qrels": (read_qrels, {"q.txt", "q.tsv", "d.json", "j.jsonl"}),
    "a dataset": (RetrievalDataset.load, {"d.json", "d.jsonl", "beir"}),
    "a pool to be judged": (as_page, {"p.jsonl"}),
    "reviewers' judgements": (read_judgements, {"j.jsonl"}),
}
"""Kind to what reads it, and the files that it can read."""

READS["a run"][1].add("q.tsv")  # query-id, corpus-id, score: a run's columns could be called so


@pytest.mark.parametrize("wanted", READS)
def test_every_kind_for_every_other(files: dict[str, tuple[Path, str]], wanted: str) -> None:
    read, readable = READS[wanted]
    for name, (path, kind) in files.items():
        if name in readable:
            assert read(path)
        elif kind != wanted and name != "beir":
            with pytest.raises(MistakenFile) as caught:
                read(path)
            assert (
                str(caught.value) == f"{path} isn't {wanted} but {kind}. {CONTENTS[kind].read_by}"
            )
            assert caught.value.path == str(path)


def test_a_folder_of_beir_given_as_qrels(files: dict[str, tuple[Path, str]]) -> None:
    with pytest.raises(MistakenFile, match="but a dataset"):
        read_qrels(files["beir"][0])


def test_the_judgements_of_a_dataset_are_qrels(files: dict[str, tuple[Path, str]]) -> None:
    assert read_qrels(files["d.json"][0]) == DATASET.relevance
    queries = {"queries": {"q1": "Who?"}, "relevant_docs": {"q1": ["d1"]}}
    assert read_qrels(queries) == {"q1": Relevance(["d1"])}


@pytest.mark.parametrize(
    ("name", "read", "text", "line"),
    [
        ("a.run", read_run, "q1 Q0 d1 1 0.5 x\nq1 Q0 d2\n", 2),
        ("cut.run", read_run, "q1 Q0 d1 1\n", 1),
        ("q.txt", read_qrels, "q1 0 d1 1\nq1 0 d2 x\n", 2),
        ("q.jsonl", read_qrels, '{"query_id": "q", "doc_id": "d", "grade": "x"}', 1),
    ],
)
def test_what_is_only_damaged_is_said_so(
    tmp_path: Path, name: str, read: Callable[[Path], Any], text: str, line: int
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read(path)
    assert (type(caught.value), caught.value.line) == (FileFormatError, line)


def test_what_is_of_no_kind(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_text("Of all the moons\nthe coldest\n")
    with pytest.raises(UnknownFormat, match="Supported forms"):
        RetrievalDataset.load(path)


def test_a_log_of_documents_with_ranks_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {"query_id": "q", "query": "Who?", "doc_id": "d", "text": "She.", "rank": 1}
    path.write_text(json.dumps(row))
    assert read_run(path)["q"].ids == ["d"]


Record = dict[str, Any]


def lines_file(path: Path, *lines: Record | str) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


@pytest.mark.parametrize(
    ("record", "columns"),
    [
        ({"query_id": "q1", "doc_id": "d1", "score": 2.0, "rank": 1, "grade": 1}, {}),
        ({"query_id": "q1", "doc_id": "d1", "score": 0.8, "grade": 1}, {}),
        ({"query_id": "q1", "doc_id": "d1", "score": 0.8, "grade": 1, "reviewer": "anna"}, {}),
        ({"query_id": "q1", "doc_id": "d1", "rank": 1, "grade": 1, "skipped": False}, {}),
        ({"query_id": "q1", "retrieved_ids": ["d1"], "grade": 1, "skipped": True}, {}),
        ({"qid": "q1", "query": "why", "doc_id": "d1", "text": "x", "similarity": 0.9},
         {"score": "similarity"}),
        ({"qid": "q1", "query": "why", "doc_id": "d1", "text": "x", "position": 1},
         {"rank": "position"}),
        ({"query_id": "q1", "query": "why", "document": "d1", "text": "x"},
         {"doc_id": "document"}),
        ({"query_id": "q1", "doc_id": "d1", "grade": 0.9}, {"score": "grade"}),
        ({"query_id": "q1", "query": "why", "doc_id": "d1", "text": "x", "title": "y"}, {}),
    ],
)  # fmt: skip
def test_runs_with_fields_of_other_kinds(
    tmp_path: Path, record: Record, columns: dict[str, str]
) -> None:
    path = lines_file(tmp_path / "a.jsonl", record)
    assert read_run(path, columns=columns)["q1"].ids == ["d1"]


def test_a_format_that_was_said_is_believed(tmp_path: Path) -> None:
    record = {"query_id": "q1", "doc_id": "d1", "grade": 1}
    path = lines_file(tmp_path / "a.jsonl", record)
    with pytest.raises(MistakenFile, match="isn't a run but qrels"):
        read_run(path)
    assert read_run(path, format="jsonl")["q1"].ids == ["d1"]


@pytest.mark.parametrize(
    ("record", "relevance"),
    [
        ({"query": "why", "expected_ids": ["d1"], "doc_id": "d1", "text": "because"}, ["d1"]),
        ({"query_id": "q1", "query": "why", "expected_ids": ["d1"], "doc_id": "d1", "text": "x"},
         ["d1"]),
        ({"query": "why", "doc_id": "d1", "text": "because"}, None),
        ({"query_id": "q1", "query": "why", "doc_id": "d1", "text": "x", "topic": "moons"}, None),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*doc_id:llama_index_rag_metrics.runtime.errors.FieldsUnread")
def test_datasets_with_fields_of_a_pool(
    tmp_path: Path, record: Record, relevance: list[str] | None
) -> None:
    dataset = RetrievalDataset.load(lines_file(tmp_path / "d.jsonl", record))
    assert dataset.queries == {"q1": "why"}
    assert dataset.relevance == ({} if relevance is None else {"q1": Relevance(relevance)})


@pytest.mark.parametrize(
    "record",
    [
        {"query_id": "q1", "query": "why", "doc_id": "d1", "text": "because"},
        {"query_id": "q1", "query": "why", "doc_id": "d1", "text": "x", "scale": "binary"},
    ],
)
def test_a_pool_is_no_dataset_and_no_run(tmp_path: Path, record: Record) -> None:
    path = lines_file(tmp_path / "p.jsonl", record)
    with pytest.raises(MistakenFile, match="isn't a dataset but a pool"):
        RetrievalDataset.load(path)
    with pytest.raises(MistakenFile, match="isn't a run but a pool"):
        read_run(path)


BESIDE = {"query_id": "q1", "expected_ids": ["d1"], "retrieved_ids": ["d1"]}


@pytest.mark.parametrize(
    ("read", "first", "second"),
    [
        (read_qrels, BESIDE, {**BESIDE, "query_id": "q2", "expected_ids": {"d1": "bad"}}),
        (RetrievalDataset.load, {"query": "Who?", **BESIDE}, '{"query": "'),
        (read_qrels, {"query_id": "q1", "doc_id": "d1", "relevance": 1, "rank": 1},
         {"query_id": "q1", "doc_id": "d2", "relevance": "bad", "rank": 2}),
        (read_qrels, {"query_id": "q1", "doc_id": "d1", "grade": None, "reviewer": "anna",
                      "skipped": True}, {"query_id": "q1", "note": "?"}),
        (read_run, {"query_id": "q1", "doc_id": "d1", "grade": 1, "score": 1}, "{"),
        (RetrievalDataset.load, {"query": "Who?", "retrieved_ids": ["d1"]}, {"query": 5}),
        (read_judgements, REVIEWED, {**REVIEWED, "doc_id": "d2", "note": 5}),
        (read_run, BESIDE, {"document_id": "d1", "text": "She."}),
    ],
)  # fmt: skip
def test_a_fault_in_a_later_line_is_said(
    tmp_path: Path, read: Callable[[Path], Any], first: Record, second: Record | str
) -> None:
    with pytest.raises(FileFormatError) as caught:
        read(lines_file(tmp_path / "a.jsonl", first, second))
    assert not isinstance(caught.value, MistakenFile)
    assert caught.value.line == 2


def test_a_fault_in_a_first_line_that_has_what_was_wanted(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "a.jsonl", {**BESIDE, "expected_ids": {"d1": "bad"}})
    with pytest.raises(FileFormatError, match=r"line 1: expected .*'bad'"):
        read_qrels(path)


@pytest.mark.parametrize("name", ["relevance", "relevant_docs"])
def test_queries_that_are_called_as_the_parts_of_a_dataset(tmp_path: Path, name: str) -> None:
    judged = {"queries": {"d1": 1}, name: {"d2": 2}}
    expected = {"queries": Relevance({"d1": 1}), name: Relevance({"d2": 2})}
    path = tmp_path / "q.json"
    path.write_text(json.dumps(judged))
    assert read_qrels(judged) == read_qrels(path) == expected
    path.write_text(json.dumps({**judged, "q3": {"d1": "bad"}}))
    for read in (read_qrels, read_run):
        with pytest.raises(FileFormatError, match="question 'q3'"):
            read(path)


def test_a_fault_in_the_judgements_of_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"queries": {"q1": "Who?"}, "relevance": {"q1": {"d1": "bad"}}}))
    with pytest.raises(FileFormatError, match=r"relevance of 'q1'.*'bad'"):
        read_qrels(path)
    path.write_text(json.dumps({"queries": {"q1": "Who?", "q2": 5}, "relevance": {"q1": ["d1"]}}))
    with pytest.warns(LinesSkipped):
        assert read_qrels(path, on_error="skip") == {"q1": Relevance(["d1"])}


def test_a_dataset_without_questions_has_no_judgements(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    RetrievalDataset({}, {}).save(path)
    assert read_qrels(path) == {}
