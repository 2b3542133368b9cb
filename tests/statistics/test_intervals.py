"""Intervals: equal to scipy called by hand, given wherever there are two queries."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.examples import examples
from support.intervals import ends, width

from llama_index_rag_metrics import Scores
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics import resampling
from llama_index_rag_metrics.statistics.intervals import (
    check_confidence,
    exact_mean,
    mean_interval,
    mean_intervals,
    wilson,
)
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums

RNG = np.random.default_rng(11)
SKEWED = RNG.beta(0.5, 3, 300)
MANY_ZEROS = np.where(RNG.random(300) < 0.6, 0.0, RNG.choice([1.0, 0.5, 1 / 3], 300))


@pytest.mark.parametrize(("hits", "n"), [(3, 6), (45, 50), (196, 200), (700, 1000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_zeros_and_ones_have_wilsons_interval(hits: int, n: int, confidence: float) -> None:
    ours = mean_interval([1.0] * hits + [0.0] * (n - hits), confidence=confidence)
    theirs = stats.binomtest(hits, n).proportion_ci(confidence, method="wilson")
    assert (ours.n, ours.mean) == (n, hits / n)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("n", [20, 50, 51, 200])
@pytest.mark.parametrize("hits", [1, 2, 3, 4])
def test_wilsons_interval_is_modified_where_hits_or_misses_are_few(hits: int, n: int) -> None:
    plain = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
    # the mean of a Poisson variable that reaches `hits` in one of twenty cases
    poisson = stats.chi2.ppf(0.05, 2 * hits) / 2
    assert stats.poisson.sf(hits - 1, poisson) == pytest.approx(0.05)
    modified = hits <= (2 if n <= 50 else 3)
    low = poisson / n if modified else plain.low
    assert low <= plain.low
    assert wilson(hits, n) == pytest.approx((low, plain.high), abs=1e-12)
    assert wilson(n - hits, n) == pytest.approx((1 - plain.high, 1 - low), abs=1e-12)


def wilson_of(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval by solving (m - p)² = z² p(1 - p) / n for p."""
    roots = np.roots([1 + z * z / n, -(2 * share + z * z / n), share**2])
    return float(roots.min()), float(roots.max())


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_scores_between_have_wilsons_interval_of_the_effective_number(confidence: float) -> None:
    n, mean = len(MANY_ZEROS), MANY_ZEROS.mean()
    most = mean * (1 - mean)
    squares, roots = n * MANY_ZEROS.var(), []
    for end in (0, 1):  # half an imagined question scores that much
        variance = (squares + (end - mean) ** 2 / 2) / (n - 1 / 2)
        effective = max(n, most / (variance / n + most / n**2))
        assert effective > n
        quantile = stats.t.ppf((1 + confidence) / 2, n - 1)
        roots.append(wilson_of(mean, effective, quantile)[end])
    ours = mean_interval(MANY_ZEROS, confidence=confidence)
    assert (ours.low, ours.high) == pytest.approx(roots, abs=1e-12)


@given(
    n=st.integers(2, 200), score=st.floats(0, 0.999), others=st.lists(st.floats(0, 1), max_size=3)
)
@examples(200)
def test_perfect_column_has_the_highest_low_end(n: int, score: float, others: list[float]) -> None:
    """49 of 1 and one of 0.9 had .987, and 50 of 1 .929, without half an imagined question."""
    perfect, lowered = mean_interval([1.0] * (n + 4)), [score, *others]
    ours = mean_interval([*lowered, *[1.0] * (n + 4 - len(lowered))])
    assert ends(ours)[0] <= ends(perfect)[0]


@given(st.data())
@examples(200)
def test_lowering_a_score_raises_no_low_end_by_much(data: st.DataObject) -> None:
    """By a tenth of the width at most: it makes scores more alike. It was by all of the width."""
    near_1 = st.one_of(st.just(1.0), st.floats(0.5, 1.0), st.floats(0.0, 1.0))
    scores = data.draw(st.lists(near_1, min_size=5, max_size=80))
    position = data.draw(st.integers(0, len(scores) - 1))
    lowered = [*scores]
    lowered[position] *= data.draw(st.floats(0, 1))
    if {*lowered} <= {0.0, 1.0}:
        return
    before, after = mean_interval(scores), mean_interval(lowered)
    assert ends(after)[0] <= ends(before)[0] + width(before) / 10


def test_misses_small_and_many_hide_no_whole_one() -> None:
    """90 % of the questions score 1, 8 % 0.9, 2 % 0: 64 % of intervals held the mean at n = 50."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(1_000):
        low, high = ends(mean_interval(rng.choice([1.0, 0.9, 0.0], 50, p=[0.9, 0.08, 0.02])))
        covered += low <= 0.972 <= high
    assert covered >= 930


def test_limits_are_those_of_the_metric() -> None:
    plain, scaled = mean_interval(SKEWED), mean_interval(3 * SKEWED, limits=(0.0, 3.0))
    assert ends(scaled) == pytest.approx([3 * end for end in ends(plain)])
    # without a limit, the highest score seen stands for it
    open_ended = mean_interval(SKEWED, limits=(0.0, math.inf))
    assert open_ended == mean_interval(SKEWED, limits=(0.0, float(SKEWED.max())))


@pytest.mark.parametrize("value", [0.0, 1.0, 0.3])
def test_constant_column_has_an_interval(value: float) -> None:
    few, many = mean_interval([value] * 50), mean_interval([value] * 500)
    for interval in (few, many):
        low, high = ends(interval)
        assert interval.mean == value
        assert low <= value <= high
        assert high > low
        assert interval.note == "interval approximate: all questions have the same score"
    assert width(few) > width(many)
    # 50 of 50: Wilson's lower end is n / (n + z²)
    z = stats.norm.ppf(0.975)
    assert mean_interval([1] * 50).low == pytest.approx(50 / (50 + z * z))


@pytest.mark.parametrize("limits", [(0.0, math.inf), (-math.inf, math.inf)])
@pytest.mark.parametrize("value", [2.0, 2.5, -2.5])
def test_constant_columns_need_limits(value: float, limits: tuple[float, float]) -> None:
    # nothing says how far another score could be
    interval = mean_interval([value] * 50, limits=limits)
    assert interval.mean == value
    assert (interval.low, interval.high) == (None, None)
    assert interval.note == "no interval: all questions have the same score"


def test_ones_without_a_limit_are_counts_and_hits_where_no_limit_is_known() -> None:
    # one call for each of 50 questions
    assert mean_interval([1.0] * 50, limits=(0.0, math.inf)).low is None
    # zeros and ones of a metric whose limits nobody knows may well be hits
    assert mean_interval([1.0] * 50, limits=(-math.inf, math.inf)).low is not None


@pytest.mark.parametrize("clusters", [None, [query // 2 for query in range(40)]])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (-2.0, 3.0)])
def test_intervals_keep_the_limits(low: float, high: float, clusters: list[int] | None) -> None:
    for value in (low, low + 0.01, high - 0.01, high):
        lower, higher = ends(mean_interval([value] * 40, limits=(low, high), clusters=clusters))
        assert low <= lower <= value <= higher <= high


def test_interval_of_one_query_isnt_there() -> None:
    interval = mean_interval([0.5])
    assert (interval.low, interval.high) == (None, None)
    assert interval.note == "only 1 question: too few for an interval"
    assert mean_interval([0.5, 0.7], clusters=["a", "a"]).note == (
        "all questions belong to one conversation or cluster, which counts as 1 question"
        ": too few for an interval"
    )


def test_rounding_noise_is_no_difference() -> None:
    # 0.1 in several spellings, 17 digits apart
    note = mean_interval([0.3 - 0.2, 0.1, 0.2 - 0.1] * 100).note
    assert note == "interval approximate: all questions have the same score"


def test_missing_values_have_no_part() -> None:
    holey = np.full(600, np.nan)
    holey[::2] = SKEWED
    with_holes, without = mean_interval(holey), mean_interval(SKEWED)
    assert with_holes.n == 300
    ends = (with_holes.low, with_holes.high)
    assert ends == pytest.approx((without.low, without.high), abs=1e-14)
    assert mean_interval([math.nan] * 3).note == "no question has a value"
    assert mean_interval([]).n == 0


def test_means_are_exact() -> None:
    # naive summation gives 0.0 here
    assert mean_interval([1e16, 1.0, -1e16, 1.0]).mean == 0.5


def test_columns_dont_disturb_each_other() -> None:
    alone = mean_interval(SKEWED)
    columns = np.stack([MANY_ZEROS, SKEWED, SKEWED], axis=1)
    assert mean_intervals(columns)[1:] == [alone, alone]
    scores = Scores([str(number) for number in range(300)], {"a": MANY_ZEROS, "mrr": SKEWED})
    named = scores.intervals()["mrr"]
    assert named == alone
    assert alone.mean == scores.means["mrr"]


class TestClusters:
    CLUSTERS = np.repeat(np.arange(60), 5).tolist()

    def test_copies_of_a_query_are_one(self) -> None:
        copies = np.repeat(SKEWED[:60], 5)
        single = mean_interval(SKEWED[:60])
        clustered = mean_interval(copies, clusters=self.CLUSTERS)
        assert (clustered.low, clustered.high) == pytest.approx((single.low, single.high), abs=1e-9)

    def test_clusters_of_unequal_size_weigh_by_their_queries(self) -> None:
        sizes = np.array([1, 2, 3, 4] * 15)
        clusters = np.repeat(np.arange(60), sizes)
        values = SKEWED[: len(clusters)]
        units = Units.of(values[:, None], clusters)
        # a ratio of sums: how far each cluster's residuals pull the mean of all queries
        pulls = [(values[clusters == c] - values.mean()).sum() / len(values) for c in range(60)]
        error = math.sqrt(np.square(pulls).sum() * 60 / 59)
        assert units.standard_errors[0] == pytest.approx(error, rel=1e-12)

    def test_large_cluster_says_no_more_than_a_small_one(self) -> None:
        # one cluster of 10 and ten of 1 say as much as 20² / (10² + 10 · 1²) of one size, not as 11
        values, clusters = [1.0, 0.0] * 10, [0] * 10 + [*range(1, 11)]
        n, share, most = 400 / 110, 1 / 2, 1 / 4
        # the large cluster pulls the mean nowhere, each other one by 1/2 over 20
        squares = 10 * (1 / 2) ** 2 / 20**2
        # ten questions see a half of all questions in their cluster, ten a twentieth
        uneven = np.var([10 / 20] * 10 + [1 / 20] * 10)
        effective = most / (squares * 11 / 10 + most / n**2 + uneven / 4)
        assert 6.4 < effective < 6.6
        expected = wilson_of(share, float(effective), stats.t.ppf(0.975, n - 1))
        assert ends(mean_interval(values, clusters=clusters)) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("exponent", "n", "truth"),
        # nearly all hits: those that miss may by chance all be in small clusters
        [(1.7, 200, 0.3), (3.0, 200, 0.3), (1.7, 500, 0.97), (1.5, 1000, 0.99)],
    )
    def test_clusters_of_unequal_sizes_are_covered(
        self, exponent: float, n: int, truth: float
    ) -> None:
        # 5 % miss at most: of 400 data sets, 20 and twice their standard deviation of 4.4
        rng, missed = np.random.default_rng(0), 0
        for _ in range(400):
            clusters = np.repeat(np.arange(n), np.minimum(rng.zipf(exponent, n), 20))[:n]
            drawn = 2 * rng.normal(size=n)[clusters] + rng.normal(size=n)
            hits = (drawn < stats.norm.ppf(truth) * math.sqrt(5)).astype(float)
            low, high = ends(mean_interval(hits, clusters=clusters))
            missed += not low <= truth <= high
        assert missed <= 29


@pytest.mark.parametrize("confidence", [1.0, 0, "0.9", True])
def test_confidence_that_means_nothing(confidence: Any) -> None:
    with pytest.raises(InvalidInput, match="confidence"):
        check_confidence(confidence)


@pytest.mark.parametrize("rows", [1, 7, 9])
def test_blocks_dont_change_what_is_drawn(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = SKEWED[:41, None] - SKEWED[41:82, None]
    monkeypatch.setattr(resampling, "RESAMPLES", 50)
    whole = np.concatenate([*flipped_sums(sums)])
    monkeypatch.setattr(resampling, "_BLOCK", rows * 41)
    parts = np.concatenate([*flipped_sums(sums)])
    assert len(np.unique(whole)) > 10
    np.testing.assert_allclose(parts, whole, atol=1e-12)


@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (lambda rng, shape: rng.beta(2, 3, shape), 0.4),
        (lambda rng, shape: rng.choice([0, 1, 0.5], shape, p=[0.3, 0.4, 0.3]), 0.55),
        (lambda rng, shape: (rng.random(shape) < 0.97) * 1.0, 0.97),
    ],
    ids=["dense", "many zeros and ones", "hit rate"],
)
def test_intervals_cover(draw: Any, mean: float) -> None:
    # 1,000 data sets of 200 queries; 3 standard errors about 95 % are 2.1 %; more of it:
    # docs/statistics.md
    columns = draw(np.random.default_rng(20), (200, 1000))
    bounds = [ends(interval) for interval in mean_intervals(columns)]
    covered = [low <= mean <= high for low, high in bounds]
    assert 0.925 <= np.mean(covered) <= 0.975


def test_mean_of_numbers_whose_sum_overflows() -> None:
    assert exact_mean(np.array([1e308, 1e308])) == 1e308
