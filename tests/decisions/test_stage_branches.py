"""Steps inside retrievers, as LlamaIndex composes them: which one lost a passage."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    BaseRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
)
from llama_index.core.schema import Document, IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import PydanticSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.storage_context import StorageContext
from llama_index.core.tools import QueryEngineTool, RetrieverTool, ToolMetadata
from support.retrievers import Postprocessor, Scripted, node
from support.staged import DATASET, flow_of, lost_of, two

from llama_index_rag_metrics import RetrievalDataset, check_rules, evaluate_stages, record_retrieval

ITEMS = [f"d{number}" for number in range(40)]


@pytest.mark.parametrize("use_async", [False, True])
def test_a_function_that_filters_one_branch(use_async: bool) -> None:
    """y comes from both branches: the filter drops the first's, the function the second's."""
    one, other = two()
    keep = Postprocessor(function=lambda nodes: [each for each in nodes if each.score != 0.3])

    def search(question: str) -> list[NodeWithScore]:
        found: list[NodeWithScore] = keep.postprocess_nodes(one.retrieve(question))
        return found + other.retrieve(question)[:1]

    async def asearch(question: str) -> list[NodeWithScore]:
        found, further = await one.aretrieve(question), await other.aretrieve(question)
        kept: list[NodeWithScore] = await asyncio.to_thread(keep.postprocess_nodes, found)
        return kept + further[:1]

    stages = evaluate_stages(asearch if use_async else search, [], DATASET, ["recall"])
    name = "asearch" if use_async else "search"
    assert lost_of(stages) == {
        ("q1", "c"): name, ("q1", "y"): name, ("q1", "z"): "retriever", ("q2", "n"): "retriever"
    }  # fmt: skip
    assert flow_of(stages) == {"retriever": (4, 2), "Postprocessor": (4, 0), name: (2, 2)}
    assert [tuple(each) for each in stages.branches] == [("Scripted", 3, 2), ("Scripted 2", 2, 1)]


def test_a_filter_over_all_branches_drops_what_both_had() -> None:
    one, other = two()
    keep = Postprocessor(function=lambda nodes: [each for each in nodes if each.score != 0.3])

    def search(question: str) -> list[NodeWithScore]:
        both = [*one.retrieve(question), *other.retrieve(question)]
        once = list({each.node.node_id: each for each in both}.values())
        kept: list[NodeWithScore] = keep.postprocess_nodes(once)
        return kept

    stages = evaluate_stages(search, [], DATASET, ["recall"])
    assert lost_of(stages)["q1", "y"] == "Postprocessor"
    (loss,) = stages.lost("Postprocessor")
    # a, x, y, c: the third that the filter got
    assert str(loss) == "y: relevant, retrieved at 3, dropped by Postprocessor"


def test_an_engine_shows_its_retriever_and_its_postprocessors() -> None:
    fusion = QueryFusionRetriever(
        [*two()], llm=MockLLM(), num_queries=1, similarity_top_k=3, use_async=False
    )
    keep = Postprocessor(function=lambda nodes: [each for each in nodes if each.score != 0.8])
    engine = RetrieverQueryEngine(
        fusion, get_response_synthesizer(llm=MockLLM(), response_mode=ResponseMode.COMPACT), [keep]
    )
    stages = evaluate_stages(engine, [], DATASET, ["recall"])
    assert flow_of(stages) == {
        "retriever": (4, 2),
        "QueryFusionRetriever": (3, 1),
        "Postprocessor": (2, 1),
        "RetrieverQueryEngine": (2, 0),
    }
    assert lost_of(stages)["q1", "c"] == "Postprocessor"


class ByQuestion(PydanticSingleSelector):
    """Takes the first tool for question "one", and the second for others."""

    def __init__(self) -> None:
        pass

    def _select(self, choices: Any, query: QueryBundle) -> Any:
        from llama_index.core.base.base_selector import SelectorResult, SingleSelection

        index = int(query.query_str != "one")
        return SelectorResult(selections=[SingleSelection(index=index, reason="")])

    async def _aselect(self, choices: Any, query: QueryBundle) -> Any:
        return self._select(choices, query)


def test_a_router_asks_one_branch() -> None:
    tools = [RetrieverTool.from_defaults(each, description="x") for each in two()]
    router = RouterRetriever(selector=ByQuestion(), retriever_tools=tools, llm=MockLLM())
    stages = evaluate_stages(router, [], DATASET, ["recall"])
    # c was in the branch that wasn't asked, and so was b
    assert flow_of(stages) == {"retriever": (2, 4), "RouterRetriever": (2, 0)}
    assert [tuple(each) for each in stages.branches] == [("Scripted", 2, 2), ("Scripted 2", 0, 0)]


class InTwo(BaseQuestionGenerator):
    """Asks every engine the question."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None: ...

    def generate(self, tools: Sequence[ToolMetadata], query: QueryBundle) -> list[SubQuestion]:
        asked = query.query_str
        return [SubQuestion(sub_question=asked, tool_name=str(tool.name)) for tool in tools]

    async def agenerate(
        self, tools: Sequence[ToolMetadata], query: QueryBundle
    ) -> list[SubQuestion]:
        return self.generate(tools, query)


def test_sub_questions_are_branches_and_their_engines_filters_are_stages() -> None:
    first = Postprocessor(function=lambda nodes: nodes[:1])
    written = get_response_synthesizer(llm=MockLLM(), response_mode=ResponseMode.COMPACT)
    tools = [
        QueryEngineTool(
            RetrieverQueryEngine(each, written, [first]),
            ToolMetadata(name=f"engine_{number}", description="x"),
        )
        for number, each in enumerate(two())
    ]
    engine = SubQuestionQueryEngine(InTwo(), written, tools, use_async=False)
    stages = evaluate_stages(engine, [], DATASET, ["recall"])
    assert flow_of(stages) == {
        "retriever": (4, 2), "Postprocessor": (2, 2), "SubQuestionQueryEngine": (2, 0)
    }  # fmt: skip
    assert [tuple(each) for each in stages.branches] == [("Scripted", 3, 2), ("Scripted 2", 2, 1)]


def test_a_recursive_retriever_loses_what_its_references_lead_away_from() -> None:
    link = NodeWithScore(node=IndexNode(id_="link", text="see sub", index_id="sub"), score=1.0)
    first = Scripted({"one": [node("a"), link], "two": ["b"]})
    sub = Scripted({"one": ["c"], "two": []})
    recursive = RecursiveRetriever("first", retriever_dict={"first": first, "sub": sub})
    dataset = RetrievalDataset({"q1": "one", "q2": "two"}, {"q1": ["a", "c", "link"], "q2": ["b"]})
    stages = evaluate_stages(recursive, [], dataset, ["recall"])
    assert lost_of(stages) == {("q1", "link"): "RecursiveRetriever"}


def test_auto_merging_loses_leaves_to_their_parent_which_has_their_text() -> None:
    text = "Io has volcanoes and lakes of sulphur everywhere. " * 3
    document = Document(text=text, id_="io")
    nodes = HierarchicalNodeParser.from_defaults(
        chunk_sizes=[128, 32], chunk_overlap=0
    ).get_nodes_from_documents([document])
    store = SimpleDocumentStore()
    store.add_documents(nodes)
    context = StorageContext.from_defaults(docstore=store)
    leaves = get_leaf_nodes(nodes)
    assert len(leaves) > 1
    index = VectorStoreIndex(
        leaves, storage_context=context, embed_model=MockEmbedding(embed_dim=2)
    )
    leaf, own_text = leaves[0].node_id, leaves[0].get_content()
    retriever: Any = index.as_retriever(similarity_top_k=9)
    dataset = RetrievalDataset({"q": "?"}, {"q": [leaf]}, {leaf: own_text})
    merging = AutoMergingRetriever(retriever, context)
    stages = evaluate_stages(merging, [], dataset, ["recall"], corpus=index)
    assert set(lost_of(stages).values()) == {"AutoMergingRetriever"}
    # all vectors are alike: which leaf is first is by chance
    how = r"dropped by AutoMergingRetriever \(was \d in VectorIndexRetriever\), its text is at"
    assert re.search(how, " ".join(str(stages).split()))


def test_a_client_that_sends_no_event_is_recorded_by_hand() -> None:
    def search(question: str) -> list[str]:
        found = ["a", "c"] if question == "one" else ["b"]
        record_retrieval(question, found, asked_by="my database")
        return found[:1]

    stages = evaluate_stages(search, [], DATASET, ["recall"])
    assert lost_of(stages)["q1", "c"] == "search"
    assert [tuple(each) for each in stages.branches] == [("my database", 3, 3)]


def test_what_a_function_builds_anew_for_each_question_is_one_step() -> None:
    one, other = two()

    def search(question: str) -> list[NodeWithScore]:
        asked: list[BaseRetriever] = [one, other]
        fusion = QueryFusionRetriever(
            asked, llm=MockLLM(), num_queries=1, similarity_top_k=2, use_async=False
        )
        return fusion.retrieve(question)

    stages = evaluate_stages(search, [], DATASET, ["recall"])
    assert [each.stage for each in stages.flow] == ["retriever", "QueryFusionRetriever", "search"]

    def new(question: str) -> list[NodeWithScore]:
        return two()[0].retrieve("one")[:1]

    many: Any = {f"q{number}": ["a", "y"] for number in range(30)}
    dataset = RetrievalDataset({question: question for question in many}, many)
    stages = evaluate_stages(new, [], dataset, ["recall"])
    assert flow_of(stages) == {"retriever": (60, 0), "new": (30, 30)}
    assert [tuple(each) for each in stages.branches] == [("Scripted", 60, 60)]


def test_a_filter_with_a_list_that_is_built_anew_is_one_step() -> None:
    """Else a rule on its losses would see those of the first question alone."""

    def search(question: str) -> list[NodeWithScore]:
        found = Listed(dropped=["a"]).postprocess_nodes(two()[0].retrieve("one"))
        return Listed(dropped=["y"]).postprocess_nodes(found)

    many: Any = {f"q{number}": ["a", "y"] for number in range(8)}
    dataset = RetrievalDataset({question: question for question in many}, many)
    stages = evaluate_stages(search, [], dataset, ["recall"], workers=1)
    lost = {"retriever": (16, 0), "Listed": (8, 8), "Listed 2": (0, 8), "search": (0, 0)}
    assert flow_of(stages) == lost


def test_steps_of_the_same_name_are_told_apart() -> None:
    """A postprocessor inside and one behind; one that has the name of a stage of every pipeline."""
    one, _ = two()
    inside = Postprocessor(function=lambda nodes: nodes[:2])

    def cut(question: str) -> list[NodeWithScore]:
        first: list[NodeWithScore] = inside.postprocess_nodes(one.retrieve(question))
        return first

    behind = {"Postprocessor": Postprocessor(function=lambda nodes: nodes[:1]), "index": inside}
    stages = evaluate_stages(cut, behind, DATASET, ["recall@1"])
    assert list(stages) == ["retriever", "Postprocessor", "index 2"]
    assert [each.stage for each in stages.flow] == [
        "retriever", "Postprocessor 2", "cut 2", "Postprocessor", "index 2", "cut"
    ]  # fmt: skip
    assert lost_of(stages)["q1", "y"] == "Postprocessor 2"


OWN_NAMES = ["index", "retriever", "exact search", "approximate search", "cut", "token budget"]


@pytest.mark.parametrize("name", OWN_NAMES)
def test_a_recorded_database_may_be_called_like_a_stage(name: str) -> None:
    def search(question: str) -> list[str]:
        record_retrieval(question, ["a", "c"] if question == "one" else ["b"], asked_by=name)
        return ["a"]

    stages = evaluate_stages(search, [], DATASET, ["recall"])
    assert lost_of(stages) == {
        ("q1", "c"): "search", ("q1", "y"): "retriever", ("q1", "z"): "retriever",
        ("q2", "b"): "search", ("q2", "n"): "retriever",
    }  # fmt: skip
    assert [tuple(each) for each in stages.branches] == [(f"{name} 2", 3, 3)]


def test_recorded_names_that_end_with_numbers_are_kept() -> None:
    def search(question: str) -> list[str]:
        for number in (7, 3):
            record_retrieval(question, ["a", "c"], asked_by=f"shard {number}")
        return ["a"]

    stages = evaluate_stages(search, [], DATASET, ["recall"])
    assert [each.branch for each in stages.branches] == ["shard 7", "shard 3"]


def test_two_filters_of_a_class_are_two_stages_though_they_are_built_anew() -> None:
    """Both branches have a filter: c has .8 in the second, y .3 in both."""

    def search(question: str) -> list[NodeWithScore]:
        low, high = (SimilarityPostprocessor(similarity_cutoff=cutoff) for cutoff in (0.2, 0.85))
        found = low.postprocess_nodes(two()[0].retrieve(question))
        found += high.postprocess_nodes(two()[1].retrieve(question))
        return [each for each in found if each.node.node_id != "y"]

    stages = evaluate_stages(search, [], DATASET, ["recall"], workers=1)
    assert lost_of(stages) == {
        ("q1", "c"): "SimilarityPostprocessor 2", ("q1", "y"): "search",
        ("q1", "z"): "retriever", ("q2", "n"): "retriever",
    }  # fmt: skip


def test_branches_keep_their_names_however_often_and_in_which_order_they_are_asked() -> None:
    one, other = Scripted({"one": ["a", "y"], "two": ["b"]}), Scripted({"one": ["c"], "two": []})
    times = dict.fromkeys(DATASET.queries.values(), 0)

    def search(question: str) -> list[NodeWithScore]:
        times[question] += 1
        order = [one, other] if times[question] % 2 else [other, one]
        return [each for retriever in order for each in retriever.retrieve(question)]

    stages = evaluate_stages(search, [], DATASET, ["recall"], repeats=4)
    assert [tuple(each) for each in stages.branches] == [
        ("Scripted", 3 * 4, 3 * 4), ("Scripted 2", 4, 4)
    ]  # fmt: skip


def test_of_parallel_pipelines_the_step_that_a_passage_came_furthest_to_lost_it() -> None:
    """Whichever finishes first: a came through `Through`, and not through what comes after it."""

    class Early(Keep): ...

    class Through(Keep): ...

    class Late(Keep): ...

    async def search(question: str, wait: Sequence[float]) -> list[NodeWithScore]:
        async def one(steps: Sequence[Keep], seconds: float) -> list[NodeWithScore]:
            found = await two()[0].aretrieve(question)
            await asyncio.sleep(seconds)
            for step in steps:
                found = step.postprocess_nodes(found)
            return found

        late = [Through(dropped=set()), Late(dropped={"a"})]
        both = await asyncio.gather(one([Early(dropped={"a"})], wait[0]), one(late, wait[1]))
        return [*both[0], *both[1]]

    for wait in ((0.0, 0.02), (0.02, 0.0)):

        async def asked(question: str, wait: Sequence[float] = wait) -> list[NodeWithScore]:
            return await search(question, wait)

        stages = evaluate_stages(asked, [], DATASET, ["recall"])
        assert lost_of(stages)["q1", "a"] == "Late"


@pytest.mark.parametrize("wait", [(0.0, 0.02), (0.02, 0.0)])
def test_filters_are_named_in_the_order_in_which_their_branches_began(wait: Any) -> None:
    first, second = (Keep(dropped=set(item)) for item in "ac")

    async def branch(retriever: Scripted, question: str, keep: Keep, seconds: float) -> Any:
        found = await retriever.aretrieve(question)
        await asyncio.sleep(seconds)
        return keep.postprocess_nodes(found)

    async def search(question: str) -> list[NodeWithScore]:
        one, other = two()
        asked = branch(one, question, first, wait[0]), branch(other, question, second, wait[1])
        return [each for found in await asyncio.gather(*asked) for each in found]

    lost = lost_of(evaluate_stages(search, [], DATASET, ["recall"]))
    assert (lost["q1", "a"], lost["q1", "c"]) == ("Keep", "Keep 2")


def test_by_text_what_a_step_inside_does_to_a_text_counts_as_it_does_behind() -> None:
    """Ids stay; of the first a's text is spoilt, of the second what was x's becomes z's."""

    def rewrite(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        for each in nodes:
            each.node.set_content("text of z" if each.node.node_id == "x" else "…")
        return nodes

    texts = {item: f"text of {item}" for item in "azn"}
    dataset = RetrievalDataset({"q": "one"}, {"q": ["a", "z", "n"]}, texts)
    steps = Postprocessor(function=rewrite)
    engine = RetrieverQueryEngine(two()[0], get_response_synthesizer(llm=MockLLM()), [steps])
    inside = evaluate_stages(engine, [], dataset, ["recall"], matcher="exact")
    behind = evaluate_stages(two()[0], [steps], dataset, ["recall"], matcher="exact")
    assert lost_of(inside) == lost_of(behind) == {
        ("q", "a"): "Postprocessor", ("q", "n"): "retriever"
    }  # fmt: skip
    assert [tuple(each) for each in inside.branches] == [("Scripted", 1, 1)]


def test_what_a_step_inside_brings_in_was_not_there_before_it() -> None:
    """Of a, b and c, the branch returns a, `bring` has all, and `drop` loses c."""
    one = Scripted({"?": ["a"]})
    bring = Postprocessor(function=lambda nodes: [*nodes, node("b"), node("c")])
    drop = Postprocessor(function=lambda nodes: nodes[:2])
    engine = RetrieverQueryEngine(one, get_response_synthesizer(llm=MockLLM()), [bring, drop])
    dataset = RetrievalDataset({"q": "?"}, {"q": ["a", "b", "c", "z"]})
    inside = evaluate_stages(engine, [], dataset, ["recall"]).flow[:3]
    behind = evaluate_stages(one, [bring, drop], dataset, ["recall"]).flow
    assert [each[:5] for each in inside] == [each[:5] for each in behind] == [
        ("retriever", 1, 1, 0, 0), ("Postprocessor", 3, 0, 0, 2), ("Postprocessor 2", 2, 1, 0, 0)
    ]  # fmt: skip
    assert [each.reachable for each in inside] == [1 / 4, 3 / 4, 2 / 4]


def test_what_a_recursive_retriever_reads_from_its_nodes_is_of_no_branch() -> None:
    link = NodeWithScore(node=IndexNode(id_="link", text="see", index_id="far"), score=1.0)
    recursive = RecursiveRetriever(
        "first",
        retriever_dict={"first": Scripted({"?": [node("a"), link]})},
        node_dict={"far": TextNode(id_="far", text="the text")},
    )
    dataset = RetrievalDataset({"q": "?"}, {"q": ["a", "far", "z"]})
    stages = evaluate_stages(recursive, [], dataset, ["recall"], corpus=["a", "far"])
    assert [each[:5] for each in stages.flow] == [
        ("index", 2, 1, 0, 0), ("retriever", 1, 0, 0, 0), ("RecursiveRetriever", 2, 0, 0, 1)
    ]  # fmt: skip


def test_a_branch_that_fails_and_one_that_a_cache_hides_are_said() -> None:
    known: dict[str, list[NodeWithScore]] = {}
    broken = Scripted({"one": RuntimeError("down"), "two": ["n"]})

    def search(question: str) -> list[NodeWithScore]:
        if question not in known:
            known[question] = two()[0].retrieve(question)[:1]
            with suppress(RuntimeError):
                broken.retrieve(question)
        return known[question]

    stages = evaluate_stages(search, [], DATASET, ["recall"], repeats=2, workers=1)
    text = " ".join(str(stages).split())
    failed = (
        "a retriever inside failed on 1 question: what only it would have found counts as "
        "never retrieved; Scripted 2: RuntimeError: down"
    )
    assert failed in text
    for results in (stages["retriever"], stages.scores):
        assert any(failed in note for note in check_rules(results, "recall >= 0").notes)
    # the first time y is dropped, and n of q2; c and z never come; from the cache, none is known
    assert {each.stage: each.lost for each in stages.flow} == {"retriever": 2 + 4, "search": 2}
    assert "no step inside the retriever was seen on 2 questions, as behind a cache" in text
    assert "c: relevant, not retrieved (2 times)" in text
    # a rule on what a step lost says that it may have lost more
    notes = check_rules(stages.scores, "lost at search <= 0.5").notes
    assert any("no step inside the retriever was seen on 2 questions" in note for note in notes)


class Tree:
    """A retriever that asks others, may filter all that they returned, and drops some of it."""

    def __init__(self, draw: random.Random, depth: int, names: Iterator[str]) -> None:
        self.name = next(names)
        n = draw.randint(1, 3) if depth > 0 else 0
        self.children = [Tree(draw, depth - draw.randint(1, 2), names) for _ in range(n)]
        self.own = [item for item in ITEMS[:35] if draw.random() < 0.3]
        filtered = {item for item in ITEMS if draw.random() < 0.25}
        self.filtered = filtered if draw.random() < 0.5 else None
        self.dropped = {item for item in ITEMS if draw.random() < 0.25}
        self.retriever = self._retriever()

    def _retriever(self) -> BaseRetriever:
        def retrieve(retriever: BaseRetriever, query: QueryBundle) -> list[NodeWithScore]:
            if not self.children:
                return [node(item) for item in self.own]
            found = [each for child in self.children for each in child.retriever.retrieve(query)]
            if self.filtered is not None:
                keep = type(f"Filter{self.name}", (Keep,), {})(dropped=self.filtered)
                found = keep.postprocess_nodes(found)
            return [each for each in found if each.node.node_id not in self.dropped]

        made: BaseRetriever = type(self.name, (BaseRetriever,), {"_retrieve": retrieve})()
        return made

    def lost(self, item: str, depth: int = 0) -> tuple[int, set[str]] | None:
        """Where it got, and who may have lost it there; None where it comes through."""
        if not self.children:
            return None if item in self.own else (99, {"retriever"})
        below = [child.lost(item, depth + 1) for child in self.children]
        if None not in below:
            nearest = min(each[0] for each in below if each is not None)
            losers = [each[1] for each in below if each is not None and each[0] == nearest]
            return nearest, set().union(*losers)
        if self.filtered is not None and item in self.filtered:
            return depth, {f"Filter{self.name}"}
        return (depth, {self.name}) if item in self.dropped else None


class Listed(BaseNodePostprocessor):
    dropped: list[str]

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return [each for each in nodes if each.node.node_id not in self.dropped]


class Keep(BaseNodePostprocessor):
    dropped: set[str]

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return [each for each in nodes if each.node.node_id not in self.dropped]


@pytest.mark.parametrize("seed", range(40))
def test_any_tree_of_retrievers_loses_as_it_was_drawn(seed: int) -> None:
    tree = Tree(random.Random(seed), 3, (f"R{number}" for number in count()))
    dataset = RetrievalDataset({"q": "?"}, {"q": ITEMS})
    stages = evaluate_stages(tree.retriever, [], dataset, ["recall"], use_async=False)
    lost = {item: where[1] for item in ITEMS if (where := tree.lost(item)) is not None}
    assert {item for _, item in lost_of(stages)} == lost.keys()
    for (_, item), stage in lost_of(stages).items():
        assert stage in lost[item]
    assert sum(each.lost for each in stages.flow) == len(lost)
    kept = [each.kept for each in stages.flow]
    assert kept == sorted(kept, reverse=True)
