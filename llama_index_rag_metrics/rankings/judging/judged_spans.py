"""Spans of a batch of queries: how much several of them cover together.

Text that two spans share counts once. All is flat and vectorised: a span is a row. The documents of
all queries are thought of as laid one behind another, so that a span is two places on one line, and
one sort brings what belongs together side by side, whatever cutoff is asked for later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from llama_index_rag_metrics.rankings.judging.judged import Cutoff, JudgedRankings
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

Unit: TypeAlias = Literal["characters", "tokens"]

Ruler: TypeAlias = Callable[[str], IntArray]
"""From a document's id to the place of the last character of each of its tokens."""

_ROOM = 2**63


class Placed(NamedTuple):
    """Spans by documents, in any order.

    Attributes:
        query: (spans,) position of the query.
        document: (spans,) the number of the document.
        start: (spans,) the first character.
        end: (spans,) the character after the last.
        rank: (spans,) the rank of a retrieved item; 0 for expected passages.
        grade: (spans,) the grade of an expected passage; 0 for retrieved items.
    """

    query: IntArray
    document: IntArray
    start: IntArray
    end: IntArray
    rank: IntArray
    grade: FloatArray

    def select(self, rows: IntArray) -> Placed:
        """Some of the spans."""
        query, document, start, end, rank, grade = self
        return Placed(query[rows], document[rows], start[rows], end[rows], rank[rows], grade[rows])

    def in_tokens(self, documents: Sequence[str], ruler: Ruler) -> Placed:
        """The same spans, from the first token to the one after the last.

        A token belongs to the span that holds its last character: tokens of language models begin
        with the blank before a word.

        Args:
            documents: the id of each document, by number; at least one.
        """
        start, end = self.start.copy(), self.end.copy()
        order = np.argsort(self.document, kind="stable")
        counts = np.bincount(self.document, minlength=len(documents))
        for name, rows in zip(documents, np.split(order, np.cumsum(counts)[:-1]), strict=True):
            last = ruler(name)
            start[rows], end[rows] = np.searchsorted(last, [self.start[rows], self.end[rows]])
        return self._replace(start=start, end=end)


class Coverage(NamedTuple):
    """How much of the documents is covered, each part counted once.

    Attributes:
        expected: (queries,) by what was expected.
        retrieved: (queries,) by what was retrieved.
        either: (queries,) by both together.
    """

    expected: IntArray
    retrieved: IntArray
    either: IntArray


@dataclass(frozen=True, eq=False)
class Spans:
    """What was expected and what was retrieved, as places on one line, by their starts.

    Attributes:
        query: (spans,) position of the query.
        start: (spans,) the first character, or token.
        end: (spans,) the one after the last.
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
    def of(cls, placed: Placed) -> Spans:
        """Bring spans into their order."""
        room = int(placed.end.max(initial=0)) + 1
        document = placed.query * (int(placed.document.max(initial=0)) + 1) + placed.document
        if (int(document.max(initial=0)) + 1) * room >= _ROOM:
            document = np.unique(document, return_inverse=True)[1]
        if (int(document.max(initial=0)) + 1) * room >= _ROOM:
            expected = f"at most {_ROOM // room:,} documents of such a length"
            raise InvalidInput("spans", f"an end of {room - 1:,}", expected)
        begin = document * room
        order = np.argsort(begin + placed.start)
        begin = begin[order]
        return cls(
            placed.query[order],
            begin + placed.start[order],
            begin + placed.end[order],
            placed.rank[order],
            placed.grade[order],
        )

    @property
    def has_expected(self) -> bool:
        """Whether any expected passage has a place."""
        return bool((self.rank == 0).any())

    def coverage(self, judged: JudgedRankings, cutoff: Cutoff | None, min_grade: float) -> Coverage:
        """What is covered within a cutoff; the parts are remembered, since metrics share them."""
        is_expected = (self.rank == 0) & (self.grade >= min_grade)
        is_retrieved = self.rank > 0
        if cutoff is not None:
            is_retrieved &= judged.is_within(self.query, self.rank, cutoff)
        n_queries = len(judged)
        return Coverage(
            self._cover(("expected", min_grade), is_expected, n_queries),
            self._cover(("retrieved", cutoff), is_retrieved, n_queries),
            self._cover(("either", min_grade, cutoff), is_expected | is_retrieved, n_queries),
        )

    def _cover(self, key: object, counted: BoolArray, n_queries: int) -> IntArray:
        """(queries,) how much the counted spans cover."""
        if key not in self._covered:
            start, end = self.start[counted], self.end[counted]
            new = end - start
            # only what reaches beyond all spans before is new
            before = np.maximum.accumulate(end)[:-1]
            new[1:] = np.maximum(end[1:] - np.maximum(start[1:], before), 0)
            # exact: whole numbers, far below 2**53
            covered = np.bincount(self.query[counted], new, n_queries)
            self._covered[key] = covered.astype(np.int64)
        return self._covered[key]

    def reranked(self, rank: IntArray, begin: IntArray) -> Spans:
        """The spans of some of the retrieved items, at other ranks.

        Args:
            rank: (retrieved,) the new rank of every retrieved item; 0 where it doesn't count.
            begin: (queries,) where each query's items begin there.
        """
        new = np.zeros(len(self.rank), np.int64)
        items = np.flatnonzero(self.rank)
        new[items] = rank[begin[self.query[items]] + self.rank[items] - 1]
        kept = (self.rank == 0) | (new > 0)
        return Spans(
            self.query[kept], self.start[kept], self.end[kept], new[kept], self.grade[kept]
        )


class SpanRows:
    """Collects the expected and the retrieved spans of a batch, query by query."""

    def __init__(self) -> None:
        self._documents: dict[str, int] = {}
        self._rows: list[tuple[int, int, int, int, int, float]] = []

    def add(
        self,
        query: int,
        expected: Mapping[str, Span] | None,
        grades: Mapping[str, float],
        retrieved: Iterable[tuple[int, Span | None]],
    ) -> None:
        """Add a query."""
        for item, span in (expected or {}).items():
            self._add(query, span, 0, grades[item])
        for rank, place in retrieved:
            if place is not None:
                self._add(query, place, rank, 0.0)

    def _add(self, query: int, span: Span, rank: int, grade: float) -> None:
        source, start, end = span
        if not 0 <= start <= end <= LONGEST:
            raise InvalidInput("span", tuple(span), VALID_PLACE)
        document = self._documents.setdefault(source, len(self._documents))
        self._rows.append((query, document, start, end, rank, grade))

    def by_unit(self, ruler: Ruler | None) -> Mapping[Unit, Spans]:
        """All of them, in characters and, where it is known how long a token is, in tokens."""
        columns = np.array(self._rows, np.float64).reshape(-1, 6).T
        query, document, start, end, rank = columns[:5].astype(np.int64)
        placed = Placed(query, document, start, end, rank, columns[5])
        by_unit: dict[Unit, Spans] = {"characters": Spans.of(placed)}
        if ruler is not None:
            in_tokens = placed.in_tokens(list(self._documents), ruler) if self._rows else placed
            by_unit["tokens"] = Spans.of(in_tokens)
        return by_unit


VALID_PLACE = f"a first character from 0 on, and an end that isn't before it, at most {LONGEST:,}"
