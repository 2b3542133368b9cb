"""What a person sees of sessions: rows, figures, and a question unfolded to its calls."""

from html import unescape

import pandas as pd
import pytest
from rich.console import Console

from llama_index_rag_metrics import EvaluationResults, Relevance, Run, score_rankings
from llama_index_rag_metrics.evaluation.evaluation_results import results_report
from llama_index_rag_metrics.rankings.run import Call, combine_calls
from llama_index_rag_metrics.report.terminal import print_report

# q1: a at the first call, b at the third; the second asks the first's words again
CALLS = {
    "q1": [
        Call(["a", "x"], query="Saturn", asked_by="search", latency=0.5, tokens=[3, 4]),
        Call(["x", "a"], query="saturn", asked_by="search"),
        Call(["b"], query="<b>rings</b>", asked_by="lookup"),
    ],
    "q2": [Call(query="Mars", error="timeout")],
    "q3": [],
}
RELEVANCE = {"q1": Relevance({"a": 2, "b": 1}), "q2": Relevance(["c"]), "q3": Relevance(["c"])}
NAMES = ["recall", "mrr"]


@pytest.fixture
def results() -> EvaluationResults:
    rankings = {query_id: combine_calls(calls) for query_id, calls in CALLS.items()}
    run = Run(rankings, name="agent", queries={"q1": "Rings?"})
    scores = score_rankings(RELEVANCE, run, NAMES)
    return EvaluationResults(scores)


def test_calls_are_rows(results: EvaluationResults) -> None:
    assert results.calls == [
        ("q1", 1, "Saturn", 1, 0.5),
        ("q1", 2, "saturn", 0, None),
        ("q1", 3, "<b>rings</b>", 1, None),
        ("q2", 1, "Mars", 0, None),
    ]
    assert [*pd.DataFrame(results.calls)] == [
        *("query_id", "number", "query", "new_relevant", "latency")
    ]


def test_note_says_that_calls_are_of_the_first_run() -> None:
    relevance = {query_id: Relevance(facets={"planet": ["a"]}) for query_id in ("q1", "q2")}
    once, again = (
        Run({query_id: combine_calls([Call([item])]) for query_id in relevance}) for item in "ax"
    )
    twice = Run(repeats=[once, again])
    for run, is_of_several in ((once, False), (twice, True)):
        scores = score_rankings(relevance, run, ["mrr", "facet_recall"])
        results = EvaluationResults(scores)
        assert ("in the first run" in results.to_markdown()) == is_of_several


LINES = [
    "2 passages, 1 relevant: “Saturn” (search)",
    "2 passages, 1 relevant, none new: “saturn” (search)",
    "failed (timeout): “Mars”",
]


def test_outputs_of_a_question(
    results: EvaluationResults, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(results_report({"agent": results}, worst=3), console=Console(width=160))
    pages = [capsys.readouterr().out, results._repr_html_(), results.to_markdown()]
    for page in pages:
        plain = unescape(page).replace("\\", "")
        assert [line for line in LINES if line not in plain] == []
        assert "1 passage, 1 relevant: “<b>rings</b>” (lookup)" in plain
    assert "<b>rings" not in pages[1]
