"""Scores of what was asked in production: a labelled question that nobody asked isn't a miss."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.command_line import run
from support.telemetry import request, retrieval, write_lines

from llama_index_rag_metrics import (
    RetrievalDataset,
    Run,
    Scores,
    compare,
    read_traces,
    score_rankings,
)

DATASET = RetrievalDataset(
    {f"q{number}": f"question {number}?" for number in range(30)},
    {f"q{number}": [f"d{number}"] for number in range(30)},
)


def week(path: Path, asked: Iterable[int], misses: int) -> Run:
    """The traces of some questions; of every `misses`-th of them the label isn't retrieved."""
    spans = []
    for number in asked:
        ids = ["other"] if number % misses == 0 else [f"d{number}"]
        spans.append(retrieval("r", f"question {number}?", ids, trace=f"t{number}"))
    write_lines(path, *[request(span) for span in spans])
    return read_traces(path, questions=DATASET)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "week.jsonl"


def test_questions_that_nobody_asked_are_counted_and_not_scored(path: Path) -> None:
    log = week(path, range(10), misses=5)  # 0 and 5 are missed
    for labels in (DATASET, DATASET.relevance):
        scores = score_rankings(labels, log, ["mrr"])
        assert scores.means["mrr"] == pytest.approx(8 / 10, abs=0)
        assert (scores.counts.scored, scores.counts.not_asked) == (10, 20)
        expected = "20 of 30 labelled questions weren't asked, and aren't scored"
        assert expected in scores.notes
    assert "10 questions scored; 20 not asked" in str(scores)
    again = Scores.from_json(scores.to_json())
    assert again.excluded["q29"] == "not asked"
    # a run that is no log was meant to answer them all
    assert score_rankings(DATASET, Run(log), ["mrr"]).means["mrr"] == pytest.approx(8 / 30, abs=0)


def test_two_weeks_are_compared_on_what_both_asked(path: Path) -> None:
    last, this = (
        score_rankings(DATASET, week(path, asked, misses), ["mrr"])
        for asked, misses in ((range(20), 5), (range(10, 30), 3))
    )
    comparison = compare({"last": last, "this": this}, baseline="last")
    # 10 to 19: last missed 10 and 15, this 12, 15 and 18
    (difference,) = comparison.differences
    assert difference.n == 10
    assert difference.mean - difference.baseline_mean == pytest.approx(0.7 - 0.8)


def test_on_the_command_line(path: Path, tmp_path: Path) -> None:
    week(path, range(10), misses=5)
    DATASET.save(tmp_path / "dataset.json")
    shown = run("score", str(path), "--dataset", str(tmp_path / "dataset.json"), "-m", "mrr")
    assert shown.exit_code == 0, shown.output
    assert "10 questions scored; 20 not asked" in shown.stdout
