"""Approximate against exact search, with the stores that have both."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode

from llama_index_rag_metrics import RetrievalDataset, evaluate_stages

N, DEPTH = 600, 8
VECTORS = np.random.default_rng(5).normal(size=(N, 12)).astype("float32")
IDS = [str(UUID(int=n)) for n in range(N)]


class ByNumber(BaseEmbedding):
    """A text is the number of a vector."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(value) for value in VECTORS[int(text)]]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def index_in(store: Any) -> VectorStoreIndex:
    nodes = [TextNode(id_=each, text=str(n)) for n, each in enumerate(IDS)]
    context = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(nodes, storage_context=context, embed_model=ByNumber())


def nearest() -> dict[str, list[str]]:
    """Of each question, the passages of the largest inner product, by numpy."""
    products = VECTORS[:30] @ VECTORS.T
    return {f"q{n}": [IDS[at] for at in np.argsort(-row)[:4]] for n, row in enumerate(products)}


def dataset() -> RetrievalDataset:
    labels: Any = nearest()
    return RetrievalDataset({f"q{n}": str(n) for n in range(30)}, labels)


def test_cells_of_faiss_that_are_not_searched_lose_what_a_flat_index_finds() -> None:
    faiss = pytest.importorskip("faiss")
    stores = pytest.importorskip("llama_index.vector_stores.faiss")
    flat, cells = faiss.IndexFlatIP(12), faiss.IndexFlatIP(12)
    inverted = faiss.IndexIVFFlat(cells, 12, 10, faiss.METRIC_INNER_PRODUCT)
    inverted.train(VECTORS)
    inverted.nprobe = 1
    searched = index_in(stores.FaissVectorStore(faiss_index=inverted))
    exact = index_in(stores.FaissVectorStore(faiss_index=flat))
    stages = evaluate_stages(
        searched.as_retriever(similarity_top_k=DEPTH),
        [],
        dataset(),
        ["recall"],
        compare_exact=exact.as_retriever(similarity_top_k=DEPTH),
        corpus=exact,
    )
    _, found = inverted.search(VECTORS[:30], DEPTH)
    came = {f"q{n}": {IDS[at] for at in row if at >= 0} for n, row in enumerate(found)}
    expected = {(query, each) for query, near in nearest().items() for each in near} - {
        (query, each) for query, near in came.items() for each in near
    }
    assert expected
    assert {(loss.query_id, loss.item) for loss in stages.losses} == expected
    assert {loss.stage for loss in stages.losses} == {"approximate search"}


def test_qdrant_is_asked_exactly_by_a_parameter_of_the_retriever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its local mode is always exact: what is asked for is all that can be seen."""
    clients = pytest.importorskip("qdrant_client")
    stores = pytest.importorskip("llama_index.vector_stores.qdrant")
    client = clients.QdrantClient(":memory:")
    index = index_in(stores.QdrantVectorStore("numbers", client=client))
    asked: list[bool] = []
    query_points = client.query_points

    def seen(*arguments: Any, **options: Any) -> Any:
        asked.append(bool(options["search_params"] and options["search_params"].exact))
        return query_points(*arguments, **options)

    monkeypatch.setattr(client, "query_points", seen)
    stages = evaluate_stages(
        index.as_retriever(similarity_top_k=DEPTH),
        [],
        dataset(),
        ["recall"],
        compare_exact=index.as_retriever(
            similarity_top_k=DEPTH, vector_store_kwargs={"search_params": {"exact": True}}
        ),
        use_async=False,
    )
    assert sorted(asked) == [False] * 30 + [True] * 30
    # by cosine, that is, so that some of the largest products aren't the nearest
    assert {loss.stage for loss in stages.losses} <= {"retriever"}
