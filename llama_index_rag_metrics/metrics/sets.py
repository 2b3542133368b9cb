"""Metrics that count hits, or all that was returned, and ignore the order."""

from __future__ import annotations

from math import isclose
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from llama_index_rag_metrics.rankings.judging.judged import Hits, JudgedRankings
from llama_index_rag_metrics.runtime.containers import FloatArray, IntArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .base import BinaryMetric, CutMetric, RankingMetric, Variants

__all__ = ["Accuracy", "FScore", "HitRate", "Judged", "Precision", "Recall"]
__all__ += ["Abstained", "Returned"]


class HitRate(BinaryMetric):
    """1 if a relevant passage was retrieved, else 0 (trec_eval success_k); granular: recall.

    >>> HitRate(k=2).compute(expected_ids=["a"], retrieved_ids=["x", "y", "a"]).score
    0.0
    """

    name = "hit_rate"
    variants: ClassVar[Variants] = {"granular_hit_rate": {"use_granular_hit_rate": True}}
    use_granular_hit_rate: bool = Field(default=False, description="hits / R instead of 0 or 1")

    def score(self, hits: Hits) -> FloatArray:
        return recall(hits) if self.use_granular_hit_rate else np.minimum(hits.count, 1.0)


class Precision(BinaryMetric):
    """The share of relevant passages among those retrieved (trec_eval set_P); @k: hits / k.

    >>> Precision(k=5).compute(expected_ids=["a"], retrieved_ids=["a", "b"]).score
    0.2
    """

    name = "precision"

    def score(self, hits: Hits) -> FloatArray:
        return precision(hits)


class Recall(BinaryMetric):
    """The share of the relevant passages that was retrieved (trec_eval recall_k).

    >>> Recall().compute(expected_ids=["a", "b"], retrieved_ids=["a", "x"]).score
    0.5
    """

    name = "recall"

    def score(self, hits: Hits) -> FloatArray:
        return recall(hits)


class FScore(BinaryMetric):
    """The harmonic mean of precision P and recall R, (1 + B²) · P · R / (B² · P + R) with beta B.

    f1 has B = 1; trec_eval's set_F.x takes B². With a cutoff, both are at k.

    >>> round(FScore().compute(expected_ids=["a", "b"], retrieved_ids=["a"]).score, 4)
    0.6667
    """

    name = "f"
    variants: ClassVar[Variants] = {"f1": {"beta": 1.0}}
    beta: float = Field(default=1.0, gt=0, le=1e9, description="weight of recall")

    def score(self, hits: Hits) -> FloatArray:
        squared = self.beta * self.beta
        # trec_eval is given B², of which beta may be the rounded root
        rounded = float(f"{squared:.12g}")
        if isclose(rounded, squared, rel_tol=5e-16):
            squared = rounded
        return f_score(precision(hits), recall(hits), squared)


class Judged(CutMetric, RankingMetric):
    """The share of what was retrieved, within k, that was judged: grade 0 or more (ir_measures).

    >>> Judged().compute(expected_ids={"a": 1, "b": 0}, retrieved_ids=["b", "x"]).score
    0.5
    """

    name = "judged"
    needs_relevance: ClassVar[bool] = False

    def _view(self, judged: JudgedRankings) -> Hits:
        return judged.at(self.cutoff, 0.0)

    def score(self, hits: Hits) -> FloatArray:
        return ratio(hits.count, hits.depth)


class Accuracy(BinaryMetric):
    """(TP + TN) / corpus size, where the retrieved passages are those predicted to be relevant.

    Large by nature, as nearly all of a corpus are true negatives; 0 where nothing is relevant. The
    confusion matrix {tp, fp, fn, tn} is in the result's metadata.

    >>> Accuracy(corpus_size=10).compute(expected_ids=["a", "b"], retrieved_ids=["a", "x"])
    RetrievalMetricResult(score=0.8, metadata={'tp': 1, 'fp': 1, 'fn': 1, 'tn': 7})
    """

    name = "accuracy"
    corpus_size: int = Field(..., gt=0, le=2**62, strict=True, description="passages in the corpus")

    def score(self, hits: Hits) -> FloatArray:
        confusion = self._confusion(hits)
        share = (confusion["tp"] + confusion["tn"]) / self.corpus_size
        return np.where(hits.n_relevant > 0, share, 0.0)

    def metadata(self, judged: JudgedRankings) -> dict[str, Any]:
        confusion = self._confusion(judged.at(self.cutoff, self.min_grade))
        return {name: int(count[0]) for name, count in confusion.items()}

    def _confusion(self, hits: Hits) -> dict[str, IntArray]:
        judged = hits.judged
        n_found = np.bincount(judged.item_query, minlength=len(judged))
        largest = (judged.depth + judged.n_judged - n_found).max(initial=0)
        if largest > self.corpus_size:
            expected = f"at least {largest}, the passages retrieved or labelled for one question"
            raise InvalidInput("corpus_size", self.corpus_size, expected)
        tp, fp, fn = hits.count, hits.depth - hits.count, hits.n_relevant - hits.count
        return {"tp": tp, "fp": fp, "fn": fn, "tn": self.corpus_size - tp - fp - fn}


def precision(hits: Hits) -> FloatArray:
    return ratio(hits.count, hits.length)


def recall(hits: Hits) -> FloatArray:
    return ratio(hits.count, hits.n_relevant)


def f_score(p: FloatArray, r: FloatArray, squared_beta: float = 1.0) -> FloatArray:
    return ratio((squared_beta + 1) * p * r, squared_beta * p + r)


class UnanswerableMetric(RankingMetric):
    """A metric of the questions without an answer; all others are left out of its mean."""

    recognises: ClassVar[bool] = False
    in_groups: ClassVar[bool] = True
    of_unanswerable: ClassVar[bool] = True


class Abstained(UnanswerableMetric):
    """1 if nothing was returned for a question that has no answer, else 0; 0 where it failed.

    >>> Abstained().compute(expected_ids=[], retrieved_ids=["a"]).score
    0.0
    """

    name = "abstained"

    def score(self, hits: Hits) -> FloatArray:
        return np.asarray(hits.depth == 0, np.float64)


class Returned(CutMetric, UnanswerableMetric):
    """The passages that were returned for a question that has no answer; @k: of the first k.

    Unbounded; less is better. Other questions are left out, and those that failed.

    >>> Returned(k=5).compute(expected_ids=[], retrieved_ids=["a", "b", "a"]).score
    2.0
    """

    name = "returned"
    bounds = (0.0, float("inf"))
    lower_is_better: ClassVar[bool] = True

    def score(self, hits: Hits) -> FloatArray:
        return hits.depth.astype(np.float64)
