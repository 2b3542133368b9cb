"""Spans from columns: lists of structs beside the ids, without a Python object a span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.rankings.judging.judged_spans import VALID_PLACE, Placed, Spans, Unit
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

EXPECTED, EXPECTED_SPANS, RETRIEVED_SPANS = "expected_ids", "expected_spans", "retrieved_spans"

_DOCUMENT = ("source", "document", "document_id")
_FIELDS = ("source", "start", "end")
_FORM = "a list of {source: text, start: whole number, end: whole number} in every row"


@dataclass(eq=False)
class SpanColumn:
    """The places of the items of a column of lists, flat.

    Attributes:
        document: (items,) the id of each one's document, null where its place isn't known.
        start: (items,) its first character.
        end: (items,) the character after its last.
    """

    document: pl.Series
    start: IntArray
    end: IntArray

    @classmethod
    def read(cls, frame: pl.DataFrame, column: str, counts: IntArray) -> SpanColumn:
        """Read a column."""
        import polars as pl

        if column not in frame.columns:
            expected = f"a column {column}, the places of {_items_of(column)}"
            remedy = f"It is {_FORM}."
            raise InvalidInput("table", frame.columns, expected, remedy)
        lists = _lists(frame[column])
        n_places = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
        # a row without a list says nothing of its items' places
        unequal = np.flatnonzero((n_places != counts) & lists.is_not_null().to_numpy())
        if unequal.size:
            row = int(unequal[0])
            expected = f"{counts[row]} places, one for each of {_items_of(column)}"
            raise InvalidInput(f"{column} of row {row}", int(n_places[row]), expected)
        items = lists.filter(pl.Series(n_places > 0)).explode()
        document, start, end = map(items.struct.field, _FIELDS)
        is_known = document.is_not_null() & start.is_not_null() & end.is_not_null()
        shortest = 1 if column == EXPECTED_SPANS else 0
        is_span = (start >= 0) & (end - start >= shortest) & (end <= LONGEST)
        if (wrong := (is_known & ~is_span).fill_null(value=False)).any():
            span = items[int(wrong.arg_max() or 0)]
            raise InvalidInput(f"column {column}", span, VALID_PLACE)
        placed = cls(
            document.set(~is_known, None),
            start.fill_null(0).to_numpy(),
            end.fill_null(0).to_numpy(),
        )
        return placed if (n_places == counts).all() else placed._spread(n_places > 0, counts)

    def _spread(self, has_places: BoolArray, counts: IntArray) -> SpanColumn:
        """The places of all items, those of the rows that say nothing included."""
        import polars as pl

        row = np.cumsum(np.repeat(has_places, counts)) - 1
        position = pl.Series(np.where(np.repeat(has_places, counts), row, -1))
        position = position.set(position < 0, None).cast(pl.UInt32)
        start, end = (
            pl.Series(edge).gather(position).fill_null(0).to_numpy()
            for edge in (self.start, self.end)
        )
        return SpanColumn(self.document.gather(position), start, end)

    def without(self, copies: IntArray) -> SpanColumn:
        """The places without those of some items."""
        kept = np.delete(np.arange(len(self.start)), copies)
        return SpanColumn(self.document.gather(kept), self.start[kept], self.end[kept])

    def rows(self, counts: IntArray) -> list[list[Span | None]]:
        """The places as spans, a list a row, None where they aren't known."""
        columns = (self.document.to_list(), self.start.tolist(), self.end.tolist())
        spans = [
            None if document is None else Span(document, start, end)
            for document, start, end in zip(*columns, strict=True)
        ]
        ends = np.cumsum(counts).tolist()
        return [spans[end - n : end] for end, n in zip(ends, counts.tolist(), strict=True)]


def spans_of_columns(
    expected: tuple[SpanColumn, IntArray, FloatArray],
    retrieved: tuple[SpanColumn, IntArray, IntArray],
) -> Mapping[Unit, Spans]:
    """Both sides together.

    Args:
        expected: the places of the judgements, their queries and grades.
        retrieved: the places of the retrieved items, their queries and ranks.
    """
    import polars as pl

    columns, query = (expected[0], retrieved[0]), np.concatenate([expected[1], retrieved[1]])
    names = pl.concat([column.document for column in columns])
    number = names.cast(pl.Categorical).to_physical()
    placed = Placed(
        query,
        number.fill_null(0).to_numpy().astype(np.int64),
        np.concatenate([column.start for column in columns]),
        np.concatenate([column.end for column in columns]),
        np.concatenate([np.zeros(len(expected[1]), np.int64), retrieved[2]]),
        np.concatenate([expected[2], np.zeros(len(retrieved[1]))]),
    )
    known = np.flatnonzero(number.is_not_null())
    return {"characters": Spans.of(placed.select(known))}


def with_expected_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of labels by place alone, with the ids that `Relevance.of_spans` gives them."""
    import polars as pl

    if EXPECTED in frame.columns or EXPECTED_SPANS not in frame.columns:
        return frame
    places = _lists(frame[EXPECTED_SPANS])
    named = pl.format("{}[{}:{}]", *map(pl.element().struct.field, _FIELDS))
    return frame.with_columns(places.to_frame().select(pl.first().list.eval(named).alias(EXPECTED)))


def span_series(column: str, spans: Iterable[Sequence[Span | None] | None]) -> pl.Series:
    """Spans, a list a row, as a column of a table."""
    import polars as pl

    rows = [None if row is None else [span and span._asdict() for span in row] for row in spans]
    return pl.Series(column, rows, _dtype())


def _dtype() -> pl.DataType:
    import polars as pl

    return pl.List(pl.Struct({"source": pl.String, "start": pl.Int64, "end": pl.Int64}))


def _lists(column: pl.Series) -> pl.Series:
    """A column as lists of structs."""
    import polars as pl

    known = _dtype()
    if column.null_count() == len(column):
        return pl.Series(column.name, [None] * len(column), known)
    if isinstance(column.dtype, pl.Array):
        column = column.arr.to_list()
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


def _items_of(column: str) -> str:
    return "the expected ids" if column == EXPECTED_SPANS else "the retrieved ids"
