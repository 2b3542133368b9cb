"""`rag-metrics relate`: which metric predicts the answers, of stored scores and a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import refusal, run

from llama_index_rag_metrics import Scores, relate
from llama_index_rag_metrics.scores import scores_export

IDS = [f"q{number:02d}" for number in range(60)]
RNG = np.random.default_rng(5)
RECALL = RNG.choice([0.0, 0.5, 1.0], 60)
SCORES = Scores(IDS, {"recall@5": RECALL, "mrr": RNG.random(60)}, name="dense")
ANSWERS = dict(zip(IDS, (RNG.random(60) < 0.05 + 0.9 * RECALL).astype(int).tolist(), strict=True))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SCORES.to_json("scores.json")
    both = scores_export.to_json([SCORES, SCORES.replace(name="bm25")])
    Path("both.json").write_text(both, encoding="utf-8")
    rows = [f"{query_id},{answer},{1 - answer},0.5" for query_id, answer in ANSWERS.items()]
    text = "\n".join(["uuid,correct,closed,cost", *rows])
    Path("answers.csv").write_text(text, encoding="utf-8")


COLUMNS = "--columns", "query_id=uuid,answer=correct"


def test_numbers_and_words_are_those_of_the_function() -> None:
    expected = relate(SCORES, ANSWERS)
    printed = run("relate", "scores.json", "answers.csv", *COLUMNS)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert "What predicts the answers (correct)  60 questions" in printed.stdout
    first = expected.report().decision[0]
    assert " ".join(printed.stdout.split()).count(first.text) == 1
    in_json = run(
        "relate", "both.json", "answers.csv", *COLUMNS, "--system", "bm25", "--format", "json"
    )
    assert json.loads(in_json.stdout) == json.loads(expected.to_json())


def test_files_and_references() -> None:
    Path("closed.jsonl").write_text(
        "".join(f'{{"uuid": "{query_id}", "correct": 0}}\n' for query_id in IDS), encoding="utf-8"
    )
    options = "-m", "mrr,recall@5", "--closed-book", "closed.jsonl", "--oracle", "answers.csv"
    written = "--html", "page.html", "--json", "rows.json"
    printed = run("relate", "scores.json", "answers.csv", *COLUMNS, *options, *written)
    words = " ".join(printed.stdout.split())
    assert "Without any context answers score 0.00: what was retrieved adds" in words
    assert "better retrieval isn't shown to be what they need" in words
    assert [
        row["metric"] for row in json.loads(Path("rows.json").read_text("utf-8"))["result"]
    ] == ["recall@5", "mrr"]
    assert "How well each metric predicts the answers" in Path("page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("scores.json", "answers.csv", "--columns", "query_id=uuid"),
            "--columns: expected one column of scores, got ['correct', 'closed', 'cost']. Say "
            "which: --columns answer=NAME.",
        ),
        (("both.json", "answers.csv"), "--system: expected 'dense' or 'bm25', got None"),
        (("both.json", "answers.csv", "--system", "x"), "--system: expected 'dense' or 'bm25'"),
        (("scores.json", "none.csv"), "none.csv: No such file"),
        (("scores.json", "scores.json"), "--columns: expected one column of scores, got ['"),
        (
            ("scores.json", "answers.csv", *COLUMNS, "--html", "answers.csv"),
            "--html: expected a file that the command doesn't read",
        ),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str) -> None:
    assert refusal(run("relate", *arguments)).startswith(message)


def test_traces_need_no_table() -> None:
    feedback = [{"assessment_name": "ok", "feedback": {"value": "yes"}}]
    traces = [
        {
            "info": {
                "trace_id": query_id,
                "assessments": feedback
                if ANSWERS[query_id]
                else [{"assessment_name": "ok", "feedback": {"value": "no"}}],
            },
            "data": {"spans": []},
        }
        for query_id in IDS
    ]
    Path("traces.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in traces))
    in_json = run("relate", "scores.json", "traces.jsonl", "--format", "json")
    assert json.loads(in_json.stdout) == json.loads(relate(SCORES, ANSWERS).to_json())
