"""Stages of a pipeline, with LlamaIndex's own; losses are those of a count by hand."""

import random
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.postprocessor import (
    LLMRerank,
    MetadataReplacementPostProcessor,
    SimilarityPostprocessor,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from support.command_line import columns_of
from support.question_llms import ScriptedLLM
from support.retrievers import ByQuestion, Postprocessor, Scripted, node
from support.runs import ids_of

from llama_index_rag_metrics import (
    EmbeddingSimilarity,
    Relevance,
    RetrievalDataset,
    compare,
    evaluate,
    evaluate_stages,
)
from llama_index_rag_metrics.decisions.stages import LostPassage, StageResults
from llama_index_rag_metrics.evaluation.evaluation_results import _html_of_dict
from llama_index_rag_metrics.report.html import html_page
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, RetrievalFailed

DATASET = RetrievalDataset(
    queries={"q1": "one", "q2": "two", "q3": "three"},
    relevance={"q1": {"a": 2, "c": 1}, "q2": ["b"], "q3": ["c"]},
    corpus={item: f"text of {item}" for item in "abcd"},
)

CUTOFF = SimilarityPostprocessor(similarity_cutoff=0.35)


def retriever() -> Scripted:
    return Scripted(
        {
            "one": [node("a", score=0.9), node("b", score=0.5), node("c", score=0.3)],
            "two": [node("a", score=0.9), node("b", score=0.4)],
            "three": [node("d", score=0.9), node("c", score=0.8)],
        }
    )


def graded(prompt: str) -> str:
    """Grades that prefer the last of the documents that are shown."""
    # the prompt's own example shows ten; those to be ranked come after it
    shown = prompt.rpartition("Let's try this now:")[2].count("\nDocument ")
    return "\n".join(f"Doc: {number}, Relevance: {number}" for number in range(shown, 0, -1))


def test_queries_are_asked_once_and_stages_all_scored() -> None:
    asked, judge = retriever(), ScriptedLLM(graded)
    chain = {"SimilarityPostprocessor": CUTOFF, "LLMRerank": LLMRerank(llm=judge, top_n=2)}
    stages = evaluate_stages(asked, chain, DATASET, ["mrr", "recall@3"], workers=1)
    assert sorted(asked.asked) == ["one", "three", "two"]
    assert len(judge.asked) == 3
    assert list(stages) == ["retriever", "SimilarityPostprocessor", "LLMRerank"]
    rankings = {name: ids_of(results.run) for name, results in stages.items()}
    assert rankings == {
        "retriever": {"q1": ["a", "b", "c"], "q2": ["a", "b"], "q3": ["d", "c"]},
        "SimilarityPostprocessor": {"q1": ["a", "b"], "q2": ["a", "b"], "q3": ["d", "c"]},
        "LLMRerank": {"q1": ["b", "a"], "q2": ["b", "a"], "q3": ["c", "d"]},
    }
    means = {name: dict(results.scores.means) for name, results in stages.items()}
    assert means == {
        "retriever": {"mrr": pytest.approx((1 + 1 / 2 + 1 / 2) / 3), "recall@3": 1.0},
        # c of q1 is gone: recall 1/2
        "SimilarityPostprocessor": {
            "mrr": pytest.approx((1 + 1 / 2 + 1 / 2) / 3),
            "recall@3": pytest.approx((1 / 2 + 1 + 1) / 3),
        },
        "LLMRerank": {
            "mrr": pytest.approx((1 / 2 + 1 + 1) / 3),
            "recall@3": pytest.approx((1 / 2 + 1 + 1) / 3),
        },
    }


def test_passage_under_another_id_is_not_said_to_be_never_retrieved() -> None:
    text = "The kiln fires at 1240 degrees."
    dataset = RetrievalDataset({"q": "?", "r": "?"}, {"q": ["a"], "r": ["b"]}, {"a": text})
    nodes = [TextNode(id_="x", text=text), TextNode(id_="b", text="else")]
    stages = evaluate_stages(
        lambda _: [NodeWithScore(node=node) for node in nodes], {}, dataset, ["recall"]
    )
    assert [(loss.cause, loss.rank) for loss in stages.losses] == [("under another id", None)]
    assert "1 of 2 relevant passages lost: 1 under another id." in str(stages)


def test_stage_may_bring_items_in() -> None:
    def add(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        return [node("c"), *nodes]

    script = Scripted({"one": ["a"], "two": ["b"], "three": ["d"]})
    stages = evaluate_stages(script, {"more": Postprocessor(function=add)}, DATASET, ["mrr"])
    assert [tuple(stage) for stage in stages.flow] == [("retriever", 2, 0), ("more", 4, 0)]


def test_last_stage_is_what_evaluate_finds() -> None:
    chain = {"cutoff": CUTOFF, "reverse": Postprocessor(function=lambda nodes: nodes[::-1])}
    whole = evaluate(retriever(), DATASET, ["mrr", "ndcg@3"], node_postprocessors=[*chain.values()])
    stages = evaluate_stages(retriever(), chain, DATASET, ["mrr", "ndcg@3"])
    alone = evaluate(retriever(), DATASET, ["mrr", "ndcg@3"])
    assert stages["reverse"].scores.per_query == whole.scores.per_query
    assert stages["retriever"].scores.per_query == alone.scores.per_query
    assert [result.metric_vals_dict for result in stages["retriever"]] == [
        result.metric_vals_dict for result in alone
    ]


def test_compare_takes_the_stages_as_they_are() -> None:
    reverse = Postprocessor(function=lambda nodes: nodes[::-1])
    stages = evaluate_stages(retriever(), {"reverse": reverse}, DATASET, ["mrr"])
    difference = compare(stages, "retriever")["reverse", "mrr"]
    # q1: 1 to 1 (c comes first); q2: 1/2 to 1; q3: 1/2 to 1
    assert (difference.wins, difference.ties, difference.losses) == (2, 1, 0)


def test_stage_that_changes_nodes_in_place_does_not_change_the_stage_before() -> None:
    nodes = [node("a", window="the wider text of a"), node("b", window="of b")]
    script = Scripted({"one": nodes, "two": nodes, "three": nodes})
    window = {"window": MetadataReplacementPostProcessor(target_metadata_key="window")}
    stages = evaluate_stages(script, window, DATASET, ["mrr"])
    before, after = (results.run["q1"].texts for results in stages.values())
    assert before is not None
    assert after is not None
    assert list(before) == ["text of a", "text of b"]
    assert list(after) == ["the wider text of a", "of b"]


def test_stage_that_fails_is_counted_there_and_after() -> None:
    def broken(nodes: list[NodeWithScore], question: str) -> list[NodeWithScore]:
        if question == "two":
            raise ValueError("no")
        return nodes

    chain: dict[str, BaseNodePostprocessor] = {"broken": ByQuestion(function=broken)}
    chain["after"] = Postprocessor(function=lambda nodes: nodes[::-1])
    stages = evaluate_stages(retriever(), chain, DATASET, ["mrr"])
    assert stages["retriever"].scores.failed == {}
    for name in chain:
        assert stages[name].scores.failed == {"q2": "ValueError: no"}
        assert stages[name].scores.by_query("mrr")["q2"] == 0
    with pytest.raises(RetrievalFailed, match="q2"):
        evaluate_stages(retriever(), chain, DATASET, ["mrr"], raise_on_error=True)


def test_latency_is_of_the_pipeline_up_to_a_stage() -> None:
    chain = {name: Postprocessor(function=lambda nodes: nodes[:1]) for name in ("one", "two")}
    stages = evaluate_stages(retriever(), chain, DATASET, ["mrr"])
    for query_id in DATASET.queries:
        latencies = [results.run[query_id].latency or 0.0 for results in stages.values()]
        assert 0 < latencies[0] < latencies[1] < latencies[2]


def test_matchers_and_metrics_of_texts_see_every_stage() -> None:
    from llama_index.core.embeddings import MockEmbedding

    metrics = ["recall@3", EmbeddingSimilarity(embed_model=MockEmbedding(embed_dim=4))]
    reverse = Postprocessor(function=lambda nodes: nodes[2:])
    stages = evaluate_stages(retriever(), {"rest": reverse}, DATASET, metrics, matcher="text")  # type: ignore[arg-type]
    assert stages["retriever"].scores.means["recall@3"] == 1.0
    assert stages["rest"].scores.by_query("recall@3") == {"q1": 0.5, "q2": 0.0, "q3": 0.0}
    assert set(stages["retriever"].scores.by_query("embedding_similarity")) == {"q1", "q2", "q3"}
    assert set(stages["rest"].scores.by_query("embedding_similarity")) == {"q1"}
    assert {(loss.query_id, loss.item) for loss in stages.losses} == {
        ("q1", "a"), ("q2", "b"), ("q3", "c")
    }  # fmt: skip


def test_labels_that_a_stage_drops_are_labels_all_the_same() -> None:
    nothing = Postprocessor(function=lambda nodes: [node("x")])
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelWarning)
        evaluate_stages(retriever(), {"nothing": nothing}, DATASET, ["mrr"])
    foreign = Scripted({"one": ["x"], "two": ["y"], "three": ["z"]})
    with pytest.warns(LabelWarning) as caught:
        evaluate_stages(foreign, {"nothing": nothing}, DATASET, ["mrr"])
    assert len(caught) == 1


@pytest.mark.parametrize(
    "postprocessors",
    [[CUTOFF], {"x": sorted}, {"x": "rerank"}, {"retriever": CUTOFF}, DATASET],
    ids=["list", "function", "name", "own", "dataset"],
)
def test_source_that_is_no_postprocessor_is_refused(postprocessors: Any) -> None:
    with pytest.raises(InvalidInput, match="postprocessor"):
        evaluate_stages(retriever(), postprocessors, DATASET, ["mrr"])


def lines(text: str, label: str) -> Sequence[str]:
    return next(line for line in text.splitlines() if line.strip().startswith(label)).split()


def test_printed_report_says_what_each_stage_kept_and_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    chain = {"cutoff": CUTOFF, "rerank": LLMRerank(llm=ScriptedLLM(graded), top_n=2)}
    stages = evaluate_stages(retriever(), chain, DATASET, ["recall@3"], workers=1)
    text = to_text(stages.report(), width=100)
    assert str(stages) == text
    assert _html_of_dict(stages) == stages._repr_html_()  # a notebook takes them for a dict
    assert columns_of(text)["recall@3"] == ["1.00", "0.83", "0.83"]
    # of the four relevant passages, cutoff drops c of q1
    flow = text[text.index("Relevant passages by stage") :]
    kept_and_lost = [lines(flow, stage)[1:3] for stage in ("retriever", "cutoff", "rerank")]
    assert kept_and_lost == [["4", "0"], ["3", "1"], ["3", "0"]]
    assert "1 of 4 relevant passages lost: 1 dropped by cutoff." in text
    assert "Questions that lost passages at cutoff: 1" in text
    assert "c [1] “text of c”: dropped by cutoff (was 3)" in text
    assert repr(stages) == "<StageResults of retriever → cutoff → rerank>"
    page = html_page(stages.report())  # what was lost, and what is worse, is shown on a click
    assert 'data-show="loss dropped by cutoff" title="show them">1</a>' in page
    assert 'data-show="worse 1" title="show them">1</a>' in page
    of_cutoff = ("cutoff", "q1", "c", 1.0, "text of c", 3, "dropped by cutoff")
    assert stages.losses == [LostPassage(*of_cutoff)]
    assert [tuple(stage) for stage in stages.flow] == [
        ("retriever", 4, 0), ("cutoff", 3, 1), ("rerank", 3, 0), ("metric's cutoff", 3, 0)
    ]  # fmt: skip


def test_group_that_is_still_met_is_no_loss() -> None:
    dataset = RetrievalDataset(
        {"q": "one"}, {"q": Relevance(groups=[["a", "c"]])}, {item: item for item in "abc"}
    )
    drop = Postprocessor(function=lambda nodes: [n for n in nodes if n.node.node_id != "a"])
    by_group = evaluate_stages(retriever(), {"drop": drop}, dataset, ["group_recall@5"])
    assert by_group.losses == []
    assert not by_group.report().listings
    # recall wants every item
    by_item = evaluate_stages(retriever(), {"drop": drop}, dataset, ["recall@5"])
    assert [loss.item for loss in by_item.losses] == ["a"]


def test_last_stage_that_always_fails_hides_no_verdict() -> None:
    def fail(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        raise RuntimeError("boom")

    keep, broken = (Postprocessor(function=each) for each in (lambda nodes: nodes, fail))
    stages = evaluate_stages(retriever(), {"keep": keep, "broken": broken}, DATASET, ["recall@3"])
    failed, kept, lost = (statement.text for statement in stages.report().decision)
    assert failed.startswith("broken: Nothing was measured on 3 questions: 3 failed")
    assert kept == "keep and retriever score the same on recall@3, on all 3 questions."
    assert lost == "4 of 4 relevant passages lost: 4 dropped by broken."


def test_each_postprocessor_is_compared_with_the_stage_before_it() -> None:
    queries = {f"q{n}": f"{n}" for n in range(40)}
    dataset = RetrievalDataset(queries, {query_id: ["good"] for query_id in queries})
    chain = {
        "rerank": Postprocessor(function=lambda nodes: nodes[::-1]),
        "keep": Postprocessor(function=lambda nodes: nodes),
        "spoil": Postprocessor(function=lambda nodes: nodes[::-1]),
    }
    script = Scripted({text: ["bad", "worse", "good"] for text in queries.values()})
    stages = evaluate_stages(script, chain, dataset, ["mrr"])
    rows = [(row.system, row.baseline, row.outcome) for row in stages.differences]
    assert rows == [
        ("rerank", "retriever", "better"), ("keep", "rerank", "can't tell"),
        ("spoil", "keep", "worse"),
    ]  # fmt: skip
    texts = [statement.text for statement in stages.report().decision]
    assert texts[0].startswith("rerank is better than retriever on mrr: +0.67 (")
    assert texts[1] == "keep and rerank score the same on mrr, on all 40 questions."
    assert texts[2].startswith("spoil is worse than keep on mrr: −0.67 (")
    # of two stages, the interval is that of `compare`
    pair = {name: stages[name] for name in ("retriever", "rerank")}
    (alone,) = evaluate_stages(script, {"rerank": chain["rerank"]}, dataset, ["mrr"]).differences
    assert alone == compare(pair, "retriever")["rerank", "mrr"]


@pytest.mark.parametrize("new_id", ["", "new-"])
def test_stage_that_drops_what_was_found_has_ids_that_fit(new_id: str) -> None:
    def worse(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        return [node(f"{new_id}{one.node.node_id}") for one in nodes if one.node.node_id == "d"]

    queries = {str(number): str(number) for number in range(9)}
    dataset = RetrievalDataset(queries, {query: ["a"] for query in queries})
    found = Scripted({query: [node("a"), node("d")] for query in queries})
    stages = evaluate_stages(found, {"worse": Postprocessor(function=worse)}, dataset, ["mrr"])
    notes = [note for results in stages.values() for note in results.scores.label_notes]
    # ids that only a later stage has may name the same passages otherwise
    assert len(notes) == bool(new_id)


Lost = dict[tuple[str, str], str]
"""Question and relevant passage to the stage that lost it."""

TWO_QUESTIONS = RetrievalDataset({"q1": "one", "q2": "two"}, {"q1": [*"acyz"], "q2": ["b", "n"]})


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
    stages = evaluate_stages(two()[0], rerank, TWO_QUESTIONS, ["recall"])
    assert {(loss.item, loss.stage) for loss in stages.losses} == {
        ("a", "rerank"), ("y", "rerank"), ("c", "retriever"), ("z", "retriever"),
        ("n", "retriever"),
    }  # fmt: skip
    assert tuple(stages.flow[-1]) == ("rerank", 1, 2)
    without = evaluate_stages(two()[0], rerank, TWO_QUESTIONS, ["recall"], failed="exclude")
    assert lost_of(without) == {("q2", "n"): "retriever"}


def test_retriever_that_fails_loses_all() -> None:
    script: Any = {"one": RuntimeError("down"), "two": ["b"]}
    stages = evaluate_stages(Scripted(script), {}, TWO_QUESTIONS, ["recall"])
    assert {loss.item for loss in stages.losses} >= {"a", "c", "y", "z"}
    assert {loss.stage for loss in stages.losses} == {"retriever"}
