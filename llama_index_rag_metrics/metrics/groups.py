"""Metrics of groups of alternatives, any of which meets the same need, and of facets (named)."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from heapq import heapify, heappop, heapreplace

import numpy as np
from pydantic import Field

from llama_index_rag_metrics.rankings.judging.judged import (
    GroupHits,
    JudgedGroups,
    Ranked,
    ordinal_of,
)
from llama_index_rag_metrics.runtime.containers import FloatArray, ratio

from .base import GroupMetric
from .gains import discounted
from .sets import f_score, precision

__all__ = ["GroupAP", "GroupF1", "GroupMRR", "GroupRecall"]
__all__ += ["ERRIA", "AlphaNDCG", "Complete", "FacetRecall"]


class GroupRecall(GroupMetric):
    """The share of the groups with at least one retrieved member.

    >>> GroupRecall().compute(expected_ids=[["a", "b"], ["c"]], retrieved_ids=["b"]).score
    0.5
    """

    name = "group_recall"

    def score(self, groups: GroupHits) -> FloatArray:
        return _recall(groups)


class GroupF1(GroupMetric):
    """The harmonic mean of group recall and precision.

    >>> GroupF1().compute(expected_ids=[["a", "b"], ["c"]], retrieved_ids=["b", "x"]).score
    0.5
    """

    name = "group_f1"

    def score(self, groups: GroupHits) -> FloatArray:
        return f_score(precision(groups.hits), _recall(groups))


class GroupMRR(GroupMetric):
    """The mean over the groups of 1 / the rank of the group's first hit, 0 without one.

    >>> GroupMRR().compute(expected_ids=[["a"], ["b"]], retrieved_ids=["a", "x", "b"]).score
    0.6666666666666666
    """

    name = "group_mrr"

    def score(self, groups: GroupHits) -> FloatArray:
        return ratio(groups.sum_by_query(groups.first / groups.rank), groups.n_groups)


class GroupAP(GroupMetric):
    """The mean over the groups of the mean precision at the group's own found passages.

    >>> GroupAP().compute(expected_ids=[["a"], ["b"]], retrieved_ids=["x", "a", "y", "b"]).score
    0.375
    """

    name = "group_ap"

    def score(self, groups: GroupHits) -> FloatArray:
        precision_there = groups.ordinal / groups.rank
        n_found = np.bincount(groups.group)[groups.group]
        return ratio(groups.sum_by_query(precision_there / n_found), groups.n_groups)


class Complete(GroupMetric):
    """1 if every facet was found, else 0: for questions that a part can't answer.

    >>> facets = {"hop 1": ["a", "b"], "hop 2": ["c"]}
    >>> Complete(k=2).compute(expected_ids={"facets": facets}, retrieved_ids=["b", "c"]).score
    1.0
    """

    name = "complete"

    def score(self, groups: GroupHits) -> FloatArray:
        n_found = groups.sum_by_query(groups.first)
        return np.where((n_found == groups.n_groups) & (groups.n_groups > 0), 1.0, 0.0)


class FacetRecall(GroupMetric):
    """The weight of the facets that were found / the weight of all facets.

    Without weights, subtopic recall (ndeval's strec): Zhai, Cohen and Lafferty, SIGIR 2003.

    >>> relevance = {"facets": {"x": ["a"], "y": ["b"]}, "weights": {"x": 3}}
    >>> FacetRecall().compute(expected_ids=relevance, retrieved_ids=["a"]).score
    0.75
    """

    name = "facet_recall"

    def score(self, groups: GroupHits) -> FloatArray:
        return ratio(groups.sum_by_query(groups.first * groups.weight), groups.total_weight)


class NoveltyMetric(GroupMetric):
    """A metric in which a facet gains less each time: (1 - alpha)^(times supplied above)."""

    alpha: float = Field(0.5, ge=0, lt=1, description="how much less a facet gains each time")

    def gain(self, groups: GroupHits) -> FloatArray:
        """(items,) the gain of each item in a group, once for each of its groups."""
        return np.asarray((1 - self.alpha) ** (groups.ordinal - 1), np.float64)


class AlphaNDCG(NoveltyMetric):
    """Discounted novelty gain over that of a greedily chosen ideal ranking.

    The discount is log2(rank + 1); ties of the greedy choice go by id, descending, as ndeval's. A
    ranking that beats the ideal has 1 here, and more in ndeval (Clarke et al., SIGIR 2008).

    >>> facets = {"facets": {"x": ["a", "b"], "y": ["c"]}}
    >>> alpha_ndcg = AlphaNDCG(k=2)
    >>> round(alpha_ndcg.compute(expected_ids=facets, retrieved_ids=["a", "b", "c"]).score, 4)
    0.8066
    """

    name = "alpha_ndcg"

    def score(self, groups: GroupHits) -> FloatArray:
        ideal = ideal_ranking(groups, self.alpha, self.min_grade)
        return ratio(discounted(groups, self.gain(groups)), discounted(ideal, ideal.grade))


class ERRIA(NoveltyMetric):
    """Expected reciprocal rank over facets (intent-aware): novelty gain / rank, averaged.

    Divided by the value of a ranking every item of which supplies every facet, as ndeval does but
    at rank 1 (Chapelle et al., Information Retrieval 14(6), 2011).

    >>> facets = {"facets": {"x": ["a", "b"], "y": ["c"]}}
    >>> ERRIA(k=1).compute(expected_ids=facets, retrieved_ids=["a", "b", "c"]).score
    0.5
    """

    name = "err_ia"

    def score(self, groups: GroupHits) -> FloatArray:
        length = np.broadcast_to(groups.hits.length, groups.n_queries)
        rank = np.arange(1, length.max(initial=0) + 1)
        perfect = np.concatenate([[0.0], np.cumsum((1 - self.alpha) ** (rank - 1) / rank)])
        gained = groups.sum_by_query(self.gain(groups) / groups.rank)
        return ratio(gained, groups.n_groups * perfect[length])


def ideal_ranking(groups: GroupHits, alpha: float, min_grade: float) -> Ranked:
    """The greedy ranking of every query's relevant items, with their gains as grades."""
    hits = groups.hits
    structures = _structures(hits.judged.groups, min_grade)
    is_grouped = np.bincount(hits.judged.groups.query, minlength=groups.n_queries) > 0
    lengths = np.broadcast_to(hits.length, groups.n_queries)
    gains = [np.array([])]
    for position, length in enumerate(lengths.tolist()):
        gain = np.ones(hits.n_relevant[position])
        if is_grouped[position]:
            gain = _greedy_gains(structures.get(position, ()), alpha)
        gains.append(gain[:length])
    count = np.array(list(map(len, gains[1:])), np.int64)
    query = np.arange(groups.n_queries).repeat(count)
    return Ranked(groups.n_queries, query, ordinal_of(query, count), np.concatenate(gains))


def _structures(judged: JudgedGroups, min_grade: float) -> dict[int, tuple[tuple[int, ...], ...]]:
    """Query with groups to the groups of each relevant item, in the order for ties."""
    by_query: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    relevant = judged.member_grade >= min_grade
    group = judged.member_group[relevant]
    query = judged.query[group]
    # groups by their number in the query, so that queries alike share their ideal
    number = group - np.searchsorted(judged.query, query)
    columns = query.tolist(), judged.member_item[relevant].tolist(), number.tolist()
    for query_position, item, group_number in zip(*columns, strict=True):
        by_query[query_position][item].append(group_number)
    structures = {}
    for query_position, items in by_query.items():
        structures[query_position] = tuple(tuple(items[item]) for item in sorted(items))
    return structures


@lru_cache(maxsize=4096)
def _greedy_gains(structure: tuple[tuple[int, ...], ...], alpha: float) -> FloatArray:
    """The gains of the ranking that takes the item of the largest gain next, first of equals."""
    supplied: dict[int, int] = defaultdict(int)
    gains: list[float] = []
    heap = [(-float(len(groups)), item) for item, groups in enumerate(structure)]
    heapify(heap)
    while heap:
        bound, item = heap[0]
        gain = float(sum((1 - alpha) ** supplied[group] for group in structure[item]))
        if gain != -bound:  # what an item gains never grows
            heapreplace(heap, (-gain, item))
            continue
        heappop(heap)
        gains.append(gain)
        for group in structure[item]:
            supplied[group] += 1
    return np.array(gains)


def _recall(groups: GroupHits) -> FloatArray:
    return ratio(groups.sum_by_query(groups.first), groups.n_groups)
