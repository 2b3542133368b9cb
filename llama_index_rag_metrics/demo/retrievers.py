"""Two retrievers of different kinds, both offline: one matches words, the other topics."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra

_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3"
_TOKENS = rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+"
"""Words, and single characters where words aren't set apart by spaces (or, in Korean, inflect)."""

_ROUNDING = 1e-9
"""The cosine of vectors at right angles isn't always exactly 0."""


def bm25(nodes: Sequence[BaseNode], similarity_top_k: int = 10) -> BaseRetriever:
    """A keyword retriever: BM25, which ranks by the words that question and passage share.

    It is LlamaIndex's BM25Retriever with tokens that work in Chinese, Japanese, Korean and Thai,
    too, and without the results that share no word with the question.
    """
    try:
        from llama_index.retrievers.bm25 import BM25Retriever
    except ImportError as error:
        raise MissingExtra("the bm25 retriever", "demo") from error
    return MatchingOnly(
        BM25Retriever(
            nodes=_at_least_one(nodes),
            similarity_top_k=min(similarity_top_k, len(nodes)),
            token_pattern=_TOKENS,
        )
    )


def lsa(nodes: Sequence[BaseNode], similarity_top_k: int = 10) -> BaseRetriever:
    """A vector retriever: a VectorStoreIndex in memory whose embedding is fitted on the nodes.

    The embedding is latent semantic analysis, a stand-in for a neural one that needs no download.
    """
    try:
        from llama_index_rag_metrics.demo.lsa import LSAEmbedding
    except ImportError as error:
        raise MissingExtra("the lsa retriever", "demo") from error
    from llama_index.core import VectorStoreIndex

    indexed = _at_least_one([node for node in nodes if node.get_content()])
    embedding = LSAEmbedding.fit([node.get_content(MetadataMode.EMBED) for node in indexed])
    index = VectorStoreIndex(indexed, embed_model=embedding, transformations=[])
    return MatchingOnly(index.as_retriever(similarity_top_k=similarity_top_k))


class MatchingOnly(BaseRetriever):
    """Another retriever's results with a score above 0: what doesn't match at all is no result."""

    def __init__(self, retriever: BaseRetriever) -> None:
        super().__init__()
        self._retriever = retriever

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = self._retriever.retrieve(query_bundle)
        return [node for node in nodes if node.score is not None and node.score > _ROUNDING]


def _at_least_one(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    if not nodes:
        remedy = "Does the dataset have a corpus?"
        raise InvalidInput("nodes", nodes, "at least one node with a text", remedy)
    return list(nodes)
