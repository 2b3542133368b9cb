"""Where wanted passages are lost, counted over all questions."""

from __future__ import annotations

from typing import Any

import pytest
from support.retrievers import Scripted, node

from llama_index_rag_metrics import EvaluationResults, RetrievalDataset, Scores, evaluate
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
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


def test_each_kind_of_loss_is_counted(results: EvaluationResults) -> None:
    # q1: a has rank 3, b never came, n7 has the text of io; q2: found; q3 failed
    (counted,) = losses([system_of(results)], "recall@2")
    expected = {"never retrieved": 1, "below the cutoff": 1, "under another id": 1}
    assert (counted.n_wanted, counted.by_loss) == (4, expected)
    assert losses_sentence([counted]) == (
        "1 of 4 relevant passages was never retrieved, 1 is below the cutoff, "
        "1 is under another id."
    )


def test_nothing_is_counted_where_no_ranking_is_known() -> None:
    assert losses_sentence(losses([System.of(Scores(["q"], {"mrr": [0.5]}))], "mrr")) == ""


def test_stored_scores_count_what_live_ones_do() -> None:
    # seven are relevant to a question that failed: more than scores keep
    dataset = RetrievalDataset(
        {"q1": "moons?", "q2": "fails?"}, {"q1": ["a", "b"], "q2": list("abcdefg")}
    )
    script: dict[str, Any] = {"moons?": ["a"], "fails?": ConnectionError("refused")}
    live = evaluate(Scripted(script), dataset, ["recall@2"])
    stored = Scores.from_json(live.scores.to_json())
    assert losses_sentence(losses([system_of(live)], "recall@2")) == (
        "1 of 2 relevant passages was never retrieved."
    )
    assert losses_sentence(losses([System.of(stored)], "recall@2")) == (
        "1 of 2 relevant passages was never retrieved."
    )
