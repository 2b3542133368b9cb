"""All pairs of systems: max-t over their paired t-tests, with intervals that agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from support.compared import three_systems
from support.intervals import ends, pseudo_bounds, width

from llama_index_rag_metrics import Scores, compare
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums

N = 60


def systems(columns: np.ndarray) -> dict[str, Scores]:
    """The columns as systems a, b, c and so on."""
    ids = [f"q{number:03}" for number in range(len(columns))]
    return {name: Scores(ids, {"m": column}) for name, column in zip("abcdef", columns.T)}  # noqa: B905


def test_by_the_definition_of_step_down_max_t() -> None:
    rng = np.random.default_rng(3)
    columns = rng.random((N, 1)) + rng.normal([0, 0.02, 0.1], 0.2, (N, 3))
    names = [("a", "b"), ("a", "c"), ("b", "c")]
    differences = np.stack(
        [
            columns[:, 0] - columns[:, 1],
            columns[:, 0] - columns[:, 2],
            columns[:, 1] - columns[:, 2],
        ],
        axis=1,
    )
    signs = np.concatenate([*flipped_sums(Units.of(np.eye(N)), 999, 4)])
    flipped = np.array(
        [np.abs(stats.ttest_1samp(sign[:, None] * differences, 0).statistic) for sign in signs]
    )
    t, p = (np.abs(part) for part in stats.ttest_1samp(differences, 0))
    expected, before, order = np.zeros(3), 0.0, np.argsort(p)
    for step, column in enumerate(order):
        largest = flipped[:, order[step:]].max(axis=1)
        by_flips = (np.count_nonzero(largest >= t[column] - 1e-9) + 1) / 1000
        before = max(before, p[column], min(by_flips, (3 - step) * p[column]))
        expected[column] = min(before, 1.0)

    pairs = compare(systems(columns), "a", resamples=999, seed=4).pairs
    assert [(pair.system, pair.other) for pair in pairs] == names
    assert [pair.difference for pair in pairs] == pytest.approx(differences.mean(axis=0))
    assert [pair.p for pair in pairs] == pytest.approx(expected, rel=1e-9)
    assert [pair.n for pair in pairs] == [N] * 3


@pytest.mark.slow
def test_intervals_of_all_pairs_hold_together() -> None:
    columns = np.random.default_rng(4).normal([0.3, 0.36, 0.4, 0.42], 0.2, (N, 4))
    comparison = compare(systems(columns), "a", resamples=999, seed=4)
    lefts, rights = np.triu_indices(4, 1)
    differences = columns[:, lefts] - columns[:, rights]
    signs = np.concatenate([*flipped_sums(Units.of(np.eye(N)), 999, 4)])
    flipped = [
        np.abs(stats.ttest_1samp(sign[:, None] * differences, 0).statistic).max() for sign in signs
    ]
    # as extreme as the largest of all pairs is in 5 % of flips
    tail = 1 - stats.t.sf(np.quantile(flipped, 0.95), N - 1)
    for pair, left, right in zip(comparison.pairs, lefts, rights, strict=True):
        widest = float(np.ptp(columns[:, [left, right]]))
        expected = pseudo_bounds(columns[:, left] - columns[:, right], float(tail), widest)
        assert ends(pair) == pytest.approx(expected, rel=1e-3)
        if pair.system == "a":
            assert width(pair) > width(comparison[pair.other, "m"])


def test_the_best_beats_each_other_one_in_the_pairs() -> None:
    named = set()
    for seed in range(40):
        columns = np.random.default_rng(seed).normal([0.3, 0.36, 0.4, 0.5], 0.2, (N, 4))
        comparison = compare(systems(columns), "a", resamples=300)
        beaten: dict[str, int] = {}
        for pair in comparison.pairs:
            low, high = ends(pair)
            if low > 0 or high < 0:
                winner = pair.system if low > 0 else pair.other
                beaten[winner] = beaten.get(winner, 0) + 1
        best = [name for name, number in beaten.items() if number == 3]
        named.update(best)
        assert comparison.decision.endswith("is the best of four on m.") == bool(best)
        assert not best or comparison.decision.startswith(f"{best[0]} is ")
    assert named == {"d"}


def test_each_pair_has_the_queries_that_both_score() -> None:
    columns = np.random.default_rng(5).random((N, 3))
    some = systems(columns)
    ids = list(some["c"].query_ids)
    some["c"] = Scores(
        ids[10:], {"m": columns[10:, 2]}, excluded=dict.fromkeys(ids[:10], "unjudged")
    )
    pairs = compare(some, "a", resamples=100).pairs
    assert [pair.n for pair in pairs] == [N, N - 10, N - 10]


def test_one_query_says_nothing() -> None:
    pairs = compare(systems(np.array([[0.1, 0.5, 0.9]])), "a", resamples=100).pairs
    assert [(pair.low, pair.high, pair.p) for pair in pairs] == [(None, None, 1.0)] * 3


def test_metrics_are_families_of_their_own() -> None:
    three = three_systems()
    every = compare(three, "bm25", resamples=200).pairs
    for metric in ("ndcg@10", "hit_rate@5"):
        alone = compare(three, "bm25", metrics=[metric], resamples=200).pairs
        assert tuple(pair for pair in every if pair.metric == metric) == alone


@pytest.mark.slow
def test_a_near_copy_doesnt_make_it_claim() -> None:
    # an error pooled over all pairs, as Tukey's, claimed a difference in 8.5 % of such data sets
    rng = np.random.default_rng(6)
    claimed = 0
    for seed in range(300):
        columns = rng.normal(0.5, 0.2, (40, 5))
        same = rng.random((40, 3)) < 0.9
        columns[:, 1:4] = np.where(same, columns[:, :1], columns[:, 1:4])
        pairs = compare(systems(columns), "a", resamples=200, seed=seed).pairs
        claimed += min(pair.p for pair in pairs) <= 0.05
    # 15 expected; 3 standard errors are 11
    assert claimed <= 26
