"""The worked examples and traps of docs/definitions.md: every path of the package runs them all.

Each case is one judged ranking and what metrics say about it; the comment beside a value derives it
by hand. Rows about the comparison of runs and about files of scores belong to other tests: they
aren't one judged ranking.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Case:
    """One judged ranking.

    Attributes:
        name: what the case is called; also its query id in a batch.
        expected: the relevance, in any form that the package takes.
        retrieved: the ranked ids.
        values: metric name to score, a number or an approximate one.
        node_scores: the scores that the retriever gives its nodes; descending ones unless told.
    """

    name: str
    expected: Any
    retrieved: Sequence[str]
    values: Mapping[str, Any]
    node_scores: Sequence[float] | None = None


def exact(value: float) -> Any:
    return pytest.approx(value, rel=0, abs=1e-12)


def six(value: float) -> Any:
    """A value written down to six decimals."""
    return pytest.approx(value, rel=0, abs=5e-7)


def three(value: float) -> Any:
    """A value written down to three decimals."""
    return pytest.approx(value, rel=0, abs=5e-4)


def by_rank(
    name: str, grades: Sequence[float], values: Mapping[str, Any], *, unfound: int = 0
) -> Case:
    """A ranking r1, r2, … with these grades; so many relevant items are missing from it."""
    ids = [f"r{rank}" for rank in range(1, len(grades) + 1)]
    missing = {f"u{number}": 1 for number in range(unfound)}
    return Case(name, {**dict(zip(ids, grades, strict=True)), **missing}, ids, values)


def cut(case: Case, length: int, values: Mapping[str, Any]) -> Case:
    """The same, with only the first items of the ranking."""
    return Case(f"{case.name}, cut to {length}", case.expected, case.retrieved[:length], values)


TUTORIAL = [
    by_rank(
        "Q1",
        [0, 1, 0, 1, 0],
        {
            "mrr": 0.5,  # first hit at rank 2
            "precision@3": exact(1 / 3),  # rank 2 of 3
            "recall@3": 0.5,  # rank 2 of R = 2
            "dcg@5": six(1.061606),  # 1/log2(3) + 1/log2(5) = .630930 + .430677
            "ndcg@5": six(0.650921),  # 1.061606 / (1 + .630930)
            "ap": 0.5,  # (1/2 + 2/4) / 2
        },
    ),
    by_rank(
        "Q2",
        [1, 0, 0, 0, 1],
        {
            "mrr": 1,  # first hit at rank 1
            "precision@3": exact(1 / 3),  # rank 1 of 3
            "recall@3": 0.5,  # rank 1 of R = 2
            "dcg@5": six(1.386853),  # 1 + 1/log2(6) = 1 + .386853
            "ndcg@5": six(0.850345),  # 1.386853 / (1 + .630930)
            "ap": exact(0.7),  # (1/1 + 2/5) / 2
        },
    ),
    by_rank(
        "Q3",
        [0, 0, 1, 0, 0],
        {
            "mrr": exact(1 / 3),  # first hit at rank 3
            "precision@3": exact(1 / 3),  # rank 3 of 3
            "recall@3": 1,  # R = 1
            "dcg@5": 0.5,  # 1/log2(4)
            "ndcg@5": 0.5,  # .5 / 1
            "ap": exact(1 / 3),  # (1/3) / 1
        },
    ),
]

FIRST_RELEVANT = [
    by_rank("first relevant at 3", [0, 0, 1], {"mrr": exact(1 / 3)}),
    by_rank("first relevant at 1", [1], {"mrr": 1}),
    by_rank("first relevant at 2", [0, 1], {"mrr": 0.5}),
    by_rank("first relevant at 3 again", [0, 0, 1, 0], {"mrr": exact(1 / 3)}),
]

WORKED_EXAMPLES = [
    Case(
        "three expected, two of them retrieved",
        ["1", "2", "3"],
        ["1", "3", "4"],
        {
            "precision": exact(2 / 3),  # ranks 1 and 2 of 3
            "recall": exact(2 / 3),  # 2 of R = 3
            "ap": exact(2 / 3),  # (1/1 + 2/2) / 3
            "mrr": 1,  # first hit at rank 1
            "granular_mrr": 0.75,  # (1/1 + 1/2) / 2
            "granular_hit_rate": exact(2 / 3),  # 2 of R = 3
            "ndcg": six(0.765361),  # (1 + .630930) / (1 + .630930 + .5)
        },
    ),
    *TUTORIAL,
    by_rank(
        "grades by rank",
        [3, 1, 2, 0, 3],
        {
            # 7 + 1(.630930) + 3(.5) + 0 + 7(.386853)
            "dcg(mode=exponential)": six(11.838899),
            "ndcg(mode=exponential)": six(0.886996),  # 11.838899 / 13.347185
            # (3 + .630930 + 2(.5) + 3(.386853)) / (3 + 3(.630930) + 2(.5) + .430677)
            "ndcg": six(0.915872),
        },
    ),
    # 7 + 7(.630930) + 3(.5) + 1(.430677): the ideal order of the case above
    by_rank("grades in the ideal order", [3, 3, 2, 1], {"dcg(mode=exponential)": six(13.347185)}),
    Case(
        "groups of two and one",
        [["t1", "t2"], ["t3"]],
        ["t1", "p1", "t2", "p2"],
        {
            "group_recall": 0.5,  # the first of two groups
            "precision": 0.5,  # t1 and t2 of 4
            "group_f1": exact(0.5),  # 2(1/2)(1/2) / (1/2 + 1/2)
            "f1": three(0.571),  # P 1/2, R 2/3: 2(1/3) / (7/6) = 4/7
            "group_ap": exact(5 / 12),  # ((1/1 + 2/3) / 2 + 0) / 2
            "ndcg": six(0.703918),  # (1 + .5) / (1 + .630930 + .5)
        },
    ),
    Case(
        "two groups, second and fourth",
        [["i2"], ["i4"]],
        ["i1", "i2", "i3", "i4"],
        {"group_mrr": 0.375},  # (1/2 + 1/4) / 2
    ),
    *FIRST_RELEVANT,
    # P 9/90, R 9/10: 2(.09) / 1
    by_rank("P .1, R .9", [1] * 9 + [0] * 81, {"f1": exact(0.18)}, unfound=1),
    # P 9/10, R 9/10: 2(.81) / 1.8
    by_rank("P .9, R .9", [1] * 9 + [0], {"f1": exact(0.9)}, unfound=1),
    # P 9/10, R 9/90: 2(.09) / 1
    by_rank("P .9, R .1", [1] * 9 + [0], {"f1": exact(0.18)}, unfound=81),
    # P 1/2, R 1/2: 2(.25) / 1
    by_rank("P .5, R .5", [1, 0], {"f1": exact(0.5)}, unfound=1),
]

_TWO_OF_FIVE = by_rank(
    "two retrieved of five relevant",
    [1, 1],
    {
        "ndcg": 1,  # the ideal is as long as the ranking
        "ndcg(ideal=all)": three(0.553),  # 1.630930 / (1 + .630930 + .5 + .430677 + .386853)
        "ndcg@2": 1,  # the best 2 of 5
        "ndcg@5": three(0.553),  # the best 5 of 5
        "ap@2": exact(0.4),  # (1/1 + 2/2) / 5
        "precision@5": exact(0.4),  # three ranks are missing
    },
    unfound=3,
)

# .868 belongs to this one, and not to the relevance 1,0,1,0,1,0,1,0 with all of
# R = 5: 2.558525 / 2.948459, with 2.558525 = 1 + .5 + .386853 + .356207 + .315465.
_ALL_OF_FIVE = by_rank(
    "five relevant at 1, 3, 5, 6, 8",
    [1, 0, 1, 0, 1, 1, 0, 1],
    {"ndcg": three(0.868), "ndcg(ideal=all)": three(0.868)},
)

# (1 + .5 + .386853 + .333333) / 2.948459: the fifth relevant item isn't retrieved.
_FOUR_OF_FIVE = by_rank(
    "four of five relevant at 1, 3, 5, 7",
    [1, 0, 1, 0, 1, 0, 1, 0],
    {"ndcg": three(0.753), "ndcg(ideal=all)": three(0.753)},
    unfound=1,
)

# (1 + .5) over the ideal of 4, 2.561606, and of 5, 2.948459
_CUT_TO_4 = {"ndcg": three(0.586), "ndcg(ideal=all)": three(0.509)}
# 1 over the ideal of 1, 1, and of 5, 2.948459
_CUT_TO_1 = {"ndcg": 1, "ndcg(ideal=all)": three(0.339)}

TRAPS = [
    Case(
        "a repeated hit",
        ["A"],
        ["A", "A", "B"],
        {"ap": 1, "ndcg": 1, "granular_hit_rate": 1},  # credited once, at rank 1
    ),
    Case("a repeated item above the hit", ["A"], ["B", "B", "A"], {"mrr": 0.5}),  # ranks close up
    Case("an item expected twice", ["A", "A"], ["A"], {"ndcg": 1}),  # one item, so 1 / 1
    _TWO_OF_FIVE,
    _ALL_OF_FIVE,
    cut(_ALL_OF_FIVE, 4, _CUT_TO_4),
    cut(_ALL_OF_FIVE, 1, _CUT_TO_1),
    _FOUR_OF_FIVE,
    cut(_FOUR_OF_FIVE, 4, _CUT_TO_4),
    cut(_FOUR_OF_FIVE, 1, _CUT_TO_1),
    # 1 / (1 + .630930): the ideal is that of both, though one was retrieved
    Case("one of two expected, at 10", ["A", "B"], ["A"], {"ndcg@10": three(0.613)}),
    by_rank(
        "grades in the wrong order",
        [1, 3],
        {
            "ndcg": three(0.797),  # (1 + 3(.630930)) / (3 + .630930)
            "ndcg(mode=exponential)": three(0.710),  # (1 + 7(.630930)) / (7 + .630930)
        },
    ),
    Case(
        "equal scores, the relevant one first, its id lowest",
        ["a"],
        ["a", "b", "c"],
        {"mrr": 1},  # a list is the truth
        node_scores=[0.5, 0.5, 0.5],
    ),
    Case(
        "negative scores, the relevant one on top",
        ["a"],
        ["a", "b"],
        {"mrr": 1, "precision": 0.5, "recall": 1},  # rank 1; 1 of 2; 1 of 1
        node_scores=[-1.0, -2.0],
    ),
    Case(
        "3f2b6c1e-5f0a-4d0e-9c53-0a4b1d2e3f40",  # a query id that is a UUID
        {"d-1": 3, "d-2": 1},
        ["d-2", "d-1"],
        {"ndcg(mode=exponential)@10": three(0.710)},  # as in the wrong order, above
    ),
]

CASES = [*WORKED_EXAMPLES, *TRAPS]
