"""What questions that were asked several times retrieved, in files and in traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import run

from llama_index_rag_metrics import Run, read_run, score_rankings, write_run
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
pl = pytest.importorskip("polars", reason="the extra batch isn't installed")

JUDGED = {"q1": ["a"], "q2": ["b"]}
THRICE = Run(
    repeats=[
        Run({"q1": ["a", "x"], "q2": ["x", "b"]}),
        Run({"q1": ["x", "a"], "q2": ["b"]}),
        Run({"q1": ["x"]}),
    ],
    name="agent",
)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_there_and_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"agent.{ending}"
    write_run(THRICE, path)
    again = read_run(path)
    assert [
        {query_id: list(ranking.ids) for query_id, ranking in each.items()}
        for each in again.repeats
    ] == [
        {query_id: list(ranking.ids) for query_id, ranking in each.items()}
        for each in THRICE.repeats
    ]
    scores = score_rankings(JUDGED, again, ["mrr"])
    # q1: 1, 1/2 and 0; q2: 1/2 and 1
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 0.75}


@pytest.mark.parametrize("ending", ["trec", "txt"])
def test_formats_that_tell_no_times_apart_say_so(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InvalidInput, match="which hold several runs of each question"):
        write_run(THRICE, tmp_path / f"run.{ending}")


def test_other_tools_names_and_orders() -> None:
    records: list[dict[str, Any]] = [
        {"query_id": "q1", "epoch": 7, "retrieved_ids": ["x", "a"]},
        {"query_id": "q1", "epoch": 2, "retrieved_ids": ["a"]},
        {"query_id": "q2", "epoch": 2, "retrieved_ids": ["b"]},
    ]
    asked = read_run(records, columns={"repeat": "epoch"})
    assert [{q: list(ranking.ids) for q, ranking in each.items()} for each in asked.repeats] == [
        {"q1": ["a"], "q2": ["b"]},
        {"q1": ["x", "a"]},
    ]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_tables_of_other_tools(tmp_path: Path, separator: str) -> None:
    rows = ["query_id repeat doc_id rank", "q1 1 a 1", "q1 1 x 2", "q2 1 b 1", "q1 2 x 1"]
    path = tmp_path / ("run.csv" if separator == "," else "run.tsv")
    path.write_text("\n".join(rows).replace(" ", separator), encoding="utf-8")
    asked = read_run(path)
    assert [{q: list(ranking.ids) for q, ranking in each.items()} for each in asked.repeats] == [
        {"q1": ["a", "x"], "q2": ["b"]},
        {"q1": ["x"]},
    ]
    scores = score_rankings(JUDGED, asked, "mrr")
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 1.0}
    # a line a passage can't tell a run in which nothing was retrieved from one that wasn't
    assert any("fewer than 2 runs: 1 of 2 questions" in note for note in scores.notes)


@pytest.mark.parametrize("repeat", [True, 0, 1.5, "one", -1])
def test_wrong_numbers_name_their_line(tmp_path: Path, repeat: Any) -> None:
    path = tmp_path / "run.jsonl"
    record = {"query_id": "q1", "repeat": repeat, "retrieved_ids": ["a"]}
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="line 1: expected a number from 1 on"):
        read_run(path)


def test_the_same_time_twice_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = '{"query_id": "q1", "repeat": 2, "retrieved_ids": ["a"]}\n'
    path.write_text(2 * line, encoding="utf-8")
    with pytest.raises(FileFormatError, match="line 2: expected every query id once"):
        read_run(path)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_stored_repeats_on_the_command_line(tmp_path: Path, ending: str) -> None:
    path, page = tmp_path / f"run.{ending}", tmp_path / "page.html"
    write_run(THRICE, path, relevance=JUDGED)
    shown = run("score", str(path), "-m", "mrr", "--html", str(page))
    assert shown.exit_code == 0, shown.output
    assert "Asked 3 times, 2 of 2 questions score differently" in " ".join(shown.stdout.split())
    assert "differently from run to run on mrr" in page.read_text(encoding="utf-8")
