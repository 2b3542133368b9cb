"""What scores keep of what was wanted and what came: a few words a query, and no rankings."""

from __future__ import annotations

import gc
import pickle
import weakref

from support.retrievers import Scripted

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    Scores,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.scores.mappings import ranking_digest


def evaluated() -> EvaluationResults:
    dataset = RetrievalDataset({"q1": "x?", "q2": "y?"}, {"q1": {"a": 2, "b": 1}, "q2": ["c"]})
    return evaluate(Scripted({"x?": ["a", "z"], "y?": []}), dataset, ["mrr"])


def test_answers_are_in_words_and_survive_files_and_pickles() -> None:
    scores = evaluated().scores
    # q1 wants a (grade 2) before b; a came with its grade, z without one
    expected = {
        "q1": {"wanted": ["a", "b"], "got": ["a [2]", "z"]},
        "q2": {"wanted": ["c"], "got": []},
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
    assert scores.answers["id"]["q1"]["got"] == ["a [2]", "z"]


def test_digests_are_of_what_was_scored_whatever_happens_to_the_lists_later() -> None:
    ids = ["a", "b"]
    scores = score_rankings({"q": ["a"]}, {"q": ids}, "mrr")
    ids.reverse()
    assert scores.rankings["q"] == ranking_digest(["a", "b"])
    assert scores.rankings["q"] != ranking_digest(ids)
    assert pickle.loads(pickle.dumps(scores)).rankings == scores.rankings
