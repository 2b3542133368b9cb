"""Metrics of calls, by hand counts, and wherever else metrics go."""

from __future__ import annotations

from typing import Any

import pytest

from llama_index_rag_metrics import (
    Call,
    Ranking,
    Run,
    Scores,
    combine_calls,
    compare,
    metric,
    score_rankings,
)

NAMES = ["calls", "new_relevant", "wasted_calls", "repeated_calls", "recall", "precision@2"]

# q1: a new; a known, x; b new, asked before     calls 3, new 1 + 0 + 1, wasted 1, repeated 1
# q2: nothing was asked
# q3: a plain retriever's ranking, one call      new 2 (c, d)
# q4: two calls, both in vain; the first failed  wasted 2
EXPECTED = {"q1": ["a", "b", "z"], "q2": ["a"], "q3": {"c": 2, "d": 1}, "q4": ["a"]}
CALLS = {
    "q1": (
        Call(["a", "y"], query="Saturn"),
        Call(["a", "x", "x"], query="rings"),
        Call(["x", "b"], query="  saturn\n"),
    ),
    "q2": (),
    "q4": (Call(query="one", error="timeout"), Call(["y"], query="two")),
}


def run(combine: str = "first_seen") -> Run:
    rankings: dict[str, Ranking] = {
        query_id: combine_calls(calls, combine)  # type: ignore[arg-type]
        for query_id, calls in CALLS.items()
    }
    return Run({**rankings, "q3": Ranking(["c", "y", "d"])})


def scores(combine: str = "first_seen") -> Scores:
    return score_rankings(EXPECTED, run(combine), NAMES)


@pytest.mark.parametrize("name", NAMES[:4])
def test_one_question_alone_scores_as_in_a_batch(name: str) -> None:
    expected = scores().by_query(name)
    for query_id, ranking in run().items():
        chosen: Any = metric(name)
        computed = chosen.compute(
            expected_ids=EXPECTED[query_id],
            retrieved_ids=list(ranking.ids),
            retrieved_calls=ranking.calls,
        )
        assert computed.score == expected[query_id]


def test_a_matcher_recognises_what_each_call_retrieved() -> None:
    # the second of three calls has the expected text, under an id of its own
    texts = {"n1": "Titan has lakes of methane.", "n2": "Enceladus has geysers of water."}
    chosen: Any = metric("new_relevant(match=text)")
    computed = chosen.compute(
        expected_texts=["Enceladus has geysers of water"],
        retrieved_ids=list(texts),
        retrieved_texts=list(texts.values()),
        retrieved_calls=[*(Call([item], texts=[texts[item]]) for item in texts), Call()],
    )
    assert computed.metadata == {"by_call": [0, 1, 0]}
    assert computed.score == pytest.approx(1 / 3)


def test_calls_are_counted_by_hand() -> None:
    by_query = scores().per_query
    assert by_query["q1"]["calls"] == 3
    assert by_query["q1"]["new_relevant"] == pytest.approx(2 / 3)
    assert by_query["q1"]["wasted_calls"] == pytest.approx(1 / 3)
    assert by_query["q1"]["repeated_calls"] == pytest.approx(1 / 3)
    assert by_query["q1"]["recall"] == pytest.approx(2 / 3)
    assert by_query["q1"]["precision@2"] == 0.5  # a, y
    assert by_query["q3"] == {
        "calls": 1.0,
        "new_relevant": 2.0,
        "wasted_calls": 0.0,
        "repeated_calls": 0.0,
        "recall": 1.0,
        "precision@2": 0.5,
    }
    assert [by_query["q4"][name] for name in NAMES[:4]] == [2.0, 0.0, 1.0, 0.0]


def test_a_question_without_calls_is_empty_and_not_failed() -> None:
    together = scores()
    assert (together.empty, together.failed) == (("q2",), {})
    assert set(together.per_query["q2"].values()) == {0.0}


def test_what_each_call_brought_stands_beside_the_score() -> None:
    details = scores().details["new_relevant"]
    assert {query_id: row["by_call"] for query_id, row in details.items()} == {
        "q1": [1, 0, 1],
        "q2": [],
        "q3": [2],
        "q4": [0, 0],
    }


@pytest.mark.parametrize("combine", ["last", "rrf"])
def test_calls_are_the_same_however_they_are_combined(combine: str) -> None:
    assert [scores(combine)[name].tolist() for name in NAMES[:4]] == [
        scores()[name].tolist() for name in NAMES[:4]
    ]
    recall = scores(combine).per_query["q1"]["recall"]
    assert recall == pytest.approx(1 / 3 if combine == "last" else 2 / 3)


def test_an_item_counts_from_the_grade_on_that_the_metric_says() -> None:
    strict = score_rankings(EXPECTED, run(), ["new_relevant(min_grade=2)"])
    assert strict.per_query["q3"]["new_relevant(min_grade=2)"] == 1.0


def test_a_query_scores_the_same_in_any_batch() -> None:
    whole = scores()
    for query_id, expected in EXPECTED.items():
        alone = score_rankings({query_id: expected}, run().select([query_id]), NAMES)
        assert alone.per_query[query_id] == whole.per_query[query_id]


def test_less_is_better_in_comparisons() -> None:
    agents = {"old": scores(), "new": scores().replace(columns={**scores().columns})}
    assert compare(agents, baseline="old").report().tables("summary")
    assert metric("wasted_calls").lower_is_better
    assert not metric("new_relevant").lower_is_better


@pytest.mark.parametrize(
    ("who", "repeated"),
    [
        ([{"retriever": "BM25"}, {"retriever": "Vector"}], 0),
        ([{"retriever": "BM25", "asked_by": "a"}, {"retriever": "BM25", "asked_by": "b"}], 1 / 2),
        ([{"asked_by": "a"}, {"asked_by": "b"}], 0),
        ([{"asked_by": "a"}, {"asked_by": "a"}], 1 / 2),
    ],
)
def test_asking_another_retriever_the_same_is_no_repetition(
    who: list[dict[str, Any]], repeated: float
) -> None:
    ranking = combine_calls([Call(["a"], query="Saturn", **of) for of in who])
    assert score_rankings({"q": ["a"]}, {"q": ranking}, "repeated_calls").means == {
        "repeated_calls": repeated
    }
