"""Reports say which facets are missed: of each query, and which are never found."""

from __future__ import annotations

import json

from llama_index_rag_metrics import EvaluationResults, Relevance, Run, metric, score_rankings
from llama_index_rag_metrics.evaluation.evaluation_results import results_report
from llama_index_rag_metrics.report.html import html_page

HOPS = Relevance(facets={"hop 1": ["a", "b"], "hop <2>": ["c"]})
ONE = Relevance(facets={"hop 1": ["a"]})


def results(rankings: dict[str, list[str]], name: str = "bm25") -> EvaluationResults:
    relevance = {"both": HOPS, "again": HOPS, "one": ONE, "plain": Relevance(["a"])}
    scores = score_rankings(relevance, rankings, ["ndcg@5", "complete@2"], name=name)
    return EvaluationResults([], run=Run(rankings, name=name), relevance=relevance, scores=scores)


def bm25_results() -> EvaluationResults:
    # "c" comes third, behind the cutoff of complete@2
    rankings = {"both": ["b", "x", "c"], "again": ["a"], "one": ["x"], "plain": ["a"]}
    return results(rankings)


def test_of_each_query_what_was_found_and_missed() -> None:
    scores = bm25_results().scores
    details = scores.details["complete@2"]
    assert details["both"] == {"found": ["hop 1"], "missed": ["hop <2>"]}
    assert details["one"] == {"found": [], "missed": ["hop 1"]}
    assert "plain" not in details
    assert json.loads(scores.to_json())["details"]["complete@2"]["one"] == details["one"]


def test_one_query_alone() -> None:
    computed = metric("facet_recall@2").compute("", HOPS, ["b", "x", "c"])
    assert computed.metadata == {"found": ["hop 1"], "missed": ["hop <2>"]}
    assert metric("facet_recall").compute("", HOPS, ["b", "c"]).metadata["missed"] == []
    assert metric("complete").compute("", Relevance(groups=[["a"]]), ["a"]).metadata == {}


def test_markdown_and_page_say_it() -> None:
    reported = bm25_results()
    remark = "bm25: 'hop 1' not found, on complete@2"
    listing = results_report([reported], worst=5).listings[0]
    assert remark in {line for query in listing.queries for line in query.remarks}
    assert "hop &#60;2&#62;" in reported.to_markdown()
    assert "hop &lt;2&gt;" in html_page(results_report([reported]))
