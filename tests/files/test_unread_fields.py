"""Fields that aren't read, and are called nearly like others that are: named with what is meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import RetrievalDataset, read_qrels, read_run, write_run
from llama_index_rag_metrics.files.fields import KNOWN, QUERY_ID, RESERVED
from llama_index_rag_metrics.runtime.errors import FieldsUnread, FileFormatError

Record = dict[str, Any]


def lines_file(path: Path, *records: Record) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def csv_file(path: Path, *records: Record) -> Path:
    rows = [[*records[0]], *([_cell(value) for value in record.values()] for record in records)]
    cells = ([f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in rows)
    path.write_text("".join(",".join(row) + "\n" for row in cells))
    return path


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def frame(_: Path, *records: Record) -> Any:
    return pytest.importorskip("pandas", reason="the extra pandas").DataFrame(list(records))


def arrow(_: Path, *records: Record) -> Any:
    return pytest.importorskip("pyarrow", reason="the extra batch").Table.from_pylist(list(records))


SOURCES = pytest.mark.parametrize("source", [lines_file, csv_file, frame, arrow])
Source = Callable[..., Any]


@SOURCES
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("expected", "expected_ids"),
        ("expected_id", "expected_ids"),
        ("expectedIds", "expected_ids"),
        ("relevant", "relevant_ids"),
        ("Relevance", "relevance"),
        ("relevant_documents", "relevant_docs"),
        ("reference_context", "reference_contexts"),
        ("answer_ids", "expected_ids"),
        ("gold_chunks", "expected_ids"),
        ("ground_truth_ids", "expected_ids"),
        ("doc_ids", "expected_ids"),
        ("labels", "expected_ids"),
    ],
)
def test_labels_of_another_name(tmp_path: Path, source: Source, name: str, meant: str) -> None:
    path = tmp_path / ("q.csv" if source is csv_file else "q.jsonl")
    with pytest.warns(FieldsUnread) as caught:
        dataset = RetrievalDataset.of(source(path, {"id": "x", "question": "What?", name: ["d1"]}))
    note = (
        f"1 of 1 questions have no labels, but a field {name!r} that isn't read (did you mean "
        f"{meant!r}?)"
    )
    assert str(caught[0].message).startswith(note)
    assert any(note in remark for remark in dataset.check())
    assert dataset.metadata == {"x": {name: ["d1"]}}  # as any other field
    assert not dataset.relevance


@pytest.mark.parametrize(
    "fields",
    [
        {"expected_ids": ["d1"], "expected": "an answer"},  # labelled, and so it is no label
        {"reference_contexts": ["a text"], "answer_ids": [1]},
        {"answer": "42", "difficulty": "hard", "tenant": "acme", "source": "faq", "correct": True},
        {"ground_truth": "42", "reference": "42", "response": "43", "question_type": "why"},
    ],
)
def test_other_metadata_is_no_slip(
    tmp_path: Path, fields: Record, recwarn: pytest.WarningsRecorder
) -> None:
    RetrievalDataset.load(lines_file(tmp_path / "q.jsonl", {"query": "What?", **fields}))
    assert not recwarn.list


@pytest.mark.parametrize("name", QUERY_ID)
def test_ids_of_questions(tmp_path: Path, name: str) -> None:
    path = lines_file(tmp_path / "q.jsonl", {name: 0, "question": "What?", "expected_ids": ["d1"]})
    assert RetrievalDataset.load(path).relevance == {"0": ["d1"]}
    assert read_qrels(path) == {"0": ["d1"]}
    run = lines_file(tmp_path / "r.jsonl", {name: 0, "retrieved_ids": ["d1"]})
    assert list(read_run(run)) == ["0"]


def test_an_id_that_is_there_too_goes_first(tmp_path: Path) -> None:
    record = {"question_id": "a", "id": "b", "question": "What?", "expected_ids": ["d1"]}
    assert list(RetrievalDataset.load(lines_file(tmp_path / "q.jsonl", record)).queries) == ["b"]


@pytest.mark.parametrize("name", ["queryId", "QueryID", "questionId"])
def test_ids_of_another_name(tmp_path: Path, name: str) -> None:
    record = {name: "x", "question": "What?", "expected_ids": ["d1"]}
    with pytest.warns(FieldsUnread, match=f"no ids, but a field {name!r} .*did you mean 'qu"):
        RetrievalDataset.load(lines_file(tmp_path / "q.jsonl", record))
    with pytest.raises(FileFormatError, match="a field 'query_id', or columns="):
        read_qrels(tmp_path / "q.jsonl")


RUNS: list[tuple[Record, str]] = [
    ({"query_id": "a", "retrieved_ids": ["d"], "retrieved_text": ["x"]}, "retrieved_texts"),
    ({"query_id": "a", "retrieved_ids": ["d"], "score": [1.0]}, "scores"),
    ({"query_id": "a", "retrieved_ids": ["d"], "Retrieved_Tokens": [7]}, "retrieved_tokens"),
    ({"query_id": "a", "doc_id": "d", "scores": 1.0}, "score"),
]


@SOURCES
@pytest.mark.parametrize(("record", "meant"), RUNS)
def test_fields_of_runs(tmp_path: Path, source: Source, record: Record, meant: str) -> None:
    path = tmp_path / ("r.csv" if source is csv_file else "r.jsonl")
    with pytest.warns(FieldsUnread, match=f"aren't read: '.*' .did you mean '{meant}'"):
        read_run(source(path, record))


@SOURCES
def test_grades_of_another_name(tmp_path: Path, source: Source) -> None:
    path = tmp_path / ("r.csv" if source is csv_file else "r.jsonl")
    record = {"query_id": "a", "expected_ids": ["d", "e"], "grade": [2, 1]}
    with pytest.warns(FieldsUnread, match="'grade' .did you mean 'grades'"):
        read_qrels(source(path, record))


@pytest.mark.parametrize("name", ["run.parquet", "run.arrow"])
def test_columns_of_stored_runs(tmp_path: Path, name: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra batch")
    pytest.importorskip("polars", reason="the extra batch")
    columns = {
        "query_id": ["a"], "retrieved_ids": [["d"]], "expected_ids": [["d"]], "grade": [[2.0]],
    }  # fmt: skip
    path = tmp_path / name
    if name.endswith("parquet"):
        from pyarrow.parquet import write_table

        write_table(pa.table(columns), path)
    else:
        with pa.ipc.new_file(str(path), pa.table(columns).schema) as writer:
            writer.write_table(pa.table(columns))
    with pytest.warns(FieldsUnread, match="'grade' .did you mean 'grades'"):
        read_run(path)


def test_what_is_written_has_nothing_unread(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    write_run(read_run({"a": {"d": 1.0}}), tmp_path / "run.jsonl")
    read_run(tmp_path / "run.jsonl")
    judged = {"query_id": "a", "doc_id": "d", "grade": 1, "reviewer": "x", "note": "", "scale": "y"}
    read_qrels([judged])
    read_qrels(
        [{"query_id": "a", "query": "why", "expected_ids": ["d"], "metadata": {"lang": "de"}}]
    )
    assert not recwarn.list


def test_judgements_without_a_grade_say_which_fields_there_are(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "g.jsonl", {"query_id": "a", "doc_id": "d", "grad": 3})
    with pytest.raises(FileFormatError, match=r"a field 'grade', or columns=.*'grad'"):
        read_qrels(path)


@pytest.mark.parametrize("part", ["relevent", "qrels", "expected_ids", "documents"])
def test_parts_of_a_dataset_that_there_arent(part: str) -> None:
    with pytest.raises(FileFormatError, match=f"only the parts queries, .* got '{part}'"):
        RetrievalDataset.of({"queries": {"q1": "why?"}, part: {"q1": ["d1"]}})


def test_rows_of_hugging_face_have_the_names_of_qrels() -> None:
    assert {"query-id", "corpus-id", "score"} <= KNOWN
    assert {"query_id", "question_id", "expected_spans"} <= RESERVED
