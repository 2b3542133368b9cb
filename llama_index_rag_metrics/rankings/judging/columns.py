"""What rankings carry beside their ids; a row more in `COLUMNS` adds a column everywhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.rankings.judging.hashes import IdLists, check_column
from llama_index_rag_metrics.rankings.judging.judged import Cutoff, JudgedRankings, Ranked, place_of
from llama_index_rag_metrics.rankings.judging.judged_column import (
    Batch,
    ForbiddenIds,
    JudgedColumn,
    JudgedTable,
    RetrievalScores,
    TokenCounts,
    ids_of,
)
from llama_index_rag_metrics.rankings.judging.judged_spans import JudgedSpans
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import IdTypeMismatch, InvalidInput

if TYPE_CHECKING:
    import polars as pl

FORBIDDEN, UNKNOWN = "forbidden_ids", "forbidden_unknown_ids"

_CONTENT = ", the ids that the asker of each question may not see"


@dataclass(frozen=True, eq=False)
class Forbidden(JudgedColumn):
    """The forbidden items of a batch of queries.

    Attributes:
        query: (items,) position of the query of every forbidden item that was retrieved.
        rank: (items,) its rank from 1; the items are sorted by query, then rank.
        judged_query: (judgements,) position of the query of every forbidden item that was judged,
            retrieved or not.
        judged_grade: (judgements,) its grade.
        n_unknown: how many retrieved items nobody knows to be forbidden or not.
        unknown: the id of one of them, or "".
    """

    name = "forbidden"
    argument = FORBIDDEN
    fields = (FORBIDDEN, UNKNOWN)
    query: IntArray
    rank: IntArray
    judged_query: IntArray
    judged_grade: FloatArray
    n_unknown: int = 0
    unknown: str = ""

    @classmethod
    def of_rankings(cls, batch: Batch) -> Forbidden | None:
        relevance, rankings, sources = batch
        marks = [getattr(ranking, "forbidden", None) for ranking in rankings]
        if sources.forbidden is None and all(mark is None for mark in marks):
            return None
        query_ids = sources.query_ids or range(len(rankings))
        given = by_query(query_ids, sources.forbidden or {})
        retrieved: list[tuple[int, int]] = []
        judged: list[tuple[int, float]] = []
        unknown: list[str] = []
        for query, ranking in enumerate(rankings):
            sides = given.get(query_ids[query]), marks[query]
            ids = frozenset().union(*(_forbidden_ids(query_ids[query], side) for side in sides))
            items = list(dict.fromkeys(ids_of(ranking)))
            doubtful = frozenset(getattr(ranking, "forbidden_unknown", None) or ()) - ids
            unknown += [item for item in items if item in doubtful] if doubtful else []
            if not ids:
                continue
            if items and not {type(item) for item in ids} & {type(item) for item in items}:
                raise IdTypeMismatch({type(item).__name__ for item in (*ids, *items)})
            retrieved += [(query, rank) for rank, item in enumerate(items, 1) if item in ids]
            if (judgements := relevance[query]) is not None:
                grades = Relevance.of(judgements).grades
                judged += [(query, grade) for item, grade in grades.items() if item in ids]
        query_column, rank = np.array(retrieved, np.int64).reshape(-1, 2).T
        judged_query, grade = np.array(judged, np.float64).reshape(-1, 2).T
        example = unknown[0] if unknown else ""
        known = judged_query.astype(np.int64)
        return cls(query_column, rank, known, grade, len(unknown), example)

    @classmethod
    def of_table(cls, table: JudgedTable) -> Forbidden:
        frame, retrieved, expected, grade = table
        check_column(frame, FORBIDDEN, _CONTENT)
        forbidden = IdLists.read(frame, FORBIDDEN).distinct()
        position, known = (lists.find(forbidden)[0] for lists in (retrieved, expected))
        is_told = UNKNOWN in frame.columns
        unknown: Sequence[Any] | pl.Series = IdLists.read(frame, UNKNOWN).ids if is_told else ()
        return cls(
            retrieved.query[position],
            retrieved.rank(position),
            expected.query[known],
            grade[known],
            len(unknown),
            str(unknown[0]) if len(unknown) else "",
        )

    @classmethod
    def cells(cls, frame: pl.DataFrame) -> Mapping[str, Sequence[Any]]:
        check_column(frame, FORBIDDEN, _CONTENT)
        cells = {"forbidden": [() if ids is None else ids for ids in frame[FORBIDDEN].to_list()]}
        if UNKNOWN in frame.columns:
            cells["forbidden_unknown"] = frame[UNKNOWN].to_list()
        return cells

    def covers(self, ranked: Ranked) -> BoolArray:
        """(items,) whether each of these items is a forbidden one."""
        return np.isin(place_of(ranked.query, ranked.rank), place_of(self.query, self.rank))

    def n_within(self, judged: JudgedRankings, cutoff: Cutoff | None) -> IntArray:
        """(queries,) how many forbidden items were retrieved within a cutoff."""
        kept = judged.is_within(self.query, self.rank, cutoff)
        return np.bincount(self.query[kept], minlength=len(judged))

    def reranked(self, rank: IntArray, begin: IntArray) -> Forbidden:
        moved = rank[begin[self.query] + self.rank - 1]
        kept = moved > 0
        return replace(self, query=self.query[kept], rank=moved[kept])


def forbidden_in(judged: JudgedRankings) -> Forbidden:
    if (forbidden := judged.column(Forbidden)) is None:
        expected = "the ids that the asker of each question may not see"
        remedy = f"Give them as forbidden={{query id: ids}}, or in a column {FORBIDDEN}."
        raise InvalidInput("forbidden", None, expected, remedy, lacks="forbidden")
    return forbidden


def by_query(
    query_ids: Sequence[Any], forbidden: ForbiddenIds
) -> Mapping[Any, Collection[str] | None]:
    """Query id to what its asker may not see, however that was given."""
    if isinstance(forbidden, Mapping):
        known = set(query_ids)
        if unknown := [query_id for query_id in forbidden if query_id not in known]:
            raise InvalidInput("forbidden", unknown, "only ids of the questions that are scored")
        return forbidden
    listed = list(forbidden)
    if isinstance(forbidden, (str, bytes)) or len(listed) != len(query_ids):
        expected = f"{len(query_ids)} collections of ids, one a question, or {{query id: ids}}"
        raise InvalidInput("forbidden", forbidden, expected)
    return dict(zip(query_ids, listed, strict=True))


def _forbidden_ids(query_id: object, ids: Collection[str] | None) -> frozenset[str]:
    if ids is None:
        return frozenset()
    if isinstance(ids, (str, bytes, Mapping)) or not isinstance(ids, Iterable):
        remedy = "Write one id as ['id']."
        raise InvalidInput(
            f"forbidden of question {query_id!r}", ids, "a collection of ids", remedy
        )
    return frozenset(ids)


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


COLUMNS: tuple[type[JudgedColumn], ...] = (
    TokenCounts,
    JudgedSpans,
    Forbidden,
    JudgedCalls,
    RetrievalScores,
)

_FORMER = frozenset({"needs_tokens", "needs_spans", "needs_documents", "needs_forbidden"})
"""Attributes that `needs` replaced: ignored in silence, they would change scores."""


def columns_for(metrics: Iterable[object]) -> list[type[JudgedColumn]]:
    needs: set[str] = set()
    for metric in metrics:
        kind: type = type(metric)
        named = _former_of(kind) | _FORMER.intersection(vars(metric))
        if former := sorted(name for name in named if getattr(metric, name)):
            expected = "a property `needs`, such as super().needs | {'tokens'}"
            raise InvalidInput(type(metric).__name__, former, expected)
        needs.update(getattr(metric, "needs", ()))
    return [column for column in COLUMNS if column.name in needs]


@lru_cache
def _former_of(kind: type) -> frozenset[str]:
    """Which of them the class has, looked up once: pydantic takes long over a missing attribute."""
    return frozenset(name for name in _FORMER if hasattr(kind, name))


def compute_arguments(metric: object, ranking: Ranking) -> dict[str, Any]:
    return {column.argument: getattr(ranking, column.name) for column in columns_for([metric])}
