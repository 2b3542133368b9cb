"""Metrics of groups of alternatives, where any member of a group meets the same need.

The definitions are AutoRAG's.
"""

from __future__ import annotations

from llama_index_rag_metrics.metrics.base import GroupMetric
from llama_index_rag_metrics.metrics.sets import precision
from llama_index_rag_metrics.rankings.judging import GroupHits
from llama_index_rag_metrics.runtime.arrays import FloatArray, ratio

__all__ = ["GroupAP", "GroupF1", "GroupMRR", "GroupRecall"]


class GroupRecall(GroupMetric):
    """The share of the groups with at least one retrieved member.

    Examples:
        >>> GroupRecall().compute(expected_ids=[["a", "b"], ["c"]], retrieved_ids=["b"]).score
        0.5
    """

    name = "group_recall"

    def score(self, groups: GroupHits) -> FloatArray:
        return _recall(groups)


class GroupF1(GroupMetric):
    """The harmonic mean of group recall and precision.

    Examples:
        >>> GroupF1().compute(expected_ids=[["a", "b"], ["c"]], retrieved_ids=["b", "x"]).score
        0.5
    """

    name = "group_f1"

    def score(self, groups: GroupHits) -> FloatArray:
        p, r = precision(groups.hits), _recall(groups)
        return ratio(2 * p * r, p + r)


class GroupMRR(GroupMetric):
    """The mean over the groups of 1 / the rank of the group's first hit, 0 without one.

    Examples:
        >>> GroupMRR().compute(expected_ids=[["a"], ["b"]], retrieved_ids=["a", "x", "b"]).score
        0.6666666666666666
    """

    name = "group_mrr"

    def score(self, groups: GroupHits) -> FloatArray:
        return ratio(groups.sum_by_query(groups.first / groups.rank), groups.n_groups)


class GroupAP(GroupMetric):
    """The mean over the groups of the mean precision at the group's found items.

    Within a group only its own items count as relevant; the mean is over those that were found.

    Examples:
        >>> GroupAP().compute(expected_ids=[["a"], ["b"]], retrieved_ids=["x", "a", "y", "b"]).score
        0.375
    """

    name = "group_ap"

    def score(self, groups: GroupHits) -> FloatArray:
        precision_there = groups.ordinal / groups.rank
        return ratio(groups.sum_by_query(precision_there / groups.n_found), groups.n_groups)


def _recall(groups: GroupHits) -> FloatArray:
    return ratio(groups.sum_by_query(groups.first), groups.n_groups)
