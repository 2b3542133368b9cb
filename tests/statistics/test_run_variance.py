"""pass@k, pass^k and variance components, against counting all choices and published code."""

from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest

from llama_index_rag_metrics.metrics.passes import Passes
from llama_index_rag_metrics.statistics.sample_size import Components


def chance_of_one(successes: int, runs: int, k: int) -> float:
    return Passes(k, all_of_them=False).chance(successes, runs)


def chance_of_all(successes: int, runs: int, k: int) -> float:
    return Passes(k, all_of_them=True).chance(successes, runs)


def human_eval(n: int, c: int, k: int) -> float:
    """Chen et al. 2021, figure 3: "a numerically stable script for calculating an unbiased
    estimate of pass@k"."""
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def tau_bench(trials: int, successes: int, k: int) -> float:
    """τ-bench's `display_metrics`: comb(c, k) / comb(num_trials, k)."""
    return math.comb(successes, k) / math.comb(trials, k)


@pytest.mark.parametrize("runs", range(1, 9))
def test_the_chances_are_the_shares_of_all_choices(runs: int) -> None:
    for successes in range(runs + 1):
        outcomes = [True] * successes + [False] * (runs - successes)
        for k in range(1, runs + 1):
            choices = [*combinations(outcomes, k)]
            one, every = (sum(map(kind, choices)) / len(choices) for kind in (any, all))
            assert chance_of_one(successes, runs, k) == pytest.approx(one, abs=1e-15)
            assert chance_of_all(successes, runs, k) == pytest.approx(every, abs=1e-15)
            assert chance_of_one(successes, runs, k) == pytest.approx(
                human_eval(runs, successes, k), abs=1e-12
            )
            assert chance_of_all(successes, runs, k) == tau_bench(runs, successes, k)


def test_large_numbers_are_exact() -> None:
    assert chance_of_one(1, 1000, 1) == 0.001
    assert chance_of_one(500, 1000, 1000) == 1.0
    assert chance_of_all(999, 1000, 1) == 0.999


def test_more_runs_than_there_are_have_no_chance() -> None:
    assert math.isnan(chance_of_one(2, 2, 3))
    assert math.isnan(chance_of_all(2, 2, 3))


def test_components_by_hand() -> None:
    # means 2 and 6; within each question (1² + 1²) / 1 = 2; of the means (2² + 2²) / 1 = 8,
    # of which 2 / 2 = 1 is due to the runs
    assert Components.of([(1.0, 3.0), (5.0, 7.0)])[:2] == (2.0, 7.0)


@pytest.mark.slow
def test_components_of_unequal_numbers_of_runs_are_unbiased() -> None:
    # 4,000 draws of 6 questions with 1 to 4 runs, variance 0.25 between and 1 within: the standard
    # error of both means is below 0.02
    generator = random.Random(0)
    drawn = []
    for _ in range(4000):
        runs = []
        for n in (1, 2, 2, 3, 4, 4):
            true = generator.gauss(0, 0.5)
            runs.append([generator.gauss(true, 1) for _ in range(n)])
        own = [float(np.var(each, ddof=1)) for each in runs if len(each) > 1]
        means = float(np.var([np.mean(each) for each in runs], ddof=1))
        share = float(np.mean([1 / len(each) for each in runs]))
        within = float(np.mean(own))
        found = Components.of(runs)
        assert found[:2] == pytest.approx((within, max(0.0, means - within * share)))
        drawn.append((within, means - within * share))
    assert np.mean(drawn, axis=0) == pytest.approx([1, 0.25], abs=0.06)


def test_questions_asked_once_say_nothing_of_their_runs() -> None:
    components = Components.of([(1.0,), (0.0,)])
    assert math.isnan(components.within)
    assert math.isnan(components.between)
    assert components.questions(1) is None


def test_how_many_questions_are_as_precise() -> None:
    # (7 + 2 / 2) / 2 now; asked once (7 + 2) / n, so n = 9 / 4; asked four times 7.5 / 4
    runs = [(1.0, 3.0), (5.0, 7.0)]
    components = Components.of(runs)
    assert [components.questions(repeats) for repeats in (1, 2, 4)] == [3, 2, 2]
    assert Components.of([(1.0, 1.0)] * 3).questions(1) is None


def test_questions_of_one_conversation_are_worth_less() -> None:
    # of each conversation all questions score alike: 2 of them tell as much as 1, so that the
    # mean's variance is that of 3 questions; n times it, 6 × 1 / 3 = 2, less 0.5 / 2 of the runs
    runs = [(n - 0.5, n + 0.5) for n in (1.0, 1.0, 2.0, 2.0, 3.0, 3.0)]
    conversations = ["a", "a", "b", "b", "c", "c"]
    components = Components.of(runs, conversations)
    assert components == pytest.approx((0.5, 0.8 - 0.25, 2 - 0.25, 0.5 / 2, 6))
    # (1.75 + 0.5 / repeats) / n = 2 / 6, so n = 6.75 and 5.625
    assert [components.questions(repeats) for repeats in (1, 2, 4)] == [7, 6, 6]
    alone = Components.of(runs, range(6))
    assert alone == pytest.approx(Components.of(runs))
    of_one = Components.of(runs, ["a"] * 6)
    assert math.isnan(of_one.apart)
    assert of_one.questions(1) is None
