"""A threshold on the retriever's scores: the same wherever rankings come from."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from support.examples import examples
from typer.testing import CliRunner

from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    evaluate,
    match_run,
    read_run,
    score_rankings,
    write_run,
)
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.rankings.run import Call, combine_calls
from llama_index_rag_metrics.runtime.errors import InvalidInput

METRICS = ["recall", "ndcg@3", "mrr", "judged", "returned@2", "abstained"]
SCORES = st.sampled_from([-2.5, -1.0, 0.0, 0.25, 0.5, 0.5000001, 1.0, 7.0])
ITEMS = st.tuples(st.sampled_from("abcdef"), SCORES)


@st.composite
def questions(draw: st.DrawFn) -> tuple[dict[str, int], Ranking]:
    """Judgements, perhaps none of them relevant, and a ranking: copies, in any order."""
    grades = draw(st.dictionaries(st.sampled_from("abcdefg"), st.integers(-1, 2), max_size=4))
    items = draw(st.lists(ITEMS, max_size=7))
    return grades, Ranking([item for item, _ in items], scores=[score for _, score in items])


def slowly(ranking: Ranking, min_score: float) -> list[str]:
    """What SimilarityPostprocessor leaves, each item once: a copy of a low score goes alone."""
    pairs = zip(ranking.ids, ranking.scores or (), strict=True)
    return list(dict.fromkeys(item for item, score in pairs if float(score or 0.0) >= min_score))


@pytest.mark.slow
@given(st.lists(questions(), min_size=1, max_size=8), SCORES)
@examples(80)
def test_scores_of_what_is_left(
    batch: list[tuple[dict[str, int], Ranking]], min_score: float
) -> None:
    expected = {f"q{number}": grades for number, (grades, _) in enumerate(batch)}
    run = Run({f"q{number}": ranking for number, (_, ranking) in enumerate(batch)})
    left = {query_id: slowly(ranking, min_score) for query_id, ranking in run.items()}
    wanted = score_rankings(expected, left, METRICS).per_query
    cut = run.at_least(min_score)
    assert {query_id: list(dict.fromkeys(cut[query_id].ids)) for query_id in cut} == left
    assert score_rankings(expected, cut, METRICS).per_query == wanted


def test_copy_of_a_low_score_goes_alone() -> None:
    # as behind SimilarityPostprocessor, which leaves the copy of .9
    assert Ranking(["d2", "d2"], scores=[0.1, 0.9]).at_least(0.5).ids == ["d2"]


@pytest.mark.parametrize(
    "scores", [None, [0.5, None], [0.5, math.nan], ["0.5", 1], [10**400, 1], [[1.0], 1], [1j, 1]]
)
def test_value_that_is_no_number_is_no_score(scores: Any) -> None:
    with pytest.raises(InvalidInput, match=r"'q1'.*a score of every retrieved passage, a number"):
        Run({"q1": Ranking(["a", "b"], scores=scores)}).at_least(0.1)


def test_note_says_that_scores_are_distances() -> None:
    said = "most scores rise with the rank, as distances do: min_score leaves out the best"
    rising, falling = (Ranking(["a", "b"], scores=scores) for scores in ([0.1, 0.9], [0.3, 0.2]))
    run = Run({"q1": rising, "q2": rising, "q3": falling, "q4": Ranking([])})
    assert said in score_rankings({"q1": ["a"]}, run.at_least(0.5), "mrr").notes
    assert said not in Run({"q1": falling, "q2": rising}).at_least(0.2).notes


def test_note_on_a_threshold_above_most_scores_has_the_highest(tmp_path: Path) -> None:
    labels = {f"q{n}": ["a"] for n in range(10)}
    run = Run({query_id: Ranking(["a", "b"], scores=[0.83, 0.4]) for query_id in labels})
    run = Run({**run, "q0": Ranking(["a"], scores=[0.9])})
    said = "min_score leaves nothing of {} of 10 rankings: the highest score of all is 0.9"
    path, qrels = tmp_path / "run.jsonl", tmp_path / "qrels.json"
    write_run(run, path)
    qrels.write_text(json.dumps(labels))
    corpus = {"a": "Ants march in columns at night.", "b": "Bees dance to show the way home."}
    dataset = RetrievalDataset({query_id: query_id for query_id in labels}, labels, corpus)

    def asked(query: str) -> list[NodeWithScore]:
        pairs = zip(run[query].ids, run[query].scores or (), strict=True)
        nodes = ((TextNode(id_=item, text=corpus[item]), score) for item, score in pairs)
        return [NodeWithScore(node=node, score=score) for node, score in nodes]

    for min_score, n in ((70, 10), (0.85, 9)):
        assert said.format(n) in run.at_least(min_score).notes
        for matcher in (None, "text"):
            results = evaluate(asked, dataset, "mrr", min_score=min_score, matcher=matcher)
            assert said.format(n) in results.scores.notes
        command = ["score", str(path), "--min-score", str(min_score), "--metric", "mrr"]
        result = CliRunner().invoke(app, [*command, "--qrels", str(qrels)])
        assert said.format(n) in " ".join(result.output.split())
    assert run.at_least(0.5).notes == ()


def test_stored_rankings_show_their_threshold_as_an_evaluation_does(tmp_path: Path) -> None:
    labels, path = {"q1": ["b"], "q2": ["a"]}, tmp_path / "run.jsonl"
    found = {"q1": {"a": 0.9, "b": 0.4}, "q2": {"a": 0.9}}

    def asked(query: str) -> list[NodeWithScore]:
        pairs = found[query].items()
        return [NodeWithScore(node=TextNode(id_=item), score=score) for item, score in pairs]

    dataset = RetrievalDataset({query_id: query_id for query_id in labels}, labels)
    live = evaluate(asked, dataset, "recall", min_score=0.5)
    run, qrels = read_run(found), tmp_path / "qrels.json"
    write_run(run, path)
    qrels.write_text(json.dumps(labels))
    assert run.at_least(0.5).at_least(0.3).min_score == 0.5
    stored = score_rankings(labels, run.at_least(0.5), "recall")
    of_file = Scores.from_json(stored.to_json()).retrieval
    assert of_file is not None
    assert of_file.run.min_score == 0.5
    command = ["score", str(path), "--qrels", str(qrels), "-m", "recall", "--min-score", "0.5"]
    written = tmp_path / "scores.json"
    result = CliRunner().invoke(app, [*command, "--json", str(written)])
    (plain,) = json.loads(written.read_text()).values()
    kept = Scores.from_json(json.dumps(plain))
    said = "1 of 2 relevant passages was never retrieved with a score of 0.5 or more"
    for text in (str(live), result.output, str(kept.worst())):
        assert said in " ".join(text.split())


@pytest.mark.parametrize("value", ["high", math.nan, math.inf, True])
def test_threshold_is_a_number(value: Any) -> None:
    with pytest.raises(InvalidInput, match="min_score: expected a finite number"):
        evaluate(lambda _: ["a"], {"queries": {"q": "?"}, "relevant_docs": {}}, min_score=value)
    with pytest.raises(InvalidInput, match="min_score: expected a finite number"):
        Run({"q": Ranking(["a"], scores=[0.5])}).at_least(value)


NODES = {"how?": [("a", 0.9), ("b", 0.5)], "who?": [("a", 0.5), ("b", 0.4)], "why?": [("b", -0.1)]}
DATASET = RetrievalDataset(
    {"q1": "how?", "q2": "who?", "q3": "why?"},
    {"q1": ["b"], "q2": [], "q3": {"a": 0}},
    {"a": "Ants march in columns at night.", "b": "Bees dance to show the way home."},
)


def retrieve(query: str) -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(id_=item, text=DATASET.corpus[item]), score=score)
        for item, score in NODES[query]
    ]


@pytest.mark.parametrize("min_score", [-0.1, 0.4, 0.5, 0.50001, 2.0])
def test_evaluation_is_that_of_llama_index_s_postprocessor(min_score: float) -> None:
    behind = SimilarityPostprocessor(similarity_cutoff=min_score)
    wanted = evaluate(retrieve, DATASET, METRICS, node_postprocessors=[behind])
    results = evaluate(retrieve, DATASET, METRICS, min_score=min_score)
    assert results.scores.per_query == wanted.scores.per_query
    stored = evaluate(retrieve, DATASET, METRICS).run
    again = score_rankings(DATASET.relevance, stored.at_least(min_score), METRICS)
    for query_id in DATASET.queries:
        rankings = wanted.scores.rankings(query_id)
        assert again.rankings(query_id) == results.scores.rankings(query_id) == rankings
    assert [each.retrieved_ids for each in results] == [each.retrieved_ids for each in wanted]
    assert f"of a score from {min_score:g} on" in results.about["retrieved"]


def test_threshold_that_changes_asks_nothing_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def noting(query: str) -> list[NodeWithScore]:
        asked.append(query)
        return retrieve(query)

    for min_score, abstained in ((0.5, 0.5), (None, 0.0), (0.6, 1.0)):
        journal = tmp_path / "journal.jsonl"
        results = evaluate(
            noting, DATASET, ["abstained"], min_score=min_score, journal=journal, run="r"
        )
        assert results.scores.means["abstained"] == abstained
    assert sorted(asked) == ["how?", "who?", "why?"]


def test_ids_alone_have_no_scores() -> None:
    with pytest.raises(InvalidInput, match=r"(?s)scores of question.*nodes that have scores"):
        evaluate(lambda _: ["a"], DATASET, ["mrr"], min_score=0.5)


def test_failed_question_needs_none() -> None:
    def failing(query: str) -> list[NodeWithScore]:
        if query == "who?":
            raise ConnectionError
        return retrieve(query)

    scores = evaluate(failing, DATASET, METRICS, min_score=0.5).scores
    assert scores.by_query("abstained") == {"q2": 0.0, "q3": 1.0}


def test_scores_of_an_agent_s_calls_do_not_compare() -> None:
    calls = [Call(["a"], scores=[0.9]), Call(["b"], scores=[12.0])]
    with pytest.raises(InvalidInput, match="Those of an agent's several calls don't compare"):
        combine_calls(calls).at_least(0.5)
    assert combine_calls(calls[:1]).at_least(0.5).ids == ["a"]
    assert combine_calls([]).at_least(0.5).ids == []


def test_passage_that_a_matcher_recognises_keeps_its_score() -> None:
    run = Run({query_id: read(query) for query_id, query in DATASET.queries.items()})
    matched = match_run(run, DATASET, "text")
    assert matched.run["q1"].scores == [0.9, 0.5]
    scores = score_rankings(matched.relevance, matched.run.at_least(0.6), "recall")
    assert scores.by_query("recall") == {"q1": 0.0}


def read(query: str) -> Ranking:
    nodes = retrieve(query)
    return Ranking(
        [node.node_id for node in nodes],
        scores=[node.score for node in nodes],
        texts=[node.text for node in nodes],
    )


def test_short_floats_are_the_numbers_that_they_are() -> None:
    """0.7 with 32 bits is below 0.7, as SimilarityPostprocessor finds it."""
    ranking = Ranking(["b", "a"], scores=list(np.array([0.8, 0.7], np.float32)))
    assert Run({"q": ranking}).at_least(0.7)["q"].ids == ["b"]
