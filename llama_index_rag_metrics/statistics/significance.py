"""Tests of a paired difference: might it be chance?

Three tests of many columns of differences at once. The randomisation test (Fisher 1935; Smucker,
Allan and Carterette 2007) asks how often random signs give a mean as far from 0; Student's paired
t-test asks the same of a normal model; Wilcoxon's signed-rank test asks whether the differences lie
symmetrically about 0, which isn't the same as a mean of 0. Identical columns have p = 1 in each.
"""

from __future__ import annotations

import warnings

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, ratio
from llama_index_rag_metrics.statistics.resampling import NOISE, Units, flips_reaching
from llama_index_rag_metrics.statistics.student import student

_DECIMALS = 12
"""Ranks see differences without their rounding noise, so that equal ones tie."""


def randomisation_p(units: Units, resamples: int, seed: int) -> FloatArray:
    """(columns,) two-sided p values of the randomisation test, (b + 1) / (resamples + 1).

    The signs of a cluster's differences flip together.
    """
    return np.asarray((flips_reaching(units, resamples, seed) + 1) / (resamples + 1), np.float64)


def t_p(units: Units) -> FloatArray:
    """(columns,) two-sided p values of the paired t-test; with clusters, of its robust form.

    The robust form takes the standard error from the clusters' sums, with (clusters - 1) degrees of
    freedom. With fewer than two units p is 1; of equal changes see `student`.
    """
    from scipy.special import stdtr

    evidence = student(units)
    t = ratio(np.abs(evidence.centre), evidence.error)
    p = 2 * stdtr(np.maximum(evidence.df, 1), -t)
    return np.asarray(np.where(evidence.df < 1, 1.0, p), np.float64)


def wilcoxon_p(units: Units) -> FloatArray:
    """(columns,) two-sided p values of Wilcoxon's signed-rank test; zeros are left out, as usual.

    It tests that the differences are symmetric about 0. With clusters it takes their means.
    """
    from scipy.stats import wilcoxon

    means = np.divide(
        units.sums, units.sizes, out=np.full_like(units.sums, np.nan), where=units.sizes > 0
    )
    p = np.ones(means.shape[1])
    with warnings.catch_warnings():
        # scipy before 1.13 warns wherever zeros or few differences make it approximate
        warnings.simplefilter("ignore", UserWarning)
        for position, column in enumerate(np.round(means, _DECIMALS).T):
            present = column[~np.isnan(column)]
            if np.any(present):
                p[position] = wilcoxon(present).pvalue
    return p


def beats_all(leads: Units, alpha: float) -> bool:
    """Whether a system is shown to be the best of several: it beats each other one by the t-test.

    Each test has the whole level, however many systems there are. A false winner must beat the one
    that is truly the best and all others as well, and only one system can do that. So it is named
    in at most alpha of cases, most often where just two are the best: Gutmann and Maymin (1987),
    Hung and Fithian (2019). How often on real scores: benchmarks/README.md.

    Examples:
        >>> lead = np.linspace(0.01, 0.09, 9)  # the system minus each other one; more is better
        >>> beats_all(Units.of(np.stack([lead, lead + 0.2], axis=1)), 0.05)
        True
        >>> beats_all(Units.of(np.stack([lead, lead - 0.04], axis=1)), 0.05)  # the second: 0.01
        False
    """
    return bool(((leads.means > NOISE) & (t_p(leads) <= alpha)).all())
