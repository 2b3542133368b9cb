"""Cohen's kappa with its interval: against scikit-learn, and by simulation."""

import math

import numpy as np
import pytest

from llama_index_rag_metrics.labels.agreeing import cohens_kappa

pytestmark = pytest.mark.peers

RNG = np.random.default_rng(17)
GRADES = RNG.integers(0, 4, 200).astype(float)
THEIRS = np.where(RNG.random(200) < 0.6, GRADES, RNG.integers(0, 4, 200)).astype(float)


def test_kappa_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="pip install scikit-learn")
    theirs = metrics.cohen_kappa_score(GRADES.astype(int), THEIRS.astype(int))
    assert cohens_kappa(GRADES, THEIRS).kappa == pytest.approx(theirs, abs=1e-12)


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
