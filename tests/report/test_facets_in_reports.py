"""Reports say which facets are missed: of each query, and which are never found."""

from __future__ import annotations

import json

import pytest

from llama_index_rag_metrics import (
    Call,
    EvaluationResults,
    FacetRecall,
    Relevance,
    Run,
    combine_calls,
    metric,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import results_report, system_of
from llama_index_rag_metrics.report.html.page_content import content_of
from llama_index_rag_metrics.scores.rows import facet_sections

HOPS = Relevance.facets({"hop 1": ["a", "b"], "hop <2>": ["c"]})
ONE = Relevance.facets({"hop 1": ["a"]})


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
    assert metric("complete").compute("", Relevance.groups([["a"]]), ["a"]).metadata == {}


def test_a_facet_that_is_never_found_is_said_to_be() -> None:
    (section,) = facet_sections([system_of(bm25_results())])
    (table,) = section.tables
    # of two queries with hop <2> none, of three with hop 1 two; the least found comes first
    assert [(row.label, row.cells[0].value) for row in table.rows] == [
        ("hop <2> (2)", 0.0),
        ("hop 1 (3)", pytest.approx(2 / 3)),
    ]
    assert section.text == "bm25: 'hop <2>' is never found."


def test_several_systems() -> None:
    better = results({"both": ["b", "c"], "again": [], "one": ["a"], "plain": []}, "hybrid")
    (section,) = facet_sections([system_of(bm25_results()), system_of(better)])
    rows = {row.label: [cell.value for cell in row.cells] for row in section.tables[0].rows}
    assert rows == {"hop <2> (2)": [0.0, 0.5], "hop 1 (3)": [pytest.approx(2 / 3)] * 2}
    assert section.text == "bm25: 'hop <2>' is never found."


def test_names_of_one_query_only_make_no_table() -> None:
    relevance = {f"q{n}": Relevance.facets({f"title {n}": ["a"]}) for n in range(3)}
    scores = score_rankings(relevance, {query_id: ["x"] for query_id in relevance}, "complete")
    assert facet_sections([system_of(scores)]) == []


def test_console_markdown_and_page_say_it() -> None:
    reported = bm25_results()
    remark = "bm25: 'hop 1' not found, on complete@2"
    console = str(results_report([reported], worst=5))
    listing = results_report([reported], worst=5).listings[0]
    assert remark in {line for query in listing.queries for line in query.remarks}
    assert "'hop <2>' is never found" in console
    assert "hop &#60;2&#62;" in reported.to_markdown()
    content = content_of(results_report([reported]).queries(), None)  # type: ignore[misc]
    remarks = content.index["remarks"]
    assert remarks[0] == ["bm25: 'hop <2>' not found, on complete@2"]
    assert set(remarks) == {0, 1, 2}


def test_by_which_call_a_facet_had_been_found() -> None:
    sessions = {
        # hop 1 at the first call and again, hop <2> at the third, behind the cutoff of complete@2
        "both": [Call(["x", "b"]), Call(["a"]), Call(["y", "c"])],
        "again": [Call([], error="timeout"), Call(["a"])],  # hop 1 at the second, hop <2> never
        "one": [],  # nothing was looked up
        "plain": [Call(["a"])],
    }
    rankings = {query_id: combine_calls(calls) for query_id, calls in sessions.items()}
    relevance = {"both": HOPS, "again": HOPS, "one": ONE, "plain": Relevance(["a"])}
    scores = score_rankings(relevance, rankings, ["complete@2"], name="agent")
    agent = EvaluationResults([], run=Run(rankings), relevance=relevance, scores=scores)
    (section,) = facet_sections([system_of(agent)])
    _, table = section.tables
    assert (table.title, list(table.head)) == ("Facets by call", ["call 1", "call 2", "call 3"])
    assert [(row.label, [cell.value for cell in row.cells]) for row in table.rows] == [
        ("hop <2> (2)", [0.0, 0.0, 0.5]),
        ("hop 1 (3)", [pytest.approx(1 / 3), pytest.approx(2 / 3), pytest.approx(2 / 3)]),
    ]
    (beside,) = facet_sections([system_of(bm25_results()), system_of(agent)])
    assert [table.title for table in beside.tables[1:]] == ["Facets by call of agent"]
    for page in (str(results_report([agent])), agent.to_markdown()):
        assert "Facets by call" in page


def test_a_metric_that_isnt_registered_has_no_table_by_call() -> None:
    class Mine(FacetRecall):
        name = "my_facets"

    rankings = {query_id: combine_calls([Call(["a"]), Call(["c"])]) for query_id in ("q1", "q2")}
    scores = score_rankings(dict.fromkeys(rankings, HOPS), rankings, [Mine(k=3)])
    agent = EvaluationResults(
        [], run=Run(rankings), relevance=dict.fromkeys(rankings, HOPS), scores=scores
    )
    (section,) = facet_sections([system_of(agent)])
    assert [table.title for table in section.tables] == ["Facets on my_facets@3"]


def test_many_calls_end_in_one_column() -> None:
    calls = [*[Call(["x"])] * 8, Call(["c"]), Call(["c"])]
    rankings = {query_id: combine_calls(calls) for query_id in ("q1", "q2")}
    relevance = dict.fromkeys(rankings, HOPS)
    scores = score_rankings(relevance, rankings, "facet_recall")
    agent = EvaluationResults([], run=Run(rankings), relevance=relevance, scores=scores)
    table = facet_sections([system_of(agent)])[0].tables[1]
    assert list(table.head)[-2:] == ["call 6", "all calls"]
    hops = {row.label: [cell.value for cell in row.cells] for row in table.rows}
    assert hops == {"hop 1 (2)": [0.0] * 7, "hop <2> (2)": [0.0] * 6 + [1.0]}
