"""What was asked in production, and conversations that stand beside stored labels."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.telemetry import request, retrieval, write_lines

from llama_index_rag_metrics import (
    RetrievalDataset,
    Run,
    Scores,
    compare,
    read_qrels,
    read_run,
    read_traces,
    score_rankings,
    write_run,
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
    return read_traces(write_lines(path, *[request(span) for span in spans]), questions=DATASET)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "week.jsonl"


def test_log_without_any_question_scores_none(path: Path) -> None:
    path.write_text('{"resourceSpans": []}')
    counts = score_rankings(DATASET, read_traces(path), ["mrr"]).counts
    assert (counts.scored, counts.not_asked) == (0, 30)


def test_conversations_of_traces_are_clusters_beside_a_dataset() -> None:
    data = RetrievalDataset({"q": "?"}, {"q": ["a"]}, metadata={"q": {"by": "me"}})
    run = Run({"q": ["a"]}, metadata={"q": {"conversation": "c", "by": "you"}})
    assert score_rankings(data, run, "mrr").metadata == {"q": {"conversation": "c", "by": "me"}}
    assert data.metadata == {"q": {"by": "me"}}


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
    scores.to_html(path.with_suffix(".html"))
    page = path.with_suffix(".html").read_text("utf-8")
    assert page.count("Nobody asked this question.") == 20
    assert "nothing relevant" not in page
    # a run that is no log was meant to answer them all
    assert score_rankings(DATASET, Run(log), ["mrr"]).means["mrr"] == pytest.approx(8 / 30, abs=0)


def test_weeks_are_compared_on_what_both_asked(path: Path) -> None:
    last, this = (
        score_rankings(DATASET, week(path, asked, misses), ["mrr"])
        for asked, misses in ((range(20), 5), (range(10, 30), 3))
    )
    comparison = compare({"last": last, "this": this}, baseline="last")
    # 10 to 19: last missed 10 and 15, this 12, 15 and 18
    (difference,) = comparison.differences
    assert difference.n == 10
    assert "10 of 30 questions compared on 1 metric" in str(comparison)
    assert difference.mean - difference.baseline_mean == pytest.approx(0.7 - 0.8)


N, TURNS = 40, 4
LABELS: list[dict[str, Any]] = [
    {
        "query_id": f"q{n:02d}",
        "query": f"question {n}",
        "expected_ids": [f"d{n}"],
        "conversation": f"c{n // TURNS}",
        "turn": n % TURNS + 1,
    }
    for n in range(N)
]
RUN = Run({f"q{n:02d}": [f"d{n}"] if n // TURNS % 3 else ["x"] for n in range(N)})
SCORE = np.array([float(n // TURNS % 3 > 0) for n in range(N)])


def slow_interval() -> tuple[float, float]:
    """Wilson's, for as many questions as have the cluster-robust error of the mean, with t.

    The error is the square root of G / (G - 1) · Σ (a conversation's sum of deviations)² / n², and
    m (1 - m) / G² is added to its square (docs of statistics/intervals.py).
    """
    groups, mean = N // TURNS, SCORE.mean()
    sums = (SCORE - mean).reshape(groups, TURNS).sum(axis=1)
    variance = groups / (groups - 1) * (sums**2).sum() / N**2 + mean * (1 - mean) / groups**2
    n, t = max(mean * (1 - mean) / variance, groups), stats.t.ppf(0.975, groups - 1)
    centre = (mean + t * t / (2 * n)) / (1 + t * t / n)
    half = t / (1 + t * t / n) * math.sqrt(mean * (1 - mean) / n + (t / (2 * n)) ** 2)
    return centre - half, centre + half


def test_conversations_are_clusters(tmp_path: Path) -> None:
    labels, run = tmp_path / "labels.jsonl", tmp_path / "run.jsonl"
    labels.write_text("\n".join(map(json.dumps, LABELS)))
    write_run(RUN, run)
    twice = Run(repeats=[RUN, RUN])
    scored: list[Scores] = [
        score_rankings(read_qrels(labels), read_run(run), "hit_rate"),
        score_rankings(read_qrels(labels), twice, "hit_rate"),
    ]
    for scores in scored:
        interval = scores.intervals()["hit_rate"]
        assert (interval.low, interval.high) == pytest.approx(slow_interval(), rel=1e-12)


def test_run_s_metadata_come_first() -> None:
    run = Run(RUN, metadata={"q00": {"conversation": "own"}})
    scores = score_rankings(read_qrels(LABELS), run, "hit_rate")
    assert dict(scores.metadata) == {"q00": {"conversation": "own"}}


def test_labels_without_conversations_say_nothing() -> None:
    some = [{**row, "conversation": ""} for row in LABELS[:2]]
    assert dict(read_qrels(some).metadata) == {}
    assert dict(read_qrels({"q1": ["d1"]}).metadata) == {}
