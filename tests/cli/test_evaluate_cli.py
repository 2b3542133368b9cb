"""`rag-metrics evaluate`: what it prints and writes, and every exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import run
from support.evaluate_command import current_folder, evaluate, row

from llama_index_rag_metrics import Scores, read_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with current_folder(tmp_path, monkeypatch):
        yield tmp_path


def test_evaluate_built_in_retrievers_side_by_side(folder: Path) -> None:
    result = evaluate(
        "-r", "bm25", "-r", "lsa", "-m", "mrr", "-m", "nDCG@10", "--slice", "language"
    )

    assert result.exit_code == 0, result.output
    assert "beir  3 questions · 3 passages" in result.stdout
    assert "On mrr" in result.stdout
    assert " bm25 1.00 " in " ".join(result.stdout.split())
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("factory", "mrr"),
    [
        ("of_nothing", "0.50"),  # d2, d1: first hits at 2, 1 and never
        ("of_dataset", "0.61"),  # d1, d2, d3: at 1, 2, 3
        ("of_nodes", "0.61"),
        ("Backwards", "0.61"),  # d3, d2, d1: at 3, 2, 1
    ],
)
def test_factories(folder: Path, factory: str, mrr: str) -> None:
    result = evaluate("-r", f"my_factories:{factory}", "-m", "mrr")

    assert result.exit_code == 0, result.output
    assert row(result, "mrr") == [mrr]
    assert factory in result.stdout


def test_top_k_reaches_the_factory(folder: Path) -> None:
    shallow = evaluate("-r", "my_factories:of_nodes", "-m", "recall", "--top-k", "1")
    deep = evaluate("-r", "my_factories:of_nodes", "-m", "recall@50")

    assert row(shallow, "recall") == ["0.33"]
    assert row(deep, "recall@50") == ["1.00"]


def test_two_factories_of_one_name_go_by_their_paths(folder: Path) -> None:
    (folder / "my_broken.py").write_text("def of_nothing():\n    return lambda query: ['d1']\n")
    json_path = folder / "scores.json"
    result = evaluate(
        "-r", "my_factories:of_nothing", "-r", "my_broken:of_nothing", "--json", str(json_path)
    )

    assert result.exit_code == 0, result.output
    assert list(json.loads(json_path.read_text())) == [
        "my_factories:of_nothing",
        "my_broken:of_nothing",
    ]


def test_progress_is_on_standard_error(folder: Path) -> None:
    result = run("evaluate", "-d", "beir", "-r", "bm25", "-m", "mrr")

    assert "3/3" in result.stderr
    assert "3/3" not in result.stdout


def test_json_has_every_score_unrounded(folder: Path) -> None:
    result = evaluate("-r", "my_factories:of_dataset", "-m", "mrr", "--json", "scores.json")
    saved = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    scores = Scores.from_json(json.dumps(saved["of_dataset"]))

    assert result.exit_code == 0
    assert scores.by_query("mrr") == {"q1": 1.0, "q2": 1 / 2, "q3": 1 / 3}
    assert scores.queries["q3"] == "番茄種在哪裡？"


def test_failed_queries_exit_with_1_and_are_listed(folder: Path) -> None:
    result = evaluate("-r", "my_factories:flaky", "-m", "mrr")

    assert result.exit_code == 1, result.output
    assert row(result, "failed") == ["1"]
    assert "Failed: 1" in result.stdout
    assert "TimeoutError: the store is [red]asleep" in result.stdout


def test_labels_that_match_nothing_are_a_note_and_no_warning(folder: Path) -> None:
    (folder / "my_broken.py").write_text("def strangers():\n    return lambda query: ['other']\n")
    result = evaluate("-r", "my_broken:strangers", "-m", "mrr")

    assert "0 of 3 labels match node_id" in " ".join(result.stdout.split())
    assert result.stderr == ""


@pytest.mark.parametrize("judgements", ["", "q1\td1\t0\n"])
def test_where_nothing_is_measured_it_exits_with_1(folder: Path, judgements: str) -> None:
    qrels = folder / "beir" / "qrels" / "test.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\n" + judgements)
    result = evaluate("-r", "bm25")
    assert result.exit_code == 1
    assert "Nothing was measured on 3 questions" in result.stdout


def test_a_metric_without_values_exits_with_1(folder: Path) -> None:
    # a grade of 3 is above the highest grade that this metric is told of
    result = evaluate("-r", "my_factories:of_dataset", "-m", "mrr,err(max_grade=0.5)")

    assert result.exit_code == 1, result.output
    assert "of_dataset: err(max_grade=0.5) has no value for 3 questions" in result.stderr


def test_evaluate_writes_runs_and_html_and_says_which_is_better(folder: Path) -> None:
    both = ("-r", "my_factories:of_dataset", "-r", "my_factories:Backwards")
    result = evaluate(*both, "-m", "mrr", "-o", "out.jsonl", "--html", "report.html")

    assert result.exit_code == 0, result.output
    printed = " ".join(result.stdout.split())
    decision = " better than of_dataset on mrr"
    assert 0 < printed.index(decision) < printed.index(" of_dataset 0.61 ")
    assert read_run("out.Backwards.jsonl")["q1"].ids == ["d3", "d2", "d1"]
    assert (folder / "out.of_dataset.jsonl").exists()
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "<html" in report[:500]
    assert decision in report


def test_evaluate_matches_by_text(folder: Path) -> None:
    assert evaluate("-r", "bm25", "-m", "mrr", "--matcher", "text").exit_code == 0


def test_columns_name_the_fields(folder: Path) -> None:
    golden = {"input": "red kiln", "gold_ids": ["d2"]}
    Path("goldens.jsonl").write_text(json.dumps(golden), encoding="utf-8")
    named = ("--columns", "question=input,labels=gold_ids", "--no-progress", "--json", "-")
    ended = run("evaluate", "-d", "goldens.jsonl", "-r", "my_factories:of_nothing", *named)
    assert ended.exit_code == 0, ended.output
    means = json.loads(ended.stdout[ended.stdout.index("{") :])["of_nothing"]["means"]
    assert means["mrr@10"] == 1.0
