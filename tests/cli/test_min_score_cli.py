"""--min-score."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import columns_of, refusal, run

from llama_index_rag_metrics import Ranking, RetrievalDataset, write_qrels, write_run

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


def test_a_threshold_of_score(tmp_path: Path) -> None:
    metrics = ("-m", "recall@1,abstained,returned@5", "--qrels", "labels.jsonl")
    shown = run("score", "run.jsonl", *metrics, "--min-score", "0.5", "--html", "page.html")
    assert "abstained" in shown.stdout
    columns = columns_of(shown.stdout)
    assert (columns["abstained"], columns["recall@1"]) == (["1.00"], ["1.00"])
    assert "−1.5" not in Path("page.html").read_text()
    below = run("score", "run.trec", *metrics, "--min-score", "-2.5")
    assert columns_of(below.stdout)["returned@5"] == ["2.00"]
    write_run({"q1": ["a"]}, "bare.jsonl")
    said = refusal(run("score", "bare.jsonl", *metrics, "--min-score", "0.5"))
    assert "a score of every retrieved passage" in said


def test_an_evaluation_ends_well_without_values_that_nobody_is_due() -> None:
    questions = {"q1": "How do ants march?", "q2": "Who repairs zeppelins?"}
    corpus = {"d1": "Ants march in columns at night.", "d2": "Bees dance to show the way."}
    RetrievalDataset(questions, {"q1": ["d1"], "q2": []}, corpus).save("dataset.json")
    options = ("-r", "bm25", "-m", "recall@1,abstained", "--min-score", "0.01", "--no-progress")
    shown = run("evaluate", "-d", "dataset.json", *options)
    assert shown.exit_code == 0, shown.output
    assert columns_of(shown.stdout)["abstained"] == ["1.00"]
