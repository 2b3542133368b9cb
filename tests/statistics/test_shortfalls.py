"""Levels that hold together, how far systems may lie below the best one, and which are the best."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.examples import examples
from support.intervals import pseudo_bounds, pseudo_change

from llama_index_rag_metrics.statistics import resampling
from llama_index_rag_metrics.statistics.differences import Contest
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums, joint_levels


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "RESAMPLES", 300)


def flips(n: int) -> np.ndarray:
    """(resamples, n) the signs that are drawn, read off columns with a single value."""
    return np.concatenate([*flipped_sums(np.eye(n))])


class TestJointLevels:
    @pytest.fixture(autouse=True)
    def few_resamples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resampling, "RESAMPLES", 999)

    NOISE = np.random.default_rng(7).normal(0, 0.2, (60, 3))
    COLUMNS = np.stack(
        [NOISE[:, 0] + 0.07, NOISE[:, 0] + NOISE[:, 1] / 4 + 0.05, NOISE[:, 2]], axis=1
    )

    def levels(self, columns: np.ndarray, *families: list[int]) -> list[float]:
        chosen = [np.array(family) for family in families or [[*range(columns.shape[1])]]]
        return joint_levels(Units.of(columns), chosen)

    def test_level_by_its_definition(self) -> None:
        signs = flips(len(self.COLUMNS))
        statistics = [stats.ttest_1samp(sign[:, None] * self.COLUMNS, 0) for sign in signs]
        # the p of the largest t of the columns, by which one in twenty flips is as extreme
        smallest = np.array([found.pvalue.min() for found in statistics])
        (level,) = self.levels(self.COLUMNS)
        assert np.mean(smallest <= level) == pytest.approx(0.05, abs=0.0011)

    def test_alone_it_is_the_whole_level(self) -> None:
        assert self.levels(self.COLUMNS, [0], [1], [2]) == [0.05] * 3

    def test_copies_and_their_negatives_cost_nothing(self) -> None:
        more = np.hstack([self.COLUMNS, self.COLUMNS[:, :1], -self.COLUMNS[:, :1]])
        assert self.levels(more) == pytest.approx(self.levels(self.COLUMNS))

    def test_columns_that_never_changed(self) -> None:
        assert self.levels(np.zeros((30, 3))) == [0.05]

    def test_level_lies_between_all_and_one(self) -> None:
        units = Units.of(self.COLUMNS)
        families = [np.array([0, 1, 2]), np.array([2])]
        levels = joint_levels(units, families)
        # three columns, of which two say much the same
        assert 0.05 / 3 < levels[0] < 0.05 / 2 + 0.003
        assert levels[1] == 0.05

    def test_large_cluster_does_not_make_columns_look_alike(self) -> None:
        # one of 40 questions decides each sum, so that flips of sums are hardly more than one flip
        clusters = np.append(np.zeros(40, np.int64), np.arange(1, 21))
        columns = np.random.default_rng(3).normal(0, 0.2, (21, 3))[clusters] + 0.1
        units = Units.of(columns, clusters)
        found = joint_levels(units, [np.arange(3)])
        means = joint_levels(Units.of(units.own_means), [np.arange(3)])
        assert found == pytest.approx(means)
        assert 0.05 / 3 <= found[0] < 0.05 / 3 + 0.003


SCORES = st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0])] * 4), min_size=2, max_size=30)


def test_shortfalls_of_two_systems_by_the_definition() -> None:
    # one rival needs no correction: a one-sided bound by t with pseudo-queries, 0 for the better
    rng = np.random.default_rng(3)
    scores = np.clip(rng.normal([0.6, 0.5], 0.2, (80, 2)), 0, 1)
    leads = scores[:, 0] - scores[:, 1]
    change = pseudo_change(leads, np.ptp(scores))
    values = [*leads, change, -change]
    expected = np.mean(values) + stats.t.ppf(0.95, 81) * stats.sem(values)
    np.testing.assert_allclose(Contest(scores).shortfalls().at_most, [0, expected], rtol=1e-9)


def test_bounds_hold_all_together() -> None:
    """In 95 % of cases: of 200, more than 20 have a chance of 0.1 % not to."""
    rng = np.random.default_rng(8)
    truth = np.array([0.5, 0.5, 0.48, 0.4, 0.3])
    failed = 0
    for _ in range(200):
        hard = rng.normal(0, 0.2, (60, 1))
        scores = truth + hard + rng.normal(0, 0.1, (60, len(truth)))
        bounds = Contest(scores).shortfalls().at_most
        failed += bool((truth.max() - truth > bounds).any())
    assert failed <= 20


def test_alike_questions_of_a_cluster_count_once() -> None:
    # with equal sizes, a cluster's sum over the size takes the place of a question's score
    rng = np.random.default_rng(2)
    scores = rng.random((30, 4))
    repeated, clusters = np.repeat(scores, 3, axis=0), np.repeat(np.arange(30), 3)
    of_clusters = Contest(repeated, span=1, clusters=clusters).shortfalls(0.05)
    alone = Contest(scores, span=1).shortfalls(0.05)
    np.testing.assert_allclose(of_clusters.at_most, alone.at_most, rtol=1e-9)
    assert of_clusters.queries == pytest.approx(3 * (alone.queries or 0), abs=3)
    one = np.zeros(30, np.int64)
    assert Contest(scores, clusters=one).shortfalls().at_most.tolist() == [math.inf] * 4


@given(SCORES)
@examples(60)
def test_bounds_are_not_below_what_was_seen(rows: list[tuple[float, ...]]) -> None:
    scores = np.array(rows)
    at_most = Contest(scores, span=1).shortfalls().at_most
    seen = scores.mean(axis=0).max() - scores.mean(axis=0)
    # two pseudo-queries draw the centre to 0 by n / (n + 2), and the reach is more than that
    assert (at_most >= seen * len(scores) / (len(scores) + 2) - 1e-9).all()
    assert (at_most <= 1).all()
    order = [2, 0, 3, 1]
    moved = Contest(scores[:, order], span=1).shortfalls().at_most
    np.testing.assert_allclose(moved, at_most[order], atol=1e-9)


def test_number_of_questions_is_for_what_isnt_shown() -> None:
    lead = 0.02 + 0.2 * (-1.0) ** np.arange(50)
    scores = np.stack([0.5 + lead, np.full(50, 0.5)], axis=1)
    wide, narrow = Contest(scores).shortfalls(0.01), Contest(scores).shortfalls(0.005)
    assert wide.queries is not None
    assert narrow.queries is not None
    # half of the lead of 0.02, drawn to 0 by two pseudo-queries, is taken for luck
    centre = 0.02 * 50 / 52
    times = (wide.at_most[0] + centre) / (0.01 + centre / 2)
    assert 50 < wide.queries == math.ceil(50 * times**2) < narrow.queries
    assert Contest(scores).shortfalls(0.9).queries is None
    # equal scores, and no tolerance: no number would show it
    assert Contest(np.repeat(scores, 2, axis=1)).shortfalls().queries is None


@pytest.mark.parametrize(
    ("shape", "expected"), [((0, 2), math.inf), ((1, 2), math.inf), ((1, 1), 0.0), ((9, 1), 0.0)]
)
def test_too_little_to_tell(shape: tuple[int, int], expected: float) -> None:
    assert Contest(np.zeros(shape)).shortfalls().at_most.tolist() == [expected] * shape[1]


class TestBestOfSeveral:
    @pytest.mark.parametrize("shift", [0.0, 0.05, 0.07, 0.1])
    def test_shortfall_of_two_is_the_interval_of_their_difference(self, shift: float) -> None:
        lead = np.linspace(-0.3, 0.3, 50) + shift
        scores = np.stack([lead, np.zeros(50)], axis=1)
        low, _ = pseudo_bounds(lead, 0.975, widest=np.ptp(scores))
        assert Contest(scores, span=1.0).beats_all(0) == (low > 0) == (shift >= 0.07)

    def test_rivals_must_all_be_beaten(self) -> None:
        lead = np.linspace(0.0, 0.3, 50)
        assert Contest(np.stack([lead, lead - 0.2, lead - 0.3], axis=1), span=1.0).beats_all(0)
        other = lead[::-1]  # as good on average
        assert not Contest(np.stack([lead, lead - 0.2, other], axis=1), span=1.0).beats_all(0)

    @pytest.mark.parametrize(
        "scores",
        [
            lambda noise: noise,
            # each as far from the next as that from the one after it: one factor orders them all
            lambda noise: noise[:, :1] * [-2, -1, 0, 1, 2] + 0.01 * noise,
            # two pairs, alike within and unlike between
            lambda noise: noise[:, [0, 0, 1, 1, 1]] + 0.2 * noise,
        ],
        ids=["independent", "in a row", "in pairs"],
    )
    def test_equally_good_ones_have_a_winner_in_at_most_one_of_twenty(self, scores: Any) -> None:
        rng = np.random.default_rng(33)
        named = 0
        for _ in range(1000):
            drawn = scores(rng.normal(size=(40, 5)))
            best = int(drawn.mean(axis=0).argmax())
            named += Contest(drawn, span=math.inf).beats_all(best)
        # 50 at most; 3 standard errors are 21
        assert named <= 71

    @pytest.mark.parametrize("sizes", [np.full(40, 5), np.array([20] * 4 + [10] * 6 + [2] * 30)])
    def test_systems_equal_and_asked_in_clusters_have_no_winner_either(self, sizes: Any) -> None:
        rng = np.random.default_rng(4)
        clusters = np.repeat(np.arange(len(sizes)), sizes)
        named = 0
        for _ in range(500):
            shared = 2 * rng.normal(size=(len(sizes), 2))[clusters]
            drawn = np.round(stats.norm.cdf((shared + rng.normal(size=shared.shape)) / 5**0.5), 1)
            best = int(drawn.mean(axis=0).argmax())
            named += Contest(drawn, span=1.0, worst=0.0, clusters=clusters).beats_all(best)
        # 25 at most; 2 standard deviations are 10. As 200 single questions it is 150 or more
        assert named <= 35


def test_winner_is_missing_among_thirty_that_are_equally_good() -> None:
    """At most 5 % of sweeps: 3 of 40 have a chance of 32 % at that rate, 7 or more one of 0.3 %."""
    rng = np.random.default_rng(4)
    named = 0
    for _ in range(40):
        difficulty = rng.beta(1, 1, (60, 1))
        scores = (rng.random((60, 30)) < difficulty).astype(float)
        named += Contest(scores, span=1.0).beats_all(int(scores.mean(axis=0).argmax()))
    assert named < 7


def test_clear_winner_is_named() -> None:
    rng = np.random.default_rng(6)
    scores = rng.normal(0, 0.1, (100, 20))
    scores[:, 7] += 0.2
    assert Contest(scores, span=math.inf).beats_all(7)
