"""Prediction-powered inference: against ppi-python, and by its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from llama_index_rag_metrics.statistics.intervals import mean_interval
from llama_index_rag_metrics.statistics.prediction_powered import (
    FEWEST_HUMAN,
    TOO_POOR,
    power_tuned,
    prediction_powered,
    prediction_powered_interval,
)

N, OTHERS = 60, 440


def judged(seed: int, noise: float, bias: float = 0.0) -> tuple[np.ndarray, ...]:
    """People's scores, a judge's of the same questions, and the judge's of the others."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(2, 3, N + OTHERS)
    judge = np.clip(truth + rng.normal(bias, noise, truth.shape), 0, 1)
    return truth[:N], judge[:N], judge[N:]


class TestAgainstPPIPython:
    @pytest.mark.parametrize("noise", [0.02, 0.1, 0.3, 2.0])
    def test_weight_estimate_and_error(self, noise: float) -> None:
        reason = "pip install ppi-python"
        ppi_py = pytest.importorskip("ppi_py", reason=reason)
        human, judge, others = judged(3, noise, bias=0.2)
        weight = power_tuned(human, judge, others)
        combined = prediction_powered(human, judge, others)
        theirs = ppi_py.ppi_mean_pointestimate(human, judge, others)
        assert theirs == pytest.approx(
            ppi_py.ppi_mean_pointestimate(human, judge, others, lam=weight), rel=1e-12
        )
        if combined.helps:
            assert combined.weight == weight
            assert combined.mean == pytest.approx(float(np.squeeze(theirs)), rel=1e-12)
            low, high = ppi_py.ppi_mean_ci(human, judge, others, alpha=0.05)
            # they divide by n and N; here the residuals have n - 2 degrees of freedom
            spread = (human - weight * judge).var() / N
            far = weight**2 * others.var() / OTHERS
            reach = stats.norm.ppf(0.975) * math.sqrt(spread + far)
            assert (combined.mean - reach, combined.mean + reach) == pytest.approx(
                (float(low[0]), float(high[0])), rel=1e-9
            )
            error = math.sqrt(spread * N / (N - 2) + far * OTHERS / (OTHERS - 1))
            assert combined.standard_error == pytest.approx(error, rel=1e-9)
            # two imagined disagreements of half the width of the scores: n + 2 residuals
            width = np.ptp(np.concatenate([human, judge, others]))
            squares = np.square(human - weight * judge - (human - weight * judge).mean()).sum()
            doubted = (squares + 2 * (width / 2) ** 2) / (N + 2) / N
            doubted += far * OTHERS / (OTHERS - 1)
            worth = max(N, human.var(ddof=1) / doubted)
            assert combined.worth == pytest.approx(worth, rel=1e-9)

    def test_a_bias_cancels(self) -> None:
        human, judge, others = judged(5, 0.05)
        plain, shifted = (
            prediction_powered(human, judge, others),
            prediction_powered(human, judge + 7, others + 7),
        )
        assert shifted.mean == pytest.approx(plain.mean, abs=1e-9)
        assert shifted.standard_error == pytest.approx(plain.standard_error, rel=1e-9)


class TestImaginedDisagreements:
    def test_few_questions_without_one_arent_certainty(self) -> None:
        # 20 of 500, 10 hits each, the judge never wrong: λ = (1/4) / ((1 + 20/480) s²) with s² =
        # 125/499, so rest = (1 - λ) y has Σ = 5 (1 - λ)²
        human, others = np.repeat([0.0, 1.0], 10), np.repeat([0.0, 1.0], 240)
        combined = prediction_powered(human, human, others)
        weight = (1 / 4) / ((1 + 20 / 480) * 125 / 499)
        far = weight**2 * (120 / 479) / 480
        doubted = (5 * (1 - weight) ** 2 + 2 * 0.5**2) / 22 / 20 + far
        assert combined.weight == pytest.approx(weight)
        assert combined.worth == pytest.approx(20 * (5 / 19 / 20) / doubted)
        undoubted = 5 * (1 - weight) ** 2 / 18 / 20 + far
        assert combined.worth < 20 * (5 / 19 / 20) / undoubted / 3
        assert combined.agreed

    def test_they_are_as_large_as_the_scores_are_apart(self) -> None:
        human, judge, others = judged(3, 0.05)
        plain, tenfold = (
            prediction_powered(scale * human, scale * judge, scale * others) for scale in (1, 10)
        )
        assert tenfold.worth == pytest.approx(plain.worth)
        assert prediction_powered(human, judge, others, widest=0.1).worth > plain.worth
        assert not plain.agreed


class TestWorth:
    def test_no_more_than_all_that_were_judged(self) -> None:
        # 70 hits of 120, none of them missed by the judge; of the 50 that people scored half are
        # hits, so that their spread is the larger one: s² of these 12.5/49, of all 29.17/119
        human, others = np.repeat([0.0, 1.0], 25), np.repeat([0.0, 1.0], [25, 45])
        combined = prediction_powered(human, human, others, widest=1e-9)
        weight = (1 / 4) / ((1 + 50 / 70) * (70 * 50 / 120) / 119)
        near = 12.5 * (1 - weight) ** 2 / 52 / 50
        far = weight**2 * (25 * 45 / 70) / 69 / 70
        assert 50 * (12.5 / 49 / 50) / (near + far) > 120
        assert combined.worth == 120

    @pytest.mark.parametrize("size", [1, 4])
    def test_between_those_that_people_scored_and_all(self, size: int) -> None:
        rng = np.random.default_rng(0)
        for _ in range(60):
            truth = np.repeat((rng.random(200 // size) < 0.7).astype(float), size)
            judge = np.where(rng.random(200) < 0.02, 1 - truth, truth)
            combined = prediction_powered(
                truth[:100], judge[:100], judge[100:], clusters=np.arange(200) // size
            )
            assert 100 <= combined.worth <= 200


class TestClusters:
    def test_the_error_is_the_robust_one_of_both_parts_and_what_they_share(self) -> None:
        human, judge, others = judged(13, 0.1)
        clusters = np.random.default_rng(0).integers(0, 150, N + OTHERS)
        combined = prediction_powered(human, judge, others, clusters=clusters)
        weight = power_tuned(human, judge, others)
        rest, far = human - weight * judge, weight * others
        pulls = np.zeros((150, 2))
        np.add.at(pulls[:, 0], clusters[:N], (rest - rest.mean()) / N)
        np.add.at(pulls[:, 1], clusters[N:], (far - far.mean()) / OTHERS)
        g, h = len(set(clusters[:N].tolist())), len(set(clusters[N:].tolist()))
        near, away = np.square(pulls).sum(axis=0)
        variance = near * g / (g - 2) + away * h / (h - 1) + 2 * pulls[:, 0] @ pulls[:, 1]
        assert combined.helps
        assert combined.standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)
        assert combined.mean == pytest.approx(prediction_powered(human, judge, others).mean)

    def test_the_error_of_the_rest_is_statsmodels_of_a_constant(self) -> None:
        sm = pytest.importorskip("statsmodels.api")
        human, judge, _ = judged(13, 0.1)
        # the others are so many, and so alike, that they add nothing
        others = np.full(10**6, judge.mean()) + np.tile([-1e-4, 1e-4], 500_000)
        clusters = np.concatenate([np.arange(N) // 2, np.arange(10**6) // 2 + N])
        combined = prediction_powered(human, judge, others, clusters=clusters)
        rest = human - combined.weight * judge
        fitted = sm.OLS(rest, np.ones(N)).fit(
            cov_type="cluster", cov_kwds={"groups": clusters[:N], "use_correction": False}
        )
        g = N // 2  # theirs has no correction; ours g / (g - 2), since λ was fitted as well
        assert combined.standard_error == pytest.approx(
            float(fitted.bse[0]) * math.sqrt(g / (g - 2)), rel=1e-4
        )

    def test_each_query_its_own_cluster_is_none(self) -> None:
        human, judge, others = judged(13, 0.1)
        plain = prediction_powered(human, judge, others)
        single = prediction_powered(human, judge, others, clusters=np.arange(N + OTHERS))
        assert (single.mean, single.worth) == pytest.approx((plain.mean, plain.worth))
        np.testing.assert_allclose(single.values, plain.values)

    def test_few_clusters(self) -> None:
        human, judge, others = judged(7, 0.02)
        few = np.concatenate([np.arange(N) % (FEWEST_HUMAN - 1), np.arange(OTHERS)])
        combined = prediction_powered(human, judge, others, clusters=few)
        assert combined.reason_alone == (
            f"fewer than {FEWEST_HUMAN} clusters of questions were scored by people"
        )


class TestAlone:
    def test_a_judge_that_knows_nothing(self) -> None:
        human, judge, others = judged(7, 0.1)
        combined = prediction_powered(human, judge[::-1].copy(), others)
        assert (combined.helps, combined.weight, combined.worth) == (False, 0.0, N)
        assert combined.reason_alone == TOO_POOR
        np.testing.assert_array_equal(combined.values, human)

    def test_a_judge_that_says_the_same_of_all(self) -> None:
        human, _, _ = judged(7, 0.1)
        assert not prediction_powered(human, np.ones(N), np.ones(OTHERS)).helps

    def test_few_human_scores(self) -> None:
        human, judge, others = judged(7, 0.02)
        few = FEWEST_HUMAN - 1
        assert not prediction_powered(human[:few], judge[:few], others).helps
        assert prediction_powered(human[: few + 1], judge[: few + 1], others).helps

    def test_nobody_else(self) -> None:
        human, judge, _ = judged(7, 0.02)
        assert "every question" in prediction_powered(human, judge, np.array([])).reason_alone

    def test_all_hits(self) -> None:
        human, judge = np.ones(N), judged(7, 0.02)[1]
        combined, interval = prediction_powered_interval(prediction_powered(human, judge, judge))
        assert not combined.helps
        assert interval == mean_interval(human)


class TestInterval:
    def test_it_is_wilsons_with_as_many_as_it_is_worth(self) -> None:
        human, judge, others = judged(11, 0.1)
        combined, interval = prediction_powered_interval(prediction_powered(human, judge, others))
        before, mean = human.mean(), combined.mean
        most = before * (1 - before)
        n = most / (human.var(ddof=1) / N + most / N**2) * combined.worth / N
        t = stats.t.ppf(0.975, N - 1)
        # where a share differs from the mean by t of its own standard errors
        for end in (interval.low, interval.high):
            assert abs(mean - end) == pytest.approx(t * math.sqrt(end * (1 - end) / n), rel=1e-9)  # type: ignore[operator]

    def test_no_mean_lies_beyond_the_limits(self) -> None:
        # 45 hits of 50, of which the judge misses one; of the others it sees hits alone, so that
        # its weight is 1: 0.9 + (1 - 0.88)
        human, judge = np.r_[np.zeros(5), np.ones(45)], np.r_[np.zeros(6), np.ones(44)]
        combined = prediction_powered(human, judge, np.ones(450))
        assert combined.mean == pytest.approx(1.02)
        _, interval = prediction_powered_interval(combined)
        assert interval.low is not None
        assert interval.low < interval.mean == interval.high == 1

    @pytest.mark.parametrize("seed", range(40))
    def test_never_wider_than_peoples_alone(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        human = (rng.random(30) < 0.9).astype(float)
        judge = np.where(rng.random(30) < 0.6, human, rng.random(30) < 0.5).astype(float)
        others = (rng.random(300) < 0.7).astype(float)
        combined, interval = prediction_powered_interval(prediction_powered(human, judge, others))
        alone = mean_interval(human)
        assert interval.high - interval.low <= alone.high - alone.low + 1e-12  # type: ignore[operator]
        assert combined.helps or interval == alone
