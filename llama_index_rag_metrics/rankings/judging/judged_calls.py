"""Calls, judged: which call of a session brought which relevant item first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.arrays import BoolArray, IntArray

_PLACE = 32
"""A place is one number: the query in the upper half, the rank in the lower."""


@dataclass(frozen=True, eq=False)
class JudgedCalls:
    """The calls of a batch of queries, by query, then in order.

    Attributes:
        query: (calls,) position of the query of every call.
        depth: (calls,) how many distinct items its query had retrieved when it ended.
        is_repeated: (calls,) whether an earlier call of the query asked the same retriever, or the
            same tool where that isn't known, the same.
        judged: what all calls of a query retrieved, one after another, copies dropped.
    """

    query: IntArray
    depth: IntArray
    is_repeated: BoolArray
    judged: JudgedRankings

    @property
    def count(self) -> IntArray:
        """(queries,) how many calls the query made."""
        return np.bincount(self.query, minlength=len(self.judged))

    def new_relevant(self, min_grade: float) -> IntArray:
        """(calls,) how many relevant items no earlier call had."""
        hits = self.judged.at(None, min_grade)
        ends = (self.query << _PLACE) + self.depth
        first = np.searchsorted(ends, (hits.query << _PLACE) + hits.rank)
        return np.bincount(first, minlength=len(ends))


def judge_calls(
    relevance: Sequence[RelevanceLike | None], rankings: Sequence[Ranking | Sequence[str]]
) -> JudgedCalls:
    """Bring relevance and calls together, query by query.

    Args:
        rankings: of each query; one without calls is one call of its own.
    """
    query: list[int] = []
    depth: list[int] = []
    is_repeated: list[bool] = []
    retrieved: list[list[str]] = []
    for number, ranking in enumerate(rankings):
        seen: dict[str, None] = {}
        asked: set[tuple[str, str]] = set()
        for call in _calls(ranking):
            words = call.retriever or call.asked_by, " ".join(call.query.casefold().split())
            seen.update(dict.fromkeys(call.ids))
            query.append(number)
            depth.append(len(seen))
            is_repeated.append(words in asked)
            asked.add(words)
        retrieved.append(list(seen))
    judged = judge(relevance, retrieved)
    columns = np.array(query, np.int64), np.array(depth, np.int64), np.array(is_repeated, np.bool_)
    return JudgedCalls(*columns, judged)


def calls_in(judged: JudgedRankings) -> JudgedCalls:
    """The calls of judged rankings; where none are known, each ranking is one call."""
    if judged.calls is not None:
        return judged.calls
    n_queries = len(judged)
    return JudgedCalls(np.arange(n_queries), judged.depth, np.zeros(n_queries, np.bool_), judged)


def _calls(ranking: Ranking | Sequence[str]) -> Sequence[Call]:
    if not isinstance(ranking, Ranking):
        return (Call(ranking),)
    return (Call(ranking.ids),) if ranking.calls is None else ranking.calls
