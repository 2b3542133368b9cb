"""What every metric of texts shares: the texts it sees, aggregation, the cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from llama_index.core.evaluation.retrieval.metrics_base import RetrievalMetricResult
from pydantic import Field, PrivateAttr
from typing_extensions import Self

from llama_index_rag_metrics.metrics.base import NamedMetric, unknown_argument
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import has_order
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import synchronous_method

__all__ = ["TextMetric"]

Aggregation: TypeAlias = Literal["max", "mean", "median"]

_AGGREGATIONS: dict[str, Callable[..., float]] = {"max": max, "mean": fmean, "median": median}


def service(description: str, default: Any = None, **limits: Any) -> Any:
    """A field that is neither shown nor dumped, nor part of a metric's name: a model, a service."""
    return Field(default=default, exclude=True, repr=False, description=description, **limits)


class HasCorpus(Protocol):
    """What a metric may need from a dataset."""

    @property
    def corpus(self) -> Mapping[str, str]: ...

    def indexed_text(self, document_id: str) -> str: ...


class TextMetric(NamedMetric):
    """A metric of the retrieved texts themselves; it needs no labels.

    A subclass has a `name` and one asynchronous method, `ascore`, that gives each text a score.

    Args:
        k: only the first k retrieved texts count; None takes all.
        agg: "max", "mean" or "median" of the scores of the retrieved texts.

    Attributes:
        scores_nothing: whether nothing retrieved scores 0. Otherwise it has no value: `compute`
            returns 0 and says so in the metadata, and a dataset leaves the query out of the mean.

    Examples:
        >>> from llama_index_rag_metrics import BM25Similarity, TextMetric
        >>> isinstance(BM25Similarity(), TextMetric)
        True
    """

    needs_relevance: ClassVar[bool] = False
    scores_nothing: ClassVar[bool] = True
    k: int | None = Field(None, gt=0, strict=True, description="cutoff; None: the whole ranking")
    agg: Aggregation = Field(default="max", description="max, mean or median over the texts")
    _cache: Cache = PrivateAttr(default_factory=Cache)

    @abstractmethod
    async def ascore(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """The score of each text for the query; of at least one text, distinct, none blank."""

    @property
    def cutoff(self) -> int | None:
        return self.k

    @property
    def graded_by(self) -> str:
        """The name of the LLM whose grades the scores are; "" for all other metrics."""
        return ""

    def prepare(self, dataset: HasCorpus, cache: Cache) -> Self:
        """A copy of the metric for one run, which knows the dataset and uses the run's cache.

        What the metric lacks (a key, a model, a corpus) is an error here, before anything is asked.
        """
        prepared = self.model_copy()
        prepared._cache = cache
        return prepared

    async def acompute(
        self,
        query: str | None = None,
        expected_ids: RelevanceLike | None = None,
        retrieved_ids: Sequence[str] | None = None,
        expected_texts: Sequence[str] | None = None,
        retrieved_texts: Sequence[str] | None = None,
        agg: Aggregation | None = None,
        **kwargs: Any,
    ) -> RetrievalMetricResult:
        """Score one query; `acompute` is awaited, `compute` isn't.

        A text that comes twice is scored once; a blank one isn't sent anywhere and scores 0.

        Args:
            query: the query.
            expected_ids, retrieved_ids, expected_texts: not used.
            retrieved_texts: what was retrieved, best first.
            agg: instead of the metric's own.

        Returns:
            The score; in `metadata` the score of each retrieved text.

        Raises:
            InvalidInput: retrieved_texts is None, or an argument can't be used.
            ScorerFailed: a service or a model gave no scores.
        """
        if kwargs:
            raise unknown_argument(kwargs, type(self))
        aggregation = self.agg if agg is None else agg
        texts = self._checked(query, retrieved_texts, aggregation)
        distinct = list(dict.fromkeys(text for text in texts if text.strip()))
        by_text: dict[str, float] = {}
        if distinct:
            scores_of_distinct = await self.ascore(str(query), distinct)
            by_text = dict(zip(distinct, scores_of_distinct, strict=True))
        score, scores = 0.0, [by_text.get(text, 0.0) for text in texts]
        metadata: dict[str, Any] = {"agg": aggregation, "scores": scores}
        if scores:
            low, high = self.bounds
            score = min(max(_AGGREGATIONS[aggregation](scores), low), high)
        elif not self.scores_nothing:
            metadata["empty"] = True
        return RetrievalMetricResult(score=score, metadata=metadata)

    compute = synchronous_method(acompute)  # type: ignore[arg-type, pydantic-field]

    def _checked(self, query: object, texts: Sequence[str] | None, aggregation: str) -> list[str]:
        if aggregation not in _AGGREGATIONS:
            raise InvalidInput("agg", aggregation, "'max', 'mean' or 'median'")
        if texts is None or not has_order(texts):
            expected = "a list of texts, [] where nothing was retrieved"
            raise InvalidInput("retrieved_texts", texts, expected)
        counting = list(texts)[: self.k]
        for text in counting:
            if not isinstance(text, str):
                raise InvalidInput("retrieved_texts", text, "texts")
        is_query = isinstance(query, str) and query.strip()
        if not is_query and any(map(str.strip, counting)):
            raise InvalidInput("query", query, "a text that isn't blank")
        return counting
