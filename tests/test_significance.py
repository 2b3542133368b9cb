"""Tests of differences, corrections, Tukey and power: equal to scipy called by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from llama_index_rag_metrics.comparison import (
    correct,
    detectable_difference,
    difference_bounds,
    queries_to_decide,
)
from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.statistics.significance import randomisation_p, t_p, wilcoxon_p
from llama_index_rag_metrics.statistics.tukey import (
    critical_range,
    residual_mean_square,
    tukey_pairs,
)

RNG = np.random.default_rng(12)
DIFFERENCES = np.stack(
    [
        RNG.normal(0.02, 0.1, 80),
        RNG.choice([-1.0, 0.0, 0.0, 1.0, 1.0], 80),
        RNG.choice([-0.5, 0.0, 0.25, 0.5], 80),
    ],
    axis=1,
)
UNITS = Units.of(DIFFERENCES)


def test_t_is_scipys() -> None:
    np.testing.assert_allclose(t_p(UNITS), stats.ttest_1samp(DIFFERENCES, 0).pvalue, rtol=1e-10)


def test_wilcoxon_is_scipys() -> None:
    theirs = [stats.wilcoxon(column).pvalue for column in DIFFERENCES.T]
    np.testing.assert_allclose(wilcoxon_p(UNITS), theirs, rtol=1e-12)


def test_wilcoxon_ties_what_only_rounding_parts() -> None:
    noisy = np.array([0.3 - 0.2, 0.2 - 0.1, 0.1, -(0.4 - 0.3), 0.7, 0.9, -0.2, 0.5])
    clean = np.array([0.1, 0.1, 0.1, -0.1, 0.7, 0.9, -0.2, 0.5])
    assert wilcoxon_p(Units.of(noisy[:, None]))[0] == stats.wilcoxon(clean).pvalue


def test_randomisation_is_scipys_to_its_noise() -> None:
    ours = randomisation_p(UNITS, 20_000, 1)
    for p, column in zip(ours, DIFFERENCES.T, strict=True):
        theirs = stats.permutation_test(
            (column,),
            np.mean,
            permutation_type="samples",
            n_resamples=20_000,
            random_state=np.random.default_rng(2),
        ).pvalue
        # 4 standard errors of the difference of two such shares
        assert p == pytest.approx(theirs, abs=4 * math.sqrt(2 * theirs * (1 - theirs) / 20_000))


def test_randomisation_nears_the_share_of_all_flips() -> None:
    column = np.array([0.5, 0.5, -0.25, 1.0, 0.75, 0.0, 0.25, -0.5])
    signs = np.array(list(product([-1, 1], repeat=8)))
    exact = np.mean(np.abs(signs @ column) >= abs(column.sum()) - 1e-12)
    ours = randomisation_p(Units.of(column[:, None]), 40_000, 3)[0]
    assert ours == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000))


def test_randomisation_is_never_0() -> None:
    # every flip of 60 equal differences falls short, but for both extremes: 2 of 2^60
    assert randomisation_p(Units.of(np.ones((60, 1))), 999, 0)[0] == 1 / 1000


def test_identical_systems_have_p_1() -> None:
    units = Units.of(np.zeros((50, 2)))
    for p in (randomisation_p(units, 500, 0), t_p(units), wilcoxon_p(units)):
        assert p.tolist() == [1.0, 1.0]


def test_equal_changes_leave_nothing_to_chance_but_the_flips() -> None:
    units = Units.of(np.full((20, 1), 0.3) - 0.2)
    assert t_p(units)[0] == 0.0
    assert wilcoxon_p(units)[0] < 0.001


@pytest.mark.parametrize("n", [0, 1])
def test_a_query_alone_shows_nothing(n: int) -> None:
    units = Units.of(np.full((n, 1), 0.4))
    for p in (randomisation_p(units, 500, 0), t_p(units), wilcoxon_p(units)):
        assert p[0] == 1.0


def test_missing_values_have_no_part() -> None:
    holey = np.full((160, 3), np.nan)
    holey[::2] = DIFFERENCES
    units = Units.of(holey)
    np.testing.assert_allclose(t_p(units), t_p(UNITS), rtol=1e-12)
    np.testing.assert_array_equal(wilcoxon_p(units), wilcoxon_p(UNITS))
    np.testing.assert_allclose(
        randomisation_p(units, 20_000, 0), randomisation_p(UNITS, 20_000, 0), atol=0.02
    )


class TestClusters:
    def test_copies_of_a_query_are_one(self) -> None:
        units = Units.of(np.repeat(DIFFERENCES, 4, axis=0), np.repeat(np.arange(80), 4))
        np.testing.assert_allclose(t_p(units), t_p(UNITS), rtol=1e-10)
        np.testing.assert_array_equal(wilcoxon_p(units), wilcoxon_p(UNITS))
        np.testing.assert_array_equal(
            randomisation_p(units, 2000, 0), randomisation_p(UNITS, 2000, 0)
        )

    def test_equal_clusters_are_a_t_test_of_their_means(self) -> None:
        units = Units.of(DIFFERENCES, np.arange(80) // 4)
        means = DIFFERENCES.reshape(20, 4, 3).mean(axis=1)
        np.testing.assert_allclose(t_p(units), stats.ttest_1samp(means, 0).pvalue, rtol=1e-10)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_corrections_by_their_definitions(p_values: list[float]) -> None:
    n = len(p_values)
    order = sorted(range(n), key=lambda at: p_values[at])
    holm = np.zeros(n)
    hochberg = np.zeros(n)
    for place, at in enumerate(order):
        holm[at] = min(1, max((n - j) * p_values[order[j]] for j in range(place + 1)))
        hochberg[at] = min(1, *(n / (j + 1) * p_values[order[j]] for j in range(place, n)))
    np.testing.assert_allclose(correct(p_values, "holm"), holm, rtol=1e-12)
    np.testing.assert_allclose(correct(p_values, "benjamini-hochberg"), hochberg, rtol=1e-12)
    np.testing.assert_allclose(
        correct(p_values, "bonferroni"), np.minimum(np.array(p_values) * n, 1)
    )
    np.testing.assert_array_equal(correct(p_values, "none"), p_values)


def test_an_unknown_correction() -> None:
    with pytest.raises(InvalidInput, match="'holm' or 'bonferroni' or 'benjamini-hochberg'"):
        correct([0.1], "sidak")  # type: ignore[arg-type]


class TestTukey:
    SCORES = RNG.normal(size=(30, 1)) + RNG.normal([0, 0.2, 0.5, 0.9], 0.6, (30, 4))

    def test_by_hand(self) -> None:
        # residuals of a two-way layout of 3 queries × 3 systems, by least squares
        scores = np.array([[0.2, 0.5, 0.9], [0.1, 0.6, 0.6], [0.3, 0.3, 0.9]])
        query, system = np.repeat(np.eye(3), 3, axis=0), np.tile(np.eye(3), (3, 1))
        residual = np.linalg.lstsq(np.hstack([query, system]), scores.ravel(), rcond=None)
        fitted = np.hstack([query, system]) @ residual[0]
        error = math.sqrt(np.square(scores.ravel() - fitted).sum() / 4 / 3)
        found = {(one.system, one.other): one for one in tukey_pairs("abc", "m", scores)}
        assert found["a", "c"].difference == pytest.approx(0.2 - 0.8)
        q = 0.6 / error
        assert found["a", "c"].p == pytest.approx(stats.studentized_range.sf(q, 3, 4), rel=1e-9)
        half = stats.studentized_range.ppf(0.95, 3, 4) * error
        assert found["a", "c"].high == pytest.approx(-0.6 + half)

    def test_two_systems_are_a_paired_t_test(self) -> None:
        # q = √2 t, so that both say the same
        (pair,) = tukey_pairs("ab", "m", self.SCORES[:, :2])
        theirs = stats.ttest_rel(self.SCORES[:, 0], self.SCORES[:, 1])
        assert pair.p == pytest.approx(theirs.pvalue, rel=1e-6)
        assert (pair.low, pair.high) == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-6)

    def test_what_queries_share_is_taken_out(self) -> None:
        shifted = self.SCORES + 100 * np.random.default_rng(13).normal(size=(30, 1))
        for one, other in zip(
            tukey_pairs("abcd", "m", self.SCORES), tukey_pairs("abcd", "m", shifted), strict=True
        ):
            assert other.p == pytest.approx(one.p, rel=1e-6)

    def test_queries_without_a_value_are_left_out(self) -> None:
        holey = np.vstack([self.SCORES, [[np.nan, 1, 1, 1]]])
        ours, theirs = (tukey_pairs("abcd", "m", one) for one in (holey, self.SCORES))
        assert ours == theirs
        assert ours[0].n == 30

    def test_identical_systems_have_p_1_and_equal_changes_0(self) -> None:
        same = np.repeat(self.SCORES[:, :1], 3, axis=1)
        assert [one.p for one in tukey_pairs("abc", "m", same)] == [1.0, 1.0, 1.0]
        found = tukey_pairs("abc", "m", same + np.array([0.0, 0.0, 0.5]))
        assert [one.p for one in found] == [1.0, 0.0, 0.0]

    def test_too_little_to_go_by(self) -> None:
        assert tukey_pairs("ab", "m", np.ones((1, 2))) == ()
        assert tukey_pairs("a", "m", np.ones((5, 1))) == ()


class TestPower:
    def test_a_t_test_finds_the_detectable_difference_in_four_of_five_cases(self) -> None:
        n, sd = 50, 0.2
        smallest = detectable_difference(sd / math.sqrt(n), n - 1)
        # (2.00958 + 0.84162) × 0.2 / √50
        assert smallest == pytest.approx(0.0806441, abs=1e-6)
        noncentral = smallest / (sd / math.sqrt(n))
        critical = stats.t.ppf(0.975, n - 1)
        power = stats.nct.sf(critical, n - 1, noncentral)
        assert power == pytest.approx(0.8, abs=0.005)

    def test_so_many_queries_decide(self) -> None:
        # (1.64485 + 0.84162)² × 200 × 0.01² / 0.015² = 549.55
        assert queries_to_decide(-0.005, 0.01, 200, margin=0.02) == 550
        assert queries_to_decide(-0.035, 0.01, 200, margin=0.02) == 550
        assert queries_to_decide(-0.02, 0.01, 200, margin=0.02) is None

    def test_with_so_many_queries_the_bound_clears_the_margin(self) -> None:
        rng = np.random.default_rng(5)
        pilot = rng.normal(-0.005, 0.14, 200)
        pilot += -0.005 - pilot.mean()
        bounds = difference_bounds(pilot, resamples=1000)
        n = queries_to_decide(bounds.difference, bounds.standard_error, 200, margin=0.02)
        assert n is not None
        draws = rng.normal(-0.005, pilot.std(ddof=1), (n, 2000))
        lower = draws.mean(axis=0) - 1.6449 * draws.std(axis=0, ddof=1) / math.sqrt(n)
        # 3 standard errors of a share of 0.8 of 2,000 are 0.027
        assert np.mean(lower > -0.02) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("shape", ["continuous", "hit rates", "sparse"])
def test_a_true_null_is_rejected_in_one_of_twenty(shape: str) -> None:
    # 2,000 data sets, 3 standard errors about 5 % are 1.5 %; more in benchmarks/null_tests.py
    rng = np.random.default_rng(30)
    columns = {
        "continuous": lambda: rng.normal(0, 0.2, (100, 2000)),
        "hit rates": lambda: rng.choice([-1.0, 0.0, 1.0], (100, 2000), p=[0.1, 0.8, 0.1]),
        "sparse": lambda: (rng.random((100, 2000)) < 0.05) * rng.normal(0, 0.2, (100, 2000)),
    }[shape]()
    units = Units.of(columns)
    for p in (randomisation_p(units, 1000, 0), t_p(units), wilcoxon_p(units)):
        share = np.mean(p <= 0.05)
        assert share <= 0.065
        assert shape != "continuous" or share >= 0.035


def test_tukey_rejects_a_true_null_in_one_of_twenty_where_the_one_way_test_hardly_does() -> None:
    rng = np.random.default_rng(31)
    critical = critical_range(3, 2 * 39, 0.95)
    paired = unpaired = 0
    for _ in range(2000):
        scores = rng.normal(0, 0.3, (40, 1)) + rng.normal(0, 0.1, (40, 3))
        spread = np.ptp(scores.mean(axis=0))
        paired += spread > critical * math.sqrt(residual_mean_square(scores) / 40)
        unpaired += spread > critical * math.sqrt(scores.var(axis=0, ddof=1).mean() / 40)
    # 100 expected; 3 standard errors are 29
    assert 71 <= paired <= 129
    assert unpaired <= 10
