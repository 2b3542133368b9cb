"""Tests of differences, corrections and power: equal to scipy called by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.corrections import correct, max_t
from llama_index_rag_metrics.statistics.differences import randomisation_p, t_p, wilcoxon_p
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums

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


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # ranks 3, 1.5 and 1.5: one of the 8 sums of flips is as high as 6, its mirror as low as 0
        ([0.5, 0.25, 0.25, 0.0], 2 / 8),
        # 4.5, 4.5 and 6 are as high as 4.5
        ([0.5, -0.25, 0.25], 2 * 3 / 8),
        ([0.1, -0.1], 1.0),
        # questions that didn't change say nothing, however many: 1 of the 32 sums, and its mirror
        ([0.1, 0.2, 0.2, 0.3, 0.4] + [0.0, math.nan, -0.0] * 20, 2 / 32),
    ],
)
def test_wilcoxon_of_few_tries_all_flips(changes: list[float], expected: float) -> None:
    assert wilcoxon_p(Units.of(np.array(changes)[:, None]))[0] == pytest.approx(expected)


@given(st.lists(st.sampled_from([-0.75, -0.5, -0.25, 0.0, 0.25, 0.5]), min_size=1, max_size=7))
def test_wilcoxon_of_few_is_scipys_test_by_permutation(changes: list[float]) -> None:
    changed = np.array([change for change in changes if change])
    assume(len(changed) > 1)
    ranks = stats.rankdata(np.abs(changed))
    of_all = stats.permutation_test(
        (changed,), lambda x: ranks[x > 0].sum(), permutation_type="samples", vectorized=False
    )
    p = wilcoxon_p(Units.of(np.array(changes)[:, None]))[0]
    assert p == pytest.approx(of_all.pvalue)


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


@pytest.mark.parametrize("n", [2, 5, 20])
def test_equal_changes_are_tested_with_one_more_on_either_side(n: int) -> None:
    # without them t has no spread to go by, and two equal changes would be certainty
    sample = np.append(np.full(n, 0.1), [0.1, -0.1])
    mean, error = sample.mean(), sample.std() / math.sqrt(n + 1)
    expected = 2 * stats.t.sf(mean / error, n + 1)
    assert t_p(Units.of(np.full((n, 1), 0.3) - 0.2))[0] == pytest.approx(expected, rel=1e-9)
    assert (expected < 0.05) == (n >= 5)


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

    def test_unequal_clusters_have_the_degrees_of_freedom_of_equal_ones(self) -> None:
        clusters = np.repeat(np.arange(20), [1, 2, 3, 4, 6] * 4)
        column = DIFFERENCES[:64, 0]
        pulls = np.bincount(clusters, weights=column - column.mean()) / 64
        error = math.sqrt(np.square(pulls).sum() * 20 / 19)
        # of one size 64² / (4 · (1 + 4 + 9 + 16 + 36)) say as much
        df = 64**2 / 264 - 1
        expected = 2 * stats.t.sf(abs(column.mean()) / error, df)
        assert t_p(Units.of(column.reshape(-1, 1), clusters)) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_corrections_by_their_definitions(p_values: list[float]) -> None:
    n = len(p_values)
    order = sorted(range(n), key=lambda position: p_values[position])
    holm = np.zeros(n)
    hochberg = np.zeros(n)
    for place, position in enumerate(order):
        holm[position] = min(1, max((n - j) * p_values[order[j]] for j in range(place + 1)))
        hochberg[position] = min(1, *(n / (j + 1) * p_values[order[j]] for j in range(place, n)))
    np.testing.assert_allclose(correct(p_values, "holm"), holm, rtol=1e-12)
    np.testing.assert_allclose(correct(p_values, "benjamini-hochberg"), hochberg, rtol=1e-12)
    np.testing.assert_array_equal(correct(p_values, "none"), p_values)


def test_an_unknown_correction() -> None:
    for name in ("sidak", "bonferroni"):
        with pytest.raises(InvalidInput, match="'holm' or 'benjamini-hochberg' or 'none'"):
            correct([0.1], name)  # type: ignore[arg-type]


def flips(units: Units, resamples: int, seed: int) -> np.ndarray:
    """(resamples, units) the signs that are drawn, read off columns with a single value."""
    single = Units.of(np.eye(len(units)))
    return np.concatenate([*flipped_sums(single, resamples, seed)])


class TestMaxT:
    NOISE = np.random.default_rng(7).normal(0, 0.2, (60, 3))
    COLUMNS = np.stack(
        [NOISE[:, 0] + 0.07, NOISE[:, 0] + NOISE[:, 1] / 4 + 0.05, NOISE[:, 2]], axis=1
    )

    def corrected(self, columns: np.ndarray, *families: list[int]) -> np.ndarray:
        units = Units.of(columns)
        chosen = [np.array(family) for family in families or [[*range(columns.shape[1])]]]
        return max_t(units, t_p(units), chosen, resamples=999, seed=4).p_values

    def test_by_its_definition(self) -> None:
        signs = flips(Units.of(self.COLUMNS), 999, 4)
        t_of_flips = np.array(
            [np.abs(stats.ttest_1samp(sign[:, None] * self.COLUMNS, 0).statistic) for sign in signs]
        )
        t = np.abs(stats.ttest_1samp(self.COLUMNS, 0).statistic)
        p = stats.ttest_1samp(self.COLUMNS, 0).pvalue
        expected, before = np.zeros(3), 0.0
        order = np.argsort(p)
        for step, column in enumerate(order):
            largest = t_of_flips[:, order[step:]].max(axis=1)
            by_flips = (np.count_nonzero(largest >= t[column] - 1e-9) + 1) / 1000
            by_holm = (3 - step) * p[column]
            before = max(before, p[column], min(by_flips, by_holm))
            expected[column] = min(before, 1.0)
        np.testing.assert_allclose(self.corrected(self.COLUMNS), expected, rtol=1e-9)

    def test_alone_it_is_the_test_itself(self) -> None:
        np.testing.assert_array_equal(
            self.corrected(self.COLUMNS, [0], [1], [2]), t_p(Units.of(self.COLUMNS))
        )

    def test_copies_and_their_negatives_cost_nothing(self) -> None:
        once = self.corrected(self.COLUMNS)
        more = np.hstack([self.COLUMNS, self.COLUMNS[:, :1], -self.COLUMNS[:, :1]])
        np.testing.assert_allclose(self.corrected(more), [*once, once[0], once[0]], rtol=1e-12)

    def test_families_dont_know_of_each_other(self) -> None:
        apart = self.corrected(self.COLUMNS, [0, 1], [2])
        np.testing.assert_allclose(apart[:2], self.corrected(self.COLUMNS[:, :2]), rtol=1e-12)

    def test_columns_that_never_changed(self) -> None:
        assert self.corrected(np.zeros((30, 3))).tolist() == [1.0, 1.0, 1.0]

    def test_the_level_lies_between_all_and_one(self) -> None:
        units = Units.of(self.COLUMNS)
        families = [np.array([0, 1, 2]), np.array([2])]
        levels = max_t(units, t_p(units), families, resamples=4000, seed=4).levels
        # three columns, of which two say much the same
        assert 0.05 / 3 < levels[0] < 0.05 / 2 + 0.003
        assert levels[1] == 0.05

    def test_a_large_cluster_does_not_make_columns_look_alike(self) -> None:
        # one of 40 questions decides each sum, so that flips of sums are hardly more than one flip
        clusters = np.append(np.zeros(40, np.int64), np.arange(1, 21))
        columns = np.random.default_rng(3).normal(0, 0.2, (21, 3))[clusters] + 0.1
        units = Units.of(columns, clusters)
        found = max_t(units, t_p(units), [np.arange(3)], resamples=4000, seed=4)
        means = max_t(Units.of(units.own_means), t_p(units), [np.arange(3)], resamples=4000, seed=4)
        assert found.levels == pytest.approx(means.levels)
        assert 0.05 / 3 <= found.levels[0] < 0.05 / 3 + 0.003

    def test_a_family_of_true_nulls_is_rejected_in_one_of_twenty(self) -> None:
        rng = np.random.default_rng(32)
        rejected = 0
        for seed in range(400):
            shared, own = rng.normal(0, 0.2, (50, 1)), rng.normal(0, 0.1, (50, 6))
            columns = np.where(rng.random((50, 6)) < 0.4, shared + own, 0.0)
            units = Units.of(columns)
            corrected = max_t(units, t_p(units), [np.arange(6)], resamples=400, seed=seed)
            rejected += corrected.p_values.min() <= 0.05
        # 20 expected; 3 standard errors are 13
        assert 7 <= rejected <= 33


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["continuous", "hit rates", "sparse"])
def test_a_true_null_is_rejected_in_one_of_twenty(shape: str) -> None:
    # 2,000 data sets, 3 standard errors about 5 % are 1.5 %
    rng = np.random.default_rng(30)
    columns = {  # type: ignore[no-untyped-call]
        "continuous": lambda: rng.normal(0, 0.2, (100, 2000)),
        "hit rates": lambda: rng.choice([-1.0, 0.0, 1.0], (100, 2000), p=[0.1, 0.8, 0.1]),
        "sparse": lambda: (rng.random((100, 2000)) < 0.05) * rng.normal(0, 0.2, (100, 2000)),
    }[shape]()
    units = Units.of(columns)
    for p in (randomisation_p(units, 1000, 0), t_p(units), wilcoxon_p(units)):
        share = np.mean(p <= 0.05)
        assert share <= 0.065
        assert shape != "continuous" or share >= 0.035
