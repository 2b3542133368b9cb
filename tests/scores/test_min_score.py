"""A threshold on the retriever's scores: the same wherever rankings come from."""

from __future__ import annotations

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
@pytest.mark.filterwarnings("ignore:most scores rise", "ignore:min_score leaves nothing")
def test_it_is_the_score_of_what_is_left(
    batch: list[tuple[dict[str, int], Ranking]], min_score: float
) -> None:
    expected = {f"q{number}": grades for number, (grades, _) in enumerate(batch)}
    run = Run({f"q{number}": ranking for number, (_, ranking) in enumerate(batch)})
    left = {query_id: slowly(ranking, min_score) for query_id, ranking in run.items()}
    wanted = score_rankings(expected, left, METRICS).per_query
    assert score_rankings(expected, run, METRICS, min_score=min_score).per_query == wanted
    cut = Run({query_id: ranking.at_least(min_score) for query_id, ranking in run.items()})
    assert {query_id: list(dict.fromkeys(cut[query_id].ids)) for query_id in cut} == left
    assert score_rankings(expected, cut, METRICS).per_query == wanted
    of_cut = score_rankings(expected, cut, METRICS).rankings
    assert score_rankings(expected, run, METRICS, min_score=min_score).rankings == of_cut


RUN = Run(
    {
        "q1": Ranking(["a", "b"], scores=[0.9, 0.5]),
        "q2": Ranking(["a", "b"], scores=[0.5, 0.4]),
        "q3": Ranking(["b"], scores=[-0.1]),
        "q4": Ranking([]),
    }
)
EXPECTED: dict[str, Any] = {"q1": ["b"], "q2": [], "q3": {"a": 0}, "q4": ["a"]}


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".trec"])
@pytest.mark.parametrize("min_score", [None, 0.5, 0.51, -1.0])
def test_stored_runs_give_the_same(tmp_path: Path, ending: str, min_score: float | None) -> None:
    path = tmp_path / f"run{ending}"
    write_run(RUN, path)
    wanted = score_rankings(EXPECTED, RUN, METRICS, min_score=min_score)
    read = score_rankings(EXPECTED, read_run(path), METRICS, min_score=min_score)
    assert read.per_query == wanted.per_query
    left = RUN if min_score is None else RUN.at_least(min_score)
    of_left = score_rankings(EXPECTED, left, METRICS).rankings
    assert wanted.rankings == read.rankings == of_left


def test_a_copy_of_a_low_score_goes_alone() -> None:
    # as behind SimilarityPostprocessor, which leaves the copy of .9
    ranking = Ranking(["d2", "d2"], scores=[0.1, 0.9])
    assert ranking.at_least(0.5).ids == ["d2"]
    scores = score_rankings({"q": ["d2"]}, {"q": ranking}, "mrr", min_score=0.5)
    assert scores.means["mrr"] == 1.0


def test_scores_that_are_missing_are_refused(tmp_path: Path) -> None:
    for scores in (None, [0.5, None], [0.5, math.nan]):
        run = {"q1": Ranking(["a", "b"], scores=scores)}
        with pytest.raises(InvalidInput, match=r"'q1'.*a score of every retrieved passage"):
            score_rankings({"q1": ["a"]}, run, "mrr", min_score=0.1)
        with pytest.raises(InvalidInput, match=r"'q1'.*a score of every retrieved passage"):
            Run(run).at_least(0.1)
    path = tmp_path / "run.jsonl"
    path.write_text('{"query_id": "q1", "retrieved_ids": ["a"]}\n')
    with pytest.raises(ValueError, match="scores"):
        score_rankings({"q1": ["a"]}, read_run(path), "mrr", min_score=0.1)


def test_distances_are_said_wherever_a_threshold_applies(tmp_path: Path) -> None:
    said = "most scores rise with the rank, as distances do: min_score leaves out the best"
    run = {
        "q1": Ranking(["a", "b"], scores=[0.1, 0.9]),
        "q2": Ranking(["a", "b"], scores=[0.2, 0.3]),
        "q3": Ranking(["a", "b"], scores=[0.3, 0.2]),
        "q4": Ranking([]),
    }
    labels = {"q1": ["a"], "q2": ["a"]}
    path = tmp_path / "run.jsonl"
    write_run(run, path)
    assert said in score_rankings(labels, run, "mrr", min_score=0.5).notes
    assert said in score_rankings(labels, read_run(path), "mrr", min_score=0.5).notes
    falling = {"q1": run["q3"], "q2": run["q1"]}
    assert said not in score_rankings(labels, falling, "mrr", min_score=0.5).notes
    assert said not in score_rankings(labels, run, "mrr").notes


def test_a_threshold_above_next_to_all_scores_is_said_with_the_highest(tmp_path: Path) -> None:
    labels = {f"q{n}": ["a"] for n in range(10)}
    run = Run({query_id: Ranking(["a", "b"], scores=[0.83, 0.4]) for query_id in labels})
    run = Run({**run, "q0": Ranking(["a"], scores=[0.9])})
    said = "min_score leaves nothing of {} of 10 rankings: the highest score of all is 0.9"
    path = tmp_path / "run.jsonl"
    write_run(run, path)
    dataset = RetrievalDataset({query_id: query_id for query_id in labels}, labels)
    for min_score, n in ((70, 10), (0.85, 9)):
        assert said.format(n) in score_rankings(labels, run, "mrr", min_score=min_score).notes
        kept = score_rankings(labels, read_run(path), "mrr", min_score=min_score)
        assert said.format(n) in kept.notes

        def asked(query: str) -> list[NodeWithScore]:
            ranking = run[query]
            return [
                NodeWithScore(node=TextNode(id_=node_id), score=score)
                for node_id, score in zip(ranking.ids, ranking.scores or (), strict=True)
            ]

        assert said.format(n) in evaluate(asked, dataset, "mrr", min_score=min_score).scores.notes
        command = ["score", str(path), "--min-score", str(min_score), "--metric", "mrr"]
        qrels = tmp_path / "qrels.json"
        qrels.write_text(json.dumps(labels))
        result = CliRunner().invoke(app, [*command, "--qrels", str(qrels)])
        assert said.format(n) in " ".join(result.output.split())
    assert not score_rankings(labels, run, "mrr", min_score=0.5).notes


def test_what_a_threshold_leaves_out_may_have_been_retrieved() -> None:
    labels = {"q1": ["b"], "q2": ["a"]}
    scores = {"q1": {"a": 0.9, "b": 0.4}, "q2": {"a": 0.9}}
    dataset = RetrievalDataset({query_id: query_id for query_id in labels}, labels)

    def retrieve(query: str) -> list[NodeWithScore]:
        pairs = scores[query].items()
        return [NodeWithScore(node=TextNode(id_=item), score=score) for item, score in pairs]

    printed = " ".join(str(evaluate(retrieve, dataset, "recall@5", min_score=0.5)).split())
    said = "1 of 2 relevant passages was never retrieved with a score of 0.5 or more."
    assert said in printed
    assert "Retrieve more" not in printed
    scores["q1"].pop("b")
    printed = " ".join(str(evaluate(retrieve, dataset, "recall@5")).split())
    assert "1 of 2 relevant passages was never retrieved. Retrieve more than 1 to see" in printed


def test_stored_rankings_tell_their_threshold_as_an_evaluation_does(tmp_path: Path) -> None:
    labels, path = {"q1": ["b"], "q2": ["a"]}, tmp_path / "run.jsonl"
    scores = {"q1": {"a": 0.9, "b": 0.4}, "q2": {"a": 0.9}}
    run, qrels = read_run(scores), tmp_path / "qrels.json"
    write_run(run, path)
    qrels.write_text(json.dumps(labels))
    stored = score_rankings(labels, run, "recall", min_score=0.5)
    of_cut = score_rankings(labels, run.at_least(0.5), "recall", min_score=0.3)
    assert run.at_least(0.5).at_least(0.3).min_score == 0.5
    for each in (
        Scores.from_json(stored.to_json()),
        score_rankings(labels, read_run(path), "recall", min_score=0.5),
    ):
        assert each.min_score == of_cut.min_score == 0.5
    command = ["score", str(path), "--qrels", str(qrels), "-m", "recall", "--min-score", "0.5"]
    written = tmp_path / "scores.json"
    result = CliRunner().invoke(app, [*command, "--json", str(written)])
    printed = " ".join(result.output.split())
    (told,) = json.loads(written.read_text()).values()
    kept = Scores.from_json(json.dumps(told))
    assert kept.min_score == 0.5
    for said in (printed, " ".join(str(kept.worst()).split())):
        assert "never retrieved with a score of 0.5 or more" in said
    assert score_rankings(labels, run, "recall").min_score is None


def test_what_a_threshold_leaves_nothing_of_is_empty_wherever_it_applies(tmp_path: Path) -> None:
    labels: dict[str, Any] = {"q1": ["b"], "q2": ["a"], "q3": []}
    ranked = {"q1": Ranking(["a", "b"], scores=[0.9, 0.6]), "q2": Ranking(["c"], scores=[0.3])}
    run = Run({**ranked, "q3": Ranking(["c"], scores=[0.2]), "q4": Ranking([])})
    path = tmp_path / "run.jsonl"
    write_run(run, path)
    for min_score, empty in ((None, 1), (0.25, 2), (0.5, 3), (1.0, 4)):
        scores = score_rankings(labels, run, "recall", min_score=min_score)
        read = score_rankings(labels, read_run(path), "recall", min_score=min_score)
        cut = run if min_score is None else run.at_least(min_score)
        wanted = score_rankings(labels, cut, "recall").counts
        assert wanted.empty == empty
        assert scores.counts == read.counts == wanted


@pytest.mark.parametrize("value", ["high", math.nan, True])
def test_a_threshold_is_a_number(value: Any) -> None:
    with pytest.raises(InvalidInput, match="min_score: expected a number"):
        score_rankings(EXPECTED, RUN, "mrr", min_score=value)
    with pytest.raises(InvalidInput, match="min_score: expected a number"):
        evaluate(lambda _: ["a"], {"queries": {"q": "?"}, "relevant_docs": {}}, min_score=value)
    with pytest.raises(InvalidInput, match="min_score: expected a number"):
        RUN.at_least(value)


@pytest.mark.parametrize("scores", [["0.5"], [10**400], [[1.0]], [1j], [math.nan], [None]])
def test_what_is_no_number_is_no_score(scores: Any) -> None:
    with pytest.raises(InvalidInput, match="expected a score of every retrieved passage, a number"):
        score_rankings({"q": ["a"]}, {"q": Ranking(["a"], scores=scores)}, "mrr", min_score=0.5)
    with pytest.raises(InvalidInput, match="expected a score of every retrieved passage, a number"):
        Ranking(["a"], scores=scores).at_least(0.5)


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
def test_an_evaluation_is_that_of_llama_index_s_postprocessor(min_score: float) -> None:
    behind = SimilarityPostprocessor(similarity_cutoff=min_score)
    wanted = evaluate(retrieve, DATASET, METRICS, node_postprocessors=[behind])
    results = evaluate(retrieve, DATASET, METRICS, min_score=min_score)
    assert results.scores.per_query == wanted.scores.per_query
    stored = evaluate(retrieve, DATASET, METRICS).run
    again = score_rankings(DATASET.relevance, stored, METRICS, min_score=min_score)
    assert again.rankings == results.scores.rankings == wanted.scores.rankings
    assert [each.retrieved_ids for each in results] == [each.retrieved_ids for each in wanted]
    assert f"of a score from {min_score:g} on" in results.about["retrieved"]


def test_another_threshold_asks_nothing_again(tmp_path: Path) -> None:
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
    with pytest.raises(
        InvalidInput, match=r"(?s)scores of question.*Return nodes that have scores"
    ):
        evaluate(lambda _: ["a"], DATASET, ["mrr"], min_score=0.5)


def test_a_failed_question_needs_none() -> None:
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


def test_what_a_matcher_recognises_keeps_its_score() -> None:
    run = Run({query_id: read(query) for query_id, query in DATASET.queries.items()})
    matched = match_run(run, DATASET, "text")
    assert matched.run["q1"].scores == [0.9, 0.5]
    scores = score_rankings(matched.relevance, matched.run, "recall", min_score=0.6)
    assert scores.by_query("recall") == {"q1": 0.0}


def read(query: str) -> Ranking:
    nodes = retrieve(query)
    return Ranking(
        [node.node_id for node in nodes],
        scores=[node.score for node in nodes],
        texts=[node.text for node in nodes],
    )


def test_what_is_cut_to_nothing_is_empty_wherever_rankings_come_from(tmp_path: Path) -> None:
    labels = {"q1": {"a": 1}, "q2": {"a": 1, "b": 0}}
    run = Run({"q1": Ranking(["a"], scores=[0.5]), "q2": Ranking(["x", "b"], scores=[0.9, 0.8])})
    write_run(run, tmp_path / "run.jsonl")
    stored = score_rankings(labels, run, "mrr", min_score=0.7)
    assert [*stored.empty] == ["q1"]
    read = read_run(tmp_path / "run.jsonl")
    assert score_rankings(labels, read, "mrr", min_score=0.7).counts == stored.counts


def test_infinite_scores_are_scores() -> None:
    run = {"q1": Ranking(["a", "b"], scores=[-math.inf] * 2), "q2": Ranking(["a"], scores=[1.0])}
    scores = score_rankings({"q1": ["a"], "q2": ["a"]}, run, "mrr", min_score=0.5)
    assert scores.by_query("mrr") == {"q1": 0.0, "q2": 1.0}


def test_short_floats_are_the_numbers_that_they_are() -> None:
    """0.7 with 32 bits is below 0.7, as SimilarityPostprocessor finds it."""
    ranking = Ranking(["b", "a"], scores=list(np.array([0.8, 0.7], np.float32)))
    assert Run({"q": ranking}).at_least(0.7)["q"].ids == ["b"]
    scores = score_rankings({"q": ["a"]}, {"q": ranking}, "mrr", min_score=0.7)
    assert scores.by_query("mrr") == {"q": 0.0}
