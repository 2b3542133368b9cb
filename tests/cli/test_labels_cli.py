"""`rag-metrics labels`: what it prints and writes, and every exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.cli import app

TEXTS = {
    "d1": "Enceladus is a moon of Saturn. Jets of water vapour rise from cracks in its ice.",
    "d2": "Triton circles Neptune backwards. Its thin air is mostly nitrogen, and it is cold.",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    questions = {"q1": "Which moon has jets?", "q2": "Which one is backwards?"}
    dataset = RetrievalDataset(questions, {"q1": ["d1"], "q2": ["d2"]}, TEXTS)
    dataset.save("dataset.json")
    write_corpus("same.jsonl", TEXTS)
    write_corpus("twice.jsonl", {**TEXTS, "d3": TEXTS["d1"]})
    write_corpus("renamed.jsonl", {"n1": TEXTS["d1"], "n2": TEXTS["d2"]})
    return tmp_path


def write_corpus(path: str, texts: dict[str, str]) -> None:
    lines = (json.dumps({"_id": one, "text": text}) for one, text in texts.items())
    Path(path).write_text("\n".join(lines))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["labels", *arguments])


def refusal(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("rag-metrics: ")


class TestCheck:
    def test_all_is_well(self) -> None:
        for arguments in ((), ("same.jsonl",), ("same.jsonl", "--strict")):
            result = run("check", "dataset.json", *arguments)
            assert result.exit_code == 0, result.output
            assert "Labels of dataset: fine" in result.stdout

    def test_labels_that_are_wrong(self) -> None:
        result = run("check", "dataset.json", "renamed.jsonl")

        assert result.exit_code == 1
        assert "the text of 'd1' is under 'n1' now" in result.stdout

    def test_warnings_count_when_asked(self) -> None:
        result = run("check", "dataset.json", "twice.jsonl")
        strict = run("check", "dataset.json", "twice.jsonl", "--strict")

        assert (result.exit_code, strict.exit_code) == (0, 1)
        assert "'d3' says what 'd1' says, without a label" in result.stdout

    def test_what_programs_read(self, folder: Path) -> None:
        result = run(
            "check", "dataset.json", "renamed.jsonl", "--format", "json", "--json", "found.json",
            "--html", "found.html",
        )  # fmt: skip

        findings = json.loads(result.stdout)
        assert findings == json.loads((folder / "found.json").read_text())
        assert [(one["kind"], one["id"], one["others"]) for one in findings] == [
            ("moved", "d1", ["n1"]),
            ("moved", "d2", ["n2"]),
        ]
        assert "passages under another id" in (folder / "found.html").read_text()

    def test_markdown(self) -> None:
        result = run("check", "dataset.json", "renamed.jsonl", "--format", "markdown")

        row = "| passages under another id | **2** | 2 | **error** | move the labels |"
        assert row in result.stdout

    def test_wrong_usage(self) -> None:
        assert "nothing.json" in refusal(run("check", "nothing.json"))
        assert "nowhere" in refusal(run("check", "dataset.json", "nowhere"))
        assert "alike" in refusal(run("check", "dataset.json", "--alike", "2"))
        assert "--json" in refusal(run("check", "dataset.json", "--json", "no/such/folder.json"))


class TestMove:
    def test_all_find_their_places(self, folder: Path) -> None:
        result = run(
            "move", "dataset.json", "renamed.jsonl", "-o", "new.json", "--json", "moves.json"
        )

        assert result.exit_code == 0, result.output
        moved = RetrievalDataset.load("new.json")
        assert moved.relevance == {"q1": ["n1"], "q2": ["n2"]}
        moves = json.loads((folder / "moves.json").read_text())
        assert [(one["item"], one["fate"], one["new_ids"]) for one in moves] == [
            ("d1", "moved", ["n1"]),
            ("d2", "moved", ["n2"]),
        ]

    def test_lost_labels(self) -> None:
        write_corpus("half.jsonl", {"n1": TEXTS["d1"]})

        result = run("move", "dataset.json", "half.jsonl", "-o", "new.jsonl")

        assert result.exit_code == 1
        assert "'d2' is lost" in result.stdout
        assert RetrievalDataset.load("new.jsonl").relevance == {"q1": ["n1"], "q2": []}

    def test_wrong_usage(self) -> None:
        assert "nowhere" in refusal(run("move", "dataset.json", "nowhere", "-o", "new.json"))
        wrong = run("move", "dataset.json", "same.jsonl", "-o", "new.txt")
        assert "a name that ends in .json or .jsonl" in refusal(wrong)


class TestPool:
    @pytest.fixture(autouse=True)
    def runs(self, folder: Path) -> None:
        (folder / "a.run").write_text("q1 Q0 d1 1 2 a\nq1 Q0 d2 2 1 a\n")
        (folder / "b.run").write_text("q1 Q0 d2 1 2 b\nq1 Q0 d1 2 1 b\n")

    def test_what_to_judge_next(self, folder: Path) -> None:
        result = run(
            "pool", "a.run", "b.run", "-o", "pool.jsonl", "-m", "precision@1", "-d", "dataset.json",
        )  # fmt: skip

        assert result.exit_code == 0, result.output
        assert "not enough" in result.stdout
        lines = (folder / "pool.jsonl").read_text().splitlines()
        assert {json.loads(line)["text"] for line in lines} == set(TEXTS.values())

    def test_when_it_is_enough(self, folder: Path) -> None:
        (folder / "qrels").write_text("q1 0 d1 1\nq1 0 d2 0\n")

        result = run(
            "pool", "a.run", "b.run", "-o", "pool.jsonl", "-m", "precision@1", "--qrels", "qrels",
        )  # fmt: skip

        assert result.exit_code == 0, result.output
        assert "Judging can stop" in result.stdout
        assert (folder / "pool.jsonl").read_text() == ""

    def test_wrong_usage(self) -> None:
        assert "metric" in refusal(run("pool", "a.run", "b.run", "-o", "p.jsonl", "-m", "mrr"))
        assert "runs" in refusal(run("pool", "a.run", "-o", "p.jsonl"))
