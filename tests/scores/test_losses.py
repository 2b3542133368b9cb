"""Where wanted passages are lost, over all questions, and the stories of the worst."""

import pickle
from typing import Any

import pytest
from support.retrievers import Scripted, node

from llama_index_rag_metrics import (
    EvaluationResults,
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.whereabouts import losses, losses_sentence

IO = "Io has volcanoes, and lakes of sulphur on its surface."


@pytest.fixture
def results() -> EvaluationResults:
    dataset = RetrievalDataset(
        {"q1": "moons?", "q2": "rings?", "q3": "fails?", "q4": "unlabelled?"},
        {"q1": ["a", "b", "io"], "q2": ["c"], "q3": ["d"]},
        {"io": IO},
    )
    again = node("n7")
    again.node.text = f"{IO} And more."  # type: ignore[attr-defined]
    script: dict[str, Any] = {
        "moons?": ["x", again, "a"],
        "rings?": ["c"],
        "fails?": ConnectionError("refused"),
        "unlabelled?": ["a"],
    }
    return evaluate(Scripted(script), dataset, ["recall@2"], name="bm25")


def test_story_counts_a_budget_by_the_tokens_of_the_scores() -> None:
    # 40 words and 8: the second doesn't fit into 45 tokens
    run = Run({"q": Ranking(["x", "a"], texts=["word " * 40, "word " * 8])})
    for of_times in (run, Run(repeats=[run, run])):
        scores = score_rankings({"q": ["a"]}, of_times, ["recall@45tokens"], tokenizer=str.split)
        assert scores.means["recall@45tokens"] == 0
        assert "the relevant passage is over the token budget" in " ".join(str(scores).split())
        assert scores.retrieval is not None
        assert scores.retrieval.run.mean_tokens == 48


def test_kinds_of_loss_are_counted(results: EvaluationResults) -> None:
    # q1: a has rank 3, b never came, n7 has the text of io; q2: found; q3 failed
    (counted,) = losses([system_of(results)], "recall@2")
    expected = {"never retrieved": 1, "below the cutoff": 1, "under another id": 1}
    assert (counted.n_wanted, counted.by_loss) == (4, expected)
    assert losses_sentence([counted]) == (
        "1 of 4 relevant passages was never retrieved, 1 is below the cutoff, "
        "1 is under another id."
    )


def test_unknown_rankings_count_nothing() -> None:
    assert losses_sentence(losses([System.of(Scores(["q"], {"mrr": [0.5]}))], "mrr")) == ""


def test_stored_scores_count_what_live_ones_do() -> None:
    # seven are relevant to a question that failed: more than scores keep
    dataset = RetrievalDataset(
        {"q1": "moons?", "q2": "fails?"}, {"q1": ["a", "b"], "q2": list("abcdefg")}
    )
    script: dict[str, Any] = {"moons?": ["a"], "fails?": ConnectionError("refused")}
    live = evaluate(Scripted(script), dataset, ["recall@2"])
    stored = Scores.from_json(live.scores.to_json())
    for system in (system_of(live), System.of(stored)):
        sentence = losses_sentence(losses([system], "recall@2"))
        assert sentence == "1 of 2 relevant passages was never retrieved."


DATASET = RetrievalDataset(
    {"q1": "Which moon has geysers?", "q2": "Which planet has rings?"},
    {"q1": {"enceladus": 2, "triton": 1}, "q2": ["saturn"]},
    {"enceladus": "Enceladus has geysers.", "triton": "Triton may have <b>geysers</b>."},
)


@pytest.fixture
def of_moons() -> EvaluationResults:
    script = {
        "Which moon has geysers?": [node("io"), node("triton")],
        "Which planet has rings?": [node("saturn")],
    }
    return evaluate(Scripted(script), DATASET, ["recall@5"], name="bm25")


def test_losses_are_pairs_and_more(of_moons: EvaluationResults) -> None:
    worst = of_moons.worst("recall@5")
    # one of the two relevant passages of q1, the only one of q2
    assert worst == [("q1", 0.5), ("q2", 1.0)]
    assert worst.to_pandas().columns.tolist() == ["query_id", "score", "question"]
    with pytest.raises(InvalidInput, match="a metric that was scored: recall@5"):
        of_moons.worst("recall@6")
    with pytest.raises(InvalidInput, match="n"):
        of_moons.worst("recall@5", -1)


def test_losses_print_question_wanted_and_got(of_moons: EvaluationResults) -> None:
    worst = of_moons.worst("recall@5", 1)
    for printed in (repr(worst), str(worst)):
        text = " ".join(printed.split())
        expected = "relevant enceladus [2] Enceladus has geysers. never retrieved triton [1]"
        why = "1 of 2 relevant passages was never retrieved."
        assert f"q1 Which moon has geysers? {why} {expected}" in text
        assert "rank 2, with another text: “text of triton” bm25 0.50 1. io text of io 2." in text
    # two of q1 and one of q2 are relevant
    assert "1 of 3 relevant passages was never retrieved." in str(worst)
    assert repr(worst).startswith(" Lowest recall@5\n 1 of 2 questions, lowest recall@5 first.")
    html = worst._repr_html_()
    assert "never retrieved" in html
    assert "<b>geysers" not in html


def test_metric_is_the_first_unless_named() -> None:
    scores = Scores(["q1"], {"mrr": [0.5], "ndcg@10": [0.25]})
    assert scores.worst() == [("q1", 0.5)]
    assert str(scores.worst()).startswith(" Lowest mrr")


def test_stored_scores_show_the_same(of_moons: EvaluationResults) -> None:
    stored = Scores.from_json(of_moons.scores.to_json())
    expected = " ".join(repr(of_moons.worst("recall@5")).split())
    for scores in (stored, of_moons.scores, pickle.loads(pickle.dumps(of_moons.scores))):
        assert " ".join(repr(scores.worst("recall@5")).split()) == expected


def test_bare_scores_have_pairs_alone() -> None:
    worst = Scores(["q1"], {"mrr": [0.25]}).worst("mrr")
    assert worst == [("q1", 0.25)]
    assert "q1" in repr(worst)
    assert pickle.loads(pickle.dumps(worst)) == worst
    nothing = repr(Scores([], {"mrr": []}).worst("mrr"))
    assert nothing == " Lowest mrr\n 0 of 0 questions, lowest mrr first."
