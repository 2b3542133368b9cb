"""`rag-metrics thresholds`, and --min-score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import refusal, run
from support.telemetry import request, retrieval, write_lines

from llama_index_rag_metrics import Ranking, score_thresholds, write_qrels, write_run

EXPECTED = {f"q{n}": ["a"] if n % 2 else [] for n in range(12)}
STORED = {
    query: Ranking(["a", "b"], scores=[0.5 + n / 100 if n % 2 else 0.4 - n / 100, -1.5])
    for n, query in enumerate(EXPECTED)
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run.jsonl", "run.trec"):
        write_run(STORED, name)
    write_qrels(EXPECTED, "labels.jsonl")


@pytest.mark.parametrize("name", ["run.jsonl", "run.trec"])
def test_it_is_what_python_says(name: str) -> None:
    found = score_thresholds(EXPECTED, STORED, "recall@5")
    shown = run("thresholds", name, "--qrels", "labels.jsonl", "--json", "thresholds.json")
    assert shown.exit_code == 0
    # the best of the others is q0's 0.4, the worst of the answerable ones q1's 0.51
    assert "SimilarityPostprocessor(similarity_cutoff=0.5)" in shown.stdout
    rows = json.loads(Path("thresholds.json").read_text())["result"]
    assert [row["min_score"] for row in rows] == [row.min_score for row in found]
    printed = run("thresholds", name, "--qrels", "labels.jsonl", "--format", "json").stdout
    assert json.loads(printed) == rows


def test_labels_may_stand_beside_the_rankings() -> None:
    lines = Path("run.jsonl").read_text().splitlines()
    rows = [{**json.loads(line)} for line in lines]
    labelled = [{**row, "expected_ids": EXPECTED[row["query_id"]]} for row in rows]
    Path("both.jsonl").write_text("\n".join(map(json.dumps, labelled)))
    shown = run("thresholds", "both.jsonl", "-m", "mrr")
    assert "6 questions with an answer, 6 without" in shown.stdout


def test_traces_have_scores_too() -> None:
    best = {"q1": 0.9, "q2": 0.6, "q3": 0.2}
    requests = [
        request(
            retrieval(
                f"r{query}",
                f"question {query}",
                ["a"],
                trace=query,
                question_id=query,
                retrieval__documents__0__document__score=score,
            )
        )
        for query, score in best.items()
    ]
    write_lines(Path("traces.jsonl"), *requests)
    write_qrels({"q1": ["a"], "q2": ["a"], "q3": []}, "of_traces.jsonl")
    named = ("--qrels", "of_traces.jsonl", "--question-id", "question_id")
    shown = run("thresholds", "traces.jsonl", *named, "--format", "json")
    rows = [(row["min_score"], row["spared"]) for row in json.loads(shown.stdout)]
    assert rows == [(0.2, 0.0), (0.6, 1.0), (0.9, 1.0)]
    cut = run("score", "traces.jsonl", *named, "-m", "abstained,mrr", "--min-score", "0.5")
    assert ["abstained", "1.00"] in [line.split() for line in cut.stdout.splitlines()]


def test_what_it_refuses() -> None:
    write_run({"q1": ["a"]}, "bare.jsonl")
    qrels = ("--qrels", "labels.jsonl")
    assert "Give RUN as a TREC run, or as JSON lines with scores." in refusal(
        run("thresholds", "bare.jsonl", *qrels)
    )
    assert "--metric: expected a metric of rankings that needs labels" in refusal(
        run("thresholds", "run.jsonl", *qrels, "-m", "abstained")
    )
    assert "--qrels" in refusal(run("thresholds", "run.trec"))


def test_a_threshold_of_score(tmp_path: Path) -> None:
    metrics = ("-m", "recall@1,abstained,returned@5", "--qrels", "labels.jsonl")
    shown = run("score", "run.jsonl", *metrics, "--min-score", "0.5", "--html", "page.html")
    assert "Without an answer: 6 questions" in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["abstained", "1.00"] in rows
    assert ["recall@1", "1.00"] in rows
    assert "−1.5" not in Path("page.html").read_text()
    below = run("score", "run.trec", *metrics, "--min-score", "-2.5")
    assert ["returned@5", "2.00"] in [line.split() for line in below.stdout.splitlines()]
    write_run({"q1": ["a"]}, "bare.jsonl")
    said = refusal(run("score", "bare.jsonl", *metrics, "--min-score", "0.5"))
    assert "a score of every retrieved passage" in said


def test_one_threshold_for_several_is_remarked_on() -> None:
    options = ("--qrels", "labels.jsonl", "-m", "abstained", "--min-score", "0.5")
    said = "--min-score cuts 2 runs at the same score: only scores of one kind compare"
    assert said in run("score", "run.jsonl", "run.trec", *options).stderr
    assert said not in run("score", "run.jsonl", *options).stderr


def test_an_evaluation_ends_well_without_values_that_nobody_is_due() -> None:
    Path("dataset.jsonl").write_text(
        '{"query_id": "q1", "query": "How do ants march?", "expected_ids": ["d1"]}\n'
        '{"query_id": "q2", "query": "Who repairs zeppelins?", "expected_ids": []}\n'
        '{"document_id": "d1", "text": "Ants march in columns at night."}\n'
        '{"document_id": "d2", "text": "Bees dance to show the way."}\n'
    )
    options = ("-r", "bm25", "-m", "recall@1,abstained", "--min-score", "0.01", "--no-progress")
    shown = run("evaluate", "-d", "dataset.jsonl", *options)
    assert shown.exit_code == 0, shown.output
    assert ["abstained", "1.00"] in [line.split() for line in shown.stdout.splitlines()]
