"""An offline embedding: latent semantic analysis (Deerwester et al., 1990) by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer

from llama_index_rag_metrics.runtime.arrays import FloatArray

_NO_TERMS_IN_TEXT, _NO_TERMS_IN_QUERY = -2, -1
"""Directions of their own for what holds no known term, so that its similarity to all else is 0.

A vector of zeros has no cosine with anything.
"""


class LSAEmbedding(BaseEmbedding):
    """tf-idf of words and of character n-grams, reduced to the main directions of a corpus.

    Character n-grams serve languages that don't set words apart by spaces, and inflected forms.
    """

    _pipeline: Pipeline = PrivateAttr()

    @classmethod
    def fit(cls, texts: Sequence[str], dimensions: int | None = None) -> LSAEmbedding:
        """Learn the embedding from a corpus; from the same corpus always the same one.

        Without `dimensions` it has a quarter of the number of texts, at least 16 and at most 200.
        """
        terms = FeatureUnion(
            [
                ("words", TfidfVectorizer(sublinear_tf=True, stop_words="english")),
                (
                    "characters",
                    TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 4)),
                ),
            ]
        )
        weighted = terms.fit_transform(texts)
        wanted = dimensions or max(16, min(len(texts) // 4, 200))
        svd = TruncatedSVD(min(wanted, *weighted.shape), random_state=0)
        with np.errstate(invalid="ignore"):  # a single text has no variance to explain
            svd.fit(weighted)
        embedding = cls(model_name="lsa")
        embedding._pipeline = make_pipeline(terms, svd, Normalizer())
        return embedding

    @classmethod
    def class_name(cls) -> str:
        return "LSAEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._vectors(texts, _NO_TERMS_IN_TEXT)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vectors([query], _NO_TERMS_IN_QUERY)[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _vectors(self, texts: list[str], spare: int) -> list[list[float]]:
        vectors: FloatArray = np.pad(self._pipeline.transform(texts), ((0, 0), (0, 2)))
        vectors[~vectors.any(axis=1), spare] = 1.0
        rows: list[list[float]] = vectors.tolist()
        return rows
