"""Which configurations are the best, as far as the queries can tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from llama_index_rag_metrics.statistics import resampling
from llama_index_rag_metrics.statistics.shortfalls import not_beaten


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
        named += len(not_beaten(scores)) == 1
    assert named < 7


def test_a_clear_winner_is_named() -> None:
    rng = np.random.default_rng(6)
    scores = rng.normal(0, 0.1, (100, 20))
    scores[:, 7] += 0.2
    assert not_beaten(scores).tolist() == [7]


def test_what_is_clearly_worse_is_dropped_and_twins_stay() -> None:
    rng = np.random.default_rng(7)
    scores = np.repeat(rng.random((80, 1)), 4, axis=1)
    scores[:, 2] -= 0.3 + rng.normal(0, 0.05, 80)
    assert not_beaten(scores).tolist() == [0, 1, 3]


@given(scores=st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 4), min_size=2, max_size=12))
@examples(40)
def test_the_best_mean_always_stays(scores: list[tuple[float, ...]]) -> None:
    columns = np.array(scores, np.float64)
    kept = not_beaten(columns)
    assert int(columns.mean(axis=0).argmax()) in kept.tolist()
    order = [2, 0, 3, 1]
    moved = not_beaten(columns[:, order])
    assert sorted(order[position] for position in moved) == kept.tolist()


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (5, 1)])
def test_too_little_to_tell(shape: tuple[int, int]) -> None:
    assert not_beaten(np.zeros(shape)).tolist() == list(range(shape[1]))
