"""Holes: each mean again, with unjudged retrieved items taken as not relevant and as relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import TextNode
from support.examples import examples

from llama_index_rag_metrics import (
    EvaluationResults,
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    compare,
    evaluate,
    judgement_holes,
    score_rankings,
)
from llama_index_rag_metrics.decisions.comparison.holes import Holes
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric


def results(
    relevance: Mapping[str, Any], run: Mapping[str, Any], metrics: Sequence[str], **options: Any
) -> EvaluationResults:
    ready = {query_id: Relevance.of(judgements) for query_id, judgements in relevance.items()}
    scores = score_rankings(ready, run, metrics, **options)
    return EvaluationResults([], run=Run(run), relevance=ready, scores=scores)


def only(holes: tuple[Holes, ...]) -> Holes:
    (metric_holes,) = holes
    return metric_holes


RELEVANCE = {"q1": {"a": 1, "b": 0}, "q2": {"c": 1}}
RUN = {"q1": ["x", "a", "b", "y"], "q2": ["x", "y", "z", "c"]}


@pytest.mark.parametrize(
    ("metric", "not_relevant", "relevant", "unjudged", "retrieved"),
    [
        # q1 sees x, a; q2 x, y
        ("hit_rate@2", 1 / 2, 1.0, 3, 4),
        ("precision@2", (1 / 2 + 0) / 2, 1.0, 3, 4),
        ("mrr", (1 / 2 + 1 / 4) / 2, 1.0, 5, 8),
        # whole rankings: all of q1 but b, all of q2
        ("precision", (1 / 4 + 1 / 4) / 2, (3 / 4 + 1) / 2, 5, 8),
        # within 3, R grows to 2 and 4: q1 finds x, a; q2 x, y, z but not c
        ("recall@3", (1 + 0) / 2, (2 / 2 + 3 / 4) / 2, 4, 6),
        # (1 - p) (1 + p + …): q1 hits at 1, 2, 4, q2 at all four
        ("rbp(p=0.5)", (0.25 + 0.0625) / 2, (0.8125 + 0.9375) / 2, 5, 8),
    ],
)
def test_by_hand(
    metric: str, not_relevant: float, relevant: float, unjudged: int, retrieved: int
) -> None:
    holes = only(judgement_holes(results(RELEVANCE, RUN, [metric])))
    assert holes.metric == metric
    assert holes.mean == holes.not_relevant == pytest.approx(not_relevant)
    assert holes.relevant == pytest.approx(relevant)
    assert (holes.n, holes.unjudged, holes.retrieved) == (2, unjudged, retrieved)


@pytest.mark.parametrize(
    ("metric", "bounds"),
    [
        ("hit_rate@2", True),
        ("mrr", True),
        ("precision@3", True),
        ("rbp", True),
        ("granular_hit_rate", False),
        ("granular_mrr", False),
        ("recall", False),
        ("f1", False),
        ("ap", False),
        ("ndcg@3", False),
        ("bpref", False),
    ],
)
def test_only_four_metrics_are_bounded(metric: str, bounds: bool) -> None:
    assert only(judgement_holes(results(RELEVANCE, RUN, [metric]))).bounds is bounds


@given(
    st.lists(st.sampled_from([1, 0, None]), min_size=1, max_size=6),
    st.sampled_from(["hit_rate@3", "mrr", "precision@2", "precision", "rbp"]),
)
@examples(60)
def test_bounds_hold_whatever_the_unjudged_items_are(grades: list[int | None], metric: str) -> None:
    ids = [f"d{number}" for number in range(len(grades))]
    judged = {
        item_id: grade for item_id, grade in zip(ids, grades, strict=True) if grade is not None
    }
    relevance = {**judged, "elsewhere": 1}
    holes = only(judgement_holes(results({"q": relevance}, {"q": ids}, [metric])))
    unjudged = [item_id for item_id in ids if item_id not in judged]
    for choice in product([0, 1], repeat=len(unjudged)):
        filled = {**relevance, **dict(zip(unjudged, choice, strict=True))}
        mean = score_rankings({"q": filled}, {"q": ids}, metric).means[metric]
        assert holes.not_relevant - 1e-12 <= mean <= holes.relevant + 1e-12


def test_for_ndcg_the_worst_case_lies_elsewhere() -> None:
    # b relevant at rank 3 only raises the ideal: below both "none" and "all"
    ids = ["x", "a", "b"]
    holes = only(judgement_holes(results({"q": ["x"]}, {"q": ids}, ["ndcg@3"])))
    between = score_rankings({"q": ["x", "b"]}, {"q": ids}, "ndcg@3").means["ndcg@3"]
    assert (holes.not_relevant, holes.relevant) == (1.0, 1.0)
    assert between < 1
    assert not holes.bounds


def test_a_negative_grade_is_unjudged_and_0_is_judged() -> None:
    holes = only(
        judgement_holes(results({"q": {"a": 1, "b": 0, "c": -1}}, {"q": ["b", "c"]}, ["mrr"]))
    )
    assert (holes.unjudged, holes.mean, holes.relevant) == (1, 0.0, 0.5)


def test_repeated_ids_are_one_item() -> None:
    holes = only(judgement_holes(results({"q": ["a"]}, {"q": ["x", "x", "a"]}, ["precision@2"])))
    assert (holes.unjudged, holes.retrieved, holes.mean) == (1, 2, 0.5)


def test_the_grade_reaches_min_grade() -> None:
    evaluated = results({"q": {"a": 3}}, {"q": ["x"]}, ["mrr(min_grade=2)", "dcg"])
    by_name = {holes.metric: holes for holes in judgement_holes(evaluated)}
    assert by_name["mrr(min_grade=2)"].relevant == 1.0
    assert by_name["dcg"].relevant == 1.0
    assert judgement_holes(evaluated, ["dcg"], grade=3)[0].relevant == 3.0
    with pytest.raises(InvalidInput, match="grade: expected a number above 0"):
        judgement_holes(evaluated, grade=0)


def test_the_queries_are_those_of_the_mean() -> None:
    relevance = {"q1": ["a"], "q2": {"b": 0}, "q3": ["c"]}
    run = {"q1": ["x"], "q2": ["y"], "q3": Ranking(error="timeout")}
    holes = only(judgement_holes(results(relevance, run, ["mrr"])))
    # q2 has nothing relevant and stays out; q3 failed and scores 0 whatever is taken as relevant
    assert (holes.n, holes.mean, holes.relevant) == (2, 0.0, 0.5)
    counted = only(judgement_holes(results(relevance, run, ["mrr"], no_relevant="zero")))
    assert (counted.n, counted.relevant) == (3, pytest.approx(2 / 3))  # type: ignore[comparison-overlap]
    some = judgement_holes(results(relevance, run, ["mrr"]), query_ids=["q1"])
    assert (only(some).n, only(some).relevant) == (1, 1.0)
    assert judgement_holes(results(relevance, run, ["mrr"]), query_ids=["q9"]) == ()


def test_metrics_without_an_answer_are_left_out() -> None:
    names = ["group_recall", "judged@2", "mrr"]
    holes = judgement_holes(results(RELEVANCE, RUN, names))
    assert [metric_holes.metric for metric_holes in holes] == ["mrr"]
    own = results(RELEVANCE, RUN, ["mrr"])
    own.scores = own.scores.join({"my_metric": {"q1": 1.0}}, order=["mrr", "my_metric"])
    assert [metric_holes.metric for metric_holes in judgement_holes(own)] == ["mrr"]
    with pytest.raises(UnknownMetric):
        judgement_holes(own, ["ap"])


def test_bare_scores_know_no_rankings() -> None:
    with pytest.raises(InvalidInput, match=r"expected results of an evaluation, got 'Scores'"):
        judgement_holes(Scores(["q"], {"mrr": [1.0]}))  # type: ignore[arg-type]


class TestMatched:
    """What a matcher found to cover nothing expected is unjudged as well."""

    DATASET = RetrievalDataset(
        {"q": "moons?"}, {"q": ["n9"]}, expected_texts={"q": ["Saturn has many moons."]}
    )

    def test_the_matcher_of_the_evaluation(self) -> None:
        holes = only(judgement_holes(self.evaluated(["mrr"], matcher="exact")))
        assert (holes.mean, holes.not_relevant, holes.relevant) == (0.5, 0.5, 1.0)
        assert (holes.unjudged, holes.retrieved) == (1, 2)

    @pytest.mark.filterwarnings("ignore:0 of 1 labels")
    def test_the_matcher_of_the_metric(self) -> None:
        by_name = {
            holes.metric: holes
            for holes in judgement_holes(self.evaluated(["mrr", "mrr(match=exact)"]))
        }
        # by id, n9 wasn't retrieved
        assert (by_name["mrr"].mean, by_name["mrr"].unjudged) == (0.0, 2)
        matched = by_name["mrr(match=exact)"]
        assert (matched.mean, matched.unjudged, matched.relevant) == (0.5, 1, 1.0)

    def evaluated(self, metrics: list[str], **options: Any) -> EvaluationResults:
        def retrieve(_: str) -> list[TextNode]:
            texts = {"n1": "Mars is red.", "n2": "Saturn has many moons."}
            return [TextNode(id_=node_id, text=text) for node_id, text in texts.items()]

        return evaluate(retrieve, self.DATASET, metrics, **options)


def test_a_comparison_has_the_holes_of_what_was_evaluated() -> None:
    a = results(RELEVANCE, RUN, ["mrr", "recall@3"])
    b = results(RELEVANCE, {"q1": ["a"], "q2": ["c"]}, ["mrr", "recall@3"])
    comparison = compare({"a": a, "b": b, "bare": b.scores}, "a", metrics=["mrr"])
    assert list(comparison.holes) == ["a", "b"]
    assert only(comparison.holes["a"]) == judgement_holes(a, ["mrr"])[0]
    assert (only(comparison.holes["b"]).unjudged, only(comparison.holes["b"]).relevant) == (0, 1.0)
    assert (comparison.results["a"], comparison.results["bare"]) == (a, None)


@pytest.mark.parametrize("metric", ["recall@9tokens", "span_recall", "leaked@5"])
def test_a_report_without_holes_for_what_needs_more_than_ids(metric: str) -> None:
    spans = Relevance.of_spans([("a", 0, 3)])
    relevance = {"q": spans if metric == "span_recall" else ["a"]}
    dataset = RetrievalDataset({"q": "x?"}, relevance, corpus={"a": "one two", "b": "three"})
    options: dict[str, Any] = {"forbidden": {"q": ["b"]}} if metric == "leaked@5" else {}
    nodes = dataset.to_nodes()
    a = evaluate(lambda _: nodes, dataset, [metric], **options)
    b = evaluate(lambda _: nodes[:1], dataset, [metric], **options)
    comparison = compare({"a": a, "b": b}, "a")
    assert metric in str(comparison)
    assert dict(comparison.holes) == {"a": (), "b": ()}
