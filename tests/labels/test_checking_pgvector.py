"""Labels checked against a real pgvector."""

import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from support.vector_servers import pgvector_store

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.labels import check_labels

pytestmark = pytest.mark.servers


def test_all_nodes_of_pgvector_are_listed() -> None:
    nodes = [TextNode(id_=moon, text=f"{moon} is a moon") for moon in ("titan", "rhea")]
    dataset = RetrievalDataset({"q1": "Which?", "q2": "Where?"}, {"q1": ["titan"], "q2": ["io"]})
    with pgvector_store("moons") as store:
        context = StorageContext.from_defaults(vector_store=store)
        index = VectorStoreIndex(nodes, storage_context=context, embed_model=MockEmbedding(2))
        findings = check_labels(dataset, index).findings
    assert [finding.id for finding in findings if finding.kind == "lost"] == ["io"]
