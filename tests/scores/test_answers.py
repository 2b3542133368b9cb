"""What scores keep of what was retrieved: enough for every story, the beginnings of texts alone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from support.retrievers import Scripted, node

from llama_index_rag_metrics import RetrievalDataset, Run, Scores, evaluate, score_rankings
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.story import query_answers

LONG = "Enceladus has geysers at its south pole. " * 20


@pytest.mark.parametrize("matcher", [None, "text"])
def test_stored_scores_tell_what_live_ones_tell(matcher: str | None) -> None:
    dataset = RetrievalDataset(
        {"q1": "x?", "q2": "y?", "q3": "z?"},
        {"q1": {"a": 2, "b": 1}, "q2": ["c"], "q3": ["a"]},
        corpus={"a": LONG, "b": "b" * 60, "c": "c" * 60},
    )
    other = node("a2")
    other.node.text = LONG  # type: ignore[attr-defined]
    script: dict[str, Any] = {"x?": ["z", other], "y?": [], "z?": ConnectionError("refused")}
    results = evaluate(Scripted(script), dataset, ["recall@1"], matcher=matcher, name="s")
    live, scores = system_of(results), results.scores
    for stored in (Scores.from_json(scores.to_json()), pickle.loads(pickle.dumps(scores))):
        assert stored == scores
        for query_id in dataset.queries:
            ours = query_answers(query_id, [System.of(stored)], "recall@1")
            theirs = query_answers(query_id, [live], "recall@1")
            (answer,), (expected,) = ours.answers, theirs.answers
            assert list(map(str, ours.wanted)) == list(map(str, theirs.wanted))
            assert (ours.why, answer.error) == (theirs.why, expected.error)
            # of a text, the beginning is stored
            assert list(map(str, answer.retrieved or ())) == list(
                map(str, expected.retrieved or ())
            )


def test_slices_keep_their_own_questions() -> None:
    dataset = RetrievalDataset({"q1": "x?", "q2": "y?"}, {"q1": ["a"], "q2": ["b"]})
    scores = evaluate(Scripted({"x?": ["a"], "y?": []}), dataset, ["mrr"]).scores
    part = scores.select(["q1"])
    assert part.retrieval is not None
    assert list(part.retrieval.run) == ["q1"]
    assert part == Scores.from_json(part.to_json())


def test_rankings_are_those_of_the_run_that_was_scored() -> None:
    run = Run({"q": ["a", "b"]})
    scores = score_rankings({"q": ["a"]}, run, "mrr")
    assert scores.rankings["q"] == [("a", "b")]
    assert pickle.loads(pickle.dumps(scores)).rankings == scores.rankings
    assert Scores.from_json(scores.to_json()).rankings == scores.rankings
    # what may change isn't kept
    assert dict(score_rankings({"q": ["a"]}, {"q": ["a", "b"]}, "mrr").rankings) == {}
