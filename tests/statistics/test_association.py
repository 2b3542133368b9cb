"""How well scores predict answers: values, pulls and intervals, against definitions and peers."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from llama_index_rag_metrics.statistics.association import (
    FEWEST,
    MEASURES,
    Measure,
    _of_clusters,
    associations,
    auc,
    concordance,
    tau_b,
)

Floats = npt.NDArray[np.float64]


def drawn(seed: int, n: int = 60, levels: int = 5) -> tuple[Floats, Floats]:
    """Scores with ties and graded answers that follow them."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, rng.integers(2, 20), n) / 7
    answers = np.clip(np.round(scores * 2 + rng.normal(0, 2, n)), 0, levels - 1)
    return scores, answers


def pairs(scores: Floats, answers: Floats) -> tuple[int, int, int, int]:
    """Pairs in the same and in the opposite order, and pairs that differ in each."""
    same = opposite = differ = answered_apart = 0
    for i, j in combinations(range(len(scores)), 2):
        order = (scores[i] - scores[j]) * (answers[i] - answers[j])
        same, opposite = same + (order > 0), opposite + (order < 0)
        differ += scores[i] != scores[j]
        answered_apart += answers[i] != answers[j]
    return same, opposite, differ, answered_apart


class TestValues:
    @pytest.mark.parametrize("seed", range(8))
    def test_by_counting_pairs(self, seed: int) -> None:
        scores, answers = drawn(seed)
        same, opposite, differ, apart = pairs(scores, answers)
        assert tau_b(scores, answers).value == pytest.approx(
            (same - opposite) / math.sqrt(differ * apart)
        )
        good = answers > np.median(answers)
        same, opposite, _, apart = pairs(scores, good.astype(float))
        # ties count half: (same + (apart - same - opposite) / 2) / apart
        assert auc(scores, good).value == pytest.approx((1 + (same - opposite) / apart) / 2)

    @pytest.mark.parametrize("seed", range(8))
    def test_scipy_and_statsmodels(self, seed: int) -> None:
        peer = pytest.importorskip("statsmodels.stats.nonparametric", reason="the peer")
        scores, answers = drawn(seed)
        assert tau_b(scores, answers).value == pytest.approx(
            stats.kendalltau(scores, answers).statistic
        )
        good = answers > np.median(answers)
        ours, theirs = auc(scores, good), peer.rank_compare_2indep(scores[good], scores[~good])
        assert ours.value == pytest.approx(theirs.prob1)
        # theirs takes the variance of each group with n - 1
        sizes = np.where(good, good.sum(), (~good).sum())
        variance = (np.square(ours.pulls) * sizes / (sizes - 1)).sum() / len(scores) ** 2
        assert variance == pytest.approx(theirs.var_prob)

    @pytest.mark.parametrize("seed", range(8))
    def test_concordance_of_each_question(self, seed: int) -> None:
        scores, answers = drawn(seed, n=40, levels=2 + 3 * seed)
        signs = [np.sign(column[:, None] - column) for column in (scores, answers)]
        assert concordance(scores, answers).tolist() == (signs[0] * signs[1]).sum(axis=1).tolist()

    @pytest.mark.parametrize("measure", MEASURES)
    def test_pulls_are_what_leaving_a_question_out_changes(self, measure: Measure) -> None:
        scores, answers = drawn(3, n=800, levels=2 if measure == "auc" else 5)
        of_column = MEASURES[measure]
        found = of_column(scores, answers)
        left_out = [
            found.value - of_column(np.delete(scores, i), np.delete(answers, i)).value
            for i in range(0, 800, 20)
        ]
        assert found.pulls.mean() == pytest.approx(0.0, abs=1e-12)
        # to first order: what is left is about one in n
        assert np.array(left_out) * 799 == pytest.approx(found.pulls[::20], rel=0.01, abs=0.01)

    @pytest.mark.parametrize("measure", MEASURES)
    def test_nothing_varies(self, measure: Measure) -> None:
        scores, answers = drawn(1)
        of_column = MEASURES[measure]
        assert math.isnan(of_column(scores, np.ones(60)).value)
        # of equal scores every pair is a tie
        value = of_column(np.ones(60), answers).value
        assert value == 0.5 if measure == "auc" else math.isnan(value)


class TestIntervals:
    def test_of_hits_it_is_agresti_and_caffos(self) -> None:
        # 20 of 24 good answers have a hit, 6 of 16 others: 21/26 and 7/18 with the imagined ones.
        # AUC = (1 + difference) / 2, and the errors are half as large
        hits = np.repeat([1.0, 0.0, 1.0, 0.0], [20, 4, 6, 10])
        good = np.repeat([1.0, 0.0], [24, 16])
        found = associations(hits.reshape(-1, 1), good, "auc")
        one, other = 21 / 26, 7 / 18
        variance = one * (1 - one) / 26 + other * (1 - other) / 18
        centre, error = (1 + one - other) / 2, math.sqrt(variance * 44 / 43) / 2
        reach = stats.t(2 * (16 + 1)).ppf(0.975) * error
        assert found.values[0] == pytest.approx((1 + 20 / 24 - 6 / 16) / 2)
        assert (found.low[0], found.high[0]) == pytest.approx((centre - reach, centre + reach))

    def test_leads_imagine_four_disagreements_of_half_weight(self) -> None:
        first, graded = drawn(5)
        scores = np.stack([first, np.random.default_rng(5).random(60)], axis=1)
        answers = (graded > 1).astype(float)
        found = associations(scores, answers, "auc")
        tops, bottoms = scores.max(axis=0), scores.min(axis=0)
        agree = np.stack([tops, bottoms, tops, bottoms])
        opposite = np.stack([agree[:, 0], agree[[1, 0, 3, 2], 1]], axis=1)
        good = np.concatenate([answers, [1, 1, 0, 0]]) > 0
        one, other = (auc(np.append(scores[:, k], opposite[:, k]), good) for k in (0, 1))
        apart = one.pulls - other.pulls
        apart[-4:] /= math.sqrt(2)
        error = math.sqrt(np.square(apart - apart.mean()).sum() / 63 / 64)
        rarer = min(answers.sum(), 60 - answers.sum())
        reach = stats.t(min(59, 2 * (rarer + 1))).ppf(0.975) * error
        lead, centre = found.leads[1], one.value - other.value
        assert lead == pytest.approx(found.values[0] - found.values[1])
        assert found.leads_low[1] == pytest.approx(min(lead, centre - reach))
        assert found.leads_high[1] == pytest.approx(max(lead, centre + reach))

    def test_hold_together(self) -> None:
        rng = np.random.default_rng(2)
        scores, answers = rng.random((80, 6)), (rng.random(80) < 0.5).astype(float)
        together = associations(scores, answers, "auc")
        alone = [associations(scores[:, [k]], answers, "auc") for k in range(6)]
        widths = [each.high[0] - each.low[0] for each in alone]
        assert together.values == pytest.approx([each.values[0] for each in alone])
        # Bonferroni's would be about 1.36 times as wide
        assert np.all(1.2 * np.array(widths) < together.high - together.low)
        assert np.all(1.4 * np.array(widths) > together.high - together.low)

    @pytest.mark.parametrize("measure", MEASURES)
    def test_order_changes_nothing(self, measure: Measure) -> None:
        scores = np.stack([drawn(seed)[0] for seed in range(3)], axis=1)
        answers = (drawn(0)[1] > 1).astype(float)
        first = associations(scores, answers, measure)
        for order in permutations(range(3)):
            other = associations(scores[:, order], answers, measure)
            assert other.values == pytest.approx(first.values[list(order)])
            assert other.low == pytest.approx(first.low[list(order)])

    def test_clusters_of_one_are_questions(self) -> None:
        scores, answers = drawn(4)
        columns = scores.reshape(-1, 1)
        plain = associations(columns, answers, "tau_b")
        singles = associations(columns, answers, "tau_b", clusters=np.arange(60))
        assert (singles.low[0], singles.high[0]) == pytest.approx((plain.low[0], plain.high[0]))

    def test_repeated_questions_are_no_evidence(self) -> None:
        scores, answers = (np.repeat(column, 5) for column in drawn(4))
        columns, clusters = scores.reshape(-1, 1), np.repeat(np.arange(60), 5)
        plain = associations(columns, answers, "tau_b")
        whole = associations(columns, answers, "tau_b", clusters=clusters)
        once = associations(columns[::5], answers[::5], "tau_b")
        width, clustered, of_one = (
            float(each.high[0] - each.low[0]) for each in (plain, whole, once)
        )
        assert width < 0.55 * clustered
        # the imagined questions, which aren't repeated, count a fifth
        assert clustered == pytest.approx(of_one, rel=0.15)

    def test_clusters_of_one_size_weigh_the_same(self) -> None:
        weights, n_effective = _of_clusters(np.repeat(np.arange(12), 5), 60)
        assert (weights.ravel().tolist(), n_effective) == ([1.0] * 60, 12.0)
        # without a third of the questions the mean of the others moves by half more than it pulls
        weights, n_effective = _of_clusters(np.array([0, 0, 1, 2, 3, 4]), 6)
        assert weights.ravel() == pytest.approx([0.8 * 6 / 4] * 2 + [0.8 * 6 / 5] * 4)
        # with squares of sizes, 4 + 4, the half of which one cluster has: 8² / (16 + 4)
        assert n_effective == pytest.approx(64 / 20)

    def test_too_few_of_one_kind(self) -> None:
        scores = np.linspace(0, 1, 50).reshape(-1, 1)
        for n, is_given in ((FEWEST - 1, False), (FEWEST, True)):
            answers = (np.arange(50) < n).astype(float)
            found = associations(scores, answers, "auc")
            assert found.values[0] == 0.0
            assert bool(np.isfinite(found.low[0])) is is_given
            assert not found.is_highest or is_given

    def test_never_beyond_what_there_can_be(self) -> None:
        perfect = np.linspace(0, 1, 40).reshape(-1, 1)
        found = associations(perfect, (perfect[:, 0] > 0.5).astype(float), "auc")
        assert (found.values[0], found.high[0]) == (1.0, 1.0)
        assert 0.75 < found.low[0] < 0.9


class TestClaims:
    @pytest.mark.slow
    def test_noise_names_none(self) -> None:
        # 5 % at most: of 300 data sets, 15 and twice their standard deviation of 3.8
        rng, claimed, named = np.random.default_rng(0), 0, 0
        for _ in range(300):
            recall = rng.choice([0.0, 0.5, 1.0], 60)
            scores = np.stack([recall, recall * rng.random(60), rng.random(60)], axis=1)
            found = associations(scores, (rng.random(60) < 0.6).astype(float), "auc", resamples=300)
            claimed += bool((found.low > 0.5).any() or (found.high < 0.5).any())
            named += found.is_highest
        assert claimed <= 23
        assert named <= 23

    @pytest.mark.parametrize("n", [60, 200])
    def test_noise_in_clusters_of_many_sizes_names_none(self, n: int) -> None:
        # 5 % at most: of 150 data sets, 7.5 and twice their standard deviation of 2.7
        rng, claimed = np.random.default_rng(0), 0
        for _ in range(150):
            clusters = np.repeat(np.arange(n), np.minimum(rng.zipf(1.7, n), 20))[:n]
            shared = rng.normal(size=(n, 4)) + rng.normal(size=(n, 1))
            scores = np.round(shared[clusters] + 0.7 * rng.normal(size=(n, 4)), 1)
            good = 1.2 * rng.normal(size=n)[clusters] + rng.normal(size=n) > 0
            found = associations(
                scores, good.astype(float), "auc", clusters=clusters, resamples=100
            )
            claimed += bool((found.low > 0.5).any() or (found.high < 0.5).any())
        assert claimed <= 13

    def test_what_made_the_answers_is_named(self) -> None:
        rng = np.random.default_rng(1)
        recall = rng.choice([0.0, 0.5, 1.0], 300)
        follows = np.clip(recall + rng.normal(0, 0.4, 300), 0, 1)
        answers = (rng.random(300) < 0.1 + 0.8 * recall).astype(float)
        found = associations(np.stack([follows, recall, rng.random(300)], axis=1), answers, "auc")
        assert found.is_highest
        assert int(np.argmax(found.values)) == 1
