"""What a row of a Parquet or Arrow file holds and nothing can use: named by file and row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from llama_index_rag_metrics import read_qrels, read_run, score_files, score_table
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

pa = pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pytest.importorskip("polars", reason="the extra batch isn't installed")
from pyarrow import ipc, parquet  # noqa: E402

NAN = float("nan")

GOOD: dict[str, Any] = {
    "query_id": ["q1", "q2"],
    "retrieved_ids": [["a", "b"], ["c"]],
    "expected_ids": [["a"], ["c"]],
}

# column, its content, the metric that reads it, the place, a word of the error
BAD: dict[str, tuple[str, Any, str, str, str]] = {
    "a null among retrieved ids": ("retrieved_ids", [["a"], [None]], "mrr", ", row 2", "None"),
    "a null among expected ids": ("expected_ids", [[None], ["c"]], "mrr", ", row 1", "None"),
    "no lists": ("retrieved_ids", ["a", "c"], "mrr", ", row 1", "a list of ids"),
    "a grade too many": ("grades", [[1], [1, 2]], "mrr", ", row 2", "1 grades"),
    "a grade that is NaN": ("grades", [[1.0], [NAN]], "mrr", ", row 2", "finite"),
    "grades that are texts": ("grades", [["x"], ["y"]], "mrr", ", row 1", "numbers"),
    "negative tokens": ("retrieved_tokens", [[1, 1], [-2]], "recall@9tokens", ", row 2", "-2"),
}


def parquet_file(path: Path, table: Any) -> Path:
    parquet.write_table(table, path)
    return path


def arrow_file(path: Path, table: Any) -> Path:
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return path


FORMS = [("run.parquet", parquet_file), ("run.arrow", arrow_file)]


@pytest.mark.parametrize(("name", "write"), FORMS)
@pytest.mark.parametrize("case", BAD.values(), ids=[*BAD])
def test_score_files_and_the_command_line_name_file_and_row(
    case: tuple[str, Any, str, str, str],
    name: str,
    write: Callable[[Path, Any], Path],
    tmp_path: Path,
) -> None:
    column, content, metric, place, word = case
    path = write(tmp_path / name, pa.table({**GOOD, column: content}))
    with pytest.raises(FileFormatError) as caught:
        score_files(path, None, [metric])
    assert str(caught.value).startswith(f"{path}{place}: expected ")
    assert word in str(caught.value)
    outcome = CliRunner().invoke(app, ["score", str(path), "-m", metric])
    assert outcome.exit_code == 2
    assert name in outcome.output


def test_ids_of_another_type_name_the_file(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "run.parquet", pa.table({**GOOD, "retrieved_ids": [[1], [3]]}))
    with pytest.raises(FileFormatError, match=r"run.parquet: expected ids of one type"):
        score_files(path, None, ["mrr"])


def test_a_row_of_a_folder_is_that_of_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    parquet_file(folder / "1.parquet", pa.table(GOOD))
    bad = {
        "query_id": ["q3", "q4", "q5"],
        "retrieved_ids": [["a"]] * 3,
        "expected_ids": [["a"]] * 3,
    }
    last = pa.table({**bad, "retrieved_ids": [["a"], ["b"], [None]]})
    path = parquet_file(folder / "2.parquet", last)
    with pytest.raises(FileFormatError) as caught:
        score_files(folder, None, ["mrr"])
    assert str(caught.value).startswith(f"{path}, row 3: ")


def test_what_the_options_refuse_is_no_fault_of_the_file(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "run.parquet", pa.table({**GOOD, "expected_ids": [["a"], []]}))
    with pytest.raises(InvalidInput, match="no_relevant='exclude'"):
        score_files(path, None, ["mrr"], no_relevant="error")


def damaged() -> Any:
    """A table one of whose texts ends before it begins."""
    texts = pa.array(["a", "b", "c"])
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 1, 3)))
    broken = pa.StringArray.from_buffers(3, offsets, texts.buffers()[2])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), broken)
    return pa.table({**GOOD, "retrieved_ids": lists})


def test_damaged_tables_in_memory_are_refused() -> None:
    with pytest.raises(InvalidInput, match="an Arrow table that isn't damaged"):
        score_table(damaged(), ["mrr"], validate=True)
    # what is made into Python's objects is always checked first
    for read in (read_run, read_qrels):
        with pytest.raises(InvalidInput, match="an Arrow table that isn't damaged"):
            read(damaged())
