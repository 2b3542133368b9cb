"""Relevance: an immutable list of the relevant ids that carries grades and groups."""

from __future__ import annotations

import copy
import json
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.strategies import Query, queries

from llama_index_rag_metrics import NDCG, GroupRecall, Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput

GRADED = {"d1": 3, "d2": 0.5, "d7": 0, "d8": -1}


def test_as_a_list_it_holds_what_has_a_grade_above_zero() -> None:
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
def test_every_accepted_form(form: Any, same: Relevance) -> None:
    assert Relevance(form) == same


def test_it_cannot_be_changed() -> None:
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


def test_it_does_not_share_the_mapping_it_was_made_from() -> None:
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
def test_the_plain_form_is_the_shortest(relevance: Relevance, plain: Any) -> None:
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
def test_any_real_number_is_a_grade(grade: Any) -> None:
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
def test_what_is_no_relevance(form: Any, words: str) -> None:
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
def test_what_is_no_group(groups: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Relevance(groups=groups)


class TestGradedGroups:
    GRADED = Relevance(groups=[["a1", "a2"], ["b"]], grades={"a1": 3, "c": 0})

    def test_ids_keep_their_grades(self) -> None:
        assert dict(self.GRADED.grades) == {"a1": 3, "a2": 1, "b": 1, "c": 0}
        assert self.GRADED.alternatives == (("a1", "a2"), ("b",))
        assert list(self.GRADED) == ["a1", "a2", "b"]

    def test_every_way_out_and_back(self) -> None:
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

    def test_what_is_in_a_group_is_relevant(self) -> None:
        with pytest.raises(InvalidInput, match=r"grade of 'a'.*above 0"):
            Relevance(groups=[["a"]], grades={"a": 0})
