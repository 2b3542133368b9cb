"""What rankings carry beside their ids, judged: tokens of items, and their places in documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

RankingLike: TypeAlias = "Ranking | Sequence[str]"
T = TypeVar("T")

TOKENS, SPANS = "tokens", "spans"

_ROOM = 2**63


def needs_of(metrics: Iterable[object]) -> frozenset[str]:
    """What metrics read beside ids: "tokens", "spans"."""
    return frozenset().union(*(getattr(metric, "needs", ()) for metric in metrics))


def compute_arguments(metric: object, ranking: Ranking) -> dict[str, Any]:
    """What `metric.compute` is given of a ranking beside its ids."""
    needs = needs_of([metric])
    columns = {TOKENS: ranking.tokens, SPANS: ranking.spans}
    return {f"retrieved_{name}": values for name, values in columns.items() if name in needs}


def ids_of(ranking: RankingLike) -> Sequence[str]:
    return ranking.ids if isinstance(ranking, Ranking) else ranking


def first_of_each(ids: Sequence[str], values: Sequence[T]) -> Iterable[T]:
    """What belongs to the items of a ranking that are left when copies are dropped."""
    if len(set(ids)) == len(values):
        return values
    value_of: dict[str, T] = {}
    for item, value in zip(ids, values, strict=True):
        value_of.setdefault(item, value)
    return value_of.values()


def token_counts(
    rankings: Sequence[RankingLike],
    tokenizer: Tokenizer | TokenCounter | None = None,
    query_ids: Sequence[str] | None = None,
) -> IntArray:
    """(retrieved,) the length in tokens of every distinct item, counted where only texts are there.

    Raises:
        InvalidInput: a ranking has neither tokens nor texts, or fewer than 0 tokens.
    """
    counter: TokenCounter | None = None
    counts: list[int] = []
    for query, ranking in enumerate(rankings):
        ids, tokens = ids_of(ranking), getattr(ranking, "tokens", None)
        if not len(ids):
            continue
        if tokens is None:
            texts = getattr(ranking, "texts", None)
            if texts is None:
                expected = "the tokens or the texts of what was retrieved"
                remedy = (
                    "Give Ranking(ids, tokens=...) or texts, or use a cutoff by rank, such as @10."
                )
                raise _lacking(TOKENS, query, query_ids, ids, expected, remedy)
            counter = counter or TokenCounter.of(tokenizer)
            tokens = counter.count(texts)
        counts.extend(first_of_each(ids, tokens))
    return check_tokens(np.array(counts, np.int64))


def check_tokens(counts: IntArray) -> IntArray:
    if counts.size and counts.min() < 0:
        raise InvalidInput("tokens", int(counts.min()), "numbers from 0 on")
    return counts


def _lacking(
    what: str, query: int, query_ids: Sequence[str] | None, ids: object, expected: str, remedy: str
) -> InvalidInput:
    query_id = query if query_ids is None else query_ids[query]
    return InvalidInput(f"ranking of question {query_id!r}", ids, expected, remedy, lacks=what)


@dataclass(frozen=True, eq=False)
class JudgedSpans:
    """Where what was expected and what was retrieved is, on one line of all documents.

    Attributes:
        query: (spans,) position of the query.
        start: (spans,) the first character, ascending; documents lie one after another.
        end: (spans,) the character after the last.
        rank: (spans,) the rank of a retrieved item; 0 for expected passages.
        grade: (spans,) the grade of an expected passage; 0 for retrieved items.
    """

    query: IntArray
    start: IntArray
    end: IntArray
    rank: IntArray
    grade: FloatArray
    _covered: dict[object, IntArray] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        relevance: Sequence[RelevanceLike | None],
        rankings: Sequence[RankingLike],
        query_ids: Sequence[str] | None = None,
    ) -> JudgedSpans:
        """The spans of a batch, copies of items dropped.

        Raises:
            InvalidInput: a ranking has no spans, or a span's end is before its start.
        """
        documents: dict[tuple[int, str], int] = {}
        rows: list[tuple[int, int, int, int, int, float]] = []

        def add(query: int, span: Span, rank: int, grade: float) -> None:
            source, start, end = span
            if not 0 <= start <= end <= LONGEST:
                expected = "a first character from 0 on, and an end that isn't before it"
                raise InvalidInput("span", tuple(span), f"{expected}, at most {LONGEST:,}")
            document = documents.setdefault((query, source), len(documents))
            rows.append((query, document, start, end, rank, grade))

        for query, (labels, ranking) in enumerate(zip(relevance, rankings, strict=True)):
            ids, spans = ids_of(ranking), getattr(ranking, "spans", None)
            if spans is None and len(ids):
                what, remedy = "the spans of what was retrieved", "Give Ranking(ids, spans=...)."
                raise _lacking(SPANS, query, query_ids, ids, what, remedy)
            judged = Relevance() if labels is None else Relevance(labels)
            for item, span in (judged.spans or {}).items():
                add(query, span, 0, judged.grades[item])
            for rank, place in enumerate(first_of_each(ids, spans or ()), 1):
                if place is not None:
                    add(query, place, rank, 0.0)
        *numbers, grade = np.array(rows, np.float64).reshape(-1, 6).T
        query_, document, start, end, rank_ = (column.astype(np.int64) for column in numbers)
        room = int(end.max(initial=0)) + 1
        if len(documents) * room >= _ROOM:
            expected = f"at most {_ROOM // room:,} documents of such a length"
            raise InvalidInput("spans", f"an end of {room - 1:,}", expected)
        start, end = document * room + start, document * room + end
        order = np.argsort(start)
        return cls(query_[order], start[order], end[order], rank_[order], grade[order])

    def reranked(self, rank: IntArray, begin: IntArray) -> JudgedSpans:
        """The spans for (retrieved,) new ranks, 0 for none, and where each query's items begin."""
        new = np.zeros(len(self.rank), np.int64)
        items = np.flatnonzero(self.rank)
        new[items] = rank[begin[self.query[items]] + self.rank[items] - 1]
        positions = np.flatnonzero((self.rank == 0) | (new > 0))
        columns = {
            name: getattr(self, name)[positions] for name in ("query", "start", "end", "grade")
        }
        return replace(self, **columns, rank=new[positions])

    @cached_property
    def is_retrieved(self) -> BoolArray:
        return np.asarray(self.rank > 0, np.bool_)

    def cover(self, key: object, counted: BoolArray, n_queries: int) -> IntArray:
        """(queries,) how much the counted spans cover; remembered by its key."""
        if key not in self._covered:
            start, end = self.start[counted], self.end[counted]
            length = end - start
            # only what reaches beyond all spans before is new
            end_so_far = np.maximum.accumulate(end)[:-1]
            length[1:] = np.maximum(end[1:] - np.maximum(start[1:], end_so_far), 0)
            # exact: whole numbers, far below 2**53
            covered = np.bincount(self.query[counted], length, n_queries)
            self._covered[key] = covered.astype(np.int64)
        return self._covered[key]
