"""The oracle gives every worked example and every applicable trap of docs/definitions.md.

Those of tests/support/cases.py and, below them, those of one metric alone. Expected values are
literals; the comment above each derives it by hand.
"""

from collections.abc import Sequence

import pytest
from support.cases import CASES, Case
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
from support.strategies import Chosen, Query

from llama_index_rag_metrics import RankingMetric, Relevance, metric

Judged = tuple[dict[str, float], list[str]]


def exact(value: float) -> object:
    return pytest.approx(value, abs=1e-12)


def expected(items: str) -> dict[str, float]:
    return dict.fromkeys(items.split(), 1.0)


def by_rank(grades: Sequence[float], *, unfound: int = 0) -> Judged:
    """A ranking r1, r2, … with these grades, and so many relevant items that it lacks."""
    ranked = {f"r{rank}": float(grade) for rank, grade in enumerate(grades, start=1)}
    lacking = {f"u{number}": 1.0 for number in range(unfound)}
    return ranked | lacking, list(ranked)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_worked_examples(case: Case) -> None:
    query = Query(Relevance(case.expected), list(case.retrieved))
    for name, value in case.values.items():
        chosen = metric(name)
        assert isinstance(chosen, RankingMetric)
        parameters = chosen.model_dump(exclude_defaults=True)
        assert Chosen(chosen.name, parameters).oracle(query) == value, name


def test_exponential_gain_of_the_highest_grade() -> None:
    # 2^64 - 1, which rounds to 2^64
    assert dcg({"a": 64.0}, ["a"], mode="exponential") == 2.0**64


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
    for score in (hit_rate, mrr, precision, recall, f, ap, r_precision, bpref, infap, dcg, ndcg):
        assert score(grades, ["a", "b"]) == 0


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
