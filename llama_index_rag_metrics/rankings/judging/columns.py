"""What rankings carry beside their ids; a row more in `COLUMNS` adds a column everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.rankings.judging import hashes
from llama_index_rag_metrics.rankings.judging.judged import Cutoff, JudgedRankings
from llama_index_rag_metrics.rankings.judging.judged_column import (
    EXPECTED,
    RETRIEVED,
    Batch,
    JudgedColumn,
    JudgedTable,
    RetrievalScores,
    TokenCounts,
    first_of_each,
    ids_of,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.lazy import Lazy

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Lazy("polars")

EXPECTED_SPANS, RETRIEVED_SPANS = "expected_spans", "retrieved_spans"

_ROOM = 2**63
_VALID = f"a first character from 0 on, and an end that isn't before it, at most {LONGEST:,}"

_DOCUMENT = ("source", "document", "document_id")
_FIELDS = ("source", "start", "end")
_IDS = {EXPECTED_SPANS: EXPECTED, RETRIEVED_SPANS: RETRIEVED}
_FORM = "a list of {source: text, start: whole number, end: whole number} in every row"


@dataclass(frozen=True, eq=False)
class JudgedSpans(JudgedColumn):
    """Where what was expected and what was retrieved is, in any order.

    Attributes:
        query: (spans,) position of the query.
        document: (spans,) the number of the document.
        start: (spans,) the first character.
        end: (spans,) the character after the last.
        rank: (spans,) the rank of a retrieved item; 0 for expected passages.
        grade: (spans,) the grade of an expected passage; 0 for retrieved items.
    """

    name = "spans"
    argument = RETRIEVED_SPANS
    fields = (EXPECTED_SPANS, RETRIEVED_SPANS)
    query: IntArray
    document: IntArray
    start: IntArray
    end: IntArray
    rank: IntArray
    grade: FloatArray
    _covered: dict[object, IntArray] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_rankings(cls, batch: Batch) -> JudgedSpans:
        relevance, rankings, sources = batch
        documents: dict[str, int] = {}
        rows: list[tuple[int, int, int, int, int, float]] = []

        def add(query: int, span: Span, rank: int, grade: float) -> None:
            source, start, end = span
            if not 0 <= start <= end <= LONGEST:
                raise InvalidInput("span", tuple(span), _VALID)
            document = documents.setdefault(source, len(documents))
            rows.append((query, document, start, end, rank, grade))

        for query, (judgements, ranking) in enumerate(zip(relevance, rankings, strict=True)):
            ids, spans = ids_of(ranking), getattr(ranking, "spans", None)
            if spans is None and len(ids):
                what, remedy = "the spans of what was retrieved", "Give Ranking(ids, spans=...)."
                raise sources.lacks(cls.name, query, ids, what, remedy)
            judged = Relevance() if judgements is None else Relevance.of(judgements)
            for item, span in (judged.spans or {}).items():
                add(query, span, 0, judged.grades[item])
            for rank, place in enumerate(first_of_each(ids, () if spans is None else spans), 1):
                if place is not None:
                    add(query, place, rank, 0.0)
        *whole, grades = np.array(rows, np.float64).reshape(-1, 6).T
        names = ("query", "document", "start", "end", "rank")
        columns = dict(zip(names, (column.astype(np.int64) for column in whole), strict=True))
        return cls(**columns, grade=grades)

    @classmethod
    def of_table(cls, table: JudgedTable) -> JudgedSpans:
        frame, retrieved, expected, grade = table
        sides = ((EXPECTED_SPANS, expected), (RETRIEVED_SPANS, retrieved))
        places = pl.concat(_kept(_read_places(frame, column), lists) for column, lists in sides)
        document, start, end = map(places.struct.field, _FIELDS)
        number = document.cast(pl.Categorical).to_physical()
        rank = retrieved.rank(np.arange(len(retrieved.query)))
        placed = cls(
            np.concatenate([expected.query, retrieved.query]),
            number.fill_null(0).to_numpy().astype(np.int64),
            start.fill_null(0).to_numpy(),
            end.fill_null(0).to_numpy(),
            np.concatenate([np.zeros(len(grade), np.int64), rank]),
            np.concatenate([grade, np.zeros(len(rank))]),
        )
        return placed._select(
            (document.is_not_null() & start.is_not_null() & end.is_not_null()).to_numpy()
        )

    @classmethod
    def cells(cls, frame: pl.DataFrame) -> Mapping[str, Sequence[Any]]:
        return {cls.name: place_rows(frame, RETRIEVED_SPANS)}

    def reranked(self, rank: IntArray, begin: IntArray) -> JudgedSpans:
        new = np.zeros(len(self.rank), np.int64)
        items = np.flatnonzero(self.rank)
        new[items] = rank[begin[self.query[items]] + self.rank[items] - 1]
        return replace(self, rank=new)._select((self.rank == 0) | (new > 0))

    @cached_property
    def _in_line(self) -> JudgedSpans:
        """The spans by start, document after document."""
        room = int(self.end.max(initial=0)) + 1
        document = self.query * (int(self.document.max(initial=0)) + 1) + self.document
        if (int(document.max(initial=0)) + 1) * room >= _ROOM:
            document = np.unique(document, return_inverse=True)[1]
        if (int(document.max(initial=0)) + 1) * room >= _ROOM:
            expected = f"at most {_ROOM // room:,} documents of such a length"
            raise InvalidInput("spans", f"an end of {room - 1:,}", expected)
        start, end = document * room + self.start, document * room + self.end
        placed = replace(self, start=start, end=end)
        return placed._select(np.argsort(start))

    def _select(self, kept: BoolArray | IntArray) -> JudgedSpans:
        columns = ("query", "document", "start", "end", "rank", "grade")
        return replace(self, **{column: getattr(self, column)[kept] for column in columns})

    def coverage(
        self, judged: JudgedRankings, cutoff: Cutoff | None, min_grade: float
    ) -> tuple[IntArray, IntArray, IntArray]:
        """(queries,) each: covered by the expected within a cutoff, by the retrieved, by either."""
        spans, n_queries = self._in_line, len(judged)
        is_expected = (spans.rank == 0) & (spans.grade >= min_grade)
        is_retrieved = spans.rank > 0
        if cutoff is not None:
            is_retrieved &= judged.is_within(spans.query, spans.rank, cutoff)
        return (
            spans._cover(("expected", min_grade), is_expected, n_queries),
            spans._cover(("retrieved", cutoff), is_retrieved, n_queries),
            spans._cover(("either", min_grade, cutoff), is_expected | is_retrieved, n_queries),
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


def with_expected_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of labels by place alone, with the ids that `Relevance.of_spans` gives them."""
    if EXPECTED in frame.columns or EXPECTED_SPANS not in frame.columns:
        return frame
    places = _lists(frame[EXPECTED_SPANS])
    named = pl.format("{}[{}:{}]", *map(pl.element().struct.field, _FIELDS))
    return frame.with_columns(places.to_frame().select(pl.first().list.eval(named).alias(EXPECTED)))


def place_rows(frame: pl.DataFrame, column: str) -> list[list[Span | None]]:
    spans = [
        None if place is None or None in place.values() else Span(**place)
        for place in _read_places(frame, column).to_list()
    ]
    counts = hashes.list_lengths(frame, _IDS[column])
    ends = np.cumsum(counts).tolist()
    return [spans[end - n : end] for end, n in zip(ends, counts.tolist(), strict=True)]


def _read_places(frame: pl.DataFrame, column: str) -> pl.Series:
    """The place of every item of the lists of ids, copies included; null where it isn't known."""
    items_of = "the expected ids" if column == EXPECTED_SPANS else "the retrieved ids"
    hashes.check_column(frame, column, f", the places of {items_of}", f"It is {_FORM}.")
    lists, counts = _lists(frame[column]), hashes.list_lengths(frame, _IDS[column])
    n_places = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    # a row without a list says nothing of its items' places
    told = np.where(lists.is_not_null().to_numpy(), n_places, counts)
    hashes.check_lengths(frame, column, told, counts, f"places, one for each of {items_of}")
    places: pl.Series = lists.filter(pl.Series(n_places > 0)).explode()
    document, start, end = map(places.struct.field, _FIELDS)
    is_known = document.is_not_null() & start.is_not_null() & end.is_not_null()
    shortest = 1 if column == EXPECTED_SPANS else 0
    is_span = (start >= 0) & (end - start >= shortest) & (end <= LONGEST)
    if (wrong := (is_known & ~is_span).fill_null(value=False)).any():
        raise InvalidInput(f"column {column}", places[int(wrong.arg_max() or 0)], _VALID)
    if (n_places == counts).all():
        return places
    has_place = np.repeat(n_places > 0, counts)
    position = pl.Series(np.cumsum(has_place) - 1).set(pl.Series(~has_place), None)
    return places.gather(position.cast(pl.UInt32))


def _kept(places: pl.Series, lists: hashes.IdLists) -> pl.Series:
    return places.gather(lists.kept(np.arange(len(places)))) if len(lists.copies) else places


def _dtype() -> pl.DataType:
    return pl.List(pl.Struct({"source": pl.String, "start": pl.Int64, "end": pl.Int64}))


def _lists(column: pl.Series) -> pl.Series:
    known = _dtype()
    if column.null_count() == len(column):
        return pl.Series(column.name, [None] * len(column), known)
    column = hashes.as_lists(column)
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else None
    if inner == pl.Null:  # empty lists, or places of which none is known
        empty: pl.Series = column.cast(known)
        return empty
    fields = (
        {field.name: field.dtype for field in inner.fields} if isinstance(inner, pl.Struct) else {}
    )
    name = next((field for field in _DOCUMENT if field in fields), "")
    is_text = fields.get(name) in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    edges = [fields.get(edge, pl.String) for edge in _FIELDS[1:]]
    if not is_text or not all(edge.is_integer() or edge == pl.Null for edge in edges):
        raise InvalidInput(f"column {column.name}", str(column.dtype), _FORM)
    if list(fields) != list(_FIELDS):
        item = pl.element().struct
        own = pl.struct(item.field(name).alias(_FIELDS[0]), *map(item.field, _FIELDS[1:]))
        blank = pl.when(pl.element().is_null()).then(None).otherwise(own)
        column = column.to_frame().select(pl.first().list.eval(blank)).to_series()
    lists: pl.Series = column.cast(known)
    return lists


COLUMNS: tuple[type[JudgedColumn], ...] = (TokenCounts, JudgedSpans, RetrievalScores)

_FORMER = frozenset({"needs_tokens", "needs_spans", "needs_documents"})
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
