"""The oracle gives every worked example and every applicable trap of docs/definitions.md.

Traps about scores, significance and query ids have no counterpart here: the oracle takes one list
of ids, in its order. Expected values are literals; the comment above each derives it by hand.
"""

from collections.abc import Callable, Sequence

import pytest
from support.reference import (
    REFERENCE,
    Groups,
    accuracy,
    ap,
    bpref,
    confusion,
    dcg,
    err,
    f,
    granular_hit_rate,
    granular_mrr,
    group_ap,
    group_f1,
    group_mrr,
    group_recall,
    hit_rate,
    infap,
    judged,
    mrr,
    ndcg,
    precision,
    r_precision,
    rbp,
    recall,
)

Case = tuple[dict[str, float], list[str]]


def exact(value: float) -> object:
    return pytest.approx(value, abs=1e-12)


def six(value: float) -> object:
    return pytest.approx(value, abs=5e-7)


def three(value: float) -> object:
    return pytest.approx(value, abs=5e-4)


def expected(items: str) -> dict[str, float]:
    return dict.fromkeys(items.split(), 1.0)


def by_rank(grades: Sequence[float], *, unfound: int = 0) -> Case:
    """A ranking r1, r2, … with these grades, and so many relevant items that it lacks."""
    ranked = {f"r{rank}": float(grade) for rank, grade in enumerate(grades, start=1)}
    lacking = {f"u{number}": 1.0 for number in range(unfound)}
    return ranked | lacking, list(ranked)


Q1 = by_rank([0, 1, 0, 1, 0])
Q2 = by_rank([1, 0, 0, 0, 1])
Q3 = by_rank([0, 0, 1, 0, 0])


def mean(metric: Callable[[Case], float]) -> float:
    return sum(metric(case) for case in (Q1, Q2, Q3)) / 3


def test_three_expected_two_of_them_retrieved() -> None:
    case = expected("1 2 3"), ["1", "3", "4"]
    # Hits at ranks 1 and 2 of 3 retrieved.
    assert precision(*case) == exact(2 / 3)
    # 2 of the 3 relevant.
    assert recall(*case) == exact(2 / 3)
    assert granular_hit_rate(*case) == exact(2 / 3)
    # (1/1 + 2/2) / 3
    assert ap(*case) == exact(2 / 3)
    # First hit at rank 1.
    assert mrr(*case) == 1
    # (1/1 + 1/2) / 2 hits
    assert granular_mrr(*case) == 0.75
    # (1 + .63093) / (1 + .63093 + .5): min(n, R⁺) = 3
    assert ndcg(*case) == six(0.765361)


def test_q1() -> None:
    # First hit at rank 2.
    assert mrr(*Q1) == 0.5
    # 1 hit in the top 3.
    assert precision(*Q1, k=3) == exact(1 / 3)
    # 1 of 2 relevant.
    assert recall(*Q1, k=3) == 0.5
    # 1/log2(3) + 1/log2(5) = .630930 + .430677
    assert dcg(*Q1, k=5) == six(1.061606)
    # 1/log2(3) alone
    assert dcg(*Q1, k=3) == six(0.630930)
    # 1.061606 / (1 + .630930)
    assert ndcg(*Q1, k=5) == six(0.650921)
    # (1/2 + 2/4) / 2
    assert ap(*Q1) == 0.5


def test_q2() -> None:
    # First hit at rank 1.
    assert mrr(*Q2) == 1
    # 1 hit in the top 3.
    assert precision(*Q2, k=3) == exact(1 / 3)
    # 1 of 2 relevant.
    assert recall(*Q2, k=3) == 0.5
    # 1 + 1/log2(6) = 1 + .386853
    assert dcg(*Q2, k=5) == six(1.386853)
    # 1.386853 / (1 + .630930)
    assert ndcg(*Q2, k=5) == six(0.850345)
    # (1/1 + 2/5) / 2
    assert ap(*Q2) == exact(0.7)


def test_q3() -> None:
    # First hit at rank 3.
    assert mrr(*Q3) == exact(1 / 3)
    # 1 hit in the top 3.
    assert precision(*Q3, k=3) == exact(1 / 3)
    # The only relevant item.
    assert recall(*Q3, k=3) == 1
    # 1/log2(4)
    assert dcg(*Q3, k=5) == 0.5
    # .5 / 1
    assert ndcg(*Q3, k=5) == 0.5
    # (1/3) / 1
    assert ap(*Q3) == exact(1 / 3)


def test_mean_of_q1_to_q3() -> None:
    # (1/2 + 1 + 1/3) / 3 = 11/18
    assert mean(lambda case: mrr(*case)) == six(0.611111)
    # 1/3 each
    assert mean(lambda case: precision(*case, k=3)) == exact(1 / 3)
    # (1/2 + 1/2 + 1) / 3
    assert mean(lambda case: recall(*case, k=3)) == exact(2 / 3)
    # (.650921 + .850345 + .5) / 3 = 2.001266 / 3; the tutorial's .766 isn't its own formula
    assert mean(lambda case: ndcg(*case, k=5)) == six(0.667089)


def test_grades_by_rank() -> None:
    case = by_rank([3, 1, 2, 0, 3])
    # 7 + 1(.630930) + 3(.5) + 0 + 7(.386853)
    assert dcg(*case, mode="exponential") == six(11.838899)
    # The ideal order 3, 3, 2, 1: 7 + 7(.630930) + 3(.5) + 1(.430677)
    assert dcg(case[0], ["r1", "r5", "r3", "r2"], mode="exponential") == six(13.347185)
    # 11.838899 / 13.347185
    assert ndcg(*case, mode="exponential") == six(0.886996)
    # (3 + .630930 + 2(.5) + 3(.386853)) / (3 + 3(.630930) + 2(.5) + .430677) = 5.791488 / 6.323466
    assert ndcg(*case) == six(0.915872)


def test_groups_of_two_and_one() -> None:
    groups, ranking = [["t1", "t2"], ["t3"]], ["t1", "p1", "t2", "p2"]
    # The first of the two groups.
    assert group_recall(groups, ranking) == 0.5
    # t1 and t2 of 4.
    assert precision(expected("t1 t2 t3"), ranking) == 0.5
    # The harmonic mean of 1/2 and 1/2.
    assert group_f1(groups, ranking) == exact(0.5)
    # The harmonic mean of 1/2 and 2/3: (2/3) / (7/6) = 4/7
    assert f(expected("t1 t2 t3"), ranking) == three(0.571)
    # ((1/1 + 2/3) / 2 found + 0) / 2 groups
    assert group_ap(groups, ranking) == exact(5 / 12)
    # (1 + .5) / (1 + .630930 + .5)
    assert ndcg(expected("t1 t2 t3"), ranking) == six(0.703918)


def test_group_mrr() -> None:
    # (1/2 + 1/4) / 2
    assert group_mrr([["i2"], ["i4"]], ["i1", "i2", "i3", "i4"]) == 0.375


def test_mean_mrr() -> None:
    ranks = [3, 1, 2, 3]
    # (1/3 + 1 + 1/2 + 1/3) / 4 = (26/12) / 4
    assert sum(mrr(*by_rank([0] * (rank - 1) + [1])) for rank in ranks) / 4 == exact(13 / 24)


@pytest.mark.parametrize(
    ("hits", "retrieved", "relevant", "f1"),
    [
        # P 9/90 = .1, R 9/10: 2(.09) / 1.0
        (9, 90, 10, 0.18),
        # P 9/10, R 9/10: 2(.81) / 1.8
        (9, 10, 10, 0.90),
        # P 9/10, R 9/90 = .1: 2(.09) / 1.0
        (9, 10, 90, 0.18),
        # P 1/2, R 1/2: 2(.25) / 1.0
        (1, 2, 2, 0.50),
    ],
)
def test_f1(hits: int, retrieved: int, relevant: int, f1: float) -> None:
    case = by_rank([1] * hits + [0] * (retrieved - hits), unfound=relevant - hits)
    assert f(*case) == exact(f1)
    assert REFERENCE["f1"](*case) == exact(f1)


def test_a_repeated_hit_is_credited_once() -> None:
    case = expected("A"), ["A", "A", "B"]
    # A at rank 1 of [A, B], the only relevant item: 1/1, 1/1, 1/1.
    assert ap(*case) == 1
    assert ndcg(*case) == 1
    assert granular_hit_rate(*case) == 1


def test_ranks_close_up_after_a_repeated_item() -> None:
    # [B, A]: A is second.
    assert mrr(expected("A"), ["B", "B", "A"]) == 0.5


def test_an_item_expected_twice_is_one_item() -> None:
    # The ideal holds one item: 1 / 1.
    assert ndcg(expected("A A"), ["A"]) == 1


def test_two_of_five_relevant_retrieved() -> None:
    case = by_rank([1, 1], unfound=3)
    # The ideal is as long as the ranking: 1.630930 / 1.630930.
    assert ndcg(*case) == 1
    # 1.630930 / (1 + .630930 + .5 + .430677 + .386853)
    assert ndcg(*case, ideal="all") == three(0.553)
    # The ideal's best 2.
    assert ndcg(*case, k=2) == 1
    # The ideal's best 5.
    assert ndcg(*case, k=5) == three(0.553)
    # (1/1 + 2/2) / 5
    assert ap(*case, k=2) == exact(0.4)
    # 2 hits / 5, three ranks missing.
    assert precision(*case, k=5) == exact(0.4)


@pytest.mark.parametrize(
    ("relevance", "length", "retrieved", "all_relevant"),
    [
        # 2.558525 / 2.948459, where 2.558525 = 1 + .5 + .386853 + .356207 + .315465
        ([1, 0, 1, 0, 1, 1, 0, 1], 8, 0.868, 0.868),
        # (1 + .5) / 2.561606 and / 2.948459
        ([1, 0, 1, 0, 1, 1, 0, 1], 4, 0.586, 0.509),
        # 1 / 1 and / 2.948459
        ([1, 0, 1, 0, 1, 1, 0, 1], 1, 1.0, 0.339),
        # (1 + .5 + .386853 + .333333) / 2.948459: the fifth relevant item isn't retrieved
        ([1, 0, 1, 0, 1, 0, 1, 0], 8, 0.753, 0.753),
        # The same ranks 1 to 4 as above.
        ([1, 0, 1, 0, 1, 0, 1, 0], 4, 0.586, 0.509),
        # The same rank 1.
        ([1, 0, 1, 0, 1, 0, 1, 0], 1, 1.0, 0.339),
    ],
)
def test_cutting_a_ranking_off(
    relevance: list[int], length: int, retrieved: float, all_relevant: float
) -> None:
    grades, ranking = by_rank(relevance, unfound=5 - sum(relevance))
    assert ndcg(grades, ranking[:length]) == three(retrieved)
    assert ndcg(grades, ranking[:length], ideal="all") == three(all_relevant)


def test_one_of_two_expected_at_ten() -> None:
    # 1 / (1 + .630930)
    assert ndcg(expected("A B"), ["A"], k=10) == three(0.613)


def test_two_grades_in_the_wrong_order() -> None:
    case = by_rank([1, 3])
    # (1 + 3(.630930)) / (3 + .630930) = 2.892789 / 3.630930
    assert ndcg(*case) == three(0.797)
    # (1 + 7(.630930)) / (7 + .630930) = 5.416508 / 7.630930
    assert ndcg(*case, mode="exponential") == three(0.710)


def test_exponential_gain_of_the_highest_grade() -> None:
    # 2^64 - 1, which rounds to 2^64
    assert dcg({"a": 64.0}, ["a"], mode="exponential") == 2.0**64


def test_a_list_is_the_truth_whatever_the_ids() -> None:
    # The relevant item stands first, though its id is the lowest.
    assert mrr(expected("a"), ["a", "b", "c"]) == 1


def test_cutoffs() -> None:
    case = by_rank([0, 1, 0, 1], unfound=2)
    # The first hit, at rank 2, is beyond rank 1.
    assert (hit_rate(*case, k=1), hit_rate(*case, k=2), hit_rate(*case)) == (0, 1, 1)
    assert (mrr(*case, k=1), mrr(*case, k=2)) == (0, 0.5)
    # 1 and 2 of 4 relevant.
    assert (granular_hit_rate(*case, k=3), granular_hit_rate(*case, k=9)) == (0.25, 0.5)
    # 1/2, then (1/2 + 1/4) / 2: finding more lowers it.
    assert (granular_mrr(*case, k=3), granular_mrr(*case, k=4)) == (0.5, 0.375)
    # P@8 = 2/8, R@8 = 2/4: 2(1/8) / (3/4)
    assert f(*case, k=8) == exact(1 / 3)


def test_beta() -> None:
    # P 1/2, R 1/4 and B = 2: 5(1/8) / (4/2 + 1/4)
    assert f(*by_rank([1, 0], unfound=3), beta=2) == exact(5 / 18)


def test_min_grade() -> None:
    case = by_rank([1, 2, 0.5, 0])
    # Grades 1 and 2 of four, by default.
    assert precision(*case) == 0.5
    # Only grade 2, at rank 2.
    assert mrr(*case, min_grade=2) == 0.5
    # Three grades reach .5.
    assert precision(*case, min_grade=0.5) == 0.75


def test_r_precision() -> None:
    # R = 3: ranks 1 and 3 hit, rank 4 is too late.
    assert r_precision(*by_rank([1, 0, 1, 1])) == exact(2 / 3)
    # Two retrieved of R = 4, one of them relevant.
    assert r_precision(*by_rank([1, 0], unfound=3)) == 0.25


def test_rbp() -> None:
    # .2 (1 + .8²)
    assert rbp(*by_rank([1, 0, 3])) == exact(0.328)
    # .5 (1), rank 3 cut off.
    assert rbp(*by_rank([1, 0, 3]), p=0.5, k=2) == 0.5
    # 1 - .09**60 is 1 in a float, and (1 - .09) · Σ .09**i is 1.0000000000000002 before clipping.
    assert rbp(*by_rank([1] * 60), p=0.09) == 1


def test_err() -> None:
    # Grades 3 and 2 stop 7/16 and 3/16: 7/16 + 1/2 (9/16) 0 + 1/3 (9/16) (3/16)
    assert err(*by_rank([3, 0, 2])) == exact(0.47265625)
    # Neither an unjudged item nor a negative grade stops: 1/3 (7/16)
    assert err({"a": 3.0, "b": -1.0}, ["other", "b", "a"]) == exact(7 / 48)
    # The first term, rank 1 only.
    assert err(*by_rank([3, 0, 2]), k=1) == exact(0.4375)
    # Stops 7/8 and 3/8: 7/8 + 1/3 (1/8) (3/8)
    assert err(*by_rank([3, 0, 2]), max_grade=3) == exact(0.890625)


def test_bpref() -> None:
    grades = {"a": 1.0, "b": 1.0, "n1": 0.0, "n2": 0.0, "n3": 0.0, "pooled": -1.0}
    # R = 2, N = 3. a has 1 non-relevant above it, b has 2: ((1 - 1/2) + (1 - 2/2)) / 2
    assert bpref(grades, ["n1", "a", "n2", "b"]) == 0.25
    # Unjudged items, pooled or not, are skipped: ((1 - 0) + (1 - 1/2)) / 2
    assert bpref(grades, ["pooled", "other", "a", "n1", "b"]) == 0.75
    # Non-relevant items not retrieved are in min(N, R) = 2: a alone, (1 - 1/2) / 2
    assert bpref(grades, ["n3", "a"]) == 0.25
    # Without a judged non-relevant item nothing can be preferred wrongly: 1 / 1
    assert bpref({"a": 1.0}, ["other", "a"]) == 1


@pytest.mark.parametrize("unjudged", [-1, -2, -7])
def test_infap(unjudged: float) -> None:
    grades = {"a": 1.0, "b": 2.0, "n": 0.0, "pooled": unjudged}
    # a at 1: 1. b at 3: (1 + 2 pooled above · 1.00001/2.00002) / 3 = 2/3; (1 + 2/3) / 2
    assert infap(grades, ["a", "n", "b"]) == exact(5 / 6)
    # a at 2: (1 + 1 · ε/2ε) / 2 = 3/4, unjudged but pooled above it. b isn't found: 3/4 / 2
    assert infap(grades, ["pooled", "a"]) == exact(0.375)
    # a at 2, only a non-relevant item above: (1 + ε/(1 + 2ε)) / 2, ε = .00001; that / 2
    assert infap(grades, ["n", "a"]) == exact(0.25000249995)
    # a at 2, with nothing pooled above: 1/2 / 2
    assert infap(grades, ["other", "a"]) == exact(0.25)


def test_judged() -> None:
    grades = {"a": 1.0, "b": 0.0, "pooled": -1.0}
    ranking = ["a", "b", "other", "pooled"]
    # a and b of 4.
    assert judged(grades, ranking) == 0.5
    # a and b of 3.
    assert judged(grades, ranking, k=3) == exact(2 / 3)
    # Four retrieved, so min(k, n) = 4.
    assert judged(grades, ranking, k=10) == 0.5


def test_accuracy() -> None:
    case = by_rank([1, 0, 1], unfound=1)
    # Two hits, one false alarm, one missed, 10 - 4 left alone.
    assert confusion(*case, corpus_size=10) == {"tp": 2, "fp": 1, "fn": 1, "tn": 6}
    # (2 + 6) / 10
    assert accuracy(*case, corpus_size=10) == 0.8
    # A corpus of just the four items seen: 2 / 4
    assert accuracy(*case, corpus_size=4) == 0.5
    # Rank 1 only: (1 + 7) / 10
    assert confusion(*case, corpus_size=10, k=1) == {"tp": 1, "fp": 0, "fn": 2, "tn": 7}
    assert accuracy(*case, corpus_size=10, k=1) == 0.8


def test_groups_within_a_cutoff() -> None:
    groups: Groups = [["a", "b"], ["c"]]
    ranking = ["x", "a", "c", "b"]
    # Only a, at rank 2: 1/2, (1/2) / 2, (1/2) / 2
    assert group_recall(groups, ranking, k=2) == 0.5
    assert group_mrr(groups, ranking, k=2) == 0.25
    assert group_ap(groups, ranking, k=2) == 0.25
    # P@8 = 3/8, recall 1: 2(3/8) / (11/8)
    assert group_f1(groups, ranking, k=8) == exact(6 / 11)


@pytest.mark.parametrize("name", REFERENCE)
def test_nothing_retrieved_scores_zero(name: str) -> None:
    relevance = [["a"]] if name.startswith("group_") else {"a": 1.0}
    # accuracy: of ten items nine are rightly left alone.
    if name == "accuracy":
        assert REFERENCE[name](relevance, [], corpus_size=10) == 0.9
    else:
        assert REFERENCE[name](relevance, []) == 0


@pytest.mark.parametrize("grades", [{}, {"a": 0.0}, {"a": -1.0}])
def test_nothing_relevant_scores_zero(grades: dict[str, float]) -> None:
    for metric in (hit_rate, mrr, precision, recall, f, ap, r_precision, bpref, infap, dcg, ndcg):
        assert metric(grades, ["a", "b"]) == 0


def test_errors() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        ndcg(expected("a"), ["a"], k=1, ideal="all")
    with pytest.raises(ValueError, match="above max_grade"):
        err({"a": 5.0}, ["a"])
    with pytest.raises(ValueError, match="up to 64"):
        dcg({"a": 65.0}, ["a"], mode="exponential")
    with pytest.raises(ValueError, match="smaller than the items seen"):
        confusion(expected("a b"), ["c"], corpus_size=2)
    with pytest.raises(ValueError, match="a group is empty"):
        group_recall([["a"], []], ["a"])
