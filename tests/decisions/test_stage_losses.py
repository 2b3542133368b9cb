"""Where relevant passages are lost: equal to a count by hand over scripted pipelines."""

from __future__ import annotations

import random
from collections import Counter
from math import log2
from typing import Any

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from support.retrievers import Postprocessor, Scripted
from support.staged import DATASET, Lost, lost_of, two

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    Scores,
    check_rules,
    evaluate_stages,
)
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.report.why import why_lines
from llama_index_rag_metrics.runtime.errors import InvalidInput

QUESTIONS = [f"q{number}" for number in range(200)]
ITEMS = [f"d{number}" for number in range(40)]
INDEXED = ITEMS[:35]
TOP, KEPT, CUT, BUDGET = 12, 7, 4, 20


def words(item: str) -> str:
    """A text of 1 to 7 words: its tokens, by `str.split`."""
    return " ".join([item] * (1 + int(item[1:]) % 7))


class Script:
    """Two branches of ten passages, a fusion to `TOP`, a filter, a reranker: by lot."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.relevant = {question: draw.sample(ITEMS, 6) for question in QUESTIONS}
        self.branches = [
            {question: draw.sample(INDEXED, 10) for question in QUESTIONS} for _ in range(2)
        ]
        self.filtered = {question: set(draw.sample(ITEMS, 8)) for question in QUESTIONS}
        self.order = {question: draw.sample(ITEMS, len(ITEMS)) for question in QUESTIONS}

    @property
    def dataset(self) -> RetrievalDataset:
        relevant: Any = self.relevant
        return RetrievalDataset({question: question for question in QUESTIONS}, relevant)

    def fusion(self, *, use_async: bool = False) -> QueryFusionRetriever:
        scripted: list[BaseRetriever] = [
            Scripted(
                {
                    question: [
                        NodeWithScore(node=TextNode(id_=item, text=words(item)), score=1 / rank)
                        for rank, item in enumerate(items, 1)
                    ]
                    for question, items in branch.items()
                }
            )
            for branch in self.branches
        ]
        return QueryFusionRetriever(
            scripted,
            llm=MockLLM(),
            num_queries=1,
            similarity_top_k=TOP,
            use_async=use_async,
            mode="reciprocal_rerank",  # type: ignore[arg-type]
        )

    def postprocessors(self) -> dict[str, BaseNodePostprocessor]:
        return {"filter": Filter(script=self), "rerank": Rerank(script=self)}

    def count(self, metric: str, *, knows_index: bool) -> Lost:
        """The stage of each loss, one set after the other; fusion as LlamaIndex itself does it."""
        fusion, lost = self.fusion(), Lost()
        for question in QUESTIONS:
            fused = [each.node.node_id for each in fusion.retrieve(question)]
            left = [item for item in fused if item not in self.filtered[question]]
            best = sorted(left, key=self.order[question].index)[:KEPT]
            counted = best[:CUT]
            if metric.endswith("tokens"):
                spent = [sum(len(words(one).split()) for one in best[: n + 1]) for n in range(KEPT)]
                counted = [item for item, cost in zip(best, spent, strict=False) if cost <= BUDGET]
            steps = {
                "index": INDEXED,
                "retriever": [item for branch in self.branches for item in branch[question]],
                "QueryFusionRetriever": fused,
                "filter": left,
                "rerank": best,
                "token budget" if metric.endswith("tokens") else "cut": counted,
            }
            if not knows_index:
                del steps["index"]
            for item in self.relevant[question]:
                for stage, there in steps.items():
                    if item not in there:
                        lost[question, item] = stage
                        break
        return lost


class Filter(BaseNodePostprocessor):
    script: Any

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        assert query_bundle is not None
        dropped = self.script.filtered[query_bundle.query_str]
        return [each for each in nodes if each.node.node_id not in dropped]


class Rerank(BaseNodePostprocessor):
    script: Any

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        assert query_bundle is not None
        order = self.script.order[query_bundle.query_str]
        return sorted(nodes, key=lambda each: order.index(each.node.node_id))[:KEPT]


@pytest.mark.slow
@pytest.mark.parametrize("metric", [f"recall@{CUT}", f"recall@{BUDGET}tokens"])
@pytest.mark.parametrize("matcher", [None, "exact"])
@pytest.mark.parametrize("use_async", [False, True])
def test_every_loss_has_the_stage_of_a_count_by_hand(
    metric: str, matcher: Any, use_async: bool
) -> None:
    script = Script(seed=7)
    dataset, by_id = script.dataset, matcher is None
    if not by_id:  # texts of all passages, so that labels are recognised by them
        corpus = {item: words(item) for item in ITEMS}
        relevant: Any = script.relevant
        dataset = RetrievalDataset(dataset.queries, relevant, corpus)
    stages = evaluate_stages(
        script.fusion(use_async=use_async),
        script.postprocessors(),
        dataset,
        [metric],
        corpus=INDEXED if by_id else None,
        matcher=matcher,
        workers=16,
        tokenizer=str.split,
    )
    expected = script.count(metric, knows_index=by_id)
    assert lost_of(stages) == expected

    # the sum is what is missing: recall's complement, 6 relevant passages a question
    recall = stages["rerank"].scores.means[metric]
    assert len(expected) == round((1 - recall) * 6 * len(QUESTIONS))
    by_stage = Counter(expected.values())
    assert {each.stage: each.lost for each in stages.flow} == by_stage
    left = 6 * len(QUESTIONS)
    for each in stages.flow:
        left -= each.lost
        assert each.kept == left
    scores = stages.scores
    for stage, n in by_stage.items():
        assert scores.means[f"lost at {stage}"] == pytest.approx(n / 6 / len(QUESTIONS))
    assert sum(by_stage.values()) == len(stages.losses)


def test_branches_show_what_they_alone_found() -> None:
    script = Script(seed=8)
    stages = evaluate_stages(script.fusion(), [], script.dataset, ["recall"])
    found = [
        {(question, item) for question in QUESTIONS for item in branch[question]}
        & {(question, item) for question in QUESTIONS for item in script.relevant[question]}
        for branch in script.branches
    ]
    assert [tuple(branch) for branch in stages.branches] == [
        ("Scripted", len(found[0]), len(found[0] - found[1])),
        ("Scripted 2", len(found[1]), len(found[1] - found[0])),
    ]


def test_branches_that_are_asked_in_threads_of_their_own_loops_are_seen() -> None:
    script = Script(seed=9)
    fusion = script.fusion(use_async=True)
    stages = evaluate_stages(
        fusion, script.postprocessors(), script.dataset, ["recall@4"], use_async=False
    )
    assert lost_of(stages) == script.count("recall@4", knows_index=False)
    assert not stages["retriever"].scores.notes


def test_one_of_a_group_is_enough_at_every_stage() -> None:
    one, other = two()

    def search(question: str) -> list[NodeWithScore]:
        return [*one.retrieve(question)[:1], *other.retrieve(question)[:1]]

    groups = {"q1": Relevance.groups([["y", "a"], ["c", "z"], ["n"]])}
    stages = evaluate_stages(
        search, [], RetrievalDataset({"q1": "one"}, groups), ["group_recall"], corpus=["c", "y"]
    )
    # a meets the first; c of the second was in a branch; the third has nothing in the index
    assert lost_of(stages) == {("q1", "c"): "search", ("q1", "n"): "index"}
    assert [each.reachable for each in stages.flow] == [None] * 3


def test_a_compressor_that_spoils_a_text_lost_the_passage() -> None:
    """By text, what was cut out of a node is lost there, though the node comes through."""

    def shorten(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        for each in nodes:
            each.node.text = "…"  # type: ignore[attr-defined]
        return nodes

    dataset = RetrievalDataset({"q": "one"}, {"q": ["a", "z"]}, {"a": "text of a", "z": "of z"})
    stages = evaluate_stages(
        two()[0], {"shorten": Postprocessor(function=shorten)}, dataset, ["recall"], matcher="exact"
    )
    assert lost_of(stages) == {("q", "a"): "shorten", ("q", "z"): "retriever"}


class Failing(BaseNodePostprocessor):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is not None and query_bundle.query_str == "one":
            raise ValueError("down")
        return nodes


def test_a_stage_that_fails_loses_what_it_was_given_and_no_more() -> None:
    stages = evaluate_stages(
        two()[0], {"rerank": Failing()}, DATASET, ["recall"], corpus=[*"abcxyz"]
    )
    assert {(loss.item, loss.stage, loss.failed) for loss in stages.losses} == {
        ("a", "rerank", True), ("y", "rerank", True), ("c", "retriever", False),
        ("z", "retriever", False), ("n", "index", False),
    }  # fmt: skip
    *counts, reachable = stages.flow[-1]
    assert (counts, reachable) == (["rerank", 1, 2, 2, 0], 1 / 4)
    # a failed question counts: 2 of 4, and 0 of 2
    assert stages.scores.by_query("lost at rerank") == {"q1": 0.5, "q2": 0.0}
    without = evaluate_stages(
        two()[0], {"rerank": Failing()}, DATASET, ["recall"], failed="exclude"
    )
    assert lost_of(without) == {("q2", "n"): "retriever"}


@pytest.mark.parametrize("failing", ["retriever", "rerank"])
def test_what_is_not_in_the_index_is_lost_there_whatever_fails(failing: str) -> None:
    script: Any = {"one": RuntimeError("down") if failing == "retriever" else ["a"], "two": ["b"]}
    behind = {"rerank": Failing()} if failing == "rerank" else {}
    stages = evaluate_stages(Scripted(script), behind, DATASET, ["recall"], corpus=[*"abcy"])
    failed = {("a", failing)} | ({("c", failing), ("y", failing)} if not behind else set())
    assert {(loss.item, loss.stage) for loss in stages.losses if loss.failed} == failed
    assert {loss.item for loss in stages.lost("index")} == {"z", "n"}
    assert stages.flow[0][:3] == ("index", 4, 2)
    text = str(stages)
    assert "z: relevant, not in the index" in text
    assert ("c: relevant, not retrieved" in text) == (failing == "rerank")


def test_what_a_perfect_next_stage_could_reach_is_the_ideal_of_what_is_kept() -> None:
    labels = {"q1": {"a": 1, "c": 3, "x": 2}}
    stages = evaluate_stages(
        two()[0],
        {"first": Postprocessor(function=lambda nodes: nodes[:1])},
        RetrievalDataset({"q1": "one"}, labels),
        ["ndcg@2", "recall@1"],
    )
    # of grades 3, 2 and 1, what is kept are 2 and 1, then 1 alone; discounts are 1 and log2(3)
    ideal = 3 + 2 / log2(3)
    reachable = [each.reachable for each in stages.flow]
    assert reachable == pytest.approx([(2 + 1 / log2(3)) / ideal, 1 / ideal, 1 / ideal])


class Alternating(BaseNodePostprocessor):
    """Drops the first passage every second time."""

    times: int = 0

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        self.times += 1
        return nodes[1:] if self.times % 2 else nodes


def test_of_repeats_a_loss_is_the_mean_of_the_runs() -> None:
    dataset = RetrievalDataset({"q1": "one"}, {"q1": ["a", "c"]})
    stages = evaluate_stages(
        two()[0], {"drop": Alternating()}, dataset, ["recall"], repeats=2, workers=1
    )
    # a is dropped once of two times; c never came
    assert stages.scores.means["lost at drop"] == 1 / 4
    assert stages.scores.means["lost at retriever"] == 1 / 2
    assert [(loss.item, loss.stage) for loss in stages.losses] == [
        ("a", "drop"), ("c", "retriever"), ("c", "retriever")
    ]  # fmt: skip
    assert "asked 2 times" in str(stages)
    assert "a: relevant, retrieved at 1, dropped by drop" in str(stages)
    assert Scores.from_json(stages.scores.to_json()).means == stages.scores.means


def test_a_gate_judges_what_a_stage_loses() -> None:
    script = Script(seed=7)
    stages = evaluate_stages(
        script.fusion(), script.postprocessors(), script.dataset, ["recall@4"], workers=16
    )
    n = sum(stage == "filter" for stage in script.count("recall@4", knows_index=False).values())
    share = n / 6 / len(QUESTIONS)
    report = check_rules(
        stages.scores,
        [
            f"lost at filter <= {share + 0.001}",
            f"lost at filter <= {share - 0.001}",
            "lost at filter <= baseline",
            "lost at rerank <= 0.9 at 95%",
        ],
        baseline=stages.scores,
    )
    assert [verdict.outcome for verdict in report.verdicts] == ["pass", "fail", "pass", "pass"]
    shown = to_text(report.report(), width=100)
    assert "dropped by filter (was" in shown
    with pytest.raises(InvalidInput, match="<= or <"):
        check_rules(stages.scores, ["lost at filter >= baseline"], baseline=stages.scores)


@pytest.mark.parametrize("corpus", [[], "", 7, [7], {}])
def test_a_corpus_that_cannot_be_read_is_refused(corpus: Any) -> None:
    with pytest.raises(InvalidInput, match="corpus"):
        evaluate_stages(two()[0], [], DATASET, ["recall"], corpus=corpus)


def test_a_corpus_of_texts_is_refused_where_labels_are_texts() -> None:
    dataset = RetrievalDataset({"q": "one"}, expected_texts={"q": ["text of a"]})
    with pytest.raises(InvalidInput, match="exact"):
        evaluate_stages(two()[0], [], dataset, ["recall"], corpus=["a"], matcher="exact")


def test_exact_search_shows_what_an_approximation_lost() -> None:
    approximate = Scripted({"one": ["a", "x"], "two": ["b", "n"]})
    exact = Scripted({"one": ["c", "a", "y"], "two": RuntimeError("too slow")})
    stages = evaluate_stages(
        approximate, [], DATASET, ["recall"], compare_exact=exact, corpus=["a", "b", "c", "n", "y"]
    )
    # y is deeper than the approximate search ever went; z isn't in the index
    assert lost_of(stages) == {
        ("q1", "c"): "approximate search", ("q1", "y"): "retriever", ("q1", "z"): "index"
    }  # fmt: skip
    assert [each.stage for each in stages.flow] == ["index", "retriever", "approximate search"]
    assert "exact search failed on 1 question: RuntimeError: too slow" in str(stages)


def test_exact_search_that_returns_less_is_said() -> None:
    approximate = Scripted({"one": ["a", "x"], "two": ["b", "n"]})
    exact = Scripted({"one": ["c"], "two": ["b"]})
    stages = evaluate_stages(approximate, [], DATASET, ["recall"], compare_exact=exact)
    assert "let both return as many" in " ".join(str(stages).split())


def test_a_question_whose_passages_are_not_in_the_index_says_so() -> None:
    stages = evaluate_stages(
        two()[0], [], DATASET, ["recall@5"], corpus=["a", "b", "c"], compare_exact=two()[1]
    )
    queries = stages.report().queries
    assert queries is not None
    told = queries().answer
    assert told is not None
    (dropped,) = why_lines(told(0, 0))
    assert dropped.endswith("dropped, the first by approximate search (was 2 in exact search).")
    assert why_lines(told(1, 0)) == ["1 of 2 relevant passages is not in the index."]
