"""`rag-metrics labels review`: what it prints and writes, and every exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import read_qrels
from llama_index_rag_metrics.cli import app

ITEMS = [
    {"query_id": "q", "query": "Who?", "doc_id": doc_id, "text": f"Passage {doc_id}."}
    for doc_id in "abc"
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("pool.jsonl", *ITEMS)
    return tmp_path


def write(path: str, *lines: object) -> None:
    Path(path).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["labels", *arguments])


def refusal(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("rag-metrics: ")


class TestReview:
    def test_the_page_stands_beside_the_judgements(self, folder: Path) -> None:
        result = run("review", "pool.jsonl", "-o", "judgements.jsonl")

        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines() == [
            "judgements.html: 3 items of 1 question to judge. Open it in a browser.",
            "What it exports goes to judgements.jsonl.",
        ]
        assert (folder / "judgements.html").read_text().startswith("<!DOCTYPE html>")
        assert not (folder / "judgements.jsonl").exists()

    def test_elsewhere(self, folder: Path) -> None:
        result = run("review", "pool.jsonl", "-o", "j.jsonl", "--page", "page.html", "--seed", "3")

        assert result.exit_code == 0, result.output
        assert (folder / "page.html").exists()

    def test_judgements_that_are_there_stay(self, folder: Path) -> None:
        write("j.jsonl", {"query_id": "q", "doc_id": "a", "grade": 2})
        before = (folder / "j.jsonl").read_bytes()

        assert run("review", "pool.jsonl", "-o", "j.jsonl").exit_code == 0

        assert (folder / "j.jsonl").read_bytes() == before
        assert read_qrels("j.jsonl")["q"].grades == {"a": 2}

    def test_wrong_usage(self, folder: Path) -> None:
        write("bad.jsonl", {"query_id": "q", "doc_id": "a", "grade": "?", "note": 1})
        (folder / "rubric.txt").write_text("Grade it well.")

        assert "none.jsonl" in refusal(run("review", "none.jsonl", "-o", "j.jsonl"))
        assert "bad.jsonl, line 1" in refusal(run("review", "pool.jsonl", "-o", "bad.jsonl"))
        assert "--output" in refusal(run("review", "pool.jsonl", "-o", "no/such/folder.jsonl"))
        assert "--page" in refusal(run("review", "pool.jsonl", "-o", "j.html"))
        same = run("review", "pool.jsonl", "-o", "j.jsonl", "--page", "pool.jsonl")
        assert "another file than the pool" in refusal(same)
        rubric = run("review", "pool.jsonl", "-o", "j.jsonl", "--rubric", "rubric.txt")
        assert "a line for each grade" in refusal(rubric)
        assert not (folder / "j.html").exists()
