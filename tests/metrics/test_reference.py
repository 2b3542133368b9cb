"""The oracle gives the worked examples of docs/definitions.md; every metric gives what it gives.

Expected values are literals; the comment derives each by hand.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import CASES, Case, exact
from support.examples import examples
from support.reference import REFERENCE, dcg
from support.strategies import NAMES, Chosen, Query, chosen, queries

from llama_index_rag_metrics import RankingMetric, Relevance, metric, score_rankings
from llama_index_rag_metrics.runtime.errors import InvalidInput


def oracle(name: str, query: Query) -> float:
    chosen = metric(name)
    assert isinstance(chosen, RankingMetric)
    return Chosen(chosen.name, chosen.model_dump(exclude_defaults=True)).oracle(query)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_worked_examples(case: Case) -> None:
    query = Query(Relevance(case.expected), list(case.retrieved))
    assert {name: oracle(name, query) for name in case.values} == case.values


def by_rank(grades: Sequence[float], *, unfound: int = 0) -> Query:
    """A ranking r1, r2, … with these grades, and so many relevant items that it lacks."""
    ranked = {f"r{rank}": float(grade) for rank, grade in enumerate(grades, start=1)}
    lacking = {f"u{number}": 1.0 for number in range(unfound)}
    return Query(Relevance(ranked | lacking), list(ranked))


def query(grades: dict[str, float] | list[list[str]], ranking: str) -> Query:
    return Query(Relevance(grades), ranking.split())


FOUR = by_rank([0, 1, 0, 1], unfound=2)

GRADED = by_rank([1, 2, 0.5, 0])

JUDGED = {"a": 1.0, "b": 1.0, "n1": 0.0, "n2": 0.0, "n3": 0.0, "pooled": -1.0}

POOLED = {"a": 1.0, "b": 2.0, "n": 0.0, "pooled": -2.0}

GROUPS = [["a", "b"], ["c"]]

BY_HAND = [
    ("hit_rate@1", FOUR, 0),  # the first hit, at rank 2, is beyond rank 1
    ("hit_rate@2", FOUR, 1),
    ("mrr@1", FOUR, 0),
    ("granular_hit_rate@3", FOUR, 0.25),  # 1 of 4 relevant
    ("granular_hit_rate@9", FOUR, 0.5),
    ("granular_mrr@3", FOUR, 0.5),
    ("granular_mrr@4", FOUR, 0.375),  # (1/2 + 1/4) / 2: finding more lowers it
    ("f1@8", FOUR, exact(1 / 3)),  # P@8 = 2/8, R@8 = 2/4: 2(1/8) / (3/4)
    # P 1/2, R 1/4 and B = 2: 5(1/8) / (4/2 + 1/4)
    ("f(beta=2)", by_rank([1, 0], unfound=3), exact(5 / 18)),
    ("precision", GRADED, 0.5),  # grades 1 and 2 of four, by default
    ("mrr(min_grade=2)", GRADED, 0.5),  # only grade 2, at rank 2
    ("precision(min_grade=0.5)", GRADED, 0.75),  # three grades reach .5
    # R = 3: ranks 1 and 3 hit, rank 4 is too late
    ("r_precision", by_rank([1, 0, 1, 1]), exact(2 / 3)),
    ("r_precision", by_rank([1, 0], unfound=3), 0.25),  # one of R = 4
    ("rbp", by_rank([1, 0, 3]), exact(0.328)),  # .2 (1 + .8²)
    ("rbp(p=0.5)@2", by_rank([1, 0, 3]), 0.5),  # .5 (1), rank 3 cut off
    # 1 - .09**60 is 1 in a float, and (1 - .09) · Σ .09**i is 1.0000000000000002 before clipping
    ("rbp(p=0.09)", by_rank([1] * 60), 1),
    # grades 3 and 2 stop 7/16 and 3/16: 7/16 + 1/2 (9/16) 0 + 1/3 (9/16) (3/16)
    ("err", by_rank([3, 0, 2]), exact(0.47265625)),
    # neither an unjudged item nor a negative grade stops: 1/3 (7/16)
    ("err", query({"a": 3.0, "b": -1.0}, "other b a"), exact(7 / 48)),
    ("err@1", by_rank([3, 0, 2]), exact(0.4375)),  # the first term
    # stops 7/8 and 3/8: 7/8 + 1/3 (1/8) (3/8)
    ("err(max_grade=3)", by_rank([3, 0, 2]), exact(0.890625)),
    # R = 2, N = 3: a has 1 non-relevant above it, b has 2: ((1 - 1/2) + (1 - 2/2)) / 2
    ("bpref", query(JUDGED, "n1 a n2 b"), 0.25),
    # unjudged items, pooled or not, are skipped: ((1 - 0) + (1 - 1/2)) / 2
    ("bpref", query(JUDGED, "pooled other a n1 b"), 0.75),
    # non-relevant items not retrieved are in min(N, R) = 2: a alone, (1 - 1/2) / 2
    ("bpref", query(JUDGED, "n3 a"), 0.25),
    ("bpref", query({"a": 1.0}, "other a"), 1),  # nothing can be preferred wrongly
    # a at 1: 1. b at 3: (1 + 2 pooled above · 1.00001/2.00002) / 3 = 2/3; (1 + 2/3) / 2
    ("infap", query(POOLED, "a n b"), exact(5 / 6)),
    # a at 2: (1 + 1 · ε/2ε) / 2 = 3/4, unjudged but pooled above it; b isn't found: 3/4 / 2
    ("infap", query(POOLED, "pooled a"), exact(0.375)),
    # a at 2, only a non-relevant item above: (1 + ε/(1 + 2ε)) / 2, ε = .00001; that / 2
    ("infap", query(POOLED, "n a"), exact(0.25000249995)),
    ("infap", query(POOLED, "other a"), exact(0.25)),  # nothing pooled above: 1/2 / 2
    ("judged", query(POOLED, "a n other pooled"), 0.5),  # a and n of 4
    ("judged@3", query(POOLED, "a n other pooled"), exact(2 / 3)),
    ("judged@10", query(POOLED, "a n other pooled"), 0.5),  # min(k, n) = 4
    # two hits, one false alarm, one not found, 10 - 4 left alone: (2 + 6) / 10
    ("accuracy(corpus_size=10)", by_rank([1, 0, 1], unfound=1), 0.8),
    ("accuracy(corpus_size=4)", by_rank([1, 0, 1], unfound=1), 0.5),  # just what was seen: 2 / 4
    ("accuracy(corpus_size=10)@1", by_rank([1, 0, 1], unfound=1), 0.8),  # (1 + 7) / 10
    ("group_recall@2", query(GROUPS, "x a c b"), 0.5),  # only a, at rank 2
    ("group_mrr@2", query(GROUPS, "x a c b"), 0.25),  # (1/2) / 2
    ("group_ap@2", query(GROUPS, "x a c b"), 0.25),
    ("group_f1@8", query(GROUPS, "x a c b"), exact(6 / 11)),  # P@8 = 3/8, recall 1: 2(3/8) / (11/8)
]


@pytest.mark.parametrize(("name", "question", "value"), BY_HAND)
def test_values_by_hand(name: str, question: Query, value: float) -> None:
    chosen = metric(name)
    assert oracle(name, question) == value
    assert chosen.compute("", question.relevance, question.ranking).score == value


def test_exponential_gain_of_the_highest_grade() -> None:
    # 2^64 - 1, which rounds to 2^64
    assert dcg({"a": 64.0}, ["a"], mode="exponential") == 2.0**64


each_metric = pytest.mark.parametrize("name", NAMES)


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-10, abs=1e-12)


def test_oracle_knows_every_metric() -> None:
    assert set(NAMES) == set(REFERENCE)


@each_metric
@given(data=st.data())
@examples(80)
def test_compute(name: str, data: st.DataObject) -> None:
    drawn, query = data.draw(chosen(name)), data.draw(queries())
    if not query.relevance and drawn.metric.needs_relevance:
        with pytest.raises(InvalidInput):
            drawn.metric.compute("", query.relevance, query.ranking)
    else:
        result = drawn.metric.compute("", query.relevance, query.ranking)
        assert result.score == close(drawn.oracle(query))


@each_metric
@given(data=st.data())
@examples(30)
def test_batch(name: str, data: st.DataObject) -> None:
    drawn = data.draw(chosen(name))
    batch = data.draw(st.lists(queries(), max_size=8))
    scores = score_rankings(
        [query.relevance for query in batch],
        [query.ranking for query in batch],
        drawn.metric,
        no_relevant="zero",
    )
    expected = [drawn.oracle(query) for query in batch]
    assert scores[drawn.metric.metric_name].tolist() == [close(value) for value in expected]
