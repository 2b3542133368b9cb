"""Facets: relevance with names and weights, and what ndeval itself says of the metrics."""

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import Relevance, RetrievalDataset, evaluate, metric, score_rankings
from llama_index_rag_metrics.runtime.errors import InvalidInput

pytestmark = pytest.mark.peers

HOPS = Relevance(facets={"hop 1": ["a", "b"], "hop 2": ["c"]}, weights={"hop 2": 3})


def score(name: str, ranking: list[str], relevance: Relevance = HOPS) -> float:
    return metric(name).compute("", relevance, ranking).score


@pytest.mark.parametrize(
    ("name", "ranking", "value"),
    [
        ("complete@2", ["b", "c"], 1.0),  # both hops within 2
        ("complete@2", ["a", "b", "c"], 0.0),  # hop 2 stands at 3
        ("complete", [], 0.0),
        ("facet_recall", ["c"], 3 / 4),  # weights 1 and 3
        ("group_recall", ["c"], 1 / 2),  # groups know no weights
        # gains 1, 1/2 (hop 1 again), 1; ideal 1, 1 (hop 2), 1/2: a and b tie, b's id is higher
        # (1 + .5/log2(3) + 1/log2(4)) / (1 + 1/log2(3) + .5/log2(4)) = 1.815465 / 1.880930
        ("alpha_ndcg", ["a", "b", "c"], 0.965195),
        # alpha 0 forgets nothing: every item gains 1, so any order is ideal
        ("alpha_ndcg(alpha=0)@3", ["b", "a", "c"], 1.0),
        # 2 facets; gains 1, .5, 1 over ranks 1, 2, 3: 1.583333; at best 1 + .5/2 + .25/3 each
        ("err_ia@3", ["a", "b", "c"], 1.583333 / (2 * 1.333333)),
    ],
)
def test_facets_by_hand(name: str, ranking: list[str], value: float) -> None:
    assert score(name, ranking) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("ranking", [["b", "c"], ["b", "a", "c"], ["a", "x"], []])
def test_ideal_ranking_has_nothing_below_min_grade(ranking: list[str]) -> None:
    graded = Relevance(facets={"x": ["a", "b"], "y": ["c"]}, grades={"a": 1, "b": 3, "c": 2})
    without_a = Relevance(facets={"x": ["b"], "y": ["c"]})
    for cutoff in ("", "@3"):
        strict = score(f"alpha_ndcg(min_grade=2){cutoff}", ranking, graded)
        assert strict == score(f"alpha_ndcg{cutoff}", ranking, without_a)
    assert score("alpha_ndcg(min_grade=4)", ranking, graded) == 0.0


def test_items_without_facets_are_each_their_own() -> None:
    graded, binary = Relevance({"a": 3, "b": 1, "x": 0}), Relevance(["a", "b"])
    assert score("complete", ["b", "x"], graded) == 0.0
    assert score("facet_recall", ["b", "x"], graded) == 0.5
    assert score("alpha_ndcg", ["x", "a"], graded) == score("ndcg", ["x", "a"], binary)


def test_facets_of_other_weights_or_names_differ() -> None:
    assert Relevance(facets={"hop 1": ["a", "b"], "hop 2": ["c"]}) != HOPS
    assert Relevance(groups=[["a", "b"], ["c"]]) != HOPS


@pytest.mark.parametrize(
    ("facets", "weights", "message"),
    [
        ({"hop 1": "a"}, None, "a collection of ids"),
        ([["a"]], None, "facets"),
        ({"hop 1": ["a"]}, {"hop 3": 1}, "'hop 3'"),
        ({"hop 1": ["a"]}, {"hop 1": 0}, "weight of facet 'hop 1'"),
        ({"hop 1": ["a"]}, {"hop 1": float("nan")}, "above 0"),
    ],
)
def test_facets_that_are_refused(facets: Any, weights: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Relevance(facets=facets, weights=weights)


NEEDED = Relevance(facets={"hop 1": ["a"], "hop 2": []}, weights={"hop 2": 3}, grades={"b": 0})


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("facet_recall", 0.25),  # weights 1 found of 1 + 3
        ("group_recall", 0.5),
        ("complete", 0),
        ("recall", 1),  # the one relevant item
        ("alpha_ndcg@2", 1),  # the ideal ranking has it first, too: nothing supplies hop 2
        ("err_ia@1", 0.5),  # as ndeval: over all facets
    ],
)
def test_facet_that_nothing_supplies_counts_as_missed(name: str, score: float) -> None:
    assert metric(name).compute("", NEEDED, ["a", "b"]).score == pytest.approx(score)
    scores = score_rankings({"q": NEEDED, "r": HOPS}, {"q": ["a", "b"], "r": ["c"]}, [name])
    assert scores.by_query(name)["q"] == pytest.approx(score)


def test_facet_that_nothing_supplies_stays_and_is_shown(tmp_path: Path) -> None:
    again = [Relevance(NEEDED.to_plain()), pickle.loads(pickle.dumps(NEEDED)), Relevance(NEEDED)]
    assert again == [NEEDED] * 3
    assert eval(repr(NEEDED)) == NEEDED
    assert NEEDED.alternatives == (("a",), ())
    dataset = RetrievalDataset({"q": "where?"}, {"q": NEEDED})
    results = evaluate(lambda query: ["a"], dataset, ["facet_recall"])
    results.to_html(tmp_path / "page.html")
    assert "hop 2" in (tmp_path / "page.html").read_text("utf-8")
    nothing = score_rankings({"q": Relevance(facets={"hop": []})}, {"q": ["b"]}, ["facet_recall"])
    assert list(nothing.excluded) == ["q"]


@pytest.mark.parametrize("alpha", [0.5, 0.2])
def test_equal_to_ndeval(alpha: float) -> None:
    """pyndeval, which runs ndeval's code: 500 topics of up to five subtopics that overlap."""
    pyndeval = pytest.importorskip("pyndeval", reason="needs pyndeval, of the extra dev")
    qrels, relevance, rankings = [], {}, {}
    for topic in map(str, range(500)):
        rng = random.Random(topic)
        documents = [f"d{number}" for number in rng.sample(range(1000), 12)]
        facets: dict[str, list[str]] = {}
        for document in documents:
            for facet in map(str, range(rng.randint(1, 5))):
                if rng.random() < 0.4:
                    facets.setdefault(facet, []).append(document)
                    qrels.append((topic, facet, document, 1))
        if facets:
            relevance[topic] = Relevance(facets=facets)
            pool = [*documents, "x1", "x2", "x3"]
            rankings[topic] = rng.sample(pool, rng.randint(1, len(pool)))
    theirs = {
        f"alpha_ndcg(alpha={alpha})@5": "alpha-nDCG@5",
        f"alpha_ndcg(alpha={alpha})@20": "alpha-nDCG@20",
        f"err_ia(alpha={alpha})@10": "ERR-IA@10",
        "facet_recall@5": "strec@5",
    }
    evaluator = pyndeval.RelevanceEvaluator(qrels, measures=list(theirs.values()), alpha=alpha)
    run = [
        (topic, document, -rank)
        for topic, ranking in rankings.items()
        for rank, document in enumerate(ranking)
    ]
    peer = evaluator.evaluate(run)
    ours = score_rankings(relevance, rankings, [metric(name) for name in theirs])
    for name, their_name in theirs.items():
        expected = [peer[topic][their_name] for topic in ours.query_ids]
        column = ours[metric(name).metric_name]
        assert column.tolist() == pytest.approx(expected, rel=0, abs=1e-9)
