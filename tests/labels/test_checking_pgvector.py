"""Labels checked against a real pgvector, which a wheel brings with its server."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode

from llama_index_rag_metrics import RetrievalDataset, check_labels

REASON = "pgserver or llama-index-vector-stores-postgres isn't installed"


@pytest.fixture
def store(tmp_path: Path) -> Any:
    pgserver = pytest.importorskip("pgserver", reason=REASON)
    postgres = pytest.importorskip("llama_index.vector_stores.postgres", reason=REASON)
    server = pgserver.get_server(tmp_path / "pg", cleanup_mode="delete")
    server.psql("CREATE EXTENSION vector")
    socket = parse_qs(urlsplit(server.get_uri()).query)["host"][0]
    address = f"://postgres@/postgres?host={socket}"
    store = postgres.PGVectorStore(
        connection_string=f"postgresql+psycopg2{address}",
        async_connection_string=f"postgresql+asyncpg{address}",
        table_name="moons",
        embed_dim=2,
    )
    yield store
    asyncio.run(store.close())
    server.cleanup()


def test_all_nodes_of_pgvector_are_listed(store: Any) -> None:
    nodes = [TextNode(id_=moon, text=f"{moon} is a moon") for moon in ("titan", "rhea")]
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=MockEmbedding(2))
    dataset = RetrievalDataset({"q1": "Which?", "q2": "Where?"}, {"q1": ["titan"], "q2": ["io"]})
    lost = [
        finding.id for finding in check_labels(dataset, index).findings if finding.kind == "lost"
    ]
    assert lost == ["io"]
