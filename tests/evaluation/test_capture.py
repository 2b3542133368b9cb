"""Capturing retrievals: what is recorded, whose it is, and what is left behind."""

import asyncio
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.dispatcher import active_instrument_tags, instrument_tags  # type: ignore[attr-defined]
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import RetrieverTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.retrievers.bm25 import BM25Retriever
from support.retrievers import Postprocessor

from llama_index_rag_metrics import capture, record_retrieval

WORDS = ["saturn", "mars", "venus", "pluto", "earth", "moon"]
REVERSED = Postprocessor(function=lambda nodes: nodes[::-1])
NODES = [TextNode(id_=word, text=f"{word} is far away") for word in WORDS]


def bm25(top_k: int = 2) -> BM25Retriever:
    return BM25Retriever.from_defaults(nodes=NODES, similarity_top_k=top_k)  # type: ignore[arg-type]


def vectors(top_k: int = 2) -> BaseRetriever:
    index = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=4))
    return index.as_retriever(similarity_top_k=top_k)


def ids(nodes: list[NodeWithScore]) -> list[str]:
    return [hit.node.node_id for hit in nodes]


class Broken(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ConnectionError("no route")


def handlers() -> tuple[list[Any], list[Any]]:
    root = get_dispatcher()
    return list(root.event_handlers), list(root.span_handlers)


def test_retrievals_are_recorded_in_order() -> None:
    before = handlers()
    sparse, dense = bm25(), vectors()
    with capture() as session:
        first = sparse.retrieve("saturn")
        second = asyncio.run(dense.aretrieve(QueryBundle("mars")))
    calls = session.calls
    assert [call.query for call in calls] == ["saturn", "mars"]
    assert [list(call.ids) for call in calls] == [ids(first), ids(second)]
    assert list(calls[0].scores or ()) == [hit.score for hit in first]
    assert list(calls[0].texts or ()) == [hit.text for hit in first]
    assert all(call.latency is not None and call.latency > 0 for call in calls)
    assert handlers() == before
    sparse.retrieve("moon")
    assert len(session.calls) == 2


@pytest.mark.parametrize("use_async", [True, False])
def test_members_of_a_fusion_are_part_of_its_call(use_async: bool) -> None:
    fusion = QueryFusionRetriever(
        [bm25(), vectors()], llm=MockLLM(), num_queries=1, use_async=use_async, similarity_top_k=3
    )
    with capture() as session:
        nodes = fusion.retrieve("venus")
    assert [list(call.ids) for call in session.calls] == [ids(nodes)]


def test_postprocessors_of_a_tool_and_of_an_engine_are_part_of_the_call() -> None:
    tool = RetrieverTool.from_defaults(bm25(), description="", node_postprocessors=[REVERSED])
    index = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=4))
    cut = SimilarityPostprocessor(similarity_cutoff=1.1)  # cosines are 1 at most
    engine = index.as_query_engine(llm=MockLLM(), node_postprocessors=[REVERSED, cut])
    with capture() as session:
        tool.call("saturn")
        asyncio.run(tool.acall("saturn"))
        engine.query("saturn")
    straight = ids(bm25().retrieve("saturn"))
    assert [list(call.ids) for call in session.calls] == [straight[::-1], straight[::-1], []]


def test_retrieval_that_fails_is_a_call_with_an_error() -> None:
    with capture() as session:
        with pytest.raises(ConnectionError):
            Broken().retrieve("saturn")
        bm25().retrieve("mars")
    assert [call.error for call in session.calls] == ["ConnectionError: no route", None]


def test_handlers_and_tags_are_gone_after_an_error() -> None:
    before = handlers()

    def fail() -> None:
        assert active_instrument_tags.get()["mine"] == "kept"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), instrument_tags({"mine": "kept"}), capture():
        fail()
    assert handlers() == before
    assert active_instrument_tags.get() == {}


def test_captures_nest() -> None:
    retriever = bm25()
    with capture() as outer:
        retriever.retrieve("saturn")
        with capture() as inner:
            retriever.retrieve("mars")
        retriever.retrieve("venus")
    assert [call.query for call in outer.calls] == ["saturn", "mars", "venus"]
    assert [call.query for call in inner.calls] == ["mars"]


def test_capture_inside_a_retriever_has_calls_of_its_own() -> None:
    class Agentic(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            with capture() as session:
                nodes = bm25().retrieve("mars")
            inner.append(session)
            return nodes

    inner: list[Any] = []
    with capture() as outer:
        Agentic().retrieve("which planet?")
    assert [call.query for call in outer.calls] == ["which planet?"]
    assert [call.query for call in inner[0].calls] == ["mars"]


class Found(Event):
    nodes: list[Any]


class TwoSteps(Workflow):
    """Looks a word up, and then what it found."""

    @step
    async def look(self, ev: StartEvent) -> Found:
        return Found(nodes=await bm25().aretrieve(ev.query))

    @step
    async def look_again(self, ev: Found) -> StopEvent:
        await asyncio.sleep(0.001)
        nodes = await vectors().aretrieve(ev.nodes[0].text)
        return StopEvent(result=ids(nodes))


@pytest.mark.parametrize("at_once", [32])
def test_questions_at_once_do_not_mix(at_once: int) -> None:
    async def ask(number: int) -> Any:
        await asyncio.sleep(number % 3 / 1000)
        with capture() as session:
            await TwoSteps().run(query=WORDS[number % len(WORDS)])
            await asyncio.to_thread(bm25().retrieve, f"again {number}")
        return session

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*map(ask, range(at_once)))

    for number, session in enumerate(asyncio.run(ask_all())):
        word = WORDS[number % len(WORDS)]
        asked = [call.query for call in session.calls]
        assert asked == [word, f"{word} is far away", f"again {number}"]


def test_clients_own_retrieval_is_recorded_by_hand() -> None:
    with capture() as session:
        record_retrieval("moons", ["b", "a"], asked_by="sql", latency=0.5)
        record_retrieval("rings", [], error="timeout")
    moons, rings = session.calls
    assert (list(moons.ids), moons.asked_by, moons.latency) == (["b", "a"], "sql", 0.5)
    assert (list(rings.ids), rings.error) == ([], "timeout")
    record_retrieval("nobody listens", ["a"])


def test_retrieval_inside_a_retriever_is_part_of_its_call() -> None:
    class Recording(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            record_retrieval("inner", ["x"])
            return bm25().retrieve(query_bundle)

    with capture() as session:
        Recording().retrieve("saturn")
    assert [call.query for call in session.calls] == ["saturn"]


def test_nodes_that_a_tool_changes_later_are_recorded_as_they_were() -> None:
    def spoil(nodes: list[NodeWithScore]) -> None:
        for hit in nodes:
            hit.node.set_content("cut")
            hit.node.id_ = "renamed"
            hit.node.metadata["file"] = "other"
            hit.score = -1.0

    retriever = bm25()
    with capture() as session:
        found = [hit.model_copy(deep=True) for hit in retriever.retrieve("saturn")]
        own = [NodeWithScore(node=TextNode(id_="mine", text="mine"), score=1.0)]
        record_retrieval("mars", own)
        spoil(own)
        fresh = vectors().retrieve("pluto")
        expected = [ids(fresh), [hit.score for hit in fresh], [hit.text for hit in fresh]]
        spoil(fresh)
    first, second, third = session.calls
    assert list(first.ids) == ids(found)
    assert (list(second.ids), second.texts, second.scores) == (["mine"], ["mine"], [1.0])
    assert [list(third.ids), third.scores, third.texts] == expected
    kept = session.retrievals[1].nodes
    assert kept is not None
    assert "file" not in kept[0].node.metadata


class Reusing(BaseRetriever):
    """Returns the same object each time, filled anew."""

    node = NodeWithScore(node=TextNode(id_="", text=""))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.node.node.id_ = query_bundle.query_str
        return [self.node]


def emptied(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
    nodes.clear()  # the very list that it is given
    return nodes


def test_retriever_that_reuses_its_nodes_is_recorded_call_by_call() -> None:
    emptying: list[BaseNodePostprocessor] = [Postprocessor(function=emptied)]
    tool = RetrieverTool.from_defaults(Reusing(), description="", node_postprocessors=emptying)
    with capture() as session:
        for word in WORDS:
            Reusing().retrieve(word)
        tool.call("sun")
    assert [list(call.ids) for call in session.calls] == [*([word] for word in WORDS), []]
