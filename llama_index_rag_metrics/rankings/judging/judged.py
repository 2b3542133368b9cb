"""JudgedRankings: rankings and relevance brought together, as flat arrays without a single id."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias
from weakref import proxy

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.runtime.containers import BoolArray, FloatArray, IntArray

from .beside import JudgedSpans


@dataclass(frozen=True)
class TokenBudget:
    """A cutoff by tokens: whole items in rank order, until the first that doesn't fit."""

    tokens: int


Cutoff: TypeAlias = "int | TokenBudget"


@dataclass(frozen=True, eq=False)
class JudgedGroups:
    """The groups of a batch of queries, and their items, retrieved or not."""

    query: IntArray  # (groups,) the group's query
    weight: FloatArray  # (groups,)
    pair_group: IntArray  # (pairs,) a group, and
    pair_item: IntArray  # one of its retrieved items, by group, rank
    member_group: IntArray  # (members,) a group, and
    # one of its items, retrieved or not, by a number: a query's numbers follow the ids, descending,
    # as trec_eval and ndeval break ties
    member_item: IntArray
    member_grade: FloatArray


class Coverage(NamedTuple):
    """(queries,) each: how many characters were expected, retrieved, and either."""

    expected: IntArray
    retrieved: IntArray
    either: IntArray

    @property
    def both(self) -> IntArray:
        return self.expected + self.retrieved - self.either


_NO_ITEMS: list[Any] = [np.array([], np.int64)] * 7
NO_GROUPS = JudgedGroups(*_NO_ITEMS)


@dataclass(eq=False)
class JudgedRankings:
    """The judged result of a batch of queries, one or a million."""

    depth: IntArray  # (queries,) how many distinct items were retrieved
    item_query: IntArray  # (items,) the query of every retrieved item that has a judgement
    item_rank: IntArray  # (items,) its rank from 1; items are sorted by query, then rank
    item_grade: FloatArray  # (items,) its grade, 0 and negative ones included
    judged_grade: FloatArray  # (judgements,) all grades of a query, retrieved or not, best first
    judged_offset: IntArray  # (queries + 1,) where each query's grades begin in `judged_grade`
    groups: JudgedGroups = NO_GROUPS
    tokens: IntArray | None = None  # (retrieved,) of every distinct item, or None if not asked for
    spans: JudgedSpans | None = None  # where expected and retrieved items are, or None likewise
    n_judged: IntArray = field(init=False)  # (queries,) how many items are judged, retrieved or not
    n_gaining: IntArray = field(init=False)  # (queries,) how many of these have a grade above 0

    def __post_init__(self) -> None:
        self._views: dict[tuple[Cutoff | None, float | None], Hits] = {}
        self._is_plain = np.count_nonzero(self.judged_grade == 1.0) == len(self.judged_grade)
        self.n_judged = self.judged_offset[1:] - self.judged_offset[:-1]
        self.n_gaining = self.count_judgements(None)

    def __len__(self) -> int:
        return len(self.depth)

    def count_judgements(self, lowest: float | None) -> IntArray:
        """(queries,) how many items have this grade or more, or None: above 0."""
        if self._is_plain and (lowest is None or lowest <= 1):
            return self.n_judged
        is_counted = _reaches(self.judged_grade, lowest)
        query = np.arange(len(self)).repeat(self.n_judged)
        return np.bincount(query[is_counted], minlength=len(self))

    def at(self, cutoff: Cutoff | None = None, min_grade: float | None = None) -> Hits:
        if self._is_plain and min_grade is not None and min_grade <= 1:
            min_grade = None  # the same hits
        if (cutoff, min_grade) in self._views:
            return self._views[cutoff, min_grade]
        length = self._length(cutoff)
        is_within = self.item_rank <= _length_by_item(self.item_query, length)
        item = (is_within & _reaches(self.item_grade, min_grade)).nonzero()[0]
        query, rank, grade = self.item_query[item], self.item_rank[item], self.item_grade[item]
        # weak: in a circle, the arrays would stay until the garbage collector comes
        hits = Hits(len(self), query, rank, grade, proxy(self), length, min_grade, item)
        self._views[cutoff, min_grade] = hits
        return hits

    def groups_at(self, cutoff: Cutoff | None = None, min_grade: float | None = None) -> GroupHits:
        """The retrieved members of groups within a cutoff; without groups, one group per item."""
        hits, groups = self.at(cutoff, min_grade), self.groups
        n_groups = np.bincount(groups.query, minlength=len(self))
        weight = np.bincount(groups.query, groups.weight, minlength=len(self))
        is_hit = np.zeros(len(self.item_rank), np.bool_)
        is_hit[hits.item] = True
        pairs = np.flatnonzero(is_hit[groups.pair_item])
        item, group = groups.pair_item[pairs], groups.pair_group[pairs]
        ungrouped = np.flatnonzero(n_groups[hits.query] == 0)
        return GroupHits(
            n_queries=len(self),
            query=np.concatenate([groups.query[group], hits.query[ungrouped]]),
            rank=np.concatenate([self.item_rank[item], hits.rank[ungrouped]]),
            grade=np.concatenate([self.item_grade[item], hits.grade[ungrouped]]),
            group=np.concatenate([group, len(groups.query) + ungrouped]),
            weight=np.concatenate([groups.weight[group], np.ones(len(ungrouped))]),
            n_groups=np.where(n_groups > 0, n_groups, hits.n_relevant),
            total_weight=np.where(n_groups > 0, weight, hits.n_relevant),
            hits=hits,
        )

    def _length(self, cutoff: Cutoff | None) -> IntArray:
        """(queries,) or, where it is one for all, () the last rank that counts."""
        if cutoff is None:
            return self.depth
        return np.array(cutoff) if isinstance(cutoff, int) else self.n_fitting(cutoff)

    def ideal(self, length: IntArray) -> Ranked:
        """The best possible ranking of each query: its best grades above 0, at most so many."""
        count = np.minimum(self.n_gaining, length)
        query = np.arange(len(self)).repeat(count)
        rank = ordinal_of(query, count)
        grade = self.judged_grade[self.judged_offset[query] + rank - 1]
        return Ranked(len(self), query, rank, grade)

    def n_fitting(self, budget: TokenBudget) -> IntArray:
        """(queries,) how many items fit into this many tokens: the rank of each query's cutoff."""
        assert self.tokens is not None  # a metric that has a budget needs them
        spent_above = np.concatenate([[0], np.cumsum(self.tokens)])
        begin = np.cumsum(self.depth) - self.depth
        end = np.searchsorted(spent_above, spent_above[begin] + budget.tokens, side="right") - 1
        return np.asarray(np.minimum(end - begin, self.depth), np.int64)

    def coverage(self, cutoff: Cutoff | None, min_grade: float) -> Coverage | None:
        """What spans cover within a cutoff; None where places of either side aren't known."""
        spans = self.spans
        if spans is None or (self.n_gaining.any() and spans.rank.all()):
            return None
        is_expected = (spans.rank == 0) & (spans.grade >= min_grade)
        last = _length_by_item(spans.query, self._length(cutoff))
        is_within = (spans.rank > 0) & (spans.rank <= last)
        expected, retrieved = spans.cover(is_expected, len(self)), spans.cover(is_within, len(self))
        return Coverage(expected, retrieved, spans.cover(is_expected | is_within, len(self)))


@dataclass(eq=False)
class Ranked:
    """Ranked items of a batch of queries, flat: each query's items together, by rank."""

    n_queries: int
    query: IntArray
    rank: IntArray
    grade: FloatArray

    def sum_by_query(self, weight: npt.NDArray[Any]) -> FloatArray:
        """(queries,) the sum of one weight per item, the same to the last bit in any batch."""
        total = np.bincount(self.query, weight, self.n_queries)
        return total.astype(np.float64, copy=False)  # without items they are integers

    @cached_property
    def count(self) -> IntArray:
        return np.bincount(self.query, minlength=self.n_queries)

    @cached_property
    def ordinal(self) -> IntArray:
        """(items,) 1 for the query's first item, 2 for its second, and so on."""
        return ordinal_of(self.query, self.count)

    @property
    def first(self) -> BoolArray:
        return np.asarray(self.ordinal == 1, np.bool_)


@dataclass(eq=False)
class Hits(Ranked):
    """The hits of a batch of queries within a cutoff: what a formula reads."""

    judged: JudgedRankings
    length: IntArray  # the last rank that counts: (queries,), or () where it is one for all
    min_grade: float | None  # from which an item is relevant, or None for every grade above 0
    item: IntArray  # (hits,) position of each hit among the judged items

    @property
    def depth(self) -> IntArray:
        """(queries,) how many distinct items were retrieved within the cutoff."""
        return np.minimum(self.judged.depth, self.length)

    @cached_property
    def n_relevant(self) -> IntArray:
        """(queries,) R: how many items are relevant, retrieved or not."""
        return self.judged.count_judgements(self.min_grade)

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """(queries,) how many items were judged and aren't relevant, retrieved or not."""
        return self.judged.count_judgements(0.0) - self.n_relevant

    @cached_property
    def nonrelevant_above(self) -> IntArray:
        """(hits,) how many judged non-relevant items were retrieved above the hit."""
        grade = self.judged.item_grade
        return self._count_above((grade >= 0) & ~_reaches(grade, self.min_grade))

    @cached_property
    def pooled_above(self) -> IntArray:
        """(hits,) how many pooled but unjudged items (grade below 0) stand above the hit."""
        return self._count_above(self.judged.item_grade < 0)

    def _count_above(self, counted: BoolArray) -> IntArray:
        n_before: IntArray = np.cumsum(counted) - counted
        return n_before[self.item] - n_before[np.searchsorted(self.judged.item_query, self.query)]


@dataclass(eq=False)
class GroupHits(Ranked):
    """The retrieved members of groups within a cutoff, by group, then rank; each once a group."""

    group: IntArray  # (items,) each group's items stand together
    weight: FloatArray  # (items,) of the group
    n_groups: IntArray  # (queries,) how many groups the query has, found or not
    total_weight: FloatArray  # (queries,) of all its groups, found or not
    hits: Hits  # within the same cutoff, without regard to groups

    @cached_property
    def ordinal(self) -> IntArray:
        """(items,) 1 for the group's first retrieved item, 2 for its second, and so on."""
        return ordinal_of(self.group, np.bincount(self.group))


def ordinal_of(key: IntArray, count: IntArray) -> IntArray:
    """(items,) 1 for the first item of each ascending key, 2 for its second, up to its count."""
    return np.arange(1, len(key) + 1) - (np.add.accumulate(count) - count)[key]


def _reaches(grade: FloatArray, min_grade: float | None) -> BoolArray:
    return grade > 0 if min_grade is None else grade >= min_grade


def _length_by_item(query: IntArray, length: IntArray) -> IntArray:
    return length[query] if length.ndim else length


def grades_best_first(grade: FloatArray, offset: npt.ArrayLike) -> FloatArray:
    """The grades of every query, which begin at the offsets, brought into order: best first."""
    if (grade == 1).all():
        return grade
    counts = np.diff(offset)
    return grade[np.lexsort((-grade, np.repeat(np.arange(len(counts)), counts)))]
