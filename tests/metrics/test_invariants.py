"""What holds for every metric of the table, whatever is judged and retrieved."""

import copy
import pickle
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.strategies import NAMES, Chosen, Query, chosen, plain_metrics, queries

from llama_index_rag_metrics import METRICS, RankingMetric, Relevance, metric, score_rankings
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.runtime.containers import FloatArray

each_name = pytest.mark.parametrize("name", NAMES)
each_metric = pytest.mark.parametrize("each", plain_metrics(), ids=str)

UNMOVED_BY_A_TAIL = [
    "hit_rate", "granular_hit_rate", "mrr", "granular_mrr", "recall", "ap", "r_precision", "dcg",
    "rbp", "err", "bpref", "infap", "group_recall", "group_mrr", "group_ap", "complete",
    "facet_recall",
]  # fmt: skip


def judge_all(batch: Sequence[Query]) -> JudgedRankings:
    return judge([query.relevance for query in batch], [query.ranking for query in batch])


def score(scored: RankingMetric, batch: Sequence[Query]) -> FloatArray:
    return scored.score_queries(judge_all(batch))


@each_name
@given(data=st.data())
@examples(40)
def test_within_bounds_and_the_same_bits_in_any_batch(name: str, data: st.DataObject) -> None:
    drawn = data.draw(chosen(name)).metric
    batch = data.draw(st.lists(queries(), min_size=1, max_size=8))
    together = score(drawn, batch)
    low, high = drawn.bounds
    assert np.isfinite(together).all()
    assert ((together >= low) & (together <= high)).all()
    alone = np.concatenate([score(drawn, [query]) for query in batch])
    assert alone.tobytes() == together.tobytes()
    assert score(drawn, batch[::-1])[::-1].tobytes() == together.tobytes()
    order = data.draw(st.permutations(range(len(batch))))
    shuffled = score(drawn, [batch[position] for position in order])
    assert shuffled.tobytes() == together[list(order)].tobytes()


def _large_batch(n_queries: int, depth: int) -> list[Query]:
    """Seeded queries over thousands of items, with repeated ids, every kind of grade and groups."""
    rng = np.random.default_rng(7)
    batch = []
    for number in range(n_queries):
        corpus = [f"d{number}" for number in rng.permutation(2 * depth)]
        ranking = [*corpus[:depth], *rng.choice(corpus[:depth], depth // 10).tolist()]
        judged = rng.choice(corpus, depth, replace=False).tolist()
        grades = rng.choice([-1, 0, 0.5, 1, 2, 3, 4], depth).tolist()
        if number % 3:
            relevance = Relevance(dict(zip(judged, grades, strict=True)))
        else:
            relevance = Relevance(groups=np.array_split(judged, depth // 5))
        rng.shuffle(ranking)
        batch.append(Query(relevance, ranking))
    return batch


LARGE = _large_batch(9, 4000)


@pytest.fixture(scope="module")
def large() -> tuple[JudgedRankings, list[JudgedRankings], JudgedRankings]:
    """Judged together, each alone, and from the last to the first."""
    return judge_all(LARGE), [judge_all([query]) for query in LARGE], judge_all(LARGE[::-1])


@each_metric
def test_thousands_of_items(
    each: RankingMetric, large: tuple[JudgedRankings, list[JudgedRankings], JudgedRankings]
) -> None:
    batch, one_by_one, backwards = large
    together = each.score_queries(batch)
    alone = np.concatenate([each.score_queries(judged) for judged in one_by_one])
    assert alone.tobytes() == together.tobytes()
    assert each.score_queries(backwards)[::-1].tobytes() == together.tobytes()
    low, high = each.bounds
    assert ((together >= low) & (together <= high)).all()


@pytest.mark.slow
@each_name
def test_thousands_of_items_as_the_oracle_has_them(name: str) -> None:
    required = {"corpus_size": 10**6} if "corpus_size" in METRICS[name].parameters else {}
    plain = Chosen(name, required)
    # the oracle of the ideal by greedy choice tries every item at every rank
    batch = _large_batch(2, 60) if name == "alpha_ndcg" else LARGE[:2]
    expected = [plain.oracle(query) for query in batch]
    assert score(plain.metric, batch).tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("name", ["rbp(p=0.95)", "rbp(p=0.99)", "rbp(p=0.09)"])
def test_sum_just_over_one_is_clipped(name: str) -> None:
    # (1 - p) Σ p^i over 20,000 hits is 1 - p^20000; in floats it comes to 1.0000000000000002
    everything = [f"d{number}" for number in range(20_000)]
    assert metric(name).compute("", everything, everything).score <= 1


@each_name
@given(data=st.data(), length=st.integers(1, 10))
@examples(25)
def test_irrelevant_tail_never_helps(name: str, data: st.DataObject, length: int) -> None:
    drawn, query = data.draw(chosen(name)).metric, data.draw(queries())
    tail = [f"unjudged item {number}" for number in range(length)]
    longer = Query(query.relevance, [*query.ranking, *tail])
    before, after = score(drawn, [query]), score(drawn, [longer])
    if name in UNMOVED_BY_A_TAIL:
        assert after.tobytes() == before.tobytes()
    else:
        assert after[0] <= before[0]


def regrouped(relevance: Relevance, groups: Sequence[Sequence[str]]) -> Relevance:
    """Other members of the same groups or facets, whose weights stay."""
    names, weights = relevance.facet_names, relevance.weights
    if names is None or weights is None:
        return Relevance(groups=groups)
    members = dict(zip(names, groups, strict=True))
    return Relevance(facets=members, weights=dict(zip(names, weights, strict=True)))


@given(drawn=chosen(), query=queries(), seed=st.integers())
@examples(200)
def test_names_of_ids_have_no_effect(drawn: Chosen, query: Query, seed: int) -> None:
    ids = list(dict.fromkeys([*query.relevance.grades, *query.ranking]))
    names = [str(number) for number in range(len(ids))]
    random.Random(seed).shuffle(names)
    rename = dict(zip(ids, names, strict=True))
    groups = query.relevance.alternatives
    if groups is None:
        renamed = Relevance({rename[item]: g for item, g in query.relevance.grades.items()})
    else:
        renamed = regrouped(query.relevance, [[rename[item] for item in group] for group in groups])
    other = Query(renamed, [rename[item] for item in query.ranking])
    assert score(drawn.metric, [other]).tobytes() == score(drawn.metric, [query]).tobytes()


@given(drawn=chosen(), query=queries(), data=st.data())
@examples(100)
def test_order_of_labels_has_no_effect(drawn: Chosen, query: Query, data: st.DataObject) -> None:
    if query.relevance.alternatives is None:
        grades = data.draw(st.permutations(list(query.relevance.grades.items())))
        relevance = Relevance(dict(grades))
    else:
        groups = [data.draw(st.permutations(group)) for group in query.relevance.alternatives]
        relevance = regrouped(query.relevance, groups)
    other = Query(relevance, query.ranking)
    assert score(drawn.metric, [other]).tobytes() == score(drawn.metric, [query]).tobytes()


@given(batch=st.lists(queries(), min_size=2, max_size=6), seed=st.integers())
@examples(50)
def test_means_do_not_depend_on_the_order_of_queries(batch: list[Query], seed: int) -> None:
    query_ids = [f"q{number}" for number in range(len(batch))]
    shuffled = query_ids.copy()
    random.Random(seed).shuffle(shuffled)
    by_id = dict(zip(query_ids, batch, strict=True))
    first, second = (
        score_rankings(
            {query_id: by_id[query_id].relevance for query_id in order},
            {query_id: by_id[query_id].ranking for query_id in order},
            plain_metrics(),
        )
        for order in (query_ids, shuffled)
    )
    assert dict(first.means) == dict(second.means)
    assert first.counts == second.counts


@given(batch=st.lists(queries(), max_size=8))
@examples(150)
def test_arrays_of_judged_rankings(batch: list[Query]) -> None:
    judged = judge_all(batch)
    n, items, pairs = len(batch), len(judged.item_query), len(judged.groups.pair_group)
    assert len(judged) == n
    assert judged.depth.tolist() == [len(set(query.ranking)) for query in batch]
    assert judged.item_rank.shape == judged.item_grade.shape == (items,)
    places = list(zip(judged.item_query.tolist(), judged.item_rank.tolist(), strict=True))
    assert places == sorted(set(places))
    assert all(1 <= rank <= judged.depth[query] for query, rank in places)
    assert (
        judged.judged_offset.tolist()
        == np.cumsum([0, *(len(query.relevance.grades) for query in batch)]).tolist()
    )
    for number, query in enumerate(batch):
        grades = judged.judged_grade[
            judged.judged_offset[number] : judged.judged_offset[number + 1]
        ]
        assert grades.tolist() == sorted(query.relevance.grades.values(), reverse=True)
        mine = judged.item_query == number
        ranking = list(dict.fromkeys(query.ranking))
        judged_items = [ranking[rank - 1] for rank in judged.item_rank[mine]]
        assert judged_items == [item for item in ranking if item in query.relevance.grades]
        assert [query.relevance.grades[item] for item in judged_items] == judged.item_grade[
            mine
        ].tolist()
    assert judged.groups.pair_item.shape == (pairs,)
    members = list(
        zip(judged.groups.pair_group.tolist(), judged.groups.pair_item.tolist(), strict=True)
    )
    assert members == sorted(set(members))
    assert judged.groups.query.tolist() == [
        number for number, query in enumerate(batch) for _ in query.relevance.alternatives or ()
    ]
    assert (
        judged.groups.query[judged.groups.pair_group] == judged.item_query[judged.groups.pair_item]
    ).all()


@given(drawn=chosen())
@examples(200)
def test_metric_survives_its_name_copies_pickle_and_dumps(drawn: Chosen) -> None:
    made = drawn.metric
    kind = type(made)
    again = [
        metric(made.metric_name),
        copy.copy(made),
        copy.deepcopy(made),
        made.model_copy(),
        pickle.loads(pickle.dumps(made)),
        kind.model_validate(made.model_dump()),
        kind.model_validate_json(made.model_dump_json()),
    ]
    for other in again:
        assert type(other) is kind
        assert other == made
        assert other.metric_name == made.metric_name


@pytest.mark.parametrize("each", [each for each in plain_metrics() if "@5" in str(each)], ids=str)
def test_cutoff_is_the_ranking_cut_by_hand(each: RankingMetric) -> None:
    for query in LARGE:
        top = Query(query.relevance, list(dict.fromkeys(query.ranking))[:5])
        assert score(each, [query]).tobytes() == score(each, [top]).tobytes()
