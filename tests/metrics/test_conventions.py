"""Every worked example and trap of docs/definitions.md, on every path through the package."""

from typing import Any

import pytest
from llama_index.core.evaluation import RetrieverEvaluator
from support.cases import CASES, FIRST_RELEVANT, TUTORIAL, Case, exact, six
from support.retrievers import Scripted, node

from llama_index_rag_metrics import Relevance, Scores, metric, score_rankings
from llama_index_rag_metrics.metrics.metric_names import metrics

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def returning(case: Case) -> Scripted:
    """A retriever that returns the ranking of a case."""
    ids = case.retrieved
    scores = case.node_scores or [float(len(ids) - place) for place in range(len(ids))]
    return Scripted(
        {"?": [node(item, score=score) for item, score in zip(ids, scores, strict=True)]}
    )


@pytest.fixture(scope="module")
def batch() -> Scores:
    """All cases by all of their metrics, judged together."""
    names = dict.fromkeys(name for case in CASES for name in case.values)
    return score_rankings(
        {case.name: case.expected for case in CASES},
        {case.name: case.retrieved for case in CASES},
        names,
    )


def test_cases_share_no_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@each_case
def test_compute(case: Case) -> None:
    values = {
        name: metric(name).compute("a question", case.expected, case.retrieved).score  # type: ignore[arg-type]
        for name in case.values
    }
    assert values == case.values


@each_case
def test_cases_in_one_batch(case: Case, batch: Scores) -> None:
    row = batch.per_query[case.name]
    assert {name: row[name] for name in case.values} == case.values


@each_case
def test_alone_to_the_last_bit_as_in_the_batch(case: Case, batch: Scores) -> None:
    alone = score_rankings([case.expected], [case.retrieved], batch.metric_names)
    assert alone.per_query["0"] == batch.per_query[case.name]


@each_case
def test_cases_on_the_stock_evaluator(case: Case) -> None:
    evaluator = RetrieverEvaluator(metrics=metrics(case.values), retriever=returning(case))
    is_plain = isinstance(case.expected, list) and isinstance(case.expected[0], str)
    expected: Any = case.expected if is_plain else Relevance(case.expected)
    result = evaluator.evaluate("?", expected_ids=expected)
    assert result.metric_vals_dict == case.values


def _means(cases: list[Case], *names: str) -> dict[str, float]:
    expected = {case.name: case.expected for case in cases}
    retrieved = {case.name: case.retrieved for case in cases}
    return dict(score_rankings(expected, retrieved, names).means)


def test_means_of_the_tutorial() -> None:
    assert _means(TUTORIAL, "mrr", "precision@3", "recall@3", "ndcg@5") == {
        "mrr": six(0.611111),  # (1/2 + 1 + 1/3) / 3 = 11/18
        "precision@3": exact(1 / 3),  # 1/3 each
        "recall@3": exact(2 / 3),  # (1/2 + 1/2 + 1) / 3
        "ndcg@5": six(0.667089),  # (.650921 + .850345 + .5) / 3
    }


def test_mean_of_first_relevant_ranks() -> None:
    # (1/3 + 1 + 1/2 + 1/3) / 4
    assert _means(FIRST_RELEVANT, "mrr") == {"mrr": exact(13 / 24)}


@pytest.mark.parametrize("query_id", ["3f2b6c1e-5f0a-4d0e-9c53-0a4b1d2e3f40", "a-b", "q/1", "文-1"])
def test_query_ids_have_no_effect(query_id: str) -> None:
    # (1 + 7/log2(3)) / (7 + 1/log2(3)), as the query called "q" has it
    names = ["ndcg(mode=exponential)@10", "ndcg(mode=exponential)"]
    judged, ranking = {"d1": 3, "d2": 1}, ["d2", "d1"]
    strange = score_rankings(
        {query_id: judged, "q": judged}, {query_id: ranking, "q": ranking}, names
    )
    assert strange.per_query[query_id] == strange.per_query["q"]
    assert strange.per_query[query_id]["ndcg(mode=exponential)@10"] == six(0.709810)


def test_one_question_says_that_no_grade_is_high_enough() -> None:
    grades = Relevance({"a": 0.7})
    note = {"note": "no grade reaches min_grade=1, so the question scores 0"}
    assert metric("recall").compute("", grades, ["a"]).metadata == note
    assert metric("ndcg").compute("", grades, ["a"]).metadata == {}
