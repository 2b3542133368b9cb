"""Cohen's kappa with its interval: against scikit-learn, Lin's concordance, and by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from llama_index_rag_metrics.statistics.kappa import cohens_kappa

RNG = np.random.default_rng(17)
GRADES = RNG.integers(0, 4, 200).astype(float)
THEIRS = np.where(RNG.random(200) < 0.6, GRADES, RNG.integers(0, 4, 200)).astype(float)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_it_is_scikit_learns(weights: Any) -> None:
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


def test_squared_it_is_lins_concordance() -> None:
    ours, theirs = RNG.random(80), RNG.random(80)
    covariance = np.cov(ours, theirs, ddof=0)
    # Lin 1989: 2 s_xy / (s_x² + s_y² + (mean_x - mean_y)²)
    apart = covariance[0, 0] + covariance[1, 1] + (ours.mean() - theirs.mean()) ** 2
    expected = 2 * covariance[0, 1] / apart
    assert cohens_kappa(ours, theirs, weights="quadratic").kappa == pytest.approx(
        expected, abs=1e-12
    )


def test_full_agreement_isnt_certainty() -> None:
    agreement = cohens_kappa(GRADES[:30], GRADES[:30])
    assert agreement.kappa == pytest.approx(1)
    assert agreement.low is not None
    assert 0.7 < agreement.low < 0.9
    assert agreement.high == pytest.approx(1)


def test_where_nothing_varies_there_is_none() -> None:
    agreement = cohens_kappa(np.ones(9), np.ones(9))
    assert math.isnan(agreement.kappa)
    assert (agreement.low, agreement.high, agreement.n) == (None, None, 9)


@pytest.mark.parametrize("kappa", [0.3, 0.7])
def test_the_interval_covers(kappa: float) -> None:
    # scores that are the truth with probability κ, else drawn anew, have just that κ
    rng, covered = np.random.default_rng(23), 0
    for _ in range(400):
        ours = rng.choice([0.0, 1.0], 60)
        theirs = np.where(rng.random(60) < kappa, ours, rng.choice([0.0, 1.0], 60))
        agreement = cohens_kappa(ours, theirs)
        covered += agreement.low <= kappa <= agreement.high  # type: ignore[operator]
    assert 0.92 <= covered / 400 <= 0.99
