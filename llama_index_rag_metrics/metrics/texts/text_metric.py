"""What every metric of texts shares: the texts it sees, aggregation, the cache, metadata.

A metric is a subclass with a `name` and one asynchronous method, `ascore`, that gives each text a
score. Which texts those are, and what becomes of the scores, is decided here.

The parameters that all of them take:

* `k`: only the first k retrieved texts count; None takes all.
* `tokens`, in names `@2000tokens`: only the texts that fit into this many tokens.
* `agg`: "max", "mean" or "median" of the scores of the retrieved texts.
"""

from __future__ import annotations

import math
import statistics
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

from llama_index.core.evaluation.retrieval.metrics_base import RetrievalMetricResult
from pydantic import Field, PrivateAttr

from llama_index_rag_metrics.metrics.base import CutMetric, unknown_argument
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import has_order
from llama_index_rag_metrics.rankings.tokens import TokenCounter, n_fitting
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Tally, Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput, NoRetrieval
from llama_index_rag_metrics.runtime.sync import run_sync

__all__ = ["TextMetric"]

Aggregation: TypeAlias = Literal["max", "mean", "median"]

AnyTextMetric = TypeVar("AnyTextMetric", bound="TextMetric")

_AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "max": max,
    "mean": lambda scores: math.fsum(scores) / len(scores),
    "median": statistics.median,
}


def service(description: str, default: Any = None, **limits: Any) -> Any:
    """A field that is neither shown nor dumped, nor part of a metric's name: a model, a service."""
    return Field(default=default, exclude=True, repr=False, description=description, **limits)


class HasCorpus(Protocol):
    """What a metric may need from a dataset."""

    @property
    def corpus(self) -> Mapping[str, str]: ...

    def indexed_text(self, document_id: str) -> str:
        """The title and the text of a document."""


@dataclass(frozen=True)
class TextScores:
    """The scores of some texts, and what was asked for; usage is None if nothing ever is."""

    scores: Sequence[float]
    usage: Usage | None = None

    def metadata(self) -> dict[str, Any]:
        usage = self.usage
        if usage is None:
            return {}
        summary: dict[str, Any] = {"model": usage.model} if usage.model else {}
        summary |= {"requests": usage.requests, "fresh": usage.fresh, "cached": usage.cached}
        extra = {name: getattr(usage, name) for name in ("units", "tokens_in", "tokens_out")}
        return summary | {name: number for name, number in extra.items() if number}


class TextMetric(CutMetric):
    """A metric of the retrieved texts themselves; it needs no labels.

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
    agg: Aggregation = Field(default="max", description="max, mean or median over the texts")
    _cache: Cache = PrivateAttr(default_factory=Cache)
    _usage: Usage | None = PrivateAttr(None)

    @abstractmethod
    async def ascore(self, query: str, texts: Sequence[str]) -> TextScores:
        """The score of each text for the query.

        Args:
            query: the query, not blank.
            texts: at least one text; distinct, none blank.
        """

    def prepare(self: AnyTextMetric, dataset: HasCorpus, cache: Cache) -> AnyTextMetric:
        """A copy of the metric for one run, which knows the dataset and uses the run's cache.

        What the metric lacks (a key, a model, a corpus) is an error here, before anything is asked.
        """
        prepared = self.model_copy()
        prepared._cache, prepared._usage = cache, None
        return prepared

    @property
    def usage(self) -> Usage | None:
        """What was asked for so far, including failures; None if nothing was."""
        return self._usage

    def take_usage(self) -> Usage | None:
        """What was asked for so far; then counting starts again, so that nothing counts twice."""
        usage, self._usage = self._usage, None
        return usage

    def portable(self: AnyTextMetric) -> AnyTextMetric:
        """A copy of the metric for another process, where LlamaIndex's `Settings` may differ."""
        return self

    async def acompute(
        self,
        query: str | None = None,
        expected_ids: RelevanceLike | None = None,
        retrieved_ids: Sequence[str] | None = None,
        expected_texts: Sequence[str] | None = None,
        retrieved_texts: Sequence[str] | None = None,
        agg: Aggregation | None = None,
        *,
        retrieved_tokens: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> RetrievalMetricResult:
        """Score one query.

        A text that comes twice is scored once; a blank one isn't sent anywhere and scores 0.

        Args:
            query: the query.
            expected_ids: not used.
            retrieved_ids: not used.
            expected_texts: the texts that belong to expected_ids; only few metrics use them.
            retrieved_texts: what was retrieved, best first.
            agg: instead of the metric's own.
            retrieved_tokens: for a cutoff by tokens, the length of each retrieved text; counted by
                LlamaIndex's `get_tokenizer()` unless given.

        Returns:
            The score; in `metadata` the score of each retrieved text, and what it took: model,
            requests sent, texts fresh and cached, units billed, tokens that an LLM read and wrote.

        Raises:
            NoRetrieval: retrieved_texts is None. An empty list is fine; see `scores_nothing`.
            InvalidInput: an argument can't be used; raised before anything is sent.
            ScorerFailed: a service or a model gave no scores.
        """
        if kwargs:
            raise unknown_argument(kwargs, type(self))
        chosen = self.agg if agg is None else agg
        if chosen not in _AGGREGATIONS:
            raise InvalidInput("agg", chosen, "'max', 'mean' or 'median'")
        if retrieved_texts is None:
            raise NoRetrieval("retrieved_texts")
        if not has_order(retrieved_texts):
            raise InvalidInput("retrieved_texts", retrieved_texts, "a list of texts")
        texts = self._within_cutoff(list(retrieved_texts), retrieved_tokens)
        if not texts:
            empty = {} if self.scores_nothing else {"empty": True}
            return RetrievalMetricResult(score=0.0, metadata={"agg": chosen, "scores": []} | empty)
        if others := [text for text in texts if not isinstance(text, str)]:
            raise InvalidInput("retrieved_texts", others[0], "texts")
        distinct = list(dict.fromkeys(text for text in texts if text.strip()))
        scored = await self._ascore(query, expected_texts, distinct) if distinct else TextScores([])
        self._count(scored.usage)
        by_text = dict(zip(distinct, scored.scores, strict=True))
        scores = [by_text.get(text, 0.0) for text in texts]
        low, high = self.bounds
        return RetrievalMetricResult(
            score=min(max(_AGGREGATIONS[chosen](scores), low), high),
            metadata={"agg": chosen, "scores": scores} | scored.metadata(),
        )

    def compute(
        self,
        query: str | None = None,
        expected_ids: RelevanceLike | None = None,
        retrieved_ids: Sequence[str] | None = None,
        expected_texts: Sequence[str] | None = None,
        retrieved_texts: Sequence[str] | None = None,
        agg: Aggregation | None = None,
        *,
        retrieved_tokens: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> RetrievalMetricResult:
        """The synchronous twin of `acompute`; works in notebooks, too."""
        given = (query, expected_ids, retrieved_ids, expected_texts, retrieved_texts, agg)
        return run_sync(self.acompute(*given, retrieved_tokens=retrieved_tokens, **kwargs))

    def _within_cutoff(self, texts: list[str], tokens: Sequence[int] | None) -> list[str]:
        if self.tokens is None:
            return texts[: self.k]
        if tokens is None:
            tokens = TokenCounter().count(texts)
        elif len(tokens) != len(texts):
            expected = f"one for each of the {len(texts)} texts"
            raise InvalidInput("retrieved_tokens", len(tokens), expected)
        return texts[: n_fitting(tokens, self.tokens)]

    async def _ascore(
        self, query: str | None, expected_texts: Sequence[str] | None, texts: Sequence[str]
    ) -> TextScores:
        """`ascore`, for whatever the metric compares the texts with."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput("query", query, "a text that isn't blank")
        return await self.ascore(query, texts)

    @contextmanager
    def _counting(self, tally: Tally) -> Iterator[None]:
        """Count what was asked for, even if the scores never arrive."""
        try:
            yield
        except BaseException:
            self._count(tally.usage)
            raise

    def _count(self, usage: Usage | None) -> None:
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage
