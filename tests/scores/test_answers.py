"""What scores keep of what was wanted and what came: a few items a query, and no rankings."""

from __future__ import annotations

import gc
import pickle
import weakref

from support.retrievers import Scripted

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    Run,
    Scores,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.scores.mappings import ranking_digest


def evaluated() -> EvaluationResults:
    dataset = RetrievalDataset({"q1": "x?", "q2": "y?"}, {"q1": {"a": 2, "b": 1}, "q2": ["c"]})
    return evaluate(Scripted({"x?": ["a", "z"], "y?": []}), dataset, ["mrr"])


def test_answers_survive_files_and_pickles() -> None:
    scores = evaluated().scores
    # q1 wants a (grade 2) before b; a came first with its grade, z without one, b and c never
    expected = {
        "q1": {
            "wanted": [
                [{"id": "a", "grade": 2.0, "text": "text of a"}],
                [{"id": "b", "grade": 1.0}],
            ],
            "got": [
                {"id": "a", "text": "text of a", "grade": 2.0},
                {"id": "z", "text": "text of z"},
            ],
            "found": {"a": [1]},
        },
        "q2": {"wanted": [[{"id": "c", "grade": 1.0}]], "got": [], "found": {}},
    }
    for kept in (scores, Scores.from_json(scores.to_json()), pickle.loads(pickle.dumps(scores))):
        assert {query_id: dict(row) for query_id, row in kept.answers["id"].items()} == expected
        assert kept == scores
    assert list(scores.select(["q2"]).answers["id"]) == ["q2"]
    assert "q3" not in scores.answers["id"]


def test_scores_alone_hold_no_texts_of_a_run() -> None:
    results = evaluated()
    scores, run = results.scores, weakref.ref(results.run)
    del results
    gc.collect()
    assert run() is None
    assert [item["id"] for item in scores.answers["id"]["q1"]["got"]] == ["a", "z"]


def test_digests_are_of_the_run_that_was_scored() -> None:
    run = Run({"q": ["a", "b"]})
    scores = score_rankings({"q": ["a"]}, run, "mrr")
    assert scores.rankings["q"] == ranking_digest(["a", "b"])
    assert pickle.loads(pickle.dumps(scores)).rankings == scores.rankings
    assert Scores.from_json(scores.to_json()).rankings == scores.rankings
    # what may change isn't kept
    assert dict(score_rankings({"q": ["a"]}, {"q": ["a", "b"]}, "mrr").rankings) == {}


def test_slices_stay_lazy_and_the_same() -> None:
    scores = evaluated().scores
    part = scores.select(["q1"])
    assert dict(part.answers["id"]["q1"]) == dict(scores.answers["id"]["q1"])
    assert part == Scores.from_json(part.to_json())
