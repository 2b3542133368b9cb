"""Questions without an answer: judged, nothing relevant; two metrics are of them alone."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reference import abstained, returned
from support.strategies import Query, queries

from llama_index_rag_metrics import (
    Abstained,
    Ranking,
    Returned,
    Run,
    Scores,
    check_rules,
    compare,
    evaluate,
    score_rankings,
    score_table,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput

METRICS = ["recall@1", "abstained", "returned", "returned@1"]
EXPECTED = {
    "answered": ["a"],
    "empty list": [],
    "grades of 0": {"a": 0, "b": -1},
    "spared": [],
    "failed": [],
    "unjudged": None,
}
RETRIEVED: dict[str, Ranking | Sequence[str]] = {
    "answered": ["a"],
    "empty list": ["x", "y", "x"],
    "grades of 0": ["a"],
    "spared": [],
    "failed": Ranking(error="down"),
    "unjudged": ["z"],
}


def test_questions_judged_without_anything_relevant_count_alone() -> None:
    scores = score_rankings(EXPECTED, RETRIEVED, METRICS)
    assert scores.by_query("recall@1") == {"answered": 1.0}
    # a failure is no abstention, and not the best number of passages either
    assert scores.by_query("abstained") == {
        "empty list": 0.0,
        "grades of 0": 0.0,
        "spared": 1.0,
        "failed": 0.0,
    }
    assert scores.by_query("returned") == {"empty list": 2.0, "grades of 0": 1.0, "spared": 0.0}
    assert scores.by_query("returned@1") == {"empty list": 1.0, "grades of 0": 1.0, "spared": 0.0}
    assert set(scores.unanswerable) == scores.due("abstained")
    assert scores.counts.no_relevant == len(scores.unanswerable) == 4
    assert scores.counts.scored == 1


def test_failed_questions_can_be_left_out() -> None:
    scores = score_rankings(EXPECTED, RETRIEVED, METRICS, failed="exclude")
    assert scores.n("abstained") == 3


def test_table_gives_the_same() -> None:
    rows = [
        {
            "query_id": query_id,
            "retrieved_ids": list(Run(RETRIEVED)[query_id].ids),
            "expected_ids": None if expected is None else list(expected),
            "grades": list(expected.values()) if isinstance(expected, dict) else None,
            "error": "down" if query_id == "failed" else None,
        }
        for query_id, expected in EXPECTED.items()
    ]
    scored = score_table(pl.DataFrame(rows, strict=False), METRICS)
    scores = score_rankings(EXPECTED, RETRIEVED, METRICS)
    for name in METRICS:
        known = scored.filter(pl.col(name).is_not_null())
        assert dict(zip(known["query_id"], known[name], strict=True)) == scores.by_query(name)


@given(st.lists(queries(), min_size=1, max_size=8), st.none() | st.integers(1, 12))
@examples(60)
def test_against_the_reference(batch: list[Query], k: int | None) -> None:
    unanswerable = [number for number, query in enumerate(batch) if not query.relevance]
    metrics = [Abstained(), Returned(k=k)]
    scores = score_rankings(
        [query.relevance for query in batch], [query.ranking for query in batch], metrics
    )
    expected = {
        metrics[0].metric_name: [abstained(batch[number].ranking) for number in unanswerable],
        metrics[1].metric_name: [returned(batch[number].ranking, k=k) for number in unanswerable],
    }
    for name, values in expected.items():
        assert scores[name].tolist() == values


def test_compute_takes_only_a_question_without_an_answer() -> None:
    assert Abstained().compute(expected_ids=[], retrieved_ids=[]).score == 1.0
    assert Abstained().compute(expected_ids={"a": 0}, retrieved_ids=["a"]).score == 0.0
    with pytest.raises(InvalidInput):
        Abstained().compute(retrieved_ids=["a"])
    with pytest.raises(InvalidInput, match="of questions without an answer"):
        Returned().compute(expected_ids=["a"], retrieved_ids=["a"])


def test_reports_say_of_how_many_questions_they_are() -> None:
    report = " ".join(str(score_rankings(EXPECTED, RETRIEVED, METRICS)).split())
    assert "abstained has a value for 4 questions, not" in report


def test_question_that_was_spared_is_no_alarm() -> None:
    results = evaluate(
        lambda query: [] if query == "none" else ["a"],
        {
            "queries": {"q1": "x", "q2": "none"},
            "corpus": {},
            "relevant_docs": {"q1": ["a"], "q2": []},
        },
        ["recall@1", "abstained"],
    )
    assert "got no passages" not in str(results)
    assert results.scores.means["abstained"] == 1.0
    assert "Unlabelled" not in str(compare({"a": results.scores, "b": results.scores}, "a"))


def test_rules_of_the_gate_know_how_many_questions_they_are_of() -> None:
    answered = score_rankings(EXPECTED, {**RETRIEVED, "failed": ["x"]}, METRICS)
    rules = ["abstained >= 0.25", "returned <= 1", "abstained >= 0.5"]
    outcomes = [verdict.outcome for verdict in check_rules(answered, rules).verdicts]
    assert outcomes == ["pass", "pass", "fail"]
    # a question that failed has no number of passages: the rule is short of a value
    failed = score_rankings(EXPECTED, RETRIEVED, METRICS)
    assert [verdict.outcome for verdict in check_rules(failed, rules[1]).verdicts] == ["fail"]


def test_comparison_is_of_questions_without_an_answer() -> None:
    chance = np.random.default_rng(0)
    expected = {f"q{n}": ["a"] if n % 2 else [] for n in range(200)}

    def scored(share: float) -> Scores:
        run = {query: [] if chance.random() < share else ["a"] for query in expected}
        return score_rankings(expected, run, ["recall@1", "abstained"], name=f"{share}")

    difference = compare({"bad": scored(0.3), "good": scored(0.9)}, "bad")["good", "abstained"]
    assert (difference.outcome, difference.n) == ("better", 100)


def test_dataset_of_unanswerable_questions_is_something() -> None:
    scores = score_rankings({"q": []}, {"q": ["a"]}, ["abstained"])
    assert scores.means["abstained"] == 0.0
    assert not scores.notes
    assert Scores.from_json(scores.to_json()) == scores
