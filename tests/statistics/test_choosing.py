"""Which configurations are the best, as far as the queries can tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from llama_index_rag_metrics.statistics import resampling
from llama_index_rag_metrics.statistics.shortfalls import beats_all


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "RESAMPLES", 200)


def test_no_winner_among_thirty_that_are_equally_good() -> None:
    """At most 5 % of sweeps: 3 of 40 have a chance of 32 % at that rate, 7 or more one of 0.3 %."""
    rng = np.random.default_rng(4)
    named = 0
    for _ in range(40):
        difficulty = rng.beta(1, 1, (60, 1))
        scores = (rng.random((60, 30)) < difficulty).astype(float)
        named += beats_all(scores, int(scores.mean(axis=0).argmax()), span=1.0)
    assert named < 7


def test_a_clear_winner_is_named() -> None:
    rng = np.random.default_rng(6)
    scores = rng.normal(0, 0.1, (100, 20))
    scores[:, 7] += 0.2
    assert beats_all(scores, 7, span=math.inf)
