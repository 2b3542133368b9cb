"""`rag-metrics score`: what it prints and writes, and every exit code."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from support.command_line import columns_of, refusal
from support.paths import ROOT
from support.processes import start
from typer.testing import CliRunner, Result

from llama_index_rag_metrics import Ranking, Run, Scores, score_rankings, write_qrels, write_run
from llama_index_rag_metrics.cli import app

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
    values = rows(score("bm25.run", "dense.run", "-m", "mrr", "-m", "map"))
    # means over q1, q2 and q3: 1/2 and 1, over 3; on mrr and on ap, the best first
    assert values["mean"] == ["0.33", "0.17"] * 2
    assert [values[name][0] for name in ("questions", "scored")] == ["5", "3"]
    assert "failed" not in values  # nothing did
    assert values["nothing retrieved"] == ["2", "2"]
    assert values["nothing relevant"] == values["not labelled"] == ["1", "1"]


def test_the_usual_metrics_unless_others_are_named(folder: Path) -> None:
    usual = {"hit_rate@5", "recall@5", "precision@5", "mrr@10", "ap@10", "ndcg@10"}
    assert usual <= set(rows(score("bm25.run")))


def test_several_metrics_with_commas(folder: Path) -> None:
    values = rows(score("bm25.run", "-m", "mrr,ndcg(ideal=all, mode=exponential)", "-m", "ap@2"))
    assert "mrr" in values
    assert "ap@2" in values


def test_csv_holds_means_unrounded(folder: Path) -> None:
    def table(*arguments: str) -> list[dict[str, str]]:
        result = score("bm25.run", "dense.run", "-m", "mrr", "--format", "csv", *arguments)
        return list(csv.DictReader(io.StringIO(result.stdout)))

    means = table()
    assert [row["run"] for row in means] == ["bm25", "dense"]
    assert [float(row["mrr"]) for row in means] == [0.5 / 3, 1 / 3]
    assert means[0]["queries"] == "5"


def test_json_is_read_back(folder: Path) -> None:
    result = score("bm25.run", "-m", "mrr", "--format", "json")
    scores = Scores.from_json(json.dumps(json.loads(result.stdout)["bm25"]))
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 0.0, "q3": 0.0}
    assert scores.excluded == {"q4": "no_relevant", "q9": "unjudged"}


def test_output_files(folder: Path) -> None:
    polars = pytest.importorskip("polars", reason="the extra batch isn't installed")
    for name in ("all.csv", "all.parquet", "all.json"):
        printed = score("bm25.run", "dense.run", "-m", "mrr", "-o", name)
        assert "dense may be" in printed.stdout
    expected = [
        {"run": run, "query_id": query_id, "mrr": value}
        for run, first in (("bm25", 0.5), ("dense", 1.0))
        for query_id, value in (("q1", first), ("q2", 0.0), ("q3", 0.0))
    ]
    assert polars.read_parquet("all.parquet").to_dicts() == expected
    assert polars.read_csv("all.csv").to_dicts() == expected
    assert set(json.loads(Path("all.json").read_text("utf-8"))) == {"bm25", "dense"}


def test_output_never_replaces_what_is_read(folder: Path) -> None:
    Path("run.csv").write_text("query_id,doc_id,score\nq1,a,1\n")
    Path("qrels.json").write_text('{"q1": {"a": 1}}')
    for output in ("run.csv", "./qrels.json"):
        before = Path(output).read_bytes()
        message = refusal(score("run.csv", "-m", "mrr", "-o", output, qrels="qrels.json"))
        assert message.startswith("--output: expected a file that the command doesn't read")
        assert Path(output).read_bytes() == before


def test_runs_of_the_same_name_go_by_their_files(folder: Path) -> None:
    Path("bm25.run.gz").write_bytes(gzip.compress(BM25.encode()))
    result = score("bm25.run", "bm25.run.gz", "-m", "mrr", "-o", "all.json")
    assert "bm25.run.gz and bm25.run score the same on mrr" in result.stdout
    assert set(json.loads(Path("all.json").read_text("utf-8"))) == {"bm25.run", "bm25.run.gz"}


@pytest.mark.parametrize("name", ["run.jsonl", "run.parquet"])
def test_every_format_scores_the_same(folder: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="the extra batch isn't installed")
    rankings = {"q1": ["b", "a", "c"], "q2": ["a"], "q9": ["a"]}
    write_run(rankings, name)
    write_qrels({"q1": {"a": 2, "z": 0}, "q2": ["x"], "q3": ["y"]}, f"qrels.{name}")
    assert rows(score(name, "-m", "mrr"))["mrr"] == ["0.17"]
    assert rows(score(name, "-m", "mrr", qrels=f"qrels.{name}"))["mrr"] == ["0.17"]


def test_relevance_beside_the_rankings(folder: Path) -> None:
    write_run({"q1": ["b", "a"], "q2": ["a"]}, "run.jsonl", relevance={"q1": ["a"], "q2": ["a"]})
    assert rows(score("run.jsonl", "-m", "mrr", qrels=""))["mrr"] == ["0.75"]
    assert refusal(score("bm25.run", qrels="")) == (
        "RUN: expected a kind of file that has expected_ids beside its rankings, got 'bm25.run'. "
        "Or give the labels with --qrels FILE."
    )


def test_failed_queries_are_exit_code_1(folder: Path) -> None:
    write_run(Run({"q1": ["a"], "q2": Ranking([], error="TimeoutError: slow")}), "run.jsonl")
    result = score("run.jsonl", "-m", "mrr")
    assert result.exit_code == 1
    assert "TimeoutError: slow" in result.stdout


def test_a_bad_line_ends_it(folder: Path) -> None:
    Path("bad.run").write_text(BM25 + "no line\nq1 Q0 d 4 nan bm25\n")
    assert refusal(score("bad.run")) == (
        "bad.run, line 6: expected 6 columns: query id, Q0, document id, rank, score, tag, "
        "got 'no line'."
    )


@pytest.mark.parametrize("packed", [False, True])
def test_comments_and_columns_after_the_tag(folder: Path, packed: bool) -> None:
    text = "# a b c 4 d\n" + BM25.replace("3.0 bm25\n", "3.0 first more\n# q1 Q0 z 1 9.0 t\n")
    Path("odd.gz" if packed else "odd").write_bytes(
        gzip.compress(text.encode()) if packed else text.encode()
    )
    Path("judged").write_text("# judged by 3\n" + QRELS)
    plain = score("bm25.run", "--format", "json", "-m", "mrr,ndcg@10")
    odd = score("odd.gz" if packed else "odd", "--format", "json", "-m", "mrr,ndcg@10",
                qrels="judged")  # fmt: skip
    assert odd.stdout == plain.stdout
    assert "bm25" in json.loads(odd.stdout)


def test_judged_documents_only_and_at_most_so_many(folder: Path) -> None:
    def mrr(*options: str) -> float:
        score("bm25.run", "-m", "mrr", "-o", "scores.json", *options)
        kept = json.loads(Path("scores.json").read_text("utf-8"))["bm25"]
        return Scores.from_json(json.dumps(kept)).by_query("mrr")["q1"]

    # q1: b isn't judged, so that a is first; cut to one first, nothing judged is left of b
    assert (mrr(), mrr("-J"), mrr("-J", "-M", "1")) == (0.5, 1.0, 0.0)


REFUSALS = [
    (["none.run"], "none.run: No such file or directory"),
    (["empty"], "RUN: expected a file with at least one ranking, got 'empty'."),
    (["other"], "query ids of other: expected some that the qrels have, too, which are like 'q1', "
     "got 'q01'. Query ids compare exactly."),
    (["bm25.run", "bm25.run"], "RUN: expected each run once, got 'bm25.run'."),
    (["bm25.run", "-m", "ngcd@10"], "unknown metric 'ngcd@10'. Did you mean 'ndcg@10'?"),
    (["bm25.run", "-m", "mrr", "-m", "rr"], "--metric: expected each name once, got 'mrr'"),
    (["bm25.run", "-o", "x.txt"], "--output: expected a file that ends in .parquet or .csv or"),
    (["bm25.run", "-o", "no/x.csv"], "--output: expected a file in a folder that exists"),
    (["."], ". isn't a run: it is a folder."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "wording"), REFUSALS)
def test_what_cannot_be_scored_is_one_line_and_exit_code_2(
    folder: Path, arguments: list[str], wording: str
) -> None:
    Path("empty").write_bytes(b"")
    Path("other").write_text("q01 Q0 a 1 1.0 t\n")
    assert refusal(score(*arguments)).startswith(wording)


def test_qrels_that_cannot_be_used(folder: Path) -> None:
    Path("empty").write_bytes(b"")
    assert refusal(score("bm25.run", qrels="none")) == "none: No such file or directory"
    expected = "--qrels: expected a file with at least one label, got 'empty'."
    assert refusal(score("bm25.run", qrels="empty")) == expected
    assert "bm25.run, line 1: expected 4 columns" in refusal(score("bm25.run", qrels="bm25.run"))


def test_markup_in_names_is_only_text(folder: Path) -> None:
    Path("a.run").write_text("[red]q1 Q0 a 1 1.0 [bold]x\n")
    Path("q").write_text("[red]q1 0 a 1\n")
    values = rows(score("a.run", "-m", "mrr", qrels="q"))
    assert values["system"][0] == "[bold]x"


needs_pipes = pytest.mark.skipif(os.name == "nt", reason="needs named pipes and SIGINT")


@pytest.mark.slow
@needs_pipes
def test_a_pipe_is_read_once(folder: Path) -> None:
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "llama_index_rag_metrics", "score", "pipe"]
    process = start([*command, "--qrels", "qrels", "-m", "map", "--format", "csv"], environment())
    Path("pipe").write_text(BM25)
    out, err = process.communicate(timeout=60)
    assert out.startswith("run,map,")
    assert "rag-metrics: " not in err


@pytest.mark.slow
@needs_pipes
def test_ctrl_c(folder: Path) -> None:
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "llama_index_rag_metrics", "score", "pipe"]
    process = start([*command, "--qrels", "qrels", "-o", "all.csv"], environment())
    with Path("pipe").open("w"):  # opens when the command is reading
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "rag-metrics: interrupted: nothing was written"
    assert not Path("all.csv").exists()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_the_numbers_are_those_of_score_rankings(folder: Path) -> None:
    result = score("bm25.run", "-m", "ndcg@10", "--format", "json")
    expected = {"q1": {"a": 2, "z": 0}, "q2": ["x"], "q3": ["y"], "q4": {"a": 0}}
    rankings = {"q1": ["b", "a", "c"], "q2": ["a"], "q9": ["a"]}
    scores = score_rankings(expected, Run(rankings), ["ndcg@10"], name="bm25")
    printed = Scores.from_json(json.dumps(json.loads(result.stdout)["bm25"]))
    assert printed.replace(retrieval=None) == scores


def test_what_is_written_tells_why_a_question_failed(folder: Path) -> None:
    result = score("bm25.run", "-m", "recall@1", "--format", "json")
    kept = Scores.from_json(json.dumps(json.loads(result.stdout)["bm25"]))
    # q1 wants a, the second of b, a, c
    question = " ".join(repr(kept.worst("recall@1", 1)).split())
    assert "relevant a [2]: rank 2, below the cutoff 1 bm25 0.00 1. b 2. a [2] 3. c" in question
