"""Spans of a batch of queries: how many characters several of them cover together.

Text that two spans share counts once. All is flat and vectorised: a span is a row, and what rows of
one query and one document cover is found by sorting them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.judging.judged import FloatArray, IntArray
from llama_index_rag_metrics.span import LONGEST, Span


@dataclass(frozen=True, eq=False)
class Spans:
    """Places in documents, of a batch of queries.

    Attributes:
        query: (spans,) position of the query.
        document: (spans,) a number for each document of each query: two spans with the same number
            are of the same query and the same document.
        start: (spans,) the first character.
        end: (spans,) the character after the last.
        rank: (spans,) the rank of the retrieved item, or the position among the judgements.
        grade: (spans,) the grade of an expected passage; 1 for retrieved ones.
    """

    query: IntArray
    document: IntArray
    start: IntArray
    end: IntArray
    rank: IntArray
    grade: FloatArray

    def select(self, kept: np.typing.NDArray[np.bool_]) -> Spans:
        """Some of the spans."""
        return Spans(
            self.query[kept],
            self.document[kept],
            self.start[kept],
            self.end[kept],
            self.rank[kept],
            self.grade[kept],
        )

    def __add__(self, other: Spans) -> Spans:
        return Spans(
            np.concatenate([self.query, other.query]),
            np.concatenate([self.document, other.document]),
            np.concatenate([self.start, other.start]),
            np.concatenate([self.end, other.end]),
            np.concatenate([self.rank, other.rank]),
            np.concatenate([self.grade, other.grade]),
        )

    def covered(self, n_queries: int) -> IntArray:
        """(queries,) how many characters the spans of each query cover, each counted once."""
        room = int(self.end.max(initial=0)) + 1
        start, end = self.document * room + self.start, self.document * room + self.end
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        reached = np.maximum.accumulate(end)
        before = np.concatenate([[0], reached[:-1]])
        new = np.maximum(end - np.maximum(start, before), 0) if end.size else end
        # exact: characters are whole numbers, far below 2**53
        return np.bincount(self.query[order], new, n_queries).astype(np.int64)


class SpanRows:
    """Collects the expected and the retrieved spans of a batch, query by query."""

    def __init__(self) -> None:
        self._documents: dict[tuple[int, str], int] = {}
        self._rows: tuple[list[tuple[int, int, int, int, int, float]], ...] = ([], [])

    def add(
        self,
        query: int,
        expected: Mapping[str, Span] | None,
        grades: Mapping[str, float],
        retrieved: Iterable[tuple[int, Span | None]],
    ) -> None:
        """Add a query.

        Args:
            query: its position.
            expected: id to span.
            grades: id to grade.
            retrieved: rank and span of every distinct item.
        """
        wanted, found = self._rows
        for rank, (item, span) in enumerate((expected or {}).items(), 1):
            wanted.append(self._row(query, span, rank, grades[item]))
        found += [self._row(query, span, rank, 1.0) for rank, span in retrieved if span is not None]

    def _row(
        self, query: int, span: Span, rank: int, grade: float
    ) -> tuple[int, int, int, int, int, float]:
        document = self._documents.setdefault((query, span.source), len(self._documents))
        return query, document, span.start, min(span.end, LONGEST), rank, grade

    def arrays(self) -> tuple[Spans, Spans]:
        """The expected spans, and the retrieved ones."""
        expected, retrieved = map(_spans, self._rows)
        return expected, retrieved


def _spans(rows: Sequence[tuple[int, int, int, int, int, float]]) -> Spans:
    columns = np.array(rows, np.float64).reshape(-1, 6).T
    query, document, start, end, rank = columns[:5].astype(np.int64)
    return Spans(query, document, start, end, rank, columns[5])
