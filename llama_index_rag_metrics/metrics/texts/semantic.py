"""How close the retrieved texts are to the query: by embeddings, and by the words they share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr, field_validator

from llama_index_rag_metrics.metrics.texts.text_metric import (
    Aggregation,
    HasCorpus,
    TextMetric,
    TextScores,
    service,
)
from llama_index_rag_metrics.rankings.matching.normalisation import words
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.models import (
    Embedder,
    cosines,
    dots,
    embed_model_or_default,
    instance_of,
)
from llama_index_rag_metrics.runtime.sync import in_thread

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding
else:
    BaseEmbedding = instance_of("llama_index.core.base.embeddings.base", "BaseEmbedding")

__all__ = ["BM25Similarity", "EmbeddingSimilarity"]


class EmbeddingSimilarity(TextMetric):
    """Similarity of the retrieved texts to the question by their embeddings, mean over the texts.

    cosine is in [-1, 1], dot unbounded, euclidean 1 / (1 + distance), in (0, 1]. Nothing retrieved
    has no value. Texts are embedded in the model's batches, in a thread, each distinct text once.

    Args:
        embed_model: an embedding model of LlamaIndex; by default `Settings.embed_model`, as it is
            when it is first needed.
        mode: how two embeddings are compared.
        of: what the retrieved texts are compared with: the "query", or the "expected" texts of the
            query, of which the nearest counts; a dataset has them as expected_texts, or in its
            corpus under the relevant ids.
        label: tells the metrics of several models apart; part of the name and of the cache's key.

    Raises:
        BadAnswer: the model gave embeddings that aren't finite, or of different lengths.

    Examples:
        >>> from llama_index.core.embeddings import MockEmbedding
        >>> metric = EmbeddingSimilarity(embed_model=MockEmbedding(embed_dim=4), mode="dot")
        >>> metric.metric_name, metric.compute("who?", retrieved_texts=["she"]).score
        ('embedding_similarity(mode=dot)', 1.0)
    """

    name = "embedding_similarity"
    bounds: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    scores_nothing: ClassVar[bool] = False
    agg: Aggregation = Field(default="mean", description="mean, max or median over the texts")
    mode: Literal["cosine", "dot", "euclidean"] = Field(
        default="cosine", description="the comparison"
    )
    of: Literal["query", "expected"] = Field(
        default="query", description="compare with the question or with expected texts"
    )
    embed_model: BaseEmbedding | None = service("model")
    label: str = Field(default="", description="tells several models apart")

    def prepare(self, dataset: HasCorpus, cache: Cache) -> EmbeddingSimilarity:
        embed_model_or_default(self.embed_model)
        return super().prepare(dataset, cache)

    def portable(self) -> EmbeddingSimilarity:
        return self.model_copy(update={"embed_model": embed_model_or_default(self.embed_model)})

    async def ascore(self, query: str, texts: Sequence[str]) -> TextScores:
        return await self._compare([query], texts, as_query=True)

    async def _ascore(
        self, query: str | None, expected_texts: Sequence[str] | None, texts: Sequence[str]
    ) -> TextScores:
        if self.of == "query":
            return await super()._ascore(query, expected_texts, texts)
        anchors = list(dict.fromkeys(text for text in expected_texts or () if text.strip()))
        if not anchors:
            remedy = "Give expected_texts, or a dataset whose corpus has the relevant ids."
            raise InvalidInput("expected_texts", expected_texts, "at least one text", remedy)
        return await self._compare(anchors, texts, as_query=False)

    async def _compare(
        self, anchors: Sequence[str], texts: Sequence[str], *, as_query: bool
    ) -> TextScores:
        """Each text's similarity to the nearest anchor."""
        model = await in_thread(embed_model_or_default, self.embed_model)
        embedder = Embedder(model, self._cache, self.metric_name, self.label)
        asked = (texts, anchors) if as_query else ([*anchors, *texts],)
        with self._counting(embedder.tally):
            vectors, of_queries = await embedder.embed(*asked)
        near = of_queries if as_query else vectors
        matrix = np.stack([vectors[text] for text in texts])
        similarities = [_similarity(self.mode, near[anchor], matrix) for anchor in anchors]
        return TextScores(np.stack(similarities).max(axis=0).tolist(), embedder.tally.usage)


class BM25Similarity(TextMetric):
    """The BM25 score of the retrieved texts for the question, mean over the texts; unbounded.

    Σ over the query's words of idf · tf·(k1+1) / (tf + k1·(1 − b + b·length/average length)), with
    Lucene's idf = ln(1 + (N − df + 0.5) / (df + 0.5)); bm25s calls that method="atire" with
    idf_method="lucene". df, N and the average length are those of the corpus, whatever is
    retrieved, so that chunks of any size are scored on one scale. Nothing retrieved has no value.
    How texts are cut into words: `words`.

    Args:
        k1: how fast further occurrences of a word stop counting; larger is slower.
        b: how much a text's length counts against it, from 0 to 1.
        corpus: the texts, or {id: text}; by default the corpus of the dataset that is evaluated.

    Raises:
        InvalidInput: there is no corpus.

    Examples:
        >>> metric = BM25Similarity(corpus=["a cat", "a dog", "a bird sings"], k1=1.2)
        >>> round(metric.compute("the cat", retrieved_texts=["a cat"]).score, 6)
        1.041708
    """

    name = "bm25_similarity"
    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)
    scores_nothing: ClassVar[bool] = False
    agg: Aggregation = Field(default="mean", description="mean, max or median over the texts")
    k1: float = Field(
        default=1.5, ge=0, allow_inf_nan=False, description="saturation of a word's count"
    )
    b: float = Field(default=0.75, ge=0, le=1, description="weight of a text's length")
    corpus: Any = service("texts to take statistics of")
    _statistics: CorpusStatistics | None = PrivateAttr(None)

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.corpus is not None:
            self._statistics = CorpusStatistics(self.corpus)

    @field_validator("corpus")
    @classmethod
    def _texts(cls, corpus: Any) -> Any:
        if corpus is None:
            return None
        if isinstance(corpus, str) or not isinstance(corpus, Iterable):
            raise InvalidInput("corpus", corpus, "texts, or {id: text}")
        texts = dict(corpus if isinstance(corpus, Mapping) else enumerate(corpus))
        for key, text in texts.items():
            if not isinstance(text, str):
                raise InvalidInput(
                    f"corpus[{key!r}]", text, "a text", "Leave it out, or give its text."
                )
        return list(texts.values())

    def prepare(self, dataset: HasCorpus, cache: Cache) -> BM25Similarity:
        prepared = super().prepare(dataset, cache)
        if prepared._statistics is None:
            prepared._statistics = CorpusStatistics(map(dataset.indexed_text, dataset.corpus))
        return prepared

    async def ascore(self, query: str, texts: Sequence[str]) -> TextScores:
        return TextScores(await in_thread(self._scores, query, texts))

    def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        corpus = self._statistics
        if corpus is None:
            raise _no_corpus()
        weights = {word: n * corpus.idf(word) for word, n in Counter(words(query)).items()}

        def score(text: Sequence[str]) -> float:
            tf = Counter(text)
            saturation = self.k1 * (1 - self.b + self.b * len(text) / corpus.average_length)
            return math.fsum(
                weight * tf[word] * (self.k1 + 1) / (tf[word] + saturation)
                for word, weight in weights.items()
                if tf[word]
            )

        return [score(words(text)) for text in texts]


class CorpusStatistics:
    def __init__(self, texts: Iterable[str]) -> None:
        self.n = length = 0
        self._df: Counter[str] = Counter()
        for text in texts:
            tokens = words(text)
            self.n += 1
            length += len(tokens)
            self._df.update(set(tokens))
        if not length:
            raise _no_corpus()
        self.average_length = length / self.n

    def idf(self, word: str) -> float:
        df = self._df[word]
        return math.log(1 + (self.n - df + 0.5) / (df + 0.5))


def _no_corpus() -> InvalidInput:
    remedy = "Pass BM25Similarity(corpus=...), or evaluate a dataset that has a corpus."
    return InvalidInput("corpus", None, "texts to take the statistics of", remedy)


def _similarity(mode: str, anchor: FloatArray, matrix: FloatArray) -> FloatArray:
    if mode == "euclidean":
        apart = matrix - anchor
        distances: FloatArray = np.sqrt((apart * apart).sum(axis=1))
        return 1 / (1 + distances)
    return dots(anchor, matrix) if mode == "dot" else cosines(anchor, matrix)
