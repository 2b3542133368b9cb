"""The questions of the worst scores: pairs that print as their stories."""

from __future__ import annotations

import pickle

import pytest
from support.retrievers import Scripted, node

from llama_index_rag_metrics import EvaluationResults, RetrievalDataset, Scores, evaluate
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric

DATASET = RetrievalDataset(
    {"q1": "Which moon has geysers?", "q2": "Which planet has rings?"},
    {"q1": {"enceladus": 2, "triton": 1}, "q2": ["saturn"]},
    {"enceladus": "Enceladus has geysers.", "triton": "Triton may have <b>geysers</b>."},
)


@pytest.fixture
def results() -> EvaluationResults:
    script = {
        "Which moon has geysers?": [node("io"), node("triton")],
        "Which planet has rings?": [node("saturn")],
    }
    return evaluate(Scripted(script), DATASET, ["recall@5"], name="bm25")


def test_they_are_pairs_and_more(results: EvaluationResults) -> None:
    worst = results.worst("recall@5")
    # one of the two relevant passages of q1, the only one of q2
    assert worst == [("q1", 0.5), ("q2", 1.0)]
    for query_id, score in worst[:1]:
        assert (query_id, score) == ("q1", 0.5)
    assert worst.to_pandas().columns.tolist() == ["query_id", "score", "question"]
    with pytest.raises(UnknownMetric, match="recall@5"):
        results.worst("recall@6")
    with pytest.raises(InvalidInput, match="n"):
        results.worst("recall@5", -1)


def test_they_print_question_wanted_and_got(results: EvaluationResults) -> None:
    worst = results.worst("recall@5", 1)
    for printed in (repr(worst), str(worst)):
        text = " ".join(printed.split())
        expected = "relevant enceladus [2] Enceladus has geysers. never retrieved triton [1]"
        why = "1 of 2 relevant passages was never retrieved."
        assert f"q1 Which moon has geysers? {why} {expected}" in text
        assert "rank 2 bm25 0.50 1. io text of io 2. triton [1]" in text
    # two of q1 and one of q2 are relevant
    assert "1 of 3 relevant passages was never retrieved." in str(worst)
    assert repr(worst).startswith(" Lowest recall@5\n 1 of 2 questions, lowest recall@5 first.")
    html = worst._repr_html_()
    assert "never retrieved" in html
    assert "<b>geysers" not in html


def test_without_a_metric_it_is_the_first() -> None:
    scores = Scores(["q1"], {"mrr": [0.5], "ndcg@10": [0.25]})
    assert scores.worst() == [("q1", 0.5)]
    assert str(scores.worst()).startswith(" Lowest mrr")


def test_stored_scores_tell_the_same(results: EvaluationResults) -> None:
    stored = Scores.from_json(results.scores.to_json())
    expected = " ".join(repr(results.worst("recall@5")).split())
    for scores in (stored, results.scores, pickle.loads(pickle.dumps(results.scores))):
        assert " ".join(repr(scores.worst("recall@5")).split()) == expected


def test_bare_scores_have_pairs_alone() -> None:
    worst = Scores(["q1"], {"mrr": [0.25]}).worst("mrr")
    assert worst == [("q1", 0.25)]
    assert "q1" in repr(worst)
    assert pickle.loads(pickle.dumps(worst)) == worst
    nothing = repr(Scores([], {"mrr": []}).worst("mrr"))
    assert nothing == " Lowest mrr\n 0 of 0 questions, lowest mrr first."
