"""Retrievers that work offline: one matches words, one topics, and one fuses both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from pydantic import PrivateAttr

from llama_index_rag_metrics.runtime.containers import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra

_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3"
# words, and single characters where words aren't set apart by spaces (or, in Korean, inflect)
_TOKENS = rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+"
_ROUNDING = 1e-9  # the cosine of vectors at right angles isn't always exactly 0
# directions of their own for texts without a known term: zeros have no cosine with anything
_BARE_TEXT, _BARE_QUERY = -2, -1


class _MatchingOnly(BaseRetriever):
    """Another retriever's results with a score above 0: what doesn't match at all is no result."""

    def __init__(self, retriever: BaseRetriever) -> None:
        super().__init__()
        self._retriever = retriever

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = self._retriever.retrieve(query_bundle)
        return [node for node in nodes if node.get_score() > _ROUNDING]


class BM25(_MatchingOnly):
    """The retriever that `bm25` makes; reports show the name of its class."""


class LSA(_MatchingOnly):
    """The retriever that `lsa` makes."""


def bm25(nodes: Sequence[BaseNode], similarity_top_k: int = 10) -> BaseRetriever:
    """LlamaIndex's BM25Retriever, for CJK and Thai, too, without results that share no word."""
    try:
        from llama_index.retrievers.bm25 import BM25Retriever
    except ImportError as error:
        raise MissingExtra("the bm25 retriever", "demo") from error
    top_k = min(similarity_top_k, len(nodes))
    indexed = _at_least_one(nodes)
    return BM25(BM25Retriever(nodes=indexed, similarity_top_k=top_k, token_pattern=_TOKENS))


def lsa(nodes: Sequence[BaseNode], similarity_top_k: int = 10) -> BaseRetriever:
    """A vector retriever: a VectorStoreIndex in memory with `LSAEmbedding`, fitted on the nodes."""
    indexed = _at_least_one([node for node in nodes if node.get_content()])
    embedding = LSAEmbedding.fit([node.get_content(MetadataMode.EMBED) for node in indexed])
    index = VectorStoreIndex(indexed, embed_model=embedding, transformations=[])
    return LSA(index.as_retriever(similarity_top_k=similarity_top_k))


def hybrid(nodes: Sequence[BaseNode], similarity_top_k: int = 10) -> BaseRetriever:
    """Both, fused by reciprocal rank: LlamaIndex's QueryFusionRetriever, which asks no model."""
    return QueryFusionRetriever(
        [bm25(nodes, similarity_top_k), lsa(nodes, similarity_top_k)],
        llm=MockLLM(),
        mode=FUSION_MODES.RECIPROCAL_RANK,
        similarity_top_k=similarity_top_k,
        num_queries=1,
    )


class LSAEmbedding(BaseEmbedding):
    """Latent semantic analysis (Deerwester et al., 1990): a stand-in for a neural embedding."""

    _pipeline: Any = PrivateAttr()

    @classmethod
    def fit(cls, texts: Sequence[str]) -> LSAEmbedding:
        """Learn the embedding from a corpus; from the same corpus always the same one."""
        try:
            from sklearn.decomposition import TruncatedSVD
            from sklearn.feature_extraction.text import TfidfVectorizer
            from sklearn.pipeline import FeatureUnion, make_pipeline
            from sklearn.preprocessing import Normalizer
        except ImportError as error:
            raise MissingExtra("the lsa retriever", "demo") from error
        words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        grams = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 4))
        terms = FeatureUnion([("words", words), ("characters", grams)])
        weighted = terms.fit_transform(texts)
        dimensions = max(16, min(len(texts) // 4, 200))
        svd = TruncatedSVD(min(dimensions, *weighted.shape), random_state=0)
        with np.errstate(invalid="ignore"):  # a single text has no variance to explain
            svd.fit(weighted)
        embedding = cls(model_name="lsa")
        embedding._pipeline = make_pipeline(terms, svd, Normalizer())
        return embedding

    @classmethod
    def class_name(cls) -> str:
        return "LSAEmbedding"

    def _get_text_embeddings(self, texts: list[str], spare: int = _BARE_TEXT) -> list[list[float]]:
        vectors: FloatArray = np.pad(self._pipeline.transform(texts), ((0, 0), (0, 2)))
        vectors[~vectors.any(axis=1), spare] = 1.0
        return list(vectors.tolist())

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embeddings([query], _BARE_QUERY)[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def _at_least_one(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    if not nodes:
        remedy = "Does the dataset have a corpus?"
        raise InvalidInput("nodes", nodes, "at least one node with a text", remedy)
    return list(nodes)
