"""`rag-metrics power`: of stored scores, of numbers given, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import refusal
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import Scores, power
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.scores import scores_export

IDS = [f"q{number:02d}" for number in range(40)]


def scores(name: str, hits: int) -> Scores:
    values = [1.0] * hits + [0.0] * (40 - hits)
    return Scores(IDS, {"hit_rate@5": values, "mrr@5": values}, name=name)


ONE, OTHER = scores("one", 20), scores("other", 23)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ONE.to_json("one.json")
    OTHER.to_json("other.json")
    Path("both.json").write_text(scores_export.to_json([ONE, OTHER]), encoding="utf-8")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["power", *arguments])


def test_of_two_files_or_of_one_with_both() -> None:
    apart, together = run("one.json", "other.json"), run("both.json")
    assert (apart.exit_code, apart.stderr) == (0, "")
    assert apart.stdout == together.stdout
    assert "To show a gain of 0.02 on hit_rate@5 you need about" in apart.stdout
    assert "one and other, 40 questions" in apart.stdout


def test_numbers_are_those_of_the_function() -> None:
    result = run("both.json", "--effect", "0.05", "-m", "mrr@5", "--format", "json")
    expected = power({"one": ONE, "other": OTHER}, effect=0.05, metrics=["mrr@5"])
    assert json.loads(result.stdout) == json.loads(expected.to_json())


def test_without_scores() -> None:
    given = ["--effect", "0.05", "--deviation", "0.25", "--changed", "0.5", "--questions", "100"]
    result = run(*given)
    assert result.exit_code == 0
    assert "What 100 questions show" in result.stdout
    assert "about 210 questions" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the scores of two systems, or both deviation and changed"),
        (["one.json"], "SCORES: expected two systems, in two files or in one, got ['one']"),
        (["both.json", "one.json"], "SCORES: expected two systems, in two files or in one"),
        (["gone.json"], "gone.json: No such file"),
        (["notes.txt"], "notes.txt: expected scores"),
        (["--deviation", "0.9", "--changed", "0.1"], "--deviation: expected a number from 0.06"),
    ],
)
def test_refusals(arguments: list[str], message: str) -> None:
    Path("notes.txt").write_text("no scores", encoding="utf-8")
    assert message in refusal(run(*arguments))
