"""Calls, judged: which call of a session brought which relevant item first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, place_of
from llama_index_rag_metrics.rankings.judging.judged_column import Batch, JudgedColumn, ids_of
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.runtime.arrays import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class JudgedCalls(JudgedColumn):
    """The calls of a batch of queries, by query, then in order.

    Attributes:
        query: (calls,) position of the query of every call.
        depth: (calls,) how many distinct items its query had retrieved when it ended.
        is_repeated: (calls,) whether an earlier call of the query asked the same retriever, or the
            same tool where that isn't known, the same.
        judged: what all calls of a query retrieved, one after another, copies dropped.
    """

    name = "calls"
    argument = "retrieved_calls"
    fields = ("retrieval_calls",)
    query: IntArray
    depth: IntArray
    is_repeated: BoolArray
    judged: JudgedRankings

    @classmethod
    def of_rankings(cls, batch: Batch) -> JudgedCalls:
        """The calls of rankings; one without calls is one call of its own."""
        rows: list[tuple[int, int, bool]] = []
        retrieved: list[list[str]] = []
        for number, ranking in enumerate(batch.rankings):
            calls = getattr(ranking, "calls", None)
            seen: dict[str, None] = {}
            asked: set[tuple[str, str]] = set()
            for call in (Call(ids_of(ranking)),) if calls is None else calls:
                words = call.retriever or call.asked_by, " ".join(call.query.casefold().split())
                seen.update(dict.fromkeys(call.ids))
                rows.append((number, len(seen), words in asked))
                asked.add(words)
            retrieved.append(list(seen))
        query, depth, is_repeated = np.array(rows, np.int64).reshape(-1, 3).T
        return cls(query, depth, is_repeated.astype(np.bool_), judge(batch.relevance, retrieved))

    def reranked(self, rank: IntArray, begin: IntArray) -> JudgedCalls:
        return self

    @property
    def count(self) -> IntArray:
        """(queries,) how many calls the query made."""
        return np.bincount(self.query, minlength=len(self.judged))

    def new_relevant(self, min_grade: float) -> IntArray:
        """(calls,) how many relevant items no earlier call had."""
        hits = self.judged.at(None, min_grade)
        ends = place_of(self.query, self.depth)
        first = np.searchsorted(ends, place_of(hits.query, hits.rank))
        return np.bincount(first, minlength=len(ends))


def calls_in(judged: JudgedRankings) -> JudgedCalls:
    """The calls of judged rankings; where none are known, each ranking is one call."""
    n_queries = len(judged)
    return judged.column(JudgedCalls) or JudgedCalls(
        np.arange(n_queries), judged.depth, np.zeros(n_queries, np.bool_), judged
    )
