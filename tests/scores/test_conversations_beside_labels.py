"""Conversations that stand beside stored labels: clusters of whatever is scored by them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from llama_index_rag_metrics import Run, Scores, read_qrels, read_run, score_rankings, write_run

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


def test_a_run_s_metadata_come_first() -> None:
    run = Run(RUN, metadata={"q00": {"conversation": "own"}})
    scores = score_rankings(read_qrels(LABELS), run, "hit_rate")
    assert dict(scores.metadata) == {"q00": {"conversation": "own"}}


def test_labels_without_conversations_say_nothing() -> None:
    some = [{**row, "conversation": ""} for row in LABELS[:2]]
    assert dict(read_qrels(some).metadata) == {}
    assert dict(read_qrels({"q1": ["d1"]}).metadata) == {}
