"""How relevant a reranker finds what was retrieved: any of LlamaIndex's node postprocessors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import Field

from llama_index_rag_metrics.metrics.texts.text_metric import TextMetric, TextScores
from llama_index_rag_metrics.runtime.cache import Request, Tally, Usage, identity
from llama_index_rag_metrics.runtime.errors import BadAnswer
from llama_index_rag_metrics.runtime.sync import in_thread


class RerankRelevancy(TextMetric):
    """The relevance of the retrieved texts to the query by a reranker, max over the texts.

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
        ..., exclude=True, repr=False, description="what scores the texts; it may hold a key"
    )
    label: str = Field("", description="tells several rerankers apart")

    async def ascore(self, query: str, texts: Sequence[str]) -> TextScores:
        request = Request(
            "rerank",
            self.label or type(self.reranker).__name__,
            parameters=identity(self.reranker),
            query=query,
            text=texts,
        )

        tally = Tally(Usage(self._model))

        async def ask(_: list[int]) -> list[list[float]]:
            tally.usage += Usage(requests=1, fresh=len(texts))
            return [await in_thread(self._rerank, query, texts)]

        with self._counting(tally):
            fetched = await self._cache.fetch(
                [request], ask, is_valid=partial(_are_scores, n=len(texts))
            )
        tally.usage += Usage(cached=fetched.cached * len(texts))
        return TextScores([float(score) for score in fetched.values[0]], tally.usage)

    def _rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        reranker = self.reranker
        if "top_n" in type(reranker).model_fields:
            reranker = reranker.model_copy(update={"top_n": len(texts)})
        nodes = [
            NodeWithScore(node=TextNode(id_=str(position), text=text))
            for position, text in enumerate(texts)
        ]
        scores: dict[str, float] = {}
        for node in reranker.postprocess_nodes(nodes, query_str=query):
            node_id = node.node.node_id
            if node_id in scores or not node_id.isdecimal() or int(node_id) >= len(texts):
                raise BadAnswer(self.metric_name, "the reranker gave a node twice, or another one")
            if node.score is None or not math.isfinite(node.score):
                expected = "the reranker must give each node a score"
                raise BadAnswer(self.metric_name, f"score {node.score}, but {expected}")
            scores[node_id] = float(node.score)
        return [scores.get(str(position), 0.0) for position in range(len(texts))]

    @property
    def _model(self) -> str:
        """What to call the reranker: its model where it says which."""
        model = getattr(self.reranker, "model", None) or getattr(self.reranker, "model_name", None)
        return self.label or (model if isinstance(model, str) else type(self.reranker).__name__)


def _are_scores(scores: object, n: int) -> bool:
    return (
        isinstance(scores, list)
        and len(scores) == n
        and all(type(score) in (int, float) and math.isfinite(score) for score in scores)
    )
