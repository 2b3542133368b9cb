"""Metrics of facets: several things that are needed at once, each supplied by a group of items.

Facets are the subtopics of a question, the hops of a multi-hop question, the nuggets of an answer.
The definitions are those of ndeval (TREC web track); tests hold the values equal to ndeval's.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from heapq import heapify, heappop, heapreplace

import numpy as np
from pydantic import Field

from llama_index_rag_metrics.metrics.base import GroupMetric
from llama_index_rag_metrics.rankings.judging import GroupHits, JudgedRankings, Ranked
from llama_index_rag_metrics.runtime.arrays import FloatArray, ratio

__all__ = ["ERRIA", "AlphaNDCG", "Complete", "FacetRecall"]


class Complete(GroupMetric):
    """1 if every facet was found, else 0: for questions that a part can't answer.

    Examples:
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

    A facet that nothing is known to supply counts among all. Without weights, subtopic recall
    (ndeval's strec): Zhai, Cohen and Lafferty, SIGIR 2003.

    Examples:
        >>> relevance = {"facets": {"x": ["a"], "y": ["b"]}, "weights": {"x": 3}}
        >>> FacetRecall().compute(expected_ids=relevance, retrieved_ids=["a"]).score
        0.75
    """

    name = "facet_recall"

    def score(self, groups: GroupHits) -> FloatArray:
        return ratio(groups.sum_by_query(groups.first * groups.weight), groups.total_weight)


class NoveltyMetric(GroupMetric):
    """A metric in which a facet gains less each time: (1 - alpha)^(times supplied above)."""

    alpha: float = Field(
        default=0.5, ge=0, lt=1, description="how much less a facet gains each time"
    )

    def gain(self, groups: GroupHits) -> FloatArray:
        """(items,) what each item of a group gains by it; an item gains by each of its groups."""
        return np.asarray((1 - self.alpha) ** (groups.ordinal - 1), np.float64)


class AlphaNDCG(NoveltyMetric):
    """Discounted novelty gain over that of a greedily chosen ideal ranking.

    The gain of an item is the sum over its facets of (1 - alpha)^(times supplied above), the
    discount log2(rank + 1). Clarke et al., "Novelty and diversity in information retrieval
    evaluation", SIGIR 2008; ties of the greedy choice by id, descending, as ndeval breaks them. The
    ideal is k long; without a cutoff, as long as what was retrieved. A ranking that beats the
    greedy ideal has 1 here, and more than 1 in ndeval.

    Args:
        alpha: how much less a facet gains each time that it is supplied again, in [0, 1).

    Examples:
        >>> facets = {"facets": {"x": ["a", "b"], "y": ["c"]}}
        >>> alpha_ndcg = AlphaNDCG(k=2)
        >>> round(alpha_ndcg.compute(expected_ids=facets, retrieved_ids=["a", "b", "c"]).score, 4)
        0.8066
    """

    name = "alpha_ndcg"

    def score(self, groups: GroupHits) -> FloatArray:
        ideal = ideal_ranking(groups, self.alpha, self.min_grade)
        return ratio(_discounted(groups, self.gain(groups)), _discounted(ideal, ideal.grade))


class ERRIA(NoveltyMetric):
    """Expected reciprocal rank over facets (intent-aware): novelty gain / rank, averaged.

    Over the number of facets, and over the value of a ranking every item of which supplies every
    facet, as ndeval divides it; at rank 1 ndeval doesn't divide at all. Chapelle et al.,
    "Intent-based diversification of web search results", Information Retrieval 14(6), 2011.

    Args:
        alpha: how much less a facet gains each time that it is supplied again, in [0, 1).

    Examples:
        >>> facets = {"facets": {"x": ["a", "b"], "y": ["c"]}}
        >>> ERRIA(k=1).compute(expected_ids=facets, retrieved_ids=["a", "b", "c"]).score
        0.5
    """

    name = "err_ia"

    def score(self, groups: GroupHits) -> FloatArray:
        gained = groups.sum_by_query(self.gain(groups) / groups.rank)
        length = np.broadcast_to(groups.hits.length, len(gained))
        rank = np.arange(1, length.max(initial=0) + 1)
        best = np.concatenate([[0.0], np.cumsum((1 - self.alpha) ** (rank - 1) / rank)])
        return ratio(gained, groups.n_groups * best[length])


def ideal_ranking(groups: GroupHits, alpha: float, min_grade: float) -> Ranked:
    """The greedy ranking of every query's relevant items; what stands for the grade is the gain."""
    hits = groups.hits
    structures = _structures(hits.judged, min_grade)
    n_items = hits.n_relevant.copy()
    n_items[hits.judged.group_query] = 0
    for position, structure in structures.items():
        n_items[position] = len(structure)
    counts = np.minimum(n_items, hits.length)
    begin = np.cumsum(counts) - counts
    gain = np.ones(counts.sum())
    for position, structure in structures.items():
        first, count = begin[position], counts[position]
        gain[first : first + count] = _greedy_gains(structure, alpha)[:count]
    query = np.repeat(np.arange(groups.n_queries), counts)
    rank = np.arange(1, len(query) + 1) - begin[query]
    return Ranked(groups.n_queries, query, rank, gain)


def _structures(judged: JudgedRankings, min_grade: float) -> dict[int, tuple[tuple[int, ...], ...]]:
    """Of each query with groups: the groups of each relevant item, in the order for ties."""
    first = np.searchsorted(judged.group_query, judged.group_query)
    by_query: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    group_query, nth = judged.group_query.tolist(), (np.arange(len(first)) - first).tolist()
    relevant = judged.member_grade >= min_grade
    members = (column[relevant].tolist() for column in (judged.member_group, judged.member_item))
    for group, item in zip(*members, strict=True):
        by_query[group_query[group]][item].append(nth[group])
    return {
        query: tuple(tuple(groups) for _, groups in sorted(items.items()))
        for query, items in by_query.items()
    }


@lru_cache(maxsize=4096)
def _greedy_gains(structure: tuple[tuple[int, ...], ...], alpha: float) -> FloatArray:
    """The gains of the ranking that takes the item of the largest gain next, the first of equals.

    What an item gains never grows while others are taken, so the best one is known as soon as the
    gain that an item had when it was last looked at is still true.
    """
    supplied: dict[int, int] = defaultdict(int)
    gains: list[float] = []
    left = [(-float(len(groups)), item) for item, groups in enumerate(structure)]
    heapify(left)
    while left:
        before, item = left[0]
        gain = float(sum((1 - alpha) ** supplied[group] for group in structure[item]))
        if gain != -before:
            heapreplace(left, (-gain, item))
            continue
        heappop(left)
        gains.append(gain)
        for group in structure[item]:
            supplied[group] += 1
    return np.array(gains)


def _discounted(items: Ranked, gain: FloatArray) -> FloatArray:
    return items.sum_by_query(gain / np.log2(items.rank + 1))
