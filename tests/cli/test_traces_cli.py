"""Traces on the command line, scored with labels."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
from support.command_line import run
from support.telemetry import request, retrieval, span, write_lines

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = {"openinference__span__kind": "AGENT"}
    write_lines(
        Path("traces.jsonl"),
        request(retrieval("r1", "x", ["bad", "good"], "root1", begin=1, seconds=0.25)),
        request(retrieval("r2", "y", ["good2"], "root1", begin=2, seconds=0.25)),
        request(span("root1", **root, input__value="Where?", question_id="q1")),  # type: ignore[arg-type]
        request(retrieval("r3", "When?", ["bad"], trace="t2", question_id="q2")),
    )
    return tmp_path


class TestScore:
    def test_by_attribute(self) -> None:
        Path("qrels.txt").write_text("q1 0 good 1\nq1 0 good2 1\nq2 0 z 1\n")
        named = ["--qrels", "qrels.txt", "--question-id", "question_id"]
        ended = run("score", "traces.jsonl", *named, "-m", "mrr,recall@3", "--json", "-")
        assert ended.exit_code == 0, ended.output
        # q1: bad, good, good2: 1/2 and 2/2; q2: nothing
        assert json.loads(ended.stdout)["traces"]["means"] == {"mrr": 0.25, "recall@3": 0.5}

    def test_by_the_questions_of_a_dataset_whose_labels_count(self) -> None:
        dataset = RetrievalDataset(
            queries={"a": "Where?", "b": "When?"}, relevance={"a": ["good"], "b": ["bad"]}
        )
        dataset.save("dataset.json")
        ended = run("score", "traces.jsonl", "--dataset", "dataset.json", "-m", "mrr")
        assert ended.exit_code == 0
        assert re.search(r"0\.75", ended.stdout)  # (1/2 + 1) / 2

    def test_unnamed_questions(self) -> None:
        Path("qrels.txt").write_text("q1 0 good 1\n")
        ended = run("score", "traces.jsonl", "--qrels", "qrels.txt")
        assert ended.exit_code == 2
        assert "--question-id ATTRIBUTE or --dataset DATASET" in ended.output


STEERING = "\x1b[31m\x07\u202e"
"""Colours a terminal, rings, and turns what follows round."""


def test_nothing_on_standard_error_steers_a_terminal() -> None:
    retrieved = retrieval("r1", "Where?", ["good"], **{STEERING: "q1"})
    write_lines(Path("odd.jsonl"), request(retrieved))
    Path("empty.jsonl").write_text("")
    for arguments in (
        ["score", f"no{STEERING}.jsonl"],
        ["score", "odd.jsonl", "--question-id", f"no{STEERING}", "--qrels", "empty.jsonl"],
    ):
        ended = run(*arguments)
        assert ended.exit_code == 2, ended.output
        assert "rag-metrics: " in ended.stderr
        assert not {"\x1b", "\x07", "\u202e"} & {*ended.stderr}


def test_nor_does_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(prog_name: str) -> None:
        warnings.showwarning(UserWarning(f"a{STEERING}b"), UserWarning, "file.py", 1)

    monkeypatch.setattr("llama_index_rag_metrics.cli.app", command)
    main()
    assert capsys.readouterr().err == "rag-metrics: a [31m b\n"
