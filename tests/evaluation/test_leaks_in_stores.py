"""Leaks of vector stores, with a filter by tenant, with a wrong one and with none.

Passage n and question n + .25 lie on a circle at angles of their numbers, so that the ten nearest
to question n are n + 0, 1, -1, 2, -2, 3, -3, 4, -4, 5. The tenant of passage n, and of question n,
is n modulo 4. The labels of question n are n and n + 12, of its own tenant, and n + 1, of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import cos, sin
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
)
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore
from support.scripted import ScriptedFunctions
from support.vector_servers import pgvector_store

from llama_index_rag_metrics import RetrievalDataset, check_rules, evaluate

TENANTS = ["acme", "blue", "coral", "dune"]
IDS = [str(UUID(int=n)) for n in range(90)]  # Qdrant's local mode takes no other ids
ASKED = range(20, 60)
METRICS = ["leak@10", "leaked@10", "permitted_recall@10"]
DOCUMENT_METADATA = {item: {"tenant": TENANTS[n % 4]} for n, item in enumerate(IDS)}


class OnACircle(BaseEmbedding):
    """The number at the end of a text, as an angle."""

    def _get_text_embedding(self, text: str) -> list[float]:
        angle = float(text.rsplit(maxsplit=1)[-1]) * 0.015
        return [cos(angle), sin(angle)]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def simple(folder: Path, cleanup: ExitStack) -> Any:
    return SimpleVectorStore()


def qdrant(folder: Path, cleanup: ExitStack) -> Any:
    client = pytest.importorskip("qdrant_client", reason="the Qdrant client isn't installed")
    module = pytest.importorskip("llama_index.vector_stores.qdrant", reason="no Qdrant store")
    return module.QdrantVectorStore("leaks", client=client.QdrantClient(location=":memory:"))


def chroma(folder: Path, cleanup: ExitStack) -> Any:
    chromadb = pytest.importorskip("chromadb", reason="Chroma isn't installed")
    module = pytest.importorskip("llama_index.vector_stores.chroma", reason="no Chroma store")
    collection = chromadb.PersistentClient(str(folder)).create_collection("leaks")
    return module.ChromaVectorStore(chroma_collection=collection)


def lancedb(folder: Path, cleanup: ExitStack) -> Any:
    module = pytest.importorskip("llama_index.vector_stores.lancedb", reason="no LanceDB store")
    return module.LanceDBVectorStore(uri=str(folder))


def pgvector(folder: Path, cleanup: ExitStack) -> Any:
    return cleanup.enter_context(pgvector_store("leaks"))


@pytest.fixture(params=[simple, qdrant, chroma, lancedb, pgvector], scope="module")
def index(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VectorStoreIndex]:
    nodes = [
        TextNode(id_=item, text=f"passage {n}", metadata={"tenant": TENANTS[n % 4]})
        for n, item in enumerate(IDS)
    ]
    for node in nodes:
        node.excluded_embed_metadata_keys = ["tenant"]
    build: Callable[[Path, ExitStack], Any] = request.param
    with ExitStack() as cleanup:
        storage = StorageContext.from_defaults(
            vector_store=build(tmp_path_factory.mktemp("store"), cleanup)
        )
        yield VectorStoreIndex(nodes, storage_context=storage, embed_model=OnACircle())


def dataset(**parts: Any) -> RetrievalDataset:
    return RetrievalDataset(
        {f"q{n}": f"question {n}.25" for n in ASKED},
        {f"q{n}": [IDS[n], IDS[n + 1], IDS[n + 12]] for n in ASKED},
        {item: f"passage {n}" for n, item in enumerate(IDS)},
        {f"q{n}": {"tenant": TENANTS[n % 4]} for n in ASKED},
        **parts,
    )


def asking(index: VectorStoreIndex, tenant_of: Callable[[str], str | None]) -> Any:
    def retrieve(query: str) -> list[NodeWithScore]:
        tenant = tenant_of(query)
        filters = None
        if tenant is not None:
            filters = MetadataFilters(filters=[MetadataFilter(key="tenant", value=tenant)])
        return index.as_retriever(similarity_top_k=10, filters=filters).retrieve(query)

    return retrieve


def own(query: str) -> str:
    return TENANTS[int(float(query.rsplit(maxsplit=1)[-1])) % 4]


def own_by_function(question: Any, node: Any) -> bool:
    return bool(node.metadata["tenant"] != question["tenant"])


@pytest.mark.parametrize("forbidden", ["tenant", own_by_function])
def test_a_corpus_makes_no_leak(index: VectorStoreIndex, forbidden: Any) -> None:
    """Its documents have no metadata; the retrieved nodes have."""
    for tenant_of, leak, leaked in (
        (own, 0, 0),
        # right for the 10 of 40 questions that are acme's; to the others all it shows is forbidden
        (lambda query: "acme", 0.75, 0.75),
        # of the ten nearest, n, n + 4 and n - 4 are of the question's own tenant
        (lambda query: None, 0.7, 1),
    ):
        results = evaluate(asking(index, tenant_of), dataset(), METRICS[:2], forbidden=forbidden)
        assert results.scores.failed == {}
        assert results.scores.means == pytest.approx({"leak@10": leak, "leaked@10": leaked})
        assert not [note for note in results.scores.notes if "unknown" in note]
        gate = check_rules(results, "leaked@10 <= 0")
        assert gate.outcome == ("fail" if leaked else "pass")


def test_recall_among_what_is_permitted(index: VectorStoreIndex) -> None:
    known = dataset(document_metadata=DOCUMENT_METADATA)
    # n + 12 is among the ten nearest of the own tenant: n + 0, 4, -4, 8, -8, 12, ..., 20
    for tenant_of, recall in ((own, 1.0), (lambda query: None, 0.5)):
        results = evaluate(asking(index, tenant_of), known, METRICS, forbidden="tenant")
        assert results.scores.means["permitted_recall@10"] == recall
    # without them what was found can't say what was missed, and a note says so
    unknown = evaluate(asking(index, own), dataset(), METRICS, forbidden="tenant").scores
    assert unknown.by_query("permitted_recall@10") == {}
    (note,) = [note for note in unknown.notes if note.startswith("permitted_recall@10: ")]
    assert note.startswith("permitted_recall@10: no value for 40 of 40 questions")
    assert "document_metadata" in note
    assert unknown.means["leaked@10"] == 0


def by_function(metadata: Any) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key="tenant", value=metadata["tenant"])])


class First(BaseSelector):
    """Routes to the first of several."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...

    def _select(self, choices: Any, query: Any) -> SelectorResult:
        return SelectorResult(selections=[SingleSelection(index=0, reason="")])

    async def _aselect(self, choices: Any, query: Any) -> SelectorResult:
        return self._select(choices, query)


def systems(index: VectorStoreIndex) -> dict[str, Any]:
    """What people make of an index; each is asked for ten passages."""
    retriever: Any = index.as_retriever(similarity_top_k=10)
    llm = MockLLM()
    engine = index.as_query_engine(llm=llm, similarity_top_k=10)
    tool = RetrieverTool.from_defaults(retriever, description="passages")
    fused: Any = {"llm": llm, "num_queries": 1, "similarity_top_k": 10, "use_async": False}
    return {
        "retriever": retriever,
        "engine": engine,
        "chat engine": index.as_chat_engine(ChatMode.CONTEXT, llm=llm, similarity_top_k=10),
        "fusion": QueryFusionRetriever([retriever, retriever], **fused),
        "auto-merging": AutoMergingRetriever(retriever, StorageContext.from_defaults()),
        "router": RouterRetriever(selector=First(), retriever_tools=[tool], llm=llm),
        "recursive": RecursiveRetriever("first", retriever_dict={"first": retriever}),
        "routed engines": RouterQueryEngine(
            selector=First(),
            query_engine_tools=[QueryEngineTool.from_defaults(engine, description="answers")],
            llm=llm,
        ),
    }


def ids_of(results: Any) -> dict[str, list[str]]:
    return {query_id: list(ranking.ids) for query_id, ranking in results.run.items()}


@pytest.mark.slow
@pytest.mark.parametrize("filters", ["tenant", by_function])
def test_filters_of_who_asks(index: VectorStoreIndex, filters: Any) -> None:
    known = dataset(document_metadata=DOCUMENT_METADATA)
    by_hand = ids_of(evaluate(asking(index, own), known, METRICS, forbidden="tenant"))
    for name, source in {"index": index, **systems(index)}.items():
        results = evaluate(source, known, METRICS, filters=filters, forbidden="tenant")
        assert ids_of(results) == by_hand, name
        assert results.scores.means == {"leak@10": 0, "leaked@10": 0, "permitted_recall@10": 1}
        assert not [note for note in results.scores.notes if "leave out" in note]


def test_filters_of_an_agent(index: VectorStoreIndex) -> None:
    agents = pytest.importorskip("llama_index.core.agent.workflow", reason="no such agents")
    known = dataset()
    script = {text: [[("engine", text)], [("retriever", text)]] for text in known.queries.values()}
    retriever = index.as_retriever(similarity_top_k=10)
    engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=10)
    tools = [
        QueryEngineTool.from_defaults(engine, name="engine", description="answers"),
        RetrieverTool.from_defaults(retriever, name="retriever", description="passages"),
    ]
    agent = agents.FunctionAgent(tools=tools, llm=ScriptedFunctions(script=script))
    results = evaluate(agent, known, ["leaked@10"], filters="tenant", forbidden="tenant")
    by_hand = ids_of(evaluate(asking(index, own), known, ["leaked@10"], forbidden="tenant"))
    assert results.scores.means == {"leaked@10": 0}
    for query_id, ranking in results.run.items():
        of_calls = [list(call.ids) for call in ranking.calls or () if call.error is None]
        # Qdrant in memory can't be asked asynchronously, as agents ask
        assert of_calls in ([by_hand[query_id]] * 2, [])


def test_what_comes_in_spite_of_the_filters_is_said(index: VectorStoreIndex) -> None:
    """A retriever that asks around its filters: five of a tenant's ten, and ten of all."""

    class Around(BaseRetriever):
        def __init__(self) -> None:
            super().__init__()
            self.own = index.as_retriever(similarity_top_k=5)
            self.search = index.as_retriever(similarity_top_k=10).retrieve

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [*self.own.retrieve(query_bundle), *self.search(query_bundle)]

    results = evaluate(Around(), dataset(), ["leaked@10"], filters="tenant", forbidden="tenant")
    assert results.scores.means == {"leaked@10": 1}
    assert [note for note in results.scores.notes if "the filters of their question leave" in note]


def test_filters_of_an_asker_of_several_tenants(index: VectorStoreIndex) -> None:
    two = RetrievalDataset(
        {"q": "question 20.25"}, {"q": [IDS[20]]}, metadata={"q": {"tenant": ["acme", "coral"]}}
    )
    results = evaluate(index, two, ["leak@5"], filters="tenant", forbidden="tenant")
    # of 20, 21, 19, 22, 18, … the even ones, whose tenants are acme and coral in turn
    assert results.run["q"].ids == [IDS[n] for n in (20, 22, 18, 24, 16)]
    assert results.scores.means == {"leak@5": 0}
    # those of the retriever hold, too: of acme and coral only acme's are left
    acme = MetadataFilters(filters=[MetadataFilter(key="tenant", value="acme")])
    retriever = index.as_retriever(similarity_top_k=5, filters=acme)
    both = evaluate(retriever, two, ["leak@5"], filters="tenant", forbidden="tenant")
    assert both.run["q"].ids == [IDS[n] for n in (20, 24, 16, 28, 12)]
