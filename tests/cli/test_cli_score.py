"""`rag-metrics score`, of runs and traces: what it prints and writes, and every exit code."""

import gzip
import json
import os
import re
import signal
import sys
import warnings
from pathlib import Path

import pytest
from support.command_line import columns_of, refusal, run
from support.paths import ROOT
from support.processes import start
from support.telemetry import request, retrieval, span, write_lines
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    score_rankings,
    write_run,
)
from llama_index_rag_metrics.cli import app, main

# one hit for q1 at rank 2, where the tie puts b first; q2 finds nothing; q3 isn't asked,
# q4 has nothing relevant, q9 isn't judged
BM25 = """\
q1 Q0 a 1 3.0 bm25
q1 Q0 b 2 3.0 bm25
q1 Q0 c 3 1.5 bm25
q2 Q0 a 1 1.0 bm25
q9 Q0 a 1 1.0 bm25
"""
QRELS = "q1 0 a 2\nq1 0 z 0\nq2 0 x 1\nq3 0 y 1\nq4 0 a 0\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs and their qrels."""
    (tmp_path / "bm25.run").write_text(BM25)
    (tmp_path / "dense.run").write_text(BM25.replace("a 1 3.0", "a 1 9").replace("bm25", "dense"))
    (tmp_path / "qrels").write_text(QRELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def score(*arguments: str, qrels: str = "qrels") -> Result:
    labels = ["--qrels", qrels] if qrels else []
    return CliRunner().invoke(app, ["score", *arguments, *labels], env={"COLUMNS": "120"})


def rows(result: Result) -> dict[str, list[str]]:
    """The columns of the tables."""
    assert result.exit_code == 0, result.output
    return columns_of(result.stdout)


def test_runs_side_by_side(folder: Path) -> None:
    values = rows(score("bm25.run", "dense.run", "-m", "mrr"))
    # means over q1, q2 and q3: 1/2 and 1, over 3
    assert values["mean"] == ["0.17", "0.33"]
    assert [values[name][0] for name in ("questions", "scored")] == ["5", "3"]
    assert "failed" not in values  # nothing did
    assert values["nothing retrieved"] == ["2", "2"]
    assert values["nothing relevant"] == values["not labelled"] == ["1", "1"]


def test_usual_metrics_unless_others_are_named(folder: Path) -> None:
    usual = {"hit_rate@5", "recall@5", "precision@5", "mrr@10", "ap@10", "ndcg@10"}
    assert usual <= set(rows(score("bm25.run")))


def test_metrics_are_split_at_commas(folder: Path) -> None:
    values = rows(score("bm25.run", "-m", "mrr,ndcg(ideal=all, mode=exponential)", "-m", "ap@2"))
    assert "mrr" in values
    assert "ap@2" in values


def test_json_is_printed_or_written_beside_the_report(folder: Path) -> None:
    printed = score("bm25.run", "-m", "mrr", "--json", "-")
    shown = score("bm25.run", "-m", "mrr", "--json", "all.json")
    assert Path("all.json").read_text("utf-8") == printed.stdout
    assert "mrr" in columns_of(shown.stdout)


def test_columns_name_the_fields(folder: Path) -> None:
    Path("other.jsonl").write_text('{"id": "q1", "found": ["b", "a"], "gold_ids": ["a"]}\n')
    names = ("--columns", "query_id=id,retrieved=found", "--columns", "labels=gold_ids")
    assert rows(score("other.jsonl", "-m", "mrr", *names, qrels=""))["mrr"] == ["0.50"]


def test_runs_of_the_same_name_go_by_their_files(folder: Path) -> None:
    Path("bm25.run.gz").write_bytes(gzip.compress(BM25.encode()))
    result = score("bm25.run", "bm25.run.gz", "-m", "mrr", "--json", "all.json")
    assert "bm25.run.gz and bm25.run score the same on mrr" in result.stdout
    assert set(json.loads(Path("all.json").read_text("utf-8"))) == {"bm25.run", "bm25.run.gz"}


def test_relevance_beside_the_rankings(folder: Path) -> None:
    labels = [{"query_id": "q1", "retrieved_ids": ["b", "a"], "expected_ids": ["a"]}]
    Path("run.json").write_text(json.dumps(labels))
    assert rows(score("run.json", "-m", "mrr", qrels=""))["mrr"] == ["0.50"]
    Path("scores.csv").write_text("query_id,doc_id,score\nq1,b,1.\nq1,a,.5\n")  # no grades
    assert "labels of its questions" in refusal(score("scores.csv", qrels=""))
    Path("texts.jsonl").write_text('{"query_id": "q1", "query": "?", "expected_texts": ["x y"]}\n')
    said = refusal(score("bm25.run", "--dataset", "texts.jsonl", qrels=""))
    assert "match_run(run, dataset, 'text')" in said


def test_failed_queries_are_exit_code_1(folder: Path) -> None:
    write_run(Run({"q1": ["a"], "q2": Ranking([], error="TimeoutError: slow")}), "run.jsonl")
    result = score("run.jsonl", "-m", "mrr")
    assert result.exit_code == 1
    assert "TimeoutError: slow" in result.stdout


def test_markup_in_names_is_only_text(folder: Path) -> None:
    Path("a.run").write_text("[red]q1 Q0 a 1 1.0 [bold]x\n")
    Path("q").write_text("[red]q1 0 a 1\n")
    values = rows(score("a.run", "-m", "mrr", qrels="q"))
    assert values["system"][0] == "[bold]x"


needs_pipes = pytest.mark.skipif(os.name == "nt", reason="needs named pipes and SIGINT")


@pytest.mark.slow
@needs_pipes
def test_pipe_is_read_once(folder: Path) -> None:
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "llama_index_rag_metrics", "score", "pipe"]
    process = start([*command, "--qrels", "qrels", "-m", "map", "--json", "-"], environment())
    Path("pipe").write_text(BM25)
    out, err = process.communicate(timeout=60)
    assert json.loads(out)["bm25"]["means"]
    assert "rag-metrics: " not in err


@pytest.mark.slow
@needs_pipes
def test_ctrl_c(folder: Path) -> None:
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "llama_index_rag_metrics", "score", "pipe"]
    process = start([*command, "--qrels", "qrels", "--json", "all.json"], environment())
    with Path("pipe").open("w"):  # opens when the command is reading
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "rag-metrics: interrupted: nothing was written"
    assert not Path("all.json").exists()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_numbers_are_those_of_score_rankings(folder: Path) -> None:
    result = score("bm25.run", "-m", "ndcg@10", "--json", "-")
    expected = {"q1": {"a": 2, "z": 0}, "q2": ["x"], "q3": ["y"], "q4": {"a": 0}}
    rankings = {"q1": ["b", "a", "c"], "q2": ["a"], "q9": ["a"]}
    scores = score_rankings(expected, Run(rankings), ["ndcg@10"], name="bm25")
    printed = Scores.from_json(json.dumps(json.loads(result.stdout)["bm25"]))
    assert printed == scores


def test_printed_and_written_reports_tell_why_a_question_failed(folder: Path) -> None:
    shown = score("bm25.run", "-m", "recall@1").stdout
    assert "relevant a [2]: rank 2, below the cutoff 1" in " ".join(shown.split())
    result = score("bm25.run", "-m", "recall@1", "--json", "-")
    kept = Scores.from_json(json.dumps(json.loads(result.stdout)["bm25"]))
    # q1 wants a, the second of b, a, c
    question = " ".join(repr(kept.worst("recall@1", 1)).split())
    assert "relevant a [2]: rank 2, below the cutoff 1 bm25 0.00 1. b 2. a [2] 3. c" in question


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


@pytest.mark.usefixtures("traced")
class TestTraces:
    def test_traces_by_attribute(self) -> None:
        Path("qrels.txt").write_text("q1 0 good 1\nq1 0 good2 1\nq2 0 z 1\n")
        named = ["--qrels", "qrels.txt", "--question-id", "question_id"]
        ended = run("score", "traces.jsonl", *named, "-m", "mrr,recall@3", "--json", "-")
        assert ended.exit_code == 0, ended.output
        # q1: bad, good, good2: 1/2 and 2/2; q2: nothing
        assert json.loads(ended.stdout)["traces"]["means"] == {"mrr": 0.25, "recall@3": 0.5}

    def test_traces_by_the_questions_of_a_dataset_whose_labels_count(self) -> None:
        dataset = RetrievalDataset(
            queries={"a": "Where?", "b": "When?", "c": "Why?"},
            relevance={"a": ["good"], "b": ["bad"], "c": ["good"]},
        )
        dataset.save("dataset.json")
        ended = run("score", "traces.jsonl", "--dataset", "dataset.json", "-m", "mrr")
        assert ended.exit_code == 0
        assert re.search(r"0\.75", ended.stdout)  # (1/2 + 1) / 2
        assert "2 questions scored; 1 not asked" in ended.stdout

    def test_unnamed_questions(self) -> None:
        Path("qrels.txt").write_text("q1 0 good 1\n")
        ended = run("score", "traces.jsonl", "--qrels", "qrels.txt")
        assert ended.exit_code == 2
        assert "--question-id or --dataset" in ended.output
        ended = run("score", "traces.jsonl")
        assert "Give the labels with --qrels FILE" in ended.output


STEERING = "\x1b[31m\x07\u202e"
"""Colours a terminal, rings, and turns what follows round."""


@pytest.mark.usefixtures("traced")
def test_standard_error_steers_no_terminal() -> None:
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


def test_warnings_dont(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def command(prog_name: str) -> None:
        warnings.showwarning(UserWarning(f"a{STEERING}b"), UserWarning, "file.py", 1)

    monkeypatch.setattr("llama_index_rag_metrics.cli.app", command)
    main()
    assert capsys.readouterr().err == "rag-metrics: a [31m b\n"
