"""Intervals of paired differences: Student's t with two pseudo-queries, always there."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from support.intervals import ends, pseudo_change

from llama_index_rag_metrics.runtime.containers import FloatArray, IntArray
from llama_index_rag_metrics.statistics.differences import (
    CAUTIOUS,
    difference_intervals,
    pseudo_queries,
    student,
    widest_apart,
)
from llama_index_rag_metrics.statistics.resampling import Units

RNG = np.random.default_rng(41)
SPARSE = np.where(RNG.random(60) < 0.1, RNG.uniform(-1, 1, 60), 0.0)
DENSE = RNG.normal(0.03, 0.2, 60)
HITS = np.array([1.0] * 3 + [-1.0] + [0.0] * 46)


def bounds_of(
    values: Sequence[float] | FloatArray,
    widest: float = 1.0,
    confidence: float = 0.95,
    clusters: IntArray | None = None,
) -> tuple[float, float]:
    """Both one-sided bounds of one column."""
    column = np.asarray(values, np.float64).reshape(-1, 1)
    low, high = pseudo_queries(Units.of(column, clusters), widest).bounds(confidence)
    return float(low[0]), float(high[0])


def with_pseudo_queries(values: np.ndarray, widest: float) -> np.ndarray:
    """The differences and the two that are added, by the definition."""
    pseudo = pseudo_change(values, widest)
    return np.append(values, [pseudo, -pseudo])


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("values", [SPARSE, DENSE, HITS], ids=["sparse", "dense", "hits"])
def test_interval_is_scipys_with_two_more_queries(values: np.ndarray, confidence: float) -> None:
    sample = with_pseudo_queries(values, 1.0)
    theirs = stats.ttest_1samp(sample, 0).confidence_interval(2 * confidence - 1)
    ours = bounds_of(values, confidence=confidence)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_interval_of_hit_rates_is_agresti_and_mins() -> None:
    # 3 gains and 1 loss of 50: one of each is added, so 4 and 2 of 52
    difference, n = 2 / 52, 52
    error = math.sqrt((6 / n - difference**2) / (n - 1))
    reach = stats.t.ppf(0.975, n - 1) * error
    bounds = bounds_of(HITS, confidence=0.975)
    assert bounds == pytest.approx((difference - reach, difference + reach))


def test_changes_below_a_tenth_of_r_count_by_their_size() -> None:
    # 30 of 50 by a hundredth of R, 2 by a fifth: k = 30 × 0.1 + 2 = 5, where (Σ|d|)² / Σd² is 5.9
    values = np.array([0.01] * 30 + [0.2] * 2 + [0.0] * 18)
    squares = 30 * 0.01**2 + 2 * 0.2**2
    pseudo = math.sqrt((squares + 1) / (5 + 1))
    sample = np.append(values, [pseudo, -pseudo])
    theirs = stats.ttest_1samp(sample, 0).confidence_interval(0.9)
    assert bounds_of(values) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_r_counted_twice_is_two_of_the_changes_that_matter() -> None:
    # 4 losses of 0.2 among 20: k = 4, M² = (4 × 0.04 + 2 × 1) / (4 + 2) = 0.36
    losses = np.array([-0.2] * 4 + [0.0] * 16)
    sample = np.append(losses, [0.6, -0.6])
    theirs = stats.ttest_1samp(sample, 0).confidence_interval(0.9)
    low, high = pseudo_queries(Units.of(losses[:, None]), 1.0, counted=2).bounds(0.95)
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    # where all changes are as large as R they are its mean square, however often it is counted
    once, twice = (pseudo_queries(Units.of(HITS[:, None]), 1.0, counted=n) for n in (1, 2))
    assert once.error == pytest.approx(twice.error)


@pytest.mark.parametrize("n", [7, 20, 50, 200, 2_000])
def test_five_changed_questions_never_decide_as_no_permutation_of_theirs_could(n: int) -> None:
    # With S = Σd, Q = Σd² and k = S²/Q changes all one way, R >= Q/S, so that M² >= Q/k and
    # t² <= k²(N - 1) / (N(k + 2) - k²): below Student's for k = 5 and n >= 7. Signs: 2/2⁵ = 6 %.
    sizes = RNG.lognormal(0, 1, (5, 200)) ** RNG.choice([0, 1, 3], 200)
    differences = np.vstack([sizes, np.zeros((n - 5, 200))])
    largest = sizes.max(axis=0)
    low, _ = pseudo_queries(Units.of(differences), largest).bounds(0.975)
    assert (low < 0).all()
    if n >= 20:
        six = np.where(np.arange(n) < 6, 1.0, 0.0)[:, None]
        assert pseudo_queries(Units.of(six), 1.0).bounds(0.975)[0] > 0


def test_interval_without_a_limit_takes_the_widest_difference_seen() -> None:
    assert bounds_of(DENSE, math.inf) == bounds_of(DENSE, float(np.abs(DENSE).max()))


def test_missing_values_have_no_part() -> None:
    holey = np.full(120, np.nan)
    holey[::2] = SPARSE
    assert bounds_of(holey) == bounds_of(SPARSE)


def test_plain_t_is_scipys() -> None:
    units = Units.of(np.stack([SPARSE, DENSE], axis=1))
    low, high = student(units).bounds(0.975)
    theirs = stats.ttest_1samp(np.stack([SPARSE, DENSE], axis=1), 0).confidence_interval()
    np.testing.assert_allclose(low, theirs.low, rtol=1e-12)
    np.testing.assert_allclose(high, theirs.high, rtol=1e-12)


class TestClusters:
    def test_copies_of_a_query_are_one(self) -> None:
        copies = bounds_of(np.repeat(SPARSE, 4), clusters=np.repeat(np.arange(60), 4))
        assert copies == pytest.approx(bounds_of(SPARSE))

    def test_unequal_clusters_by_the_definition(self) -> None:
        clusters = np.repeat(np.arange(24), [1, 2, 3, 4] * 6)
        sums, sizes = (np.bincount(clusters, weights=w) for w in (DENSE, None))
        # on the scale of one query: sums over the mean size; two clusters of mean size are added.
        # questions see clusters of 60 / 20 on average (below), 6 / 5 of the mean size
        values, sizes = sums / sizes.mean(), sizes / sizes.mean()
        pseudo = pseudo_change(values, widest=6 / 5)
        values, sizes = np.append(values, [pseudo, -pseudo]), np.append(sizes, [1, 1])
        centre = values.sum() / sizes.sum()
        residuals = values - sizes * centre
        error = math.sqrt(np.square(residuals).sum() / 26 / 25)
        # of one size 60² / (6 · (1 + 4 + 9 + 16)) = 20 clusters would say as much, with the two 22
        reach = stats.t.ppf(0.95, 21) * error
        bounds = bounds_of(DENSE, clusters=clusters)
        assert bounds == pytest.approx((centre - reach, centre + reach))

    def test_losses_that_small_clusters_show_may_be_of_large_ones(self) -> None:
        # a twentieth of the questions lose 1, no other one changes. At most 5 % of intervals miss,
        # 20 of 400, and the gate passes at most 9 %, 36: and twice 4.4 and 5.7, their deviations
        rng, missed, passed = np.random.default_rng(0), 0, 0
        for _ in range(400):
            clusters = np.repeat(np.arange(500), np.minimum(rng.zipf(1.7, 500), 20))[:500]
            drawn = 2 * rng.normal(size=500)[clusters] + rng.normal(size=500)
            lost = np.where(drawn < stats.norm.ppf(0.05) * math.sqrt(5), -1.0, 0.0)
            units = Units.of(lost[:, None], clusters)
            low, high = ends(difference_intervals(units, widest=1.0)[0])
            missed += not low <= -0.05 <= high
            passed += bool(pseudo_queries(units, 1.0, counted=CAUTIOUS).bounds(0.95)[0] >= -0.05)
        assert missed <= 29
        assert passed <= 47


class TestIntervals:
    """Both ends are those of the pseudo-queries, whatever a test finds."""

    @pytest.mark.parametrize("values", [SPARSE, DENSE, HITS], ids=["sparse", "dense", "hits"])
    def test_ends_are_both_those_of_the_pseudo_queries(self, values: np.ndarray) -> None:
        (interval,) = difference_intervals(Units.of(values[:, None]), widest=1.0)
        assert (interval.low, interval.high) == bounds_of(values, confidence=0.975)

    def test_columns_may_each_have_a_confidence_of_their_own(self) -> None:
        both = Units.of(np.stack([DENSE, DENSE], axis=1))
        intervals = difference_intervals(both, widest=1.0, confidence=np.array([0.9, 0.99]))
        expected = [bounds_of(DENSE, confidence=tail) for tail in (0.95, 0.995)]
        found = np.array([ends(interval) for interval in intervals])
        assert found == pytest.approx(np.array(expected))

    def test_ends_lie_within_what_is_possible(self) -> None:
        units = Units.of(np.stack([SPARSE, SPARSE], axis=1))
        low, high = bounds_of(SPARSE, confidence=0.975)
        possible = np.array([[low / 2, high / 2], [-1, 1]])
        cut, whole = difference_intervals(units, widest=1.0, possible=possible)
        assert ends(cut) == (low / 2, high / 2)
        assert ends(whole) == pytest.approx((low, high))

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_ends_lie_within_the_widest_difference(self, sign: float) -> None:
        # moved by people's labels, single differences may be larger than any true one
        column = sign * np.linspace(1.1, 1.3, 30)
        (interval,) = difference_intervals(Units.of(column[:, None]), widest=1.0)
        assert max(sign * end for end in ends(interval)) == 1.0

    def test_interval_of_one_query_isnt_there(self) -> None:
        (interval,) = difference_intervals(Units.of(np.array([[0.4]])), widest=1.0)
        assert (interval.low, interval.high) == (None, None)
        assert interval.note == "only 1 question: too few for an interval"
        (interval,) = difference_intervals(Units.of(DENSE[:, None], np.zeros(60, np.int64)))
        assert interval.note == (
            "all questions belong to one conversation or cluster, which counts as 1 question"
            ": too few for an interval"
        )


@pytest.mark.parametrize("changed", [0.05, 0.2, 1.0])
def test_interval_covers_however_few_queries_changed(changed: float) -> None:
    # 4,000 data sets of 50 queries; 3 standard errors below 95 % are 94 %
    columns = (RNG.random((50, 4000)) < changed) * RNG.choice([1, -1, 0.5, -0.5], (50, 4000))
    low, high = pseudo_queries(Units.of(columns), 1.0).bounds(0.975)
    assert np.mean((low <= 0) & (high >= 0)) >= 0.94


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.8])
@pytest.mark.parametrize("change", [0.1, -0.1])
def test_interval_holds_its_estimate(confidence: float, change: float) -> None:
    # 100 equal changes: their centre is 100 / 102 of the mean, and at 50 % it reaches 0.0013
    (interval,) = difference_intervals(
        Units.of(np.full((100, 1), change)), widest=0.6, confidence=confidence
    )
    low, high = ends(interval)
    assert low <= interval.mean <= high
    lower, upper = bounds_of(np.full(100, change), confidence=0.51)
    assert lower <= change + 1e-12
    assert upper >= change - 1e-12


def test_scores_and_how_far_apart_they_can_be() -> None:
    assert widest_apart(0.5, 0.55, 1.0, worst=0.0) == pytest.approx(0.55)
    assert widest_apart(0.0, 0.1, 1.0, worst=1.0) == 1.0  # where less is better
    assert widest_apart(0.5, 0.55, math.inf) == pytest.approx(0.05)
    # where none differ, what the metric allows, or the farthest from 0, or 1
    assert widest_apart(0.5, 0.5, 1.0, worst=0.0) == 1.0
    assert widest_apart(3.0, 3.0, math.inf) == 3.0
    assert widest_apart(0.0, 0.0, math.inf) == 1.0


def test_changes_of_few_near_the_best_score_are_no_certainty() -> None:
    # 1 question in 50 loses all and nobody saw one; R = 1 by the worst score, and 0.2 by those seen
    changes = np.tile([0.01, 0.0, -0.01, 0.0, 0.0], 5)
    by_seen, by_worst = (bounds_of(changes, widest, 0.975)[0] for widest in (0.2, 1.0))
    assert by_seen > -0.02
    assert by_worst < -0.02
