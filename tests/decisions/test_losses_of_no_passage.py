"""A question with labels of which none is relevant to the metric has lost nothing, and counts."""

from __future__ import annotations

from support.staged import two

from llama_index_rag_metrics import RetrievalDataset, check_rules, evaluate_stages


def test_a_question_with_grades_below_the_least_counts_as_in_recall() -> None:
    """Recall is 0 of it; rules on losses failed, since it had no value."""
    labels = {"q1": {"a": 2, "z": 2}, "q2": {"b": 1}}
    stages = evaluate_stages(
        two()[0], [], RetrievalDataset({"q1": "one", "q2": "two"}, labels), ["recall(min_grade=2)"]
    )
    assert stages.scores.by_query("recall(min_grade=2)") == {"q1": 0.5, "q2": 0.0}
    assert stages.scores.by_query("lost at retriever") == {"q1": 0.5, "q2": 0.0}
    [verdict] = check_rules(stages.scores, "lost at retriever <= 0.25")
    assert (verdict.outcome, verdict.value, verdict.n) == ("pass", 0.25, 2)
