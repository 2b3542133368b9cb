"""Levels of intervals that hold together: by scipy called by hand."""

import numpy as np
import pytest
from scipy import stats

from llama_index_rag_metrics.statistics import resampling
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums, joint_levels


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "RESAMPLES", 999)


def flips(n: int) -> np.ndarray:
    """(resamples, n) the signs that are drawn, read off columns with a single value."""
    return np.concatenate([*flipped_sums(np.eye(n))])


class TestJointLevels:
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
