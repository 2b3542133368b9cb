"""How close the retrieved texts are to the query: by embeddings, and by the words they share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import Field, InstanceOf, field_validator
from typing_extensions import Self

from llama_index_rag_metrics.rankings.matching.likeness import words
from llama_index_rag_metrics.runtime.cache import Cache, cache_key
from llama_index_rag_metrics.runtime.containers import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, ScorerFailed
from llama_index_rag_metrics.runtime.models import model_of_settings, settings_of
from llama_index_rag_metrics.runtime.sync import in_thread

from .text_metric import Aggregation, HasCorpus, TextMetric, service

__all__ = ["BM25Similarity", "EmbeddingSimilarity"]


class EmbeddingSimilarity(TextMetric):
    """Similarity of the retrieved texts to the question by their embeddings; unless its name says
    otherwise by cosine (1 is alike, 0 unrelated), mean over the texts. It favours a retriever that
    searches by these embeddings: confirm what it finds with labels, or on another metric.

    euclidean is 1 / (1 + distance), in (0, 1], dot unbounded. Nothing retrieved has no value.

    Args:
        embed_model: an embedding model of LlamaIndex; by default `Settings.embed_model`, as it is
            when it is first needed.
        mode: how two embeddings are compared.
        label: tells the metrics of several models apart; part of the name and of the cache's key.

    Raises:
        ScorerFailed: the model gave embeddings that aren't finite, or of different lengths.

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
    mode: Literal["cosine", "dot", "euclidean"] = Field("cosine", description="the comparison")
    embed_model: InstanceOf[BaseEmbedding] | None = service("model")
    label: str = Field(default="", description="tells several models apart")

    def prepare(self, dataset: HasCorpus, cache: Cache) -> Self:
        self._embedding_model()
        return super().prepare(dataset, cache)

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        model = await in_thread(self._embedding_model)

        def embed_queries(queries: list[str]) -> list[list[float]]:
            return [model.get_query_embedding(text) for text in queries]

        # many models embed questions otherwise than texts
        (vector,) = await self._embed("embedding of a question", model, [query], embed_queries)
        vectors = await self._embed("embedding", model, texts, model.get_text_embedding_batch)
        if {len(vector)} != set(map(len, vectors)):
            raise ScorerFailed(self.metric_name, "the embeddings have different lengths")
        return list(_similarity(self.mode, np.array(vector), np.array(vectors)).tolist())

    async def _embed(
        self,
        kind: str,
        model: BaseEmbedding,
        texts: Sequence[str],
        embed: Callable[[list[str]], Sequence[Sequence[float]]],
    ) -> list[list[float]]:
        """(dimensions,) of each text its embedding, from the cache where it is there."""
        name, settings = self.label or model.model_name, settings_of(model)
        keys = [cache_key(kind, name, parameters=settings, text=text) for text in texts]

        async def ask(positions: list[int]) -> list[list[float]]:
            embeddings = await in_thread(embed, [texts[position] for position in positions])
            if len(embeddings) != len(positions):
                reason = f"{len(embeddings)} embeddings for {len(positions)} texts"
                raise ScorerFailed(self.metric_name, reason)
            vectors = [np.asarray(vector, np.float64).tolist() for vector in embeddings]
            if not all(map(_is_embedding, vectors)):
                raise ScorerFailed(self.metric_name, "an embedding isn't a list of finite numbers")
            return vectors

        size = model.embed_batch_size
        return await self._cache.fetch(keys, ask, batch_size=size, is_valid=_is_embedding)

    def _embedding_model(self) -> BaseEmbedding:
        return self.embed_model or model_of_settings("embed_model", "comparing embeddings")


def _is_embedding(value: Any) -> bool:
    is_list = isinstance(value, list) and set(map(type, value)) == {float}
    return is_list and all(map(math.isfinite, value))


def _similarity(mode: str, vector: FloatArray, matrix: FloatArray) -> FloatArray:
    """(texts,) of each row, row by row: a product of matrices would have other bits."""
    if mode == "euclidean":
        difference = matrix - vector
        distances: FloatArray = np.sqrt((difference * difference).sum(axis=1))
        return 1 / (1 + distances)
    products: FloatArray = (matrix * vector).sum(axis=1)
    if mode == "dot":
        return products
    norm = np.asarray((vector[None] * vector).sum(axis=1))
    norms = np.sqrt(norm * (matrix * matrix).sum(axis=1))
    # an embedding without a direction is like nothing
    return np.clip(products / np.where(norms > 0, norms, np.inf), -1.0, 1.0)


class BM25Similarity(TextMetric):
    """How well the retrieved texts fit the question's words, by BM25, mean over the texts unless
    its name says otherwise: 0 is no word in common, and there is no highest score. It favours a
    retriever that searches by BM25: confirm what it finds with labels, or on another metric.

    Σ over the query's words of idf · tf·(k1+1) / (tf + k1·(1 − b + b·length/average length)), with
    Lucene's idf = ln(1 + (N − df + 0.5) / (df + 0.5)). df, N and the average length are those of
    the corpus, so that chunks of any size are on one scale. Nothing retrieved has no value.

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
    k1: float = Field(1.5, ge=0, allow_inf_nan=False, description="saturation of a word's count")
    b: float = Field(default=0.75, ge=0, le=1, description="weight of a text's length")
    corpus: Any = service("texts to take statistics of")

    @field_validator("corpus")
    @classmethod
    def _counted(cls, corpus: Any) -> CorpusStatistics | None:
        if corpus is None:
            return None
        if isinstance(corpus, str) or not isinstance(corpus, Iterable):
            raise InvalidInput("corpus", corpus, "texts, or {id: text}")
        pairs = corpus.items() if isinstance(corpus, Mapping) else enumerate(corpus)
        texts = dict(pairs)
        for key, text in texts.items():
            if not isinstance(text, str):
                remedy = "Leave it out, or give its text."
                raise InvalidInput(f"corpus[{key!r}]", text, "a text", remedy)
        return CorpusStatistics(texts.values())

    def prepare(self, dataset: HasCorpus, cache: Cache) -> Self:
        prepared = super().prepare(dataset, cache)
        if prepared.corpus is not None:
            return prepared
        corpus = CorpusStatistics(map(dataset.indexed_text, dataset.corpus))
        return prepared.model_copy(update={"corpus": corpus})

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        if self.corpus is None:
            raise _no_corpus()
        return await in_thread(self._scores, self.corpus, query, texts)

    def _scores(self, corpus: CorpusStatistics, query: str, texts: Sequence[str]) -> list[float]:
        weights = {word: n * corpus.idf(word) for word, n in Counter(words(query)).items()}
        scores = []
        for text in texts:
            tokens = words(text)
            tf = Counter(tokens)
            saturation = self.k1 * (1 - self.b + self.b * len(tokens) / corpus.average_length)
            terms = []
            for word, weight in weights.items():
                if tf[word]:
                    terms.append(weight * tf[word] * (self.k1 + 1) / (tf[word] + saturation))
            scores.append(math.fsum(terms))
        return scores


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
