"""Leaks of live retrieval: by id, by a key of metadata, by a function; and the gate finds one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Response, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from typer.testing import CliRunner

from llama_index_rag_metrics import (
    RetrievalDataset,
    Scores,
    assert_retrieval,
    check_rules,
    compare,
    evaluate,
    evaluate_stages,
    read_run,
    record_retrieval,
    score_rankings,
    write_run,
)
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.runtime.errors import GateFailed, InvalidInput

TENANTS: dict[str, Any] = {"n1": "acme", "n2": "blue", "n3": ["acme", "blue"], "n4": None}
METRICS = ["recall@4", "leak@2", "leaked@4", "permitted_recall@4"]


def nodes() -> list[TextNode]:
    return [
        TextNode(id_=item, text=f"text of {item}", metadata={"tenant": tenant} if tenant else {})
        for item, tenant in TENANTS.items()
    ]


def retrieve(query: str) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=1 - rank / 10) for rank, node in enumerate(nodes())]


def dataset(**parts: Any) -> RetrievalDataset:
    stored = {
        "queries": {"q1": "a?", "q2": "b?"},
        "relevance": {"q1": ["n1", "n2"]},
        "corpus": {item: f"text of {item}" for item in TENANTS},
        "metadata": {"q1": {"tenant": "acme"}, "q2": {"tenant": "blue"}},
        "document_metadata": {item: {"tenant": of} for item, of in TENANTS.items() if of},
    }
    return RetrievalDataset(**{**stored, **parts})


def by_function(question: Any, node: BaseNode) -> bool:
    tenant = node.metadata.get("tenant") or []
    return question["tenant"] not in ([tenant] if isinstance(tenant, str) else tenant)


EXPECTED = {
    # n2 and n4 are forbidden to acme, n1 and n4 to blue: one of the first two, by hand
    "q1": {"recall@4": 1, "leak@2": 1 / 2, "leaked@4": 1, "permitted_recall@4": 1},
    "q2": {"leak@2": 1 / 2, "leaked@4": 1},
}


@pytest.mark.parametrize(
    "forbidden", ["tenant", by_function, {"q1": ["n2", "n4"], "q2": ["n1", "n4"]}]
)
def test_three_ways_to_say_it(forbidden: Any, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    for _ in range(2):  # the second time from the journal, where there are no nodes any more
        results = evaluate(retrieve, dataset(), METRICS, forbidden=forbidden, journal=journal)
        assert results.scores.per_query == EXPECTED
        named = results.scores.details["leaked@4"]["q1"]
        # by a key n4 is unknown: nothing says whose it is
        ids = ["n2"] if forbidden == "tenant" else ["n2", "n4"]
        assert named == {"forbidden_ranks": [int(item[1]) for item in ids], "forbidden_ids": ids}


UNKNOWN = (
    "leaked@4: 2 retrieved passages are unknown, such as 'n4', and not counted as forbidden: "
    "neither the passage nor its document in the dataset has the metadata key"
)


def test_what_nobody_knows_is_noted_wherever_it_is_scored(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    options: Any = {"forbidden": "tenant", "journal": journal}
    for results in (evaluate(retrieve, dataset(), "leaked@4", **options) for _ in range(2)):
        assert UNKNOWN in results.scores.notes
        assert UNKNOWN in check_rules(results, "leaked@4 <= 1").notes
        assert UNKNOWN not in check_rules(results, "failed <= 0").notes
    for name in ("run.jsonl", "run.parquet"):
        write_run(results.run, tmp_path / name)
        again = score_rankings(results.relevance, read_run(tmp_path / name), "leaked@4")
        assert again.per_query == results.scores.per_query
        assert UNKNOWN in again.notes
    cutoff = SimilarityPostprocessor(similarity_cutoff=0.75)  # drops n4
    stages = evaluate_stages(retrieve, [cutoff], dataset(), "leaked@4", forbidden="tenant")
    notes = [UNKNOWN in results.scores.notes for results in stages.values()]
    assert notes == [True, False]


@pytest.mark.parametrize(
    ("of_node", "is_permitted"),
    # what prints alike is alike, as for slices; NaN, a gap in a table, is none
    [(1, True), (1.0, True), ("1", True), ([1.0, 2], True), (2, False), (True, False)],
)
def test_values_of_metadata_are_compared_as_slices_are(of_node: Any, is_permitted: bool) -> None:
    for of_question in (1, 1.0, "1", ["1"]):
        asked = RetrievalDataset({"q": "a?"}, metadata={"q": {"level": of_question}})
        node = TextNode(id_="n", text="text", metadata={"level": of_node})
        found = evaluate(lambda query, node=node: [node], asked, "leaked", forbidden="level")
        assert found.scores.by_query("leaked") == {"q": 0 if is_permitted else 1}


def test_a_value_of_nan_is_none() -> None:
    asked = RetrievalDataset({"q": "a?"}, metadata={"q": {"level": float("nan")}})
    with pytest.raises(InvalidInput, match="'q' lacks it"):
        evaluate(lambda query: ["n"], asked, "leaked", forbidden="level")
    node = TextNode(id_="n", text="text", metadata={"level": float("nan")})
    asked = RetrievalDataset({"q": "a?"}, metadata={"q": {"level": 1}})
    results = evaluate(lambda query: [node], asked, "leaked", forbidden="level")
    assert any("1 retrieved passage is unknown" in note for note in results.scores.notes)


def test_an_unknown_passage_that_is_forbidden_by_id_is_known() -> None:
    both = dataset(forbidden={"q1": ["n4"], "q2": ["n4"]})
    scores = evaluate(retrieve, both, "leak", forbidden="tenant").scores
    assert scores.by_query("leak") == {"q1": 2 / 4, "q2": 2 / 4}
    assert not [note for note in scores.notes if "unknown" in note]


@pytest.mark.parametrize("forbidden", ["tenant", by_function])
def test_the_retrieved_node_decides(forbidden: Any) -> None:
    """Whatever the dataset's document says, or doesn't, as one that was loaded from a file."""
    swapped = {"n1": {"tenant": "blue"}, "n2": {"tenant": "acme"}}
    for document_metadata in ({}, swapped):
        questions = dataset(document_metadata=document_metadata)
        results = evaluate(retrieve, questions, ["leak@2", "leaked@1"], forbidden=forbidden)
        assert results.scores.by_query("leaked@1") == {"q1": 0, "q2": 1}
        assert results.scores.by_query("leak@2") == {"q1": 1 / 2, "q2": 1 / 2}


def test_what_a_node_lacks_its_document_says() -> None:
    def by_text(question: Any, node: BaseNode) -> bool:
        return by_function(question, node) or "n3" in node.get_content()

    for forbidden, of_q1 in (("tenant", 1), (by_function, 1), (by_text, 2)):
        # n2, and by its text n3, of n1 to n3
        bare = evaluate(lambda query: ["n1", "n2", "n3"], dataset(), "leak", forbidden=forbidden)
        assert bare.scores.by_query("leak") == {"q1": of_q1 / 3, "q2": of_q1 / 3}
    chunk = TextNode(text="a part", metadata={"page": 3})
    chunk.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="n1")
    for forbidden in ("tenant", by_function):
        results = evaluate(
            lambda query: [chunk], dataset(), "leaked", match_on="ref_doc_id", forbidden=forbidden
        )
        assert results.scores.by_query("leaked") == {"q1": 0, "q2": 1}


def test_an_agents_searches() -> None:
    retriever = VectorStoreIndex(nodes(), embed_model=MockEmbedding(embed_dim=4)).as_retriever(
        similarity_top_k=4
    )

    async def answer(question: str) -> str:
        await retriever.aretrieve("first")
        await retriever.aretrieve("second")
        return "n1"

    plain = dataset(document_metadata={})
    results = evaluate(answer, plain, "leak", forbidden="tenant")
    assert results.scores.by_query("leak") == {"q1": 1 / 4, "q2": 1 / 4}
    assert UNKNOWN.replace("leaked@4", "leak") in results.scores.notes


def test_what_goes_to_the_model_though_no_search_found_it() -> None:
    async def answer(question: str) -> Response:
        record_retrieval("search", nodes()[2:3])
        return Response("so", source_nodes=[NodeWithScore(node=nodes()[0])])

    questions = dataset(document_metadata={})
    results = evaluate(answer, questions, "leaked", forbidden="tenant", combine="context")
    assert results.scores.by_query("leaked") == {"q1": 0, "q2": 1}  # n1 is acme's


def test_a_function_that_fails_names_what_it_was_called_with() -> None:
    def strict(question: Any, node: BaseNode) -> bool:
        return bool(node.metadata["tenant"] != question["tenant"])

    with pytest.raises(InvalidInput) as caught:
        evaluate(retrieve, dataset(document_metadata={}), "leak", forbidden=strict, workers=1)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "KeyError: 'tenant'" in str(caught.value)
    assert "question 'q1' with the metadata ['tenant'] and retrieved node 'n4'" in str(caught.value)
    # it is asked about a document of the dataset only where recall has to know of what was missed
    first = [NodeWithScore(node=nodes()[0], score=1.0)]
    bare = dataset(document_metadata={}).select(["q1"])
    assert evaluate(lambda query: first, bare, "leak", forbidden=strict).scores.means["leak"] == 0
    with pytest.raises(InvalidInput, match=r"the dataset's document 'n1' with the metadata \[\]"):
        evaluate(lambda query: first, bare, "permitted_recall", forbidden=strict)


def test_recall_says_why_it_has_no_value(tmp_path: Path) -> None:
    """All that is expected is forbidden (q2); or who may see it isn't known (q1)."""
    metric, names = "permitted_recall@4", {"n1": {"tenant": "acme"}}
    relevance = {"q1": ["n1", "n2"], "q2": ["n1"]}
    results = evaluate(
        retrieve, dataset(relevance=relevance, document_metadata=names), metric, forbidden="tenant"
    )
    assert results.scores.by_query(metric) == {}
    assert (
        f"{metric}: no value for 1 of 2 questions, since nothing that is relevant to them is "
        "permitted"
    ) in results.scores.notes
    assert (
        f"{metric}: no value for 1 of 1 questions, since it isn't known who may see 'n2', a label "
        "of 'q1': give the dataset document_metadata with 'tenant'"
    ) in results.scores.notes
    # a label that isn't relevant needn't be known
    graded = dataset(relevance={"q1": {"n1": 1, "n2": 0}}, document_metadata=names)
    assert evaluate(retrieve, graded, metric, forbidden="tenant").scores.means[metric] == 1


@pytest.mark.parametrize("forbidden", ["tenant", {"q1": ["n2", "n4"]}])
def test_a_stored_run_knows_what_was_missed_and_forbidden(forbidden: Any, tmp_path: Path) -> None:
    """n1 is permitted and found; n2 is forbidden, and wasn't retrieved."""
    results = evaluate(lambda query: ["n1"], dataset(), "permitted_recall", forbidden=forbidden)
    assert results.scores.means["permitted_recall"] == 1
    write_run(results.run, tmp_path / "run.jsonl")
    again = score_rankings(results.relevance, read_run(tmp_path / "run.jsonl"), "permitted_recall")
    assert again.means == results.scores.means


def test_the_datasets_own_ids() -> None:
    own = dataset(forbidden={"q2": ["n1"]})
    results = evaluate(retrieve, own, ["leaked@1"])
    assert results.scores.by_query("leaked@1") == {"q1": 0.0, "q2": 1.0}


def test_an_index_that_filters_leaks_nothing() -> None:
    index = VectorStoreIndex(nodes()[:2], embed_model=MockEmbedding(embed_dim=4))
    only = MetadataFilters(filters=[MetadataFilter(key="tenant", value="acme")])
    questions = dataset().select(["q1"])
    open_wide = evaluate(index.as_retriever(), questions, "leaked@2", forbidden="tenant")
    filtered = evaluate(index.as_retriever(filters=only), questions, "leaked@2", forbidden="tenant")
    assert open_wide.scores.means["leaked@2"] == 1
    assert filtered.scores.means["leaked@2"] == 0


@pytest.mark.parametrize("forbidden", ["tenant", by_function, {"q1": ["n2", "n4"]}])
def test_what_is_forbidden_is_nothing_to_miss(forbidden: Any) -> None:
    """n1 is permitted and found; n2, a label too, is rightly kept back."""
    questions, options = dataset().select(["q1"]), {"forbidden": forbidden}
    stages = evaluate_stages(lambda query: ["n1"], [], questions, "permitted_recall", **options)
    assert stages.losses == ()
    assert "n2" not in str(evaluate(lambda query: [], questions, "permitted_recall", **options))


def test_the_stage_that_stops_a_leak() -> None:
    cutoff = SimilarityPostprocessor(similarity_cutoff=0.95)  # keeps n1 alone
    stages = evaluate_stages(
        retrieve, {"cutoff": cutoff}, dataset(), ["leaked@4"], forbidden="tenant"
    )
    leaks = {name: results.scores.by_query("leaked@4") for name, results in stages.items()}
    assert leaks == {"retriever": {"q1": 1, "q2": 1}, "cutoff": {"q1": 0, "q2": 1}}


def test_what_can_not_be() -> None:
    with pytest.raises(InvalidInput, match="what the asker of each question may not see"):
        evaluate(retrieve, dataset(), METRICS)
    lacking = dataset(metadata={"q1": {"tenant": "acme"}})
    with pytest.raises(InvalidInput, match="'q2' lacks it"):
        evaluate(retrieve, lacking, METRICS, forbidden="tenant")
    with pytest.raises(InvalidInput, match="True where the node is forbidden"):
        evaluate(retrieve, dataset(), ["leak"], forbidden=lambda question, node: None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="forbidden is given, but no metric of leaks"):
        evaluate(retrieve, dataset(), ["mrr"], forbidden="tenant")
    apart = dataset(corpus={}, document_metadata={})
    with pytest.raises(InvalidInput, match="documents in the dataset's corpus"):
        evaluate(retrieve, apart, ["permitted_recall"], forbidden="tenant")
    with pytest.raises(InvalidInput, match="known by id"):
        evaluate(retrieve, dataset(), ["permitted_recall"], forbidden="tenant", matcher="text")
    with pytest.raises(InvalidInput, match="only ids of queries"):
        evaluate(retrieve, dataset(), ["leak"], forbidden={"other": ["n1"]})


def test_a_planted_leak_ends_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the question and the node: on the console, in JSON, the step summary, in pytest."""
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    questions, scores = tmp_path / "questions.jsonl", tmp_path / "scores.json"
    clean = dataset(forbidden={"q1": ["elsewhere"]}, document_metadata={})
    planted = dataset(forbidden={"q1": ["elsewhere"], "q2": ["n3"]}, document_metadata={})
    for data, code in ((clean, 0), (planted, 1)):
        data.save(questions)
        results = evaluate(retrieve, RetrievalDataset.load(questions), ["leaked@10"])
        results.scores.to_json(scores)
        arguments = ["gate", str(scores), "--rule", "leaked@10 <= 0"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code
    assert "q2" in result.output
    assert "forbidden: n3, at rank 3" in result.output
    assert "forbidden: n3, at rank 3" in summary.read_text("utf-8")
    printed = json.loads(CliRunner().invoke(app, [*arguments, "--format", "json"]).output)
    (worst,) = printed["verdicts"][0]["worst"]
    assert (worst["query_id"], worst["leaked"]) == ("q2", [[3, "n3"]])
    with pytest.raises(GateFailed, match=r"(?s)q2.*forbidden: n3, at rank 3"):
        assert_retrieval(results, "leaked@10 <= 0")


def test_less_is_better_in_decisions() -> None:
    """A system that leaks less is better, by name, by tally, by mark and by tone."""
    ids = [f"q{number}" for number in range(40)]
    leaky = Scores(ids, {"leaked@10": [1.0] * 30 + [0.0] * 10}, name="leaky")
    tight = Scores(ids, {"leaked@10": [0.0] * 39 + [1.0]}, name="tight")
    comparison = compare({"leaky": leaky, "tight": tight}, "leaky")
    difference = comparison["tight", "leaked@10"]
    assert difference.difference < 0 < difference.gain
    assert (difference.wins, difference.ties, difference.losses) == (30, 9, 1)
    assert difference.verdict.startswith("tight is better than leaky on leaked@10")
    assert comparison.report().decision[0].tone == "best"
    assert leaky.worst("leaked@10", 1) == [("q0", 1.0)]
    third = Scores(ids, {"leaked@10": [1.0] * 35 + [0.0] * 5}, name="third")
    several = compare({"leaky": leaky, "tight": tight, "third": third}, "leaky")
    assert several.decision == "tight is the best of three on leaked@10."


def test_a_rule_that_wants_more_leaks_is_refused() -> None:
    scores = Scores(["q1", "q2"], {"leaked@10": [1.0, 0.0]})
    with pytest.raises(InvalidInput, match=r"leaked@10 <= baseline \+ 0.01"):
        check_rules(scores, "leaked@10 >= baseline - 0.1", baseline=scores)
    kept = check_rules(scores, "leaked@10 <= baseline + 0.1 as observed", baseline=scores)
    assert kept.outcome == "pass"


def test_a_retriever_that_reuses_its_nodes_leaks_in_every_stage_what_it_gave() -> None:
    shared = NodeWithScore(node=TextNode(id_="", text="x"), score=1.0)

    def reusing(query: str) -> list[NodeWithScore]:
        shared.node.id_ = "n1" if query == "a?" else "n2"
        shared.node.metadata["tenant"] = TENANTS[shared.node.id_]
        return [shared]

    stages = evaluate_stages(
        reusing,
        [SimilarityPostprocessor(similarity_cutoff=0.1)],
        dataset(document_metadata={}, corpus={}),
        ["leaked@4"],
        forbidden="tenant",
        workers=1,
    )
    # acme is given what is acme's, blue what is blue's
    assert [results.scores.means["leaked@4"] for results in stages.values()] == [0, 0]
