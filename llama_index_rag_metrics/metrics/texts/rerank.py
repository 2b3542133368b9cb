"""How relevant a reranker finds what was retrieved: any of LlamaIndex's, or a service."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from pydantic import Field

from llama_index_rag_metrics.metrics.texts.text_metric import TextMetric, TextScores
from llama_index_rag_metrics.runtime.cache.fetching import Tally, Usage
from llama_index_rag_metrics.runtime.digests import Request, settings_of
from llama_index_rag_metrics.runtime.errors import BadAnswer
from llama_index_rag_metrics.runtime.models import instance_of
from llama_index_rag_metrics.runtime.sync import in_thread

if TYPE_CHECKING:
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
else:
    BaseNodePostprocessor = instance_of(
        "llama_index.core.postprocessor.types", "BaseNodePostprocessor"
    )

__all__ = ["RerankRelevancy"]


class RerankerMetric(TextMetric):
    """A metric whose scores are a reranker's: asking for them, caching them, counting them."""

    alone: ClassVar[bool] = False  # whether each text is scored, and so cached, on its own
    most_texts: ClassVar[int | None] = None  # the most texts of one request

    @abstractmethod
    def _request(self, query: str, texts: str | Sequence[str]) -> Request:
        """The cache's key: for one text if each is scored on its own, else for all of them."""

    @abstractmethod
    async def _rerank(self, query: str, texts: Sequence[str], tally: Tally) -> list[float]:
        """Ask for the scores of these texts, in their order, and count the requests."""

    @property
    @abstractmethod
    def _model(self) -> str: ...

    def _is_score(self, score: Any) -> TypeGuard[float]:
        low, high = self.bounds
        return type(score) in (int, float) and math.isfinite(score) and low <= score <= high

    async def ascore(self, query: str, texts: Sequence[str]) -> TextScores:
        tally = Tally(Usage(self._model))
        parts = list(texts) if self.alone else [texts]

        async def ask(positions: list[int]) -> list[Any]:
            asked = [texts[position] for position in positions] if self.alone else texts
            tally.usage += Usage(fresh=len(asked))
            scores = await self._rerank(query, asked, tally)
            return scores if self.alone else [scores]

        with self._counting(tally):
            fetched = await self._cache.fetch(
                [self._request(query, part) for part in parts],
                ask,
                batch_size=self.most_texts,
                is_valid=self._is_score if self.alone else partial(self._are_scores, n=len(texts)),
            )
        scores = fetched.values if self.alone else fetched.values[0]
        tally.usage += Usage(cached=fetched.cached * (1 if self.alone else len(texts)))
        return TextScores([float(score) for score in scores], tally.usage)

    def _are_scores(self, scores: object, n: int) -> bool:
        return isinstance(scores, list) and len(scores) == n and all(map(self._is_score, scores))


class RerankRelevancy(RerankerMetric):
    """The relevance of the retrieved texts to the question by a reranker, max over the texts.

    The range is the reranker's: [1, 10] for LlamaIndex's LLMRerank, unbounded for cross-encoders. A
    text that the reranker leaves out of its answer scores 0, as does nothing retrieved. A `top_n`
    of the reranker doesn't count: all texts are scored. Answers are cached by the query with all of
    its texts, since a reranker may weigh them against each other.

    Args:
        reranker: a node postprocessor of LlamaIndex; it is called in a thread.
        label: tells the metrics of several rerankers apart; part of the name and the cache's key.

    Raises:
        BadAnswer: the reranker gave no score, or something else than what it was given.

    Examples:
        >>> from llama_index.core.postprocessor.types import BaseNodePostprocessor
        >>> from llama_index.core.schema import NodeWithScore
        >>> class Longest(BaseNodePostprocessor):
        ...     def _postprocess_nodes(self, nodes, query_bundle=None):
        ...         return [NodeWithScore(node=n.node, score=len(n.node.text)) for n in nodes]
        >>> metric = RerankRelevancy(reranker=Longest(), label="longest", agg="mean")
        >>> metric.metric_name, metric.compute("?", retrieved_texts=["a", "bcd"]).score
        ('rerank_relevancy(agg=mean, label=longest)', 2.0)
    """

    name = "rerank_relevancy"
    bounds: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    reranker: BaseNodePostprocessor = Field(
        exclude=True, repr=False, description="what scores the texts; it may hold a key"
    )
    label: str = Field(default="", description="tells several rerankers apart")

    def _request(self, query: str, texts: str | Sequence[str]) -> Request:
        label = self.label or type(self.reranker).__name__
        return Request(
            "rerank", label, parameters=settings_of(self.reranker), query=query, text=texts
        )

    async def _rerank(self, query: str, texts: Sequence[str], tally: Tally) -> list[float]:
        tally.usage += Usage(requests=1)
        return await in_thread(self._postprocess, query, texts)

    def _postprocess(self, query: str, texts: Sequence[str]) -> list[float]:
        from llama_index.core.schema import NodeWithScore, TextNode

        reranker = self.reranker
        if "top_n" in type(reranker).model_fields:
            reranker = reranker.model_copy(update={"top_n": len(texts)})
        bare = [TextNode(id_=str(position), text=text) for position, text in enumerate(texts)]
        nodes = [NodeWithScore(node=node) for node in bare]
        scores: dict[str, float] = {}
        for node in reranker.postprocess_nodes(nodes, query_str=query):
            node_id = node.node.node_id
            if node_id in scores or not node_id.isdecimal() or int(node_id) >= len(texts):
                raise BadAnswer(self.metric_name, "the reranker gave a node twice, or another one")
            if node.score is None or not math.isfinite(node.score):
                reason = f"score {node.score}, but the reranker must give each node a score"
                raise BadAnswer(self.metric_name, reason)
            scores[node_id] = float(node.score)
        return [scores.get(str(position), 0.0) for position in range(len(texts))]

    @property
    def _model(self) -> str:
        model = getattr(self.reranker, "model", None) or getattr(self.reranker, "model_name", None)
        return self.label or (model if isinstance(model, str) else type(self.reranker).__name__)
