"""Cohen's kappa with its interval: against scikit-learn, Lin's concordance, and by simulation."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from llama_index_rag_metrics.labels.agreeing import cohens_kappa

pytestmark = pytest.mark.peers

RNG = np.random.default_rng(17)
GRADES = RNG.integers(0, 4, 200).astype(float)
THEIRS = np.where(RNG.random(200) < 0.6, GRADES, RNG.integers(0, 4, 200)).astype(float)


@pytest.mark.parametrize("weights", [None, "linear"])
def test_kappa_is_scikit_learns(weights: Any) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="pip install scikit-learn")
    theirs = metrics.cohen_kappa_score(GRADES.astype(int), THEIRS.astype(int), weights=weights)
    assert cohens_kappa(GRADES, THEIRS, weights=weights).kappa == pytest.approx(theirs, abs=1e-12)


def test_linear_weights_take_any_numbers() -> None:
    ours, theirs = RNG.random(80), RNG.random(80)
    # 1 - mean |x - y| of the pairs over that of all pairings
    apart = np.abs(ours[:, None] - theirs[None, :]).mean()
    expected = 1 - np.abs(ours - theirs).mean() / apart
    kappa = cohens_kappa(ours, theirs, weights="linear").kappa
    assert kappa == pytest.approx(expected, abs=1e-12)


def test_full_agreement_isnt_certainty() -> None:
    agreement = cohens_kappa(GRADES[:30], GRADES[:30])
    assert agreement.kappa == pytest.approx(1)
    assert agreement.low is not None
    assert 0.7 < agreement.low < 0.9
    assert agreement.high == pytest.approx(1)


def test_kappa_isnt_there_where_nothing_varies() -> None:
    agreement = cohens_kappa(np.ones(9), np.ones(9))
    assert math.isnan(agreement.kappa)
    assert (agreement.low, agreement.high, agreement.n) == (None, None, 9)


@pytest.mark.parametrize("kappa", [0.3, 0.7])
def test_interval_covers(kappa: float) -> None:
    # scores that are the truth with probability κ, else drawn anew, have just that κ
    rng, covered = np.random.default_rng(23), 0
    for _ in range(400):
        ours = rng.choice([0.0, 1.0], 60)
        theirs = np.where(rng.random(60) < kappa, ours, rng.choice([0.0, 1.0], 60))
        agreement = cohens_kappa(ours, theirs)
        covered += agreement.low <= kappa <= agreement.high  # type: ignore[operator]
    assert 0.92 <= covered / 400 <= 0.99


class TestWeighted:
    def test_interval_imagines_one_disagreement_of_a_half(self) -> None:
        # the mean of n pulls o_i + (1 - κ) (2e - e_i) is o; e_i: what each score of pair i shares
        # with all scores of the other side. Σ(pull - o)², and (1/2)² for the imagined one
        ours, theirs = GRADES[:30], THEIRS[:30]
        near = 1 - np.abs(ours[:, None] - theirs[None, :]) / 3
        agreed, share, chance = np.diag(near), np.diag(near).mean(), near.mean()
        kappa = (share - chance) / (1 - chance)
        pulls = agreed + (1 - kappa) * (2 * chance - near.mean(axis=1) - near.mean(axis=0))
        squares = np.square(pulls - share).sum() + 0.5**2
        most = share * (1 - share)
        n = max(30, most / (squares / (30 * 31) + most / 30**2))
        agreement = cohens_kappa(ours, theirs, weights="linear")
        # Wilson's: the end differs from the share by t of its own standard errors
        t = stats.t.ppf(0.975, 29)
        for value in (agreement.low, agreement.high):
            end = value * (1 - chance) + chance
            assert abs(share - end) == pytest.approx(t * math.sqrt(end * (1 - end) / n), rel=1e-9)

    @pytest.mark.parametrize("weights", ["linear"])
    def test_pulls_are_the_derivative_of_kappa(self, weights: Any) -> None:
        # the jackknife's error is the same to first order; with 200 pairs, to a few hundredths
        ours, theirs = GRADES, THEIRS
        without = [
            cohens_kappa(np.delete(ours, row), np.delete(theirs, row), weights=weights).kappa
            for row in range(200)
        ]
        error = math.sqrt(199 / 200 * np.square(np.array(without) - np.mean(without)).sum())
        agreement = cohens_kappa(ours, theirs, weights=weights)
        width = agreement.high - agreement.low  # type: ignore[operator]
        assert width == pytest.approx(2 * stats.t.ppf(0.975, 199) * error, rel=0.04)

    @pytest.mark.parametrize("n", [50, 100, 300])
    def test_interval_covers_where_few_disagree(self, n: int) -> None:
        # 83 to 91 % without the imagined disagreement
        rng, covered = np.random.default_rng(29), 0
        shares = (0.55, 0.2, 0.15, 0.1)
        for _ in range(400):
            ours = rng.choice(4, n, p=shares).astype(float)
            theirs = np.where(rng.random(n) < 0.9, ours, rng.choice(4, n, p=shares))
            agreement = cohens_kappa(ours, theirs, weights="linear")
            covered += agreement.low <= 0.9 <= agreement.high  # type: ignore[operator]
        assert covered / 400 >= 0.92
