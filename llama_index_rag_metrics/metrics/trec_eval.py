"""What only trec_eval's reports have: counts of a query, and precision at levels of recall."""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from llama_index_rag_metrics.judging import FloatArray, Hits
from llama_index_rag_metrics.metrics.base import WholeRankingMetric


class RetrievedCount(WholeRankingMetric):
    """How many distinct items were retrieved (trec_eval num_ret)."""

    name = "num_ret"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        return hits.depth.astype(np.float64)


class RelevantCount(WholeRankingMetric):
    """How many items are relevant, retrieved or not (trec_eval num_rel)."""

    name = "num_rel"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        return hits.n_relevant.astype(np.float64)


class HitCount(WholeRankingMetric):
    """How many relevant items were retrieved (trec_eval num_rel_ret)."""

    name = "num_rel_ret"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        return hits.count.astype(np.float64)


class InterpolatedPrecision(WholeRankingMetric):
    """The highest precision at any rank where a share of the relevant items has been found.

    trec_eval's iprec_at_recall, as versions up to 9 round it: the share stands for
    ⌊recall · R + 0.9⌋ hits. 0 where so many weren't retrieved.

    Args:
        recall: the share.

    Examples:
        >>> half = InterpolatedPrecision(recall=0.5)
        >>> half.compute(expected_ids=["a", "b"], retrieved_ids=["x", "a", "b"]).score
        0.6666666666666666
    """

    name = "iprec_at_recall"
    recall: float = Field(ge=0, le=1, description="a share of the relevant items")

    def score(self, hits: Hits) -> FloatArray:
        wanted = np.floor(self.recall * hits.n_relevant + 0.9)
        counted = hits.ordinal >= wanted[hits.query]
        best = np.zeros(hits.n_queries)
        precision = hits.ordinal / hits.rank
        np.maximum.at(best, hits.query[counted], precision[counted])
        return best
