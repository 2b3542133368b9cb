"""Leaks of vector stores, with a filter by tenant, with a wrong one and with none.

Passage n and question n + .25 lie on a circle at angles of their numbers, so that the ten nearest
to question n are n + 0, 1, -1, 2, -2, 3, -3, 4, -4, 5. The tenant of passage n, and of question n,
is n modulo 4. The labels of question n are n and n + 12, of its own tenant, and n + 1, of another.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, sin
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore

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


def simple(folder: Path) -> Any:
    return SimpleVectorStore()


def qdrant(folder: Path) -> Any:
    client = pytest.importorskip("qdrant_client", reason="the Qdrant client isn't installed")
    module = pytest.importorskip("llama_index.vector_stores.qdrant", reason="no Qdrant store")
    return module.QdrantVectorStore("leaks", client=client.QdrantClient(location=":memory:"))


def chroma(folder: Path) -> Any:
    chromadb = pytest.importorskip("chromadb", reason="Chroma isn't installed")
    module = pytest.importorskip("llama_index.vector_stores.chroma", reason="no Chroma store")
    collection = chromadb.PersistentClient(str(folder)).create_collection("leaks")
    return module.ChromaVectorStore(chroma_collection=collection)


def lancedb(folder: Path) -> Any:
    module = pytest.importorskip("llama_index.vector_stores.lancedb", reason="no LanceDB store")
    return module.LanceDBVectorStore(uri=str(folder))


@pytest.fixture(params=[simple, qdrant, chroma, lancedb])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> VectorStoreIndex:
    nodes = [
        TextNode(id_=item, text=f"passage {n}", metadata={"tenant": TENANTS[n % 4]})
        for n, item in enumerate(IDS)
    ]
    for node in nodes:
        node.excluded_embed_metadata_keys = ["tenant"]
    build: Callable[[Path], Any] = request.param
    storage = StorageContext.from_defaults(vector_store=build(tmp_path))
    return VectorStoreIndex(nodes, storage_context=storage, embed_model=OnACircle())


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
