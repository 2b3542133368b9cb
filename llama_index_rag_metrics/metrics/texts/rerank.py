"""How relevant a reranker finds what was retrieved: any of LlamaIndex's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import Field, InstanceOf

from llama_index_rag_metrics.runtime.cache import cache_key
from llama_index_rag_metrics.runtime.errors import ScorerFailed
from llama_index_rag_metrics.runtime.models import settings_of
from llama_index_rag_metrics.runtime.sync import in_thread

from .text_metric import TextMetric

__all__ = ["RerankRelevancy"]


class RerankRelevancy(TextMetric):
    """Relevance of the retrieved texts by a reranker, max over them unless the name says otherwise.

    The range is the reranker's: [1, 10] for LlamaIndex's LLMRerank, unbounded for cross-encoders. A
    text that the reranker leaves out of its answer scores 0, as does nothing retrieved. A `top_n`
    of the reranker doesn't count: all texts are scored. Answers are cached by the query with all of
    its texts, since a reranker may weigh them against each other.

    Args:
        reranker: a node postprocessor of LlamaIndex; it is called in a thread.
        label: tells the metrics of several rerankers apart; part of the name and the cache's key.

    Raises:
        ScorerFailed: the reranker gave no score, or something else than what it was given.

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
    reranker: InstanceOf[BaseNodePostprocessor] = Field(
        exclude=True, repr=False, description="what scores the texts; it may hold a key"
    )
    label: str = Field(default="", description="tells several rerankers apart")

    async def ascore(self, query: str, texts: Sequence[str]) -> list[float]:
        settings = settings_of(self.reranker)
        names = [self.label]
        names += [getattr(self.reranker, field, "") for field in ("model", "model_name")]
        named = [name for name in names if name and isinstance(name, str)]
        model = next(iter(named), type(self.reranker).__name__)
        key = cache_key("rerank", model, parameters=settings, query=query, text=texts)

        async def ask(_: list[int]) -> list[list[float]]:
            return [await in_thread(self._postprocess, query, texts)]

        def is_valid(scores: Any) -> bool:
            return isinstance(scores, list) and list(map(type, scores)) == [float] * len(texts)

        (scores,) = await self._cache.fetch([key], ask, is_valid=is_valid)
        return list(scores)

    def _postprocess(self, query: str, texts: Sequence[str]) -> list[float]:
        reranker = self.reranker
        if "top_n" in type(reranker).model_fields:
            reranker = reranker.model_copy(update={"top_n": len(texts)})
        passages = [TextNode(id_=str(n), text=text) for n, text in enumerate(texts)]
        nodes = [NodeWithScore(node=passage) for passage in passages]
        scores: dict[str, float] = {}
        absent = {node.node.node_id for node in nodes}
        for node in reranker.postprocess_nodes(nodes, query_str=query):
            node_id = node.node.node_id
            if node_id not in absent or node.score is None or not math.isfinite(node.score):
                reason = f"each node must have one score, but node {node_id} has score {node.score}"
                raise ScorerFailed(self.metric_name, reason)
            absent.remove(node_id)
            scores[node_id] = float(node.score)
        return [scores.get(str(n), 0.0) for n in range(len(texts))]
