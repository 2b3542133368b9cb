"""Calls and sessions: the shape of what an agent retrieved, and what its calls add up to."""

from __future__ import annotations

import pickle

import pytest

from llama_index_rag_metrics import Run
from llama_index_rag_metrics.rankings.run import Call, combine_calls
from llama_index_rag_metrics.runtime.errors import InvalidInput

CALLS = (
    Call(["a", "b"], [0.9, 0.2], ["A", "B"], 0.5, query="x", asked_by="search", tokens=[1, 2]),
    Call(["b", "c"], [0.8, 0.7], ["B", "C"], 0.25, query="y", asked_by="search", tokens=[2, 3]),
)


def test_a_session_is_its_calls_one_after_another_without_copies() -> None:
    ranking = combine_calls(CALLS)
    assert ranking.ids == ["a", "b", "c"]
    assert ranking.texts == ["A", "B", "C"]
    assert ranking.tokens == [1, 2, 3]
    assert ranking.scores is None  # those of different queries don't compare
    assert ranking.latency == 0.75
    assert ranking.calls == CALLS


def test_the_scores_of_a_single_call_are_kept() -> None:
    ranking = combine_calls([CALLS[0], Call(query="z", error="no route")])
    assert (ranking.ids, ranking.scores) == (["a", "b"], [0.9, 0.2])
    assert ranking.error is None  # the agent went on


def test_no_call_is_an_empty_session() -> None:
    ranking = combine_calls([])
    assert (list(ranking.ids), ranking.calls, ranking.error) == ([], (), None)


def test_a_run_knows_its_calls() -> None:
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
