"""What was retrieved although the asker may not see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llama_index_rag_metrics.metrics.base import BinaryMetric, CutMetric, LabelFreeMetric
from llama_index_rag_metrics.rankings.judging.columns import forbidden_in
from llama_index_rag_metrics.rankings.judging.judged import Hits, JudgedRankings
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray, ratio

__all__ = ["Leak", "Leaked", "PermittedRecall"]


class LeakMetric(CutMetric, LabelFreeMetric):
    """A metric of forbidden passages among those retrieved; it needs no relevance."""

    reads = frozenset({"forbidden"})

    def details(self, judged: JudgedRankings) -> Sequence[dict[str, Any]]:
        """The ranks of the forbidden items within the cutoff, by query; nothing where none is."""
        forbidden = forbidden_in(judged)
        rows: list[dict[str, Any]] = [{} for _ in range(len(judged))]
        kept = judged.is_within(forbidden.query, forbidden.rank, self.cutoff)
        pairs = zip(forbidden.query[kept].tolist(), forbidden.rank[kept].tolist(), strict=True)
        for query, rank in pairs:
            rows[query].setdefault("forbidden_ranks", []).append(rank)
        return rows


class Leak(LeakMetric):
    """The share of forbidden passages among those retrieved; @k: in the top k / passages there.

    Less is better. Forbidden is what the asker may not see; what is relevant doesn't matter.

    Examples:
        >>> Leak(k=2).compute(retrieved_ids=["a", "x", "b"], forbidden_ids=["x", "b"]).score
        0.5
    """

    name = "leak"

    def _score(self, judged: JudgedRankings) -> FloatArray:
        n_forbidden = forbidden_in(judged).n_within(judged, self.cutoff)
        return ratio(n_forbidden, judged.at(self.cutoff).depth)


class Leaked(LeakMetric):
    """1 if a forbidden passage was retrieved, else 0; @k: within rank k.

    Less is better: the mean is the share of the questions whose asker was shown something
    forbidden.

    Examples:
        >>> Leaked(k=1).compute(retrieved_ids=["a", "x", "b"], forbidden_ids=["x", "b"]).score
        0.0
    """

    name = "leaked"

    def _score(self, judged: JudgedRankings) -> FloatArray:
        return np.minimum(forbidden_in(judged).n_within(judged, self.cutoff), 1.0)


class PermittedRecall(BinaryMetric):
    """The share of the permitted relevant passages that was retrieved; @k: within rank k.

    Plain recall would blame a retriever for keeping back what it must. Forbidden items keep their
    ranks. A query whose relevant items are all forbidden has no value.

    Examples:
        >>> recall = PermittedRecall().compute(
        ...     expected_ids=["a", "b", "x"], retrieved_ids=["a", "x"], forbidden_ids=["x"]
        ... )
        >>> recall.score
        0.5
    """

    name = "permitted_recall"
    reads = frozenset({"forbidden"})

    def score(self, hits: Hits) -> FloatArray:
        permitted = ~forbidden_in(hits.judged).covers(hits)
        return ratio(hits.sum_by_query(permitted), self._n_permitted(hits.judged))

    def has_value(self, judged: JudgedRankings) -> BoolArray:
        return np.asarray(self._n_permitted(judged) > 0, np.bool_)

    def _n_permitted(self, judged: JudgedRankings) -> IntArray:
        forbidden = forbidden_in(judged)
        relevant = forbidden.judged_query[forbidden.judged_grade >= self.min_grade]
        n_relevant = judged.count_judgements(self.min_grade)
        return np.asarray(n_relevant - np.bincount(relevant, minlength=len(judged)), np.int64)
