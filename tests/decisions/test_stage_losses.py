"""Where relevant passages are lost: equal to a count by hand over scripted pipelines."""

import random
from collections import Counter
from typing import Any

import pytest
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from support.retrievers import ByQuestion, Postprocessor, Scripted, node

from llama_index_rag_metrics import RetrievalDataset, evaluate_stages
from llama_index_rag_metrics.decisions.stages import StageResults

Lost = dict[tuple[str, str], str]
"""Question and relevant passage to the stage that lost it."""

DATASET = RetrievalDataset({"q1": "one", "q2": "two"}, {"q1": [*"acyz"], "q2": ["b", "n"]})


def two() -> tuple[Scripted, Scripted]:
    first = [node("a", score=0.9), node("x", score=0.8), node("y", score=0.3)]
    second = [node("x", score=0.9), node("c", score=0.8), node("y", score=0.3)]
    return (
        Scripted({"one": first, "two": ["b", "x"]}),
        Scripted({"one": second, "two": ["x", "c"]}),
    )


def lost_of(stages: StageResults) -> Lost:
    """Each loss, of which there is one for a passage."""
    lost = {(loss.query_id, loss.item): loss.stage for loss in stages.losses}
    assert len(lost) == len(stages.losses)
    return lost


QUESTIONS = [f"q{number}" for number in range(200)]
ITEMS = [f"d{number}" for number in range(40)]
TOP, KEPT, CUT, BUDGET = 16, 7, 4, 20


def words(item: str) -> str:
    """A text of 1 to 7 words: its tokens, by `str.split`."""
    return " ".join([item] * (1 + int(item[1:]) % 7))


class Script:
    """A retriever of `TOP` passages, a filter, a reranker: by lot."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.relevant = {question: draw.sample(ITEMS, 6) for question in QUESTIONS}
        self.retrieved = {question: draw.sample(ITEMS, TOP) for question in QUESTIONS}
        self.filtered = {question: set(draw.sample(ITEMS, 8)) for question in QUESTIONS}
        self.order = {question: draw.sample(ITEMS, len(ITEMS)) for question in QUESTIONS}

    @property
    def retriever(self) -> Scripted:
        return Scripted(
            {
                question: [
                    NodeWithScore(node=TextNode(id_=item, text=words(item)), score=1 / rank)
                    for rank, item in enumerate(items, 1)
                ]
                for question, items in self.retrieved.items()
            }
        )

    def postprocessors(self) -> dict[str, BaseNodePostprocessor]:
        def filtered(nodes: list[NodeWithScore], question: str) -> list[NodeWithScore]:
            return [each for each in nodes if each.node.node_id not in self.filtered[question]]

        def reranked(nodes: list[NodeWithScore], question: str) -> list[NodeWithScore]:
            order = self.order[question]
            return sorted(nodes, key=lambda each: order.index(each.node.node_id))[:KEPT]

        return {"filter": ByQuestion(function=filtered), "rerank": ByQuestion(function=reranked)}

    def count(self, metric: str) -> Lost:
        """The stage of each loss, one set after the other."""
        lost = Lost()
        for question in QUESTIONS:
            retrieved = self.retrieved[question]
            left = [item for item in retrieved if item not in self.filtered[question]]
            best = sorted(left, key=self.order[question].index)[:KEPT]
            counted = best[:CUT]
            if metric.endswith("tokens"):
                spent = [sum(len(words(one).split()) for one in best[: n + 1]) for n in range(KEPT)]
                counted = [item for item, cost in zip(best, spent, strict=False) if cost <= BUDGET]
            steps = {
                "retriever": retrieved,
                "filter": left,
                "rerank": best,
                "token budget" if metric.endswith("tokens") else "metric's cutoff": counted,
            }
            for item in self.relevant[question]:
                for stage, there in steps.items():
                    if item not in there:
                        lost[question, item] = stage
                        break
        return lost


@pytest.mark.parametrize("metric", [f"recall@{CUT}", f"recall@{BUDGET}tokens"])
@pytest.mark.parametrize("matcher", [None, "text"])
def test_losses_have_the_stage_of_a_count_by_hand(metric: str, matcher: Any) -> None:
    script = Script(seed=7)
    corpus = {item: words(item) for item in ITEMS}
    labels: Any = script.relevant
    dataset = RetrievalDataset({question: question for question in QUESTIONS}, labels, corpus)
    options: Any = {"matcher": matcher, "workers": 16, "tokenizer": str.split}
    steps = script.postprocessors()
    stages = evaluate_stages(script.retriever, steps, dataset, [metric], **options)
    expected = script.count(metric)
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
    assert sum(by_stage.values()) == len(stages.losses)


def test_compressor_that_spoils_a_text_lost_the_passage() -> None:
    """By text, what was cut out of a node is lost there, though the node comes through."""

    def shorten(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        for each in nodes:
            each.node.text = "…"  # type: ignore[attr-defined]
        return nodes

    dataset = RetrievalDataset({"q": "one"}, {"q": ["a", "z"]}, {"a": "text of a", "z": "of z"})
    stages = evaluate_stages(
        two()[0], {"shorten": Postprocessor(function=shorten)}, dataset, ["recall"], matcher="text"
    )
    assert lost_of(stages) == {("q", "a"): "shorten", ("q", "z"): "retriever"}


def test_stage_that_fails_loses_what_it_was_given_and_no_more() -> None:
    def failing(nodes: list[NodeWithScore], question: str) -> list[NodeWithScore]:
        if question == "one":
            raise ValueError("down")
        return nodes

    rerank = {"rerank": ByQuestion(function=failing)}
    stages = evaluate_stages(two()[0], rerank, DATASET, ["recall"])
    assert {(loss.item, loss.stage) for loss in stages.losses} == {
        ("a", "rerank"), ("y", "rerank"), ("c", "retriever"), ("z", "retriever"),
        ("n", "retriever"),
    }  # fmt: skip
    assert tuple(stages.flow[-1]) == ("rerank", 1, 2)
    without = evaluate_stages(two()[0], rerank, DATASET, ["recall"], failed="exclude")
    assert lost_of(without) == {("q2", "n"): "retriever"}


def test_retriever_that_fails_loses_all() -> None:
    script: Any = {"one": RuntimeError("down"), "two": ["b"]}
    stages = evaluate_stages(Scripted(script), {}, DATASET, ["recall"])
    assert {loss.item for loss in stages.losses} >= {"a", "c", "y", "z"}
    assert {loss.stage for loss in stages.losses} == {"retriever"}
