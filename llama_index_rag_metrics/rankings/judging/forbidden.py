"""What the asker may not see, as flat arrays: where it was retrieved, and what of it was judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.rankings.judging.judged import Cutoff, JudgedRankings, Ranked
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import IdTypeMismatch, InvalidInput

_PLACE = 32
"""A place is one number: the query in the upper half, the rank in the lower."""


@dataclass(frozen=True, eq=False)
class Forbidden:
    """The forbidden items of a batch of queries.

    Attributes:
        query: (items,) position of the query of every forbidden item that was retrieved.
        rank: (items,) its rank from 1; the items are sorted by query, then rank.
        judged_query: (judgements,) position of the query of every forbidden item that was judged,
            retrieved or not.
        judged_grade: (judgements,) its grade.
    """

    query: IntArray
    rank: IntArray
    judged_query: IntArray
    judged_grade: FloatArray

    @property
    def place(self) -> IntArray:
        """(items,) query and rank as one number, ascending."""
        return place_of(self.query, self.rank)

    def covers(self, ranked: Ranked) -> BoolArray:
        """(items,) whether each of these items is a forbidden one."""
        return np.isin(place_of(ranked.query, ranked.rank), self.place)

    def reranked(self, rank: IntArray, begin: IntArray) -> Forbidden:
        """The same where items have other ranks.

        Args:
            rank: (retrieved,) the new rank of every retrieved item; 0 where it doesn't count.
            begin: (queries,) where each query's items begin there.
        """
        moved = rank[begin[self.query] + self.rank - 1]
        kept = moved > 0
        return Forbidden(self.query[kept], moved[kept], self.judged_query, self.judged_grade)


class ForbiddenRows:
    """Collects the forbidden items of a batch, query by query."""

    def __init__(self) -> None:
        self._items: list[tuple[int, int]] = []
        self._judged: list[tuple[int, float]] = []

    def add(
        self,
        query: int,
        forbidden: Collection[str],
        ranking: Iterable[str],
        grades: Mapping[str, float],
    ) -> None:
        """Add a query.

        Args:
            forbidden: the ids that its asker may not see.
            ranking: what was retrieved; copies are dropped and the ranks close up.
        """
        ids = forbidden_ids(query, forbidden)
        if not ids:
            return
        items = list(dict.fromkeys(ranking))
        if items and not {type(item) for item in ids} & {type(item) for item in items}:
            raise IdTypeMismatch({type(item).__name__ for side in (ids, items) for item in side})
        self._items += [(query, rank) for rank, item in enumerate(items, 1) if item in ids]
        self._judged += [(query, grade) for item, grade in grades.items() if item in ids]

    def arrays(self) -> Forbidden:
        """All of them."""
        query, rank = np.array(self._items, np.int64).reshape(-1, 2).T
        judged = [judged_query for judged_query, _ in self._judged]
        grades = [grade for _, grade in self._judged]
        return Forbidden(query, rank, np.array(judged, np.int64), np.array(grades, np.float64))


def forbidden_ids(query: object, ids: Collection[str]) -> frozenset[str]:
    """The ids that are forbidden for one query."""
    if isinstance(ids, (str, bytes, Mapping)) or not isinstance(ids, Iterable):
        remedy = "Write one id as ['id']."
        raise InvalidInput(f"forbidden of query {query!r}", ids, "a collection of ids", remedy)
    return frozenset(ids)


def judge_forbidden(
    forbidden: Sequence[Collection[str] | None],
    rankings: Sequence[Sequence[str]],
    grades: Iterable[Mapping[str, float]],
) -> Forbidden:
    """The forbidden items of lists; None where nothing is forbidden for a query."""
    rows = ForbiddenRows()
    for query, (ids, ranking, judged) in enumerate(zip(forbidden, rankings, grades, strict=True)):
        if ids is not None:
            rows.add(query, ids, ranking, judged)
    return rows.arrays()


def place_of(query: IntArray, rank: IntArray) -> IntArray:
    """(items,) query and rank as one number."""
    place: IntArray = (query << _PLACE) + rank
    return place


def forbidden_in(judged: JudgedRankings) -> Forbidden:
    """What is forbidden in judged rankings."""
    if judged.forbidden is None:
        expected = "the ids that the asker of each query may not see"
        remedy = "Give them as forbidden={query id: ids}, or in a column forbidden_ids."
        raise InvalidInput("forbidden", None, expected, remedy, lacks="forbidden")
    return judged.forbidden


def n_forbidden(judged: JudgedRankings, cutoff: Cutoff | None) -> IntArray:
    """(queries,) how many forbidden items were retrieved within a cutoff."""
    forbidden = forbidden_in(judged)
    kept = judged.is_within(forbidden.query, forbidden.rank, cutoff)
    return np.bincount(forbidden.query[kept], minlength=len(judged))
