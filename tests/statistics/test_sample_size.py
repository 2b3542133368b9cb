"""How many questions show what, by the formula of the interval that decides."""

import math

import numpy as np
import pytest
from scipy import stats
from support.intervals import pseudo_bounds, pseudo_change, smallest_shown

from llama_index_rag_metrics.statistics.differences import (
    MOST_QUESTIONS,
    Aim,
    Changes,
    detectable_differences,
    pseudo_queries,
    to_be_better,
    to_be_kept,
)
from llama_index_rag_metrics.statistics.resampling import Units

AIMS = [to_be_better(), to_be_kept()]


def seen(differences: list[float], widest: float = 1.0) -> Changes:
    column = np.array(differences)[:, np.newaxis]
    (changes,) = Changes.seen(Units.of(column), np.array([widest]))
    return changes


def distance(changes: Changes, aim: Aim, n: int) -> float:
    found = changes.distance(aim, n)
    assert found is not None
    return found


def test_pseudo_queries_alone_cost_what_is_left_without_a_change() -> None:
    # nothing varies: pseudo-queries at ±1 alone, t(0.95; N + 1) √(2 / (N + 2) / (N + 1)) <= 0.02,
    # which is 1.6576 × 0.012067 = 0.020002 at N = 115 and 1.6575 × 0.011964 = 0.019831 at 116
    never = Changes(deviation=0.0, share=0.0)
    assert never.questions(to_be_kept(), 0.02) == 116
    low, _ = pseudo_bounds([0.0] * 116, 0.95)
    assert low >= -0.02
    assert pseudo_bounds([0.0] * 115, 0.95)[0] < -0.02


def test_formula_of_textbooks_holds_with_many_questions() -> None:
    # all change, so that pseudo-queries cost nothing: ((z + z') sd / δ)²
    z, power = 1.959964, 0.841621
    all_of_them = Changes(deviation=0.25, share=1.0, widest=0.25)
    found = all_of_them.questions(to_be_better(), 0.01)
    assert found == pytest.approx(((z + power) * 25) ** 2, rel=1e-3)
    found = all_of_them.questions(to_be_kept(), 0.01)
    assert found == pytest.approx(((1.644854 + power) * 25) ** 2, rel=1e-3)


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("effect", [0.02, 0.1, 0.3])
def test_distance_and_its_number_of_questions_belong_together(aim: Aim, effect: float) -> None:
    changes = Changes(deviation=0.3, share=0.2)
    n = changes.questions(aim, effect)
    assert n is not None
    assert distance(changes, aim, n) <= effect < distance(changes, aim, n - 1)


def test_quarter_of_a_change_stands_beside_what_was_seen() -> None:
    # 8 of 40 lose 0.5: k = 8, M² = (2 + 1) / 9, so that 1/12 is added; Σ(d - m)² = 2 - 40 × 0.01
    changes = seen([-0.5] * 8 + [0.0] * 32)
    assert pseudo_change([-0.5] * 8 + [0.0] * 32) ** 2 == pytest.approx(1 / 3)
    assert changes.deviation == pytest.approx(math.sqrt((1.6 + 1 / 12) / (40 + 0.25 - 1)))
    assert changes.share == pytest.approx((8 + 0.25) / (40 + 0.25))
    # of changes of 0.1 and 0.4, k = 0.5² / 0.17
    unequal = seen([0.1, -0.4] + [0.0] * 18)
    assert unequal.share == pytest.approx((0.25 / 0.17 + 0.25) / (20 + 0.25))


def test_clusters_are_units() -> None:
    # the same numbers, each of two questions of one document
    column = np.array([-0.5, 0.25] * 2 + [0.0] * 36)
    (alone,) = Changes.seen(Units.of(column[:, np.newaxis]), np.ones(1))
    twice = Units.of(np.repeat(column, 2)[:, np.newaxis], np.repeat(np.arange(40), 2))
    (clustered,) = Changes.seen(twice, np.ones(1))
    assert clustered.size == 2
    assert clustered.deviation == pytest.approx(alone.deviation)
    n = alone.questions(to_be_kept(), 0.02)
    assert n is not None
    assert clustered.questions(to_be_kept(), 0.02) == 2 * n
    assert distance(clustered, to_be_kept(), 2 * n) == pytest.approx(
        distance(alone, to_be_kept(), n)
    )


def test_gain_that_is_large_takes_more_questions_where_few_change() -> None:
    # a gain of 0.3 can't come from one question in a hundred: all that change gain, and more do
    rare = Changes(deviation=0.0, share=0.01)
    n = rare.questions(to_be_better(), 0.3)
    assert n is not None
    # then all differences are 0.3: N of them and two pseudo-queries
    low, _ = pseudo_bounds([0.3] * n, 0.975)
    assert low > 0
    assert pseudo_bounds([0.3] * (n - 1), 0.975)[0] <= 0


@pytest.mark.parametrize("aim", AIMS)
def test_number_that_shows_nothing(aim: Aim) -> None:
    changes = Changes(deviation=0.3, share=0.2)
    assert changes.questions(aim, 0.0) is None
    assert changes.questions(aim, 1e-6) is None
    assert distance(changes, aim, MOST_QUESTIONS) > 1e-6
    assert changes.distance(aim, 1) is None
    assert Changes(0.0, 0.0, size=5).distance(aim, 9) is None  # less than two clusters


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_smallest_difference_of_a_column_by_hand(alpha: float) -> None:
    column = np.random.default_rng(12).normal(0.02, 0.1, 80)
    (smallest,) = detectable_differences(Units.of(column[:, None]), np.ones(1), alpha=alpha)
    assert smallest == pytest.approx(smallest_shown(column, alpha=alpha), rel=1e-9)


def test_changes_too_few_name_no_difference() -> None:
    column = np.zeros((80, 2))
    column[:9, 0] = column[:10, 1] = 0.5
    nine, ten = detectable_differences(Units.of(column), np.ones(2))
    assert nine is None
    assert ten is not None


def test_clusters_of_different_sizes_need_more_by_the_definition() -> None:
    # 40 clusters that say as much as 20 of one size, of which every question changes; as questions
    # see them, clusters are twice the mean size on average, and so is R
    changes = Changes(deviation=0.3, share=1.0, evenness=0.5)
    shown = changes.distance(to_be_better(), 40)
    assert shown is not None
    squares = 40 * (0.3**2 + shown**2)
    pseudo = (squares + 2**2) / 41
    centre = 40 * shown / 42
    error = math.sqrt(((squares + 2 * pseudo) / 42 - centre**2) / 41)
    chance = math.sqrt(40) * 0.3 / 42
    reach = stats.t.ppf(0.975, 20 + 1) * error + stats.norm.ppf(0.8) * chance
    assert reach == pytest.approx(centre, rel=1e-9)


def test_cluster_that_is_large_among_few_shows_no_difference() -> None:
    column = np.random.default_rng(5).normal(0, 0.2, (31, 1))
    # of one size 31² / (20² + 11 · 1²) = 2.3 clusters would say as much; of 12 equal ones all do
    uneven, even = np.append(np.zeros(20, np.int64), np.arange(1, 12)), np.arange(31) * 12 // 31
    assert detectable_differences(Units.of(column, uneven), np.ones(1)) == [None]
    assert detectable_differences(Units.of(column, even), np.ones(1)) != [None]


@pytest.mark.parametrize("changed", [0.2, 1.0])
def test_difference_called_detectable_is_found_in_four_of_five_cases(changed: float) -> None:
    rng = np.random.default_rng(8)
    values = (rng.random(5000) < changed) * rng.choice([1, -1, 0.5, -0.5], 5000)
    values -= values.mean()
    columns = values[rng.integers(0, 5000, (200, 40))]
    power = []
    for least in detectable_differences(Units.of(columns), np.ones(40)):
        assert least is not None
        sample = values[rng.integers(0, 5000, (200, 500))] + least
        low, high = pseudo_queries(Units.of(sample), 1.0).bounds(0.975)
        power.append(np.mean((low > 0) | (high < 0)))
    assert 0.75 <= np.mean(power) <= 0.85


def test_distance_beyond_what_scores_can_be_apart_is_not_shown() -> None:
    # the fewest that show a gain of 1, which is all that there can be; one fewer show none
    changes = Changes(deviation=0.9, share=1.0)
    n = changes.questions(to_be_better(), 1.0)
    assert n is not None
    shown = distance(changes, to_be_better(), n)
    assert shown <= 1.0
    assert changes.distance(to_be_better(), n - 1) is None
    # scores that are at most 0.5 apart, likewise
    narrow = Changes(deviation=0.45, share=1.0, widest=0.5)
    assert distance(narrow, to_be_better(), n) == pytest.approx(shown / 2)
    assert narrow.distance(to_be_better(), n - 1) is None


def test_ten_changed_questions_that_can_show_nothing_name_no_difference() -> None:
    # ten questions, five won and five lost: t(11) × 1.1 / √11 alone is 0.73
    column = np.array([1.0, -1.0] * 5)[:, None]
    assert detectable_differences(Units.of(column), np.ones(1), alpha=0.001) == [None]
