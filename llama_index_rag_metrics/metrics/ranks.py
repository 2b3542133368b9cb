"""Metrics of binary relevance in which the ranks of the hits count."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from llama_index_rag_metrics.rankings.judging.judged import Hits
from llama_index_rag_metrics.runtime.containers import FloatArray, ratio

from .base import BinaryMetric, ThresholdMetric, Variants

__all__ = ["MRR", "RBP", "AveragePrecision", "BPref", "InfAP", "RPrecision"]


class MRR(BinaryMetric):
    """1 / the rank of the first hit, else 0; granular (LlamaIndex's own): mean 1 / rank of hits.

    >>> MRR().compute(expected_ids=["a", "b"], retrieved_ids=["x", "a", "b"]).score
    0.5
    """

    name = "mrr"
    variants: ClassVar[Variants] = {"granular_mrr": {"use_granular_mrr": True}}
    use_granular_mrr: bool = Field(default=False, description="mean of 1 / rank over all hits")

    def score(self, hits: Hits) -> FloatArray:
        if self.use_granular_mrr:
            return ratio(hits.sum_by_query(1 / hits.rank), hits.count)
        return hits.sum_by_query(hits.first / hits.rank)


class AveragePrecision(BinaryMetric):
    """The precision at the rank of each hit, summed, over how many are relevant (trec_eval map).

    >>> AveragePrecision().compute(expected_ids=["a", "b"], retrieved_ids=["a", "x", "y"]).score
    0.5
    """

    name = "ap"

    def score(self, hits: Hits) -> FloatArray:
        return ratio(hits.sum_by_query(hits.ordinal / hits.rank), hits.n_relevant)


class RPrecision(ThresholdMetric):
    """The precision at rank R, R being the number of relevant passages (trec_eval Rprec).

    >>> RPrecision().compute(expected_ids=["a", "b"], retrieved_ids=["a", "x", "b"]).score
    0.5
    """

    name = "r_precision"

    def score(self, hits: Hits) -> FloatArray:
        return ratio(hits.sum_by_query(hits.rank <= hits.n_relevant[hits.query]), hits.n_relevant)


class RBP(BinaryMetric):
    """(1 - p) Σ p^(rank - 1) over the hits: rank-biased precision (Moffat and Zobel, TOIS 2008).

    >>> round(RBP(p=0.5).compute(expected_ids=["a"], retrieved_ids=["x", "a"]).score, 4)
    0.25
    """

    name = "rbp"
    p: float = Field(default=0.8, gt=0, lt=1, description="the reader's persistence")

    def score(self, hits: Hits) -> FloatArray:
        return (1 - self.p) * hits.sum_by_query(np.power(self.p, hits.rank - 1))


class BPref(ThresholdMetric):
    """How often judged non-relevant passages are above relevant ones, as trec_eval; 1 means never.

    >>> BPref().compute(expected_ids={"a": 1, "b": 0}, retrieved_ids=["b", "a"]).score
    0.0
    """

    name = "bpref"

    def score(self, hits: Hits) -> FloatArray:
        at_most = np.minimum(hits.n_relevant, hits.n_nonrelevant)[hits.query]
        above = np.minimum(hits.nonrelevant_above, hits.n_relevant[hits.query])
        return ratio(hits.sum_by_query(1 - ratio(above, at_most)), hits.n_relevant)


class InfAP(ThresholdMetric):
    """Inferred average precision: AP expected from a pool of which only a sample was judged.

    As trec_eval's infAP; a negative grade is pooled and unjudged (Yilmaz and Aslam, CIKM 2006).

    >>> InfAP().compute(expected_ids=["a"], retrieved_ids=["a", "x"]).score
    1.0
    """

    name = "infap"

    def score(self, hits: Hits) -> FloatArray:
        smoothing = 0.00001
        above = hits.rank - 1
        relevant, nonrelevant = hits.ordinal - 1, hits.nonrelevant_above
        pooled = ratio(relevant + nonrelevant + hits.pooled_above, above)
        share = (relevant + smoothing) / (relevant + nonrelevant + 2 * smoothing)
        expected = 1 / hits.rank + above / hits.rank * pooled * share
        return ratio(hits.sum_by_query(expected), hits.n_relevant)
