"""Vector stores built as their documentation builds them, and what their clients can do."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from support.retrievers import Scripted

from llama_index_rag_metrics import RetrievalDataset, aevaluate, evaluate
from llama_index_rag_metrics.labels import check_labels

REASON = "pgserver or llama-index-vector-stores-postgres isn't installed"


@contextmanager
def pgvector_store(table: str) -> Iterator[Any]:
    """A store of vectors of two dimensions; the test is skipped where there is no server."""
    pgserver = pytest.importorskip("pgserver", reason=REASON)
    postgres = pytest.importorskip("llama_index.vector_stores.postgres", reason=REASON)
    # no folder of pytest's: as root, its server is another user's, who may not look into those
    with TemporaryDirectory() as folder:
        server = pgserver.get_server(f"{folder}/pg", cleanup_mode="delete")
        server.psql("CREATE EXTENSION vector")
        socket = parse_qs(urlsplit(server.get_uri()).query)["host"][0]
        address = f"://postgres@/postgres?host={socket}"
        store = postgres.PGVectorStore(
            connection_string=f"postgresql+psycopg2{address}",
            async_connection_string=f"postgresql+asyncpg{address}",
            table_name=table,
            embed_dim=2,
        )
        try:
            yield store
        finally:
            asyncio.run(store.close())
            server.cleanup()


pytestmark = pytest.mark.servers

WORDS = ["kiln", "glaze", "wheel", "clay", "oven", "brush", "sponge", "cone", "slip", "rack"]
# Qdrant's local mode takes no other ids
IDS = [str(UUID(int=n)) for n in range(len(WORDS))]
DATASET = RetrievalDataset(
    queries={f"q{n}": f"what of the {word}?" for n, word in enumerate(WORDS)},
    relevance={f"q{n}": [node_id] for n, node_id in enumerate(IDS)},
    corpus={node_id: f"all of the {word}" for node_id, word in zip(IDS, WORDS, strict=True)},
)

LABELS = RetrievalDataset(DATASET.queries, DATASET.relevance)


class WordEmbedding(BaseEmbedding):
    """One dimension a word, so that a query is nearest to the passage with its word."""

    seconds: float = 0

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(word in text) + 0.01 for word in WORDS]

    def _get_query_embedding(self, query: str) -> list[float]:
        time.sleep(self.seconds)
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def index_in(store: Any, *, seconds: float = 0) -> VectorStoreIndex:
    """The dataset's corpus in a vector store; embedding a query takes a while."""
    return VectorStoreIndex(
        DATASET.to_nodes(),
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=WordEmbedding(seconds=seconds),
    )


@pytest.fixture
def qdrant() -> Iterator[Any]:
    pytest.importorskip("qdrant_client", reason="the Qdrant client isn't installed")
    module = pytest.importorskip("llama_index.vector_stores.qdrant")
    from qdrant_client import QdrantClient

    client = QdrantClient(location=":memory:")
    yield module.QdrantVectorStore(client=client, collection_name="words")
    client.close()


NOTE = "VectorIndexRetriever: aretrieve doesn't work here, so retrieve was called in threads"


class TestQdrantWithASynchronousClient:
    """As its documentation builds it: `aquery` raises that there is no asynchronous client."""

    @pytest.mark.parametrize("seconds", [0, 0.03])
    def test_queries_are_all_answered(self, qdrant: Any, seconds: float) -> None:
        results = evaluate(index_in(qdrant, seconds=seconds), DATASET, ["recall@1"])
        assert results.scores.failed == {}
        assert results.scores.means["recall@1"] == 1
        [note] = [note for note in results.scores.notes if "aretrieve" in note]
        assert note.startswith(NOTE)
        assert "Async client is not initialized" in note


class TestQdrantWithAnAsynchronousClientAlone:
    """Its synchronous methods raise; a slow embedding blocks the event loop all the same."""

    @pytest.mark.parametrize("seconds", [0, 0.03])
    def test_queries_are_all_answered(self, seconds: float) -> None:
        pytest.importorskip("qdrant_client", reason="the Qdrant client isn't installed")
        module = pytest.importorskip("llama_index.vector_stores.qdrant")
        from qdrant_client import AsyncQdrantClient

        async def run() -> Any:
            client = AsyncQdrantClient(location=":memory:")
            store = module.QdrantVectorStore(aclient=client, collection_name="words")
            embedding = WordEmbedding(seconds=seconds)
            nodes = DATASET.to_nodes()
            for node in nodes:
                node.embedding = embedding.get_text_embedding(node.get_content())
            await store.async_add(nodes)
            index = VectorStoreIndex.from_vector_store(store, embed_model=embedding)
            return await aevaluate(index, DATASET, ["recall@1"])

        results = asyncio.run(run())
        assert results.scores.failed == {}
        assert results.scores.means["recall@1"] == 1


class OneWay(Scripted):
    """Has both methods, of which `aretrieve` raises an error."""

    def __init__(self, error: Exception, *, works_at_first: bool = False) -> None:
        super().__init__({query: [IDS[n]] for n, query in enumerate(DATASET.queries.values())})
        self.error = error
        self.works_at_first = works_at_first
        self.awaited = 0

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.awaited += 1
        if self.works_at_first and self.awaited == 1:
            await asyncio.sleep(0)  # it waits, however shortly, and so doesn't block
            return self._retrieve(query_bundle)
        raise self.error


class TestOtherStores:
    """Errors of asynchronous methods that can't work, by the words of the stores' own code."""

    @pytest.mark.parametrize(
        "error",
        [
            NotImplementedError("async is not supported by this store"),
            # Weaviate's AsyncClientNotProvidedError
            Exception("Async method called without WeaviateAsyncClient provided."),
            ValueError("async_client is required for async operations"),
            AttributeError("'NoneType' object has no attribute 'search'"),
            RuntimeError("Event loop is closed"),
            RuntimeError("got Future attached to a different loop, awaited here"),
            ModuleNotFoundError("No module named 'asyncpg'"),
        ],
        ids=repr,
    )
    @pytest.mark.parametrize("works_at_first", [False, True])
    def test_retrieve_is_used(self, error: Exception, works_at_first: bool) -> None:
        retriever = OneWay(error, works_at_first=works_at_first)
        results = evaluate(retriever, LABELS, ["recall@1"], workers=1)
        assert results.scores.failed == {}
        assert results.scores.means["recall@1"] == 1
        assert retriever.awaited == 1 + works_at_first
        assert len(results.scores.notes) == 1
        assert str(error) in results.scores.notes[0]

    def test_busy_service_fails_its_query(self) -> None:
        retriever = OneWay(ConnectionError("try again later"), works_at_first=True)
        results = evaluate(retriever, LABELS, ["recall@1"], workers=1)
        assert len(results.scores.failed) == len(DATASET.queries) - 1

    def test_error_names_the_cure_where_neither_works(self) -> None:
        retriever = OneWay(ValueError("Async client is not initialized!"))
        retriever.script = {
            query: ConnectionError("no server at 127.0.0.1:6333") for query in retriever.script
        }
        with pytest.warns(UserWarning, match="no server"):
            results = evaluate(retriever, LABELS, ["recall@1"])
        assert {*results.scores.failed.values()} == {"ConnectionError: no server at 127.0.0.1:6333"}


class TestWorksWith:
    """The README's quick start, `evaluate(index or retriever, dataset, names)`, row by row."""

    def quick_start(self, source: Any, notes: int = 0) -> None:
        results = evaluate(source, DATASET, ["recall@1", "ndcg@10"])
        assert results.scores.failed == {}
        # the passage with the query's word is the nearest by construction
        assert results.scores.means == {"recall@1": 1.0, "ndcg@10": 1.0}
        assert len(results.scores.notes) == notes

    def test_chroma(self) -> None:
        chromadb = pytest.importorskip("chromadb", reason="Chroma isn't installed")
        module = pytest.importorskip("llama_index.vector_stores.chroma")
        collection = chromadb.EphemeralClient().create_collection("words")
        self.quick_start(index_in(module.ChromaVectorStore(chroma_collection=collection)))

    def test_lancedb(self, tmp_path: Any) -> None:
        module = pytest.importorskip("llama_index.vector_stores.lancedb")
        self.quick_start(index_in(module.LanceDBVectorStore(uri=str(tmp_path))))

    def test_faiss(self) -> None:
        faiss = pytest.importorskip("faiss", reason="FAISS isn't installed")
        module = pytest.importorskip("llama_index.vector_stores.faiss")
        store = module.FaissVectorStore(faiss_index=faiss.IndexFlatL2(len(WORDS)))
        self.quick_start(index_in(store), notes=1)  # its scores are distances, which rise

    def test_bm25(self) -> None:
        module = pytest.importorskip("llama_index.retrievers.bm25")
        nodes = DATASET.to_nodes()
        self.quick_start(module.BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=10))

    def test_fusion_of_stores_with_synchronous_clients(self, qdrant: Any) -> None:
        retriever = index_in(qdrant).as_retriever(similarity_top_k=10)
        fusion = QueryFusionRetriever(
            [retriever], llm=MockLLM(), num_queries=1, similarity_top_k=10, use_async=False
        )
        self.quick_start(fusion, notes=1)


def test_nodes_of_pgvector_are_all_listed() -> None:
    nodes = [TextNode(id_=moon, text=f"{moon} is a moon") for moon in ("titan", "rhea")]
    dataset = RetrievalDataset({"q1": "Which?", "q2": "Where?"}, {"q1": ["titan"], "q2": ["io"]})
    with pgvector_store("moons") as store:
        context = StorageContext.from_defaults(vector_store=store)
        index = VectorStoreIndex(nodes, storage_context=context, embed_model=MockEmbedding(2))
        findings = check_labels(dataset, index).findings
    assert [finding.id for finding in findings if finding.kind == "lost"] == ["io"]
