"""Relevance and calls: immutable lists that carry more; whatever has no order is no ranking."""

import copy
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.strategies import Query, queries

from llama_index_rag_metrics import (
    MRR,
    NDCG,
    CohereRerankRelevancy,
    GroupRecall,
    Relevance,
    RetrievalDataset,
    Run,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.rankings.run import Call, Ranking, combine_calls
from llama_index_rag_metrics.runtime.errors import InvalidInput

GRADED = {"d1": 3, "d2": 0.5, "d7": 0, "d8": -1}


def test_list_holds_what_has_a_grade_above_zero() -> None:
    relevance = Relevance(GRADED)
    assert isinstance(relevance, list)
    assert list(relevance) == ["d1", "d2"]
    assert dict(relevance.grades) == GRADED
    assert relevance.alternatives is None


def test_ids_have_grade_one_each_and_count_once() -> None:
    relevance = Relevance(["b", "a", "b"])
    assert list(relevance) == ["b", "a"]
    assert dict(relevance.grades) == {"b": 1, "a": 1}


@pytest.mark.parametrize(
    ("form", "same"),
    [
        (["a", "b"], Relevance(["a", "b"])),
        (("a", "b"), Relevance(["a", "b"])),
        (iter(["a", "b"]), Relevance(["a", "b"])),
        (np.array(["a", "b"]), Relevance(["a", "b"])),
        ({"a": 2}, Relevance({"a": 2})),
        ([["a", "b"], ["c"]], Relevance(groups=[["a", "b"], ["c"]])),
        ([("a", "b"), {"c"}], Relevance(groups=[["a", "b"], ["c"]])),
        ([], Relevance()),
        (Relevance(groups=[["a"]]), Relevance(groups=[["a"]])),
        ([["a1", "a2", "a1"]], Relevance(groups=[["a1", "a2"]])),
    ],
)
def test_forms_that_are_accepted(form: Any, same: Relevance) -> None:
    assert Relevance(form) == same


def test_relevance_cannot_be_changed() -> None:
    relevance = Relevance(GRADED)
    with pytest.raises(TypeError):
        relevance.grades["d1"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        relevance.grades = {"x": 1}
    named = "append extend insert remove pop clear sort reverse"
    for method in [*named.split(), "__setitem__", "__delitem__", "__iadd__", "__imul__"]:
        with pytest.raises(TypeError, match="a Relevance can't be changed"):
            getattr(relevance, method)(0)
    assert list(relevance) == ["d1", "d2"]


def test_relevance_does_not_share_the_mapping_it_was_made_from() -> None:
    grades = {"a": 1}
    relevance = Relevance(grades)
    grades["b"] = 2
    assert dict(relevance.grades) == {"a": 1}


def test_equality_sees_grades_and_groups() -> None:
    assert Relevance({"a": 1}) == Relevance(["a"])
    assert Relevance({"a": 1}) != Relevance({"a": 2})
    assert not Relevance({"a": 1}) == Relevance({"a": 2})  # noqa: SIM201
    assert Relevance({"a": 1, "b": 0}) != Relevance({"a": 1})
    assert Relevance(groups=[["a", "b"]]) != Relevance(["a", "b"])
    assert Relevance({"a": 3}) == ["a"]
    assert Relevance({"a": 3}) != ["b"]


@given(query=queries())
def test_copies_pickle_and_plain_forms_hold_all_of_it(query: Query) -> None:
    relevance = query.relevance
    again = [
        copy.copy(relevance),
        copy.deepcopy(relevance),
        pickle.loads(pickle.dumps(relevance)),
        Relevance(relevance),
        eval(repr(relevance)),
    ]
    for other in again:
        assert type(other) is Relevance
        assert other == relevance
        assert list(other) == list(relevance)
        assert list(other.grades.items()) == list(relevance.grades.items())
    assert Relevance(json.loads(json.dumps(relevance.to_plain()))) == relevance


@pytest.mark.parametrize(
    ("relevance", "plain"),
    [
        (Relevance(["a", "b"]), ["a", "b"]),
        (Relevance({"a": 1, "b": 0}), {"a": 1, "b": 0}),
        (Relevance(groups=[["a"], ["b"]]), [["a"], ["b"]]),
        (Relevance(), []),
    ],
)
def test_plain_form_is_the_shortest(relevance: Relevance, plain: Any) -> None:
    assert relevance.to_plain() == plain


@pytest.mark.parametrize(
    "grade", [float("nan"), float("inf"), -float("inf"), None, "2", Decimal(1), 1j, 1e301, 10**400]
)
def test_grades_are_finite_numbers(grade: Any) -> None:
    with pytest.raises(InvalidInput, match="grade of 'a': expected a finite number"):
        Relevance({"a": grade})


@pytest.mark.parametrize(
    "grade",
    [2, 2.0, np.float32(2), np.int64(2), Fraction(4, 2)],
    ids=lambda grade: type(grade).__name__,
)
def test_grade_is_any_real_number(grade: Any) -> None:
    assert dict(Relevance({"a": grade}).grades) == {"a": 2.0}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("d1", "a list of ids or a mapping"),
        (b"d1", "a list of ids or a mapping"),
        (5, "a list of ids or a mapping"),
        (0.5, "a list of ids or a mapping"),
        (None, "a list of ids or a mapping"),
        (["a", None], "an id, got None"),
        ({None: 1}, "an id, got None"),
        (["a", ["b"]], r"an id, got \['b'\]. For groups, use Relevance"),
        ([np.array(["a"]), np.array(["b"])], "For groups, use Relevance"),
        ([("a", ["b"])], r"an id, got \['b'\]"),
    ],
)
def test_value_that_is_no_relevance(form: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Relevance(form)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([["a"], []], "at least one id"),
        (["ab"], r"Write one id as \['id'\]"),
        ([b"ab"], r"Write one id as \['id'\]"),
        ([3], "a collection of ids"),
        ([[None]], "an id, got None"),
    ],
)
def test_value_that_is_no_group(groups: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Relevance(groups=groups)


class TestGradedGroups:
    GRADED = Relevance(groups=[["a1", "a2"], ["b"]], grades={"a1": 3, "c": 0})

    def test_ids_keep_their_grades(self) -> None:
        assert dict(self.GRADED.grades) == {"a1": 3, "a2": 1, "b": 1, "c": 0}
        assert self.GRADED.alternatives == (("a1", "a2"), ("b",))
        assert list(self.GRADED) == ["a1", "a2", "b"]

    def test_ways_out_and_back(self) -> None:
        facets = {"x": ["a"], "y": ["b"]}
        weighted = Relevance(facets=facets, weights={"y": 2}, grades={"a": 2, "n": 0})
        for relevance in (self.GRADED, weighted):
            plain = json.loads(json.dumps(relevance.to_plain()))
            for again in (Relevance(plain), pickle.loads(pickle.dumps(relevance))):
                assert again == eval(repr(relevance)) == relevance

    def test_metrics_see_grades_and_groups(self) -> None:
        # the gains of ranks 1 and 2 are 1 and 3; the ideal has 3 and 1
        retrieved = ["a2", "a1"]
        ndcg = NDCG(k=2).compute("q", self.GRADED, retrieved).score
        assert ndcg == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))
        assert GroupRecall(k=2).compute("q", self.GRADED, retrieved).score == 0.5

    def test_items_in_a_group_are_relevant(self) -> None:
        with pytest.raises(InvalidInput, match=r"grade of 'a'.*above 0"):
            Relevance(groups=[["a"]], grades={"a": 0})


CALLS = (
    Call(["a", "b"], [0.9, 0.2], ["A", "B"], 0.5, query="x", asked_by="search", tokens=[1, 2]),
    Call(["b", "c"], [0.8, 0.7], ["B", "C"], 0.25, query="y", asked_by="search", tokens=[2, 3]),
)


def test_session_is_its_calls_one_after_another_without_copies() -> None:
    ranking = combine_calls(CALLS)
    assert ranking.ids == ["a", "b", "c"]
    assert ranking.texts == ["A", "B", "C"]
    assert ranking.tokens == [1, 2, 3]
    assert ranking.scores is None  # those of different queries don't compare
    assert ranking.latency == 0.75
    assert ranking.calls == CALLS


def test_scores_of_a_single_call_are_kept() -> None:
    ranking = combine_calls([CALLS[0], Call(query="z", error="no route")])
    assert (ranking.ids, ranking.scores) == (["a", "b"], [0.9, 0.2])
    assert ranking.error is None  # the agent went on


def test_session_without_a_call_is_empty() -> None:
    ranking = combine_calls([])
    assert (list(ranking.ids), ranking.calls, ranking.error) == ([], (), None)


def test_run_knows_its_calls() -> None:
    run = Run({"q1": combine_calls(CALLS), "q2": ["a"]}, name="agent")
    assert run.calls == {"q1": CALLS}


def test_calls_are_checked_and_survive_pickling() -> None:
    with pytest.raises(InvalidInput, match="one for each of the 1 ids"):
        Call(["a"], [0.1, 0.2], query="x")
    assert pickle.loads(pickle.dumps(CALLS)) == CALLS


@pytest.mark.parametrize("others", [[], [Call(query="nothing")]])
def test_copies_of_a_call_alone_are_dropped(others: list[Call]) -> None:
    call = Call(["a", "a", "b"], [3.0, 2.0, 1.0], ["x", "x", "y"], tokens=[5, 5, 7])
    ranking = combine_calls([call, *others])
    assert (ranking.ids, ranking.scores) == (["a", "b"], [3.0, 1.0])
    assert (ranking.texts, ranking.tokens) == (["x", "y"], [5, 7])


DATASET = RetrievalDataset({"q": "who?"}, {"q": ["b"]})
COHERE = CohereRerankRelevancy(api_key="key")

PLACES: dict[str, Callable[[Any], Any]] = {
    "compute": lambda ids: MRR().compute(expected_ids=["b"], retrieved_ids=ids),
    "text metric": lambda ids: COHERE.compute("who?", retrieved_texts=ids),
    "score_rankings": lambda ids: score_rankings({"q": ["b"]}, {"q": ids}, "mrr"),
    "Run": lambda ids: Run({"q": ids}),
    "Ranking": Ranking,
    "Ranking, scores": lambda ids: Ranking(["a", "b"], scores=ids),
    "evaluate": lambda ids: evaluate(lambda _: ids, DATASET, "mrr", raise_on_error=True),
}
each_place = pytest.mark.parametrize("rank", PLACES.values(), ids=PLACES)


@each_place
@pytest.mark.parametrize(
    "unordered", [{"a", "b"}, frozenset("ab"), {"a": 1, "b": 2}, {"a": 1, "b": 2}.items() | set()]
)
def test_value_without_an_order_is_refused(rank: Callable[[Any], Any], unordered: Any) -> None:
    with pytest.raises(Exception, match=r"best first|a list of (nodes|texts)"):
        rank(unordered)


def test_scores_by_document_are_read_by_another_function() -> None:
    with pytest.raises(InvalidInput, match="read_run"):
        Run({"q": {"a": 0.1, "b": 0.9}})  # type: ignore[dict-item]
