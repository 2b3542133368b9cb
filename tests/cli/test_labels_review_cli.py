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


class TestReview:
    def test_the_page_stands_beside_the_judgements(self, folder: Path) -> None:
        result = run("review", "pool.jsonl", "-o", "judgements.jsonl")

        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines() == [
            "Open judgements.html in a browser, and save its export as judgements.jsonl."
        ]
        assert (folder / "judgements.html").read_text().startswith("<!DOCTYPE html>")
        assert not (folder / "judgements.jsonl").exists()

    def test_elsewhere(self, folder: Path) -> None:
        result = run("review", "pool.jsonl", "-o", "j.jsonl", "--page", "page.html")

        assert result.exit_code == 0, result.output
        assert (folder / "page.html").exists()

    def test_judgements_that_are_there_stay(self, folder: Path) -> None:
        write("j.jsonl", {"query_id": "q", "doc_id": "a", "grade": 2})
        before = (folder / "j.jsonl").read_bytes()

        assert run("review", "pool.jsonl", "-o", "j.jsonl").exit_code == 0

        assert (folder / "j.jsonl").read_bytes() == before
        assert read_qrels("j.jsonl")["q"].grades == {"a": 2}


class TestAgree:
    @pytest.fixture(autouse=True)
    def reviews(self) -> None:
        for name, grades in {"anna": [2, 0, 1], "ben": [2, 1, 1]}.items():
            lines = [
                {"query_id": "q", "doc_id": doc_id, "grade": grade, "reviewer": name}
                for doc_id, grade in zip("abc", grades, strict=True)
            ]
            write(f"{name}.jsonl", *lines)

    def test_agreement(self, folder: Path) -> None:
        result = run("agree", "anna.jsonl", "ben.jsonl", "--json", "-")

        assert result.exit_code == 0, result.output
        (differing,) = json.loads(result.stdout)
        assert (differing["doc_id"], differing["first"], differing["second"]) == ("b", 0, 1)
        # o = 2/3; e = 1/3 * 1/3 + 1/3 * 2/3 = 1/3
        assert "Kappa 0.50 on 3 passages" in run("agree", "anna.jsonl", "ben.jsonl").stdout
