"""Runs stored as Parquet and Arrow, with what writers of data sets leave in their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from llama_index_rag_metrics import read_run, score_files, score_rankings
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, UnknownFormat

RUN = pa.table({"query_id": ["q1", "q2"], "retrieved_ids": [["a", "b"], ["c"]]})
QRELS = {"q1": {"b": 1}, "q2": {"c": 2}}
MRR = {"q1": 0.5, "q2": 1.0}


def write(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)
    return path


@pytest.mark.parametrize("name", ["a.parquet", "z.parquet", "a.arrow", "z.arrow"])
def test_a_file_without_rows_in_a_folder(tmp_path: Path, name: str) -> None:
    write(tmp_path / "m.parquet", RUN)
    write(tmp_path / name, RUN.slice(0, 0))
    (tmp_path / f"empty-{name}").touch()
    assert score_files(tmp_path, QRELS, "mrr").by_query("mrr") == MRR


def test_files_that_are_no_part_of_a_folder(tmp_path: Path) -> None:
    """Spark, Hive and Arrow leave out what begins with "_" or "."."""
    for name in ("part.parquet", ".part.parquet", "_temporary/0/part.parquet"):
        write(tmp_path / name, RUN)
    assert score_files(tmp_path, QRELS, "mrr", per_query=False).counts.queries == 2


@pytest.mark.parametrize("per_query", [True, False])
@pytest.mark.parametrize("ids", [["q1", "q2"], pa.array(["q1", "q2"]).dictionary_encode()])
def test_a_query_twice(tmp_path: Path, ids: Any, per_query: Any) -> None:
    """As `read_run` says of one file; and across the files of a folder."""
    write(tmp_path / "1.parquet", RUN.slice(0, 1))
    write(tmp_path / "2.arrow", RUN.slice(1).append_column("n", pa.array([1])))
    write(tmp_path / "3.parquet", RUN.set_column(0, "query_id", pa.array(ids)).slice(1))
    with pytest.raises(FileFormatError, match=r"3\.parquet, row 1: .* every query id once.*'q2'"):
        score_files(tmp_path, QRELS, "mrr", per_query=per_query)


def test_a_row_without_a_query(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", RUN.set_column(0, "query_id", pa.array(["q1", None])))
    with pytest.raises(FileFormatError, match=r"a\.parquet, row 2: expected a query id"):
        score_files(path, QRELS, "mrr")
    unnamed = write(tmp_path / "b.parquet", RUN.drop_columns(["query_id"]))
    with pytest.raises(FileFormatError, match=r"b\.parquet, row 1: expected a field 'query_id'"):
        score_files(unnamed, QRELS, "mrr")


def test_files_of_a_folder_that_differ(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", RUN)
    other = write(tmp_path / "2.parquet", RUN.rename_columns(["query_id", "docs"]))
    with pytest.raises(FileFormatError, match=r"2\.parquet: expected a column 'retrieved_ids'"):
        score_files(tmp_path, QRELS, "mrr")
    other.write_bytes(b"PAR1 and no more")
    with pytest.raises(FileFormatError, match=r"2\.parquet: expected a Parquet file"):
        score_files(tmp_path, QRELS, "mrr")
    other.rename(tmp_path / "0.txt")
    write(tmp_path / "1.parquet", RUN.rename_columns(["query_id", "docs"]))
    with pytest.raises(UnknownFormat, match=r"1\.parquet has the columns query_id, docs"):
        score_files(tmp_path, QRELS, "mrr")


@pytest.mark.parametrize("end", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "ids",
    [
        pa.array([[7, 8], [9, 9]]),
        pa.array([["7", "8"], ["9", "6"]], pa.list_(pa.string(), 2)),
        pa.ListArray.from_arrays([0, 2, 3], pa.array(["7", "8", "9"]).dictionary_encode()),
    ],
)
def test_ids_of_other_types(tmp_path: Path, ids: pa.Array, end: str) -> None:
    """The ids of qrels are texts: so are those of the run, as in `read_run`; q3 has no ranking."""
    path = write(tmp_path / f"a.{end}", pa.table({"query_id": ["q1", "q2"], "retrieved_ids": ids}))
    qrels = {"q1": {"8": 1}, "q2": {"9": 1}, "q3": {"7": 1}}
    by_query = score_files(path, qrels, "mrr").by_query("mrr")
    assert by_query == {"q1": 0.5, "q2": 1.0, "q3": 0.0}
    assert by_query == score_rankings(qrels, read_run(path), "mrr").by_query("mrr")


def test_files_of_a_folder_with_other_columns(tmp_path: Path) -> None:
    """Query ids of numbers are texts, as in `read_run`; a file without errors has none."""
    judged = RUN.append_column("expected_ids", pa.array([["b"], ["c"]]))
    write(tmp_path / "run" / "1.parquet", judged)
    failed = judged.append_column("error", pa.array([None, "timeout"]))
    failed = failed.set_column(0, "query_id", pa.array([7, 8]))
    failed = failed.set_column(1, "retrieved_ids", pa.array([["a", "b"], []]))
    write(tmp_path / "run" / "2.arrow", failed)
    scores = score_files(tmp_path / "run", None, "mrr")
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 1.0, "7": 0.5, "8": 0.0}
    assert scores.failed == {"8": "timeout"}
    score_files(tmp_path / "run", None, "mrr", per_query=tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["error"].to_list() == [None] * 3 + ["timeout"]


def test_no_rows_give_a_file_without_rows(tmp_path: Path) -> None:
    table = RUN.append_column("expected_ids", pa.array([["b"], ["c"]])).slice(0, 0)
    path, out = write(tmp_path / "a.parquet", table), tmp_path / "out.parquet"
    assert score_files(path, None, "mrr", per_query=out).counts.queries == 0
    assert pl.read_parquet(out).columns[:2] == ["query_id", "mrr"]


def test_columns_to_keep_never_replace_scores(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", RUN.append_column("mrr", pa.array([7, 8])))
    with pytest.raises(InvalidInput, match=r"keep: .* a name that no column of the scores has"):
        score_files(path, QRELS, "mrr", keep=["mrr"], per_query=tmp_path / "out.parquet")
    kept = score_files(path, QRELS, "mrr", keep=["mrr"])
    assert (kept.by_query("mrr"), kept.metadata["q2"]) == (MRR, {"mrr": 8})


def test_scores_never_replace_the_run(tmp_path: Path) -> None:
    path = write(tmp_path / "run" / "a.parquet", RUN)
    before = path.read_bytes()
    for run, out in ((path, path), (path.parent, path.parent / "scores.parquet")):
        with pytest.raises(InvalidInput, match="per_query: expected a file other than the run"):
            score_files(run, QRELS, "mrr", per_query=out)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (before, [path])
