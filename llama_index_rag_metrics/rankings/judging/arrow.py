"""Judging from columns, by 64-bit hashes of ids, with the same result as `judge` of lists.

What hashes can't decide (two ids of one hash), groups and spans go through `judge`, row by row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from llama_index_rag_metrics.rankings.relevance import HIGHEST_GRADE, Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import Span, read_span
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, Lazy, none_of_them
from llama_index_rag_metrics.runtime.errors import InvalidInput, mixed_id_types

from .beside import SPANS, TOKENS, check_tokens
from .hashes import HashedLists
from .judged import JudgedRankings, grades_best_first
from .lists import judge

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
else:
    pl, pa = Lazy("polars"), Lazy("pyarrow")

Values = TypeVar("Values", IntArray, FloatArray)

QUERY_ID, RETRIEVED, EXPECTED = "query_id", "retrieved_ids", "expected_ids"
GRADES, WEIGHTS, RETRIEVED_TOKENS = "grades", "facet_weights", "retrieved_tokens"
EXPECTED_SPANS, RETRIEVED_SPANS = "expected_spans", "retrieved_spans"

FIELDS = {TOKENS: (RETRIEVED_TOKENS,), SPANS: (EXPECTED_SPANS, RETRIEVED_SPANS)}
"""What metrics need beside ids, and the columns that hold it."""


def judge_table(frame: pl.DataFrame, needs: Collection[str] = ()) -> JudgedRankings:
    """Bring the relevance and the rankings of a table together, row by row."""
    columns = [RETRIEVED, EXPECTED]
    for need in needs:
        columns += FIELDS[need]
    _check_columns(frame, columns)
    tokens = None
    if TOKENS in needs:
        tokens = _read_tokens(frame)
    if SPANS not in needs and not _is_grouped(frame):
        try:
            return _judge_hashed(frame, tokens)
        except Collision:
            pass
    return _judge_rows(frame, needs)


def _check_columns(frame: pl.DataFrame, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in frame.columns:
            raise InvalidInput("table", frame.columns, f"a column {column}")


def _is_grouped(frame: pl.DataFrame) -> bool:
    dtype = frame[EXPECTED].dtype
    return isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.List)


def _judge_hashed(frame: pl.DataFrame, tokens: IntArray | None) -> JudgedRankings:
    expected, retrieved = IdLists.read(frame, EXPECTED), IdLists.read(frame, RETRIEVED)
    grade = _read_grades(frame, expected)
    retrieved, expected = retrieved.distinct(), expected.distinct(grade)
    grade = expected.kept(grade)
    position, label = retrieved.find(expected)
    return JudgedRankings(
        depth=retrieved.counts,
        item_query=retrieved.query[position],
        item_rank=position - retrieved.hashed.begin[retrieved.query[position]] + 1,
        item_grade=grade[label],
        judged_grade=grades_best_first(grade, expected.counts),
        judged_offset=np.concatenate([[0], np.cumsum(expected.counts)]),
        tokens=None if tokens is None else retrieved.kept(tokens),
    )


class Collision(Exception):
    """Two ids of one hash."""


@dataclass(eq=False)
class IdLists:
    """A column of lists of ids, flat."""

    ids: pl.Series
    query: IntArray
    counts: IntArray
    copies: IntArray = field(default_factory=none_of_them)

    @classmethod
    def read(cls, frame: pl.DataFrame, column: str) -> IdLists:
        lists = _as_lists(frame[column])
        if lists.null_count() == len(lists) and not isinstance(lists.dtype, pl.List):
            lists = pl.Series(column, [None] * len(lists), pl.List(pl.String))
        if not isinstance(lists.dtype, pl.List) or lists.dtype.inner.is_nested():
            raise InvalidInput(f"column {column}", lists.dtype, "a list of ids in every row")
        counts = _lengths(lists)
        ids = lists.filter(pl.Series(counts > 0)).explode()
        query = np.repeat(np.arange(len(lists)), counts)
        if ids.null_count():
            row = _row_name(frame, int(query[int(ids.is_null().arg_max() or 0)]))
            raise InvalidInput(f"{column} of {row}", None, "a list of ids, without None")
        return cls(_comparable(ids, column), query, counts)

    @cached_property
    def hashed(self) -> HashedLists:
        return HashedLists(self.ids.hash().to_numpy(), self.counts)

    def distinct(self, grade: FloatArray | None = None) -> IdLists:
        """The lists without copies, which must have the grade of what they repeat."""
        copies, earlier = self.hashed.repeats()
        if not len(copies):
            return self
        self._check_same(copies, self, earlier)
        if grade is not None and (wrong := np.flatnonzero(grade[copies] != grade[earlier])).size:
            item = self.ids[int(copies[wrong[0]])]
            remedy = "Keep one of its grades."
            raise InvalidInput("expected_ids", item, "one grade for each id", remedy)
        positions = np.delete(np.arange(len(self.query)), copies)
        counts = self.counts - np.bincount(self.query[copies], minlength=len(self.counts))
        return IdLists(self.ids.gather(positions), self.query[positions], counts, copies)

    def kept(self, values: Values) -> Values:
        """What belongs to the members that are left of those that were read."""
        return np.delete(values, self.copies)

    def find(self, wanted: IdLists) -> tuple[IntArray, IntArray]:
        """The positions of the wanted members, in order, and of each one's equal in `wanted`."""
        if len(self.ids) and len(wanted.ids) and self.ids.dtype != wanted.ids.dtype:
            raise mixed_id_types(map(str, (wanted.ids.dtype, self.ids.dtype)))
        position, equal = self.hashed.find(wanted.hashed)
        self._check_same(position, wanted, equal)
        return position, equal

    def _check_same(self, positions: IntArray, others: IdLists, equals: IntArray) -> None:
        """Equal hashes must stand for equal ids of the same query."""
        if not len(positions):  # nor can ids of two types be compared
            return
        same_query = np.array_equal(self.query[positions], others.query[equals])
        if not same_query or not (self.ids.gather(positions) == others.ids.gather(equals)).all():
            raise Collision


def _comparable(ids: pl.Series, column: str) -> pl.Series:
    """Ids that are the same get the same hash: whole numbers of one width, texts as texts."""
    comparable: pl.Series = ids
    if isinstance(ids.dtype, (pl.Categorical, pl.Enum)):
        comparable = ids.cast(pl.String)
    if ids.dtype.is_integer():
        comparable = ids.cast(pl.Int64, strict=False)
        if comparable.null_count():
            item = ids[int(comparable.is_null().arg_max() or 0)]
            expected = "ids from -2**63 to 2**63 - 1"
            raise InvalidInput(f"column {column}", item, expected, "Convert both columns to texts.")
    return comparable


def _as_lists(column: pl.Series) -> pl.Series:
    """A column whose arrays of one length, if it has such, are lists."""
    return column.arr.to_list() if isinstance(column.dtype, pl.Array) else column


def _lengths(lists: pl.Series) -> IntArray:
    if lists.null_count() == len(lists):  # of any type, such as Null
        return np.zeros(len(lists), np.int64)
    return np.asarray(lists.list.len().fill_null(0).to_numpy(), np.int64)


def _check_lengths(
    frame: pl.DataFrame, column: str, counts: IntArray, wanted: IntArray, what: str
) -> None:
    """Refuse a row whose list has another length than wanted."""
    if (unequal := counts != wanted).any():
        row = int(unequal.argmax())
        argument = f"{column} of {_row_name(frame, row)}"
        raise InvalidInput(argument, int(counts[row]), f"{wanted[row]} {what}")


def _row_name(frame: pl.DataFrame, row: int) -> str:
    if QUERY_ID in frame.columns:
        return f"question {frame[QUERY_ID][row]!r}"
    return f"row {row}"


def _read_grades(frame: pl.DataFrame, judged: IdLists) -> FloatArray:
    """(judgements,) the grade of every expected id, 1 in rows without grades."""
    grade = np.ones(len(judged.ids))
    if GRADES not in frame.columns or frame[GRADES].null_count() == len(frame):
        return grade
    grades = _as_lists(frame[GRADES])
    if grades.dtype == pl.List(pl.Null):
        grades = grades.cast(pl.List(pl.Float64))
    if not isinstance(grades.dtype, pl.List) or not grades.dtype.inner.is_numeric():
        raise InvalidInput(f"column {GRADES}", grades.dtype, "a list of numbers in every row")
    is_given = grades.is_not_null().to_numpy()
    counts = np.where(is_given, _lengths(grades), judged.counts)
    _check_lengths(frame, GRADES, counts, judged.counts, "grades, one for each expected id")
    numbers = grades.filter(pl.Series(is_given & (counts > 0))).explode().cast(pl.Float64)
    grade[np.repeat(is_given, judged.counts)] = numbers.fill_null(float("nan")).to_numpy()
    if (wrong := np.flatnonzero(~(np.abs(grade) <= HIGHEST_GRADE))).size:
        item, row = int(wrong[0]), int(judged.query[wrong[0]])
        argument = f"grade of {judged.ids[item]!r} in {_row_name(frame, row)}"
        expected = f"a finite number of at most {HIGHEST_GRADE:g}"
        raise InvalidInput(argument, float(grade[item]), expected)
    return grade


def _read_tokens(frame: pl.DataFrame) -> IntArray:
    """(retrieved,) the tokens of every retrieved item of a table, copies included."""
    lists = _as_lists(frame[RETRIEVED_TOKENS])
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    if inner is None or not (inner.is_integer() or inner == pl.Null):
        expected = "a list of whole numbers in every row"
        raise InvalidInput(f"column {RETRIEVED_TOKENS}", lists.dtype, expected)
    counts, n_ids = _lengths(lists), _lengths(_as_lists(frame[RETRIEVED]))
    expected = "numbers, one for each retrieved id"
    _check_lengths(frame, RETRIEVED_TOKENS, counts, n_ids, expected)
    numbers = lists.filter(pl.Series(counts > 0)).explode()
    if numbers.null_count():
        raise InvalidInput(f"column {RETRIEVED_TOKENS}", None, "a number for each retrieved id")
    return check_tokens(np.asarray(numbers.cast(pl.Int64).to_numpy(), np.int64))


def _judge_rows(frame: pl.DataFrame, needs: Collection[str]) -> JudgedRankings:
    labels, is_grouped = frame[EXPECTED].to_list(), _is_grouped(frame)
    ids = [row or [] for row in frame[RETRIEVED].to_list()]
    grades, weights = _column(frame, GRADES), _column(frame, WEIGHTS)
    tokens, spans = _column(frame, RETRIEVED_TOKENS), [None] * len(frame)
    places: list[Any] = [None] * len(frame)
    if is_grouped and any(row is not None for row in grades):
        remedy = f"Leave {GRADES} out, or null: groups are binary."
        raise InvalidInput("table", f"groups and {GRADES}", f"groups or {GRADES}", remedy)
    if SPANS in needs:
        if is_grouped:
            expected = f"a list of ids in every row, beside {EXPECTED_SPANS}"
            raise InvalidInput(f"column {EXPECTED}", "groups", expected)
        spans = _read_spans(frame, RETRIEVED_SPANS, ids)
        places = _read_spans(frame, EXPECTED_SPANS, [row or [] for row in labels])
    relevance: list[Relevance | None] = []
    rankings: list[Ranking] = []
    for row, expected_ids in enumerate(labels):
        counts = None
        if TOKENS in needs:
            counts = tokens[row] or []
        rankings.append(Ranking(ids[row], tokens=counts, spans=spans[row]))
        if expected_ids is None:
            relevance.append(None)
        elif is_grouped:
            relevance.append(_grouped(frame, row, expected_ids, weights[row]))
        else:
            relevance.append(_labelled(expected_ids, grades[row], places[row]))
    return judge(relevance, rankings, needs)


def _column(frame: pl.DataFrame, name: str) -> list[Any]:
    if name not in frame.columns:
        return [None] * len(frame)
    return _as_lists(frame[name]).to_list()


def _labelled(
    ids: Sequence[str], grades: Sequence[float] | None, places: Sequence[Span | None] | None
) -> Relevance:
    labels = ids if grades is None else dict(zip(ids, grades, strict=True))
    if places is None:
        return Relevance(labels)
    spans = {item: span for item, span in zip(ids, places, strict=True) if span is not None}
    return Relevance(labels, spans=spans)


def _grouped(
    frame: pl.DataFrame, row: int, groups: list[list[str]], weights: list[float] | None
) -> Relevance:
    if weights is None:
        return Relevance(groups=groups)
    if len(weights) != len(groups):
        expected = f"{len(groups)} weights, one for each group"
        raise InvalidInput(f"{WEIGHTS} of {_row_name(frame, row)}", len(weights), expected)
    names = list(map(str, range(len(groups))))
    facets = dict(zip(names, groups, strict=True))
    return Relevance(facets=facets, weights=dict(zip(names, weights, strict=True)))


def _read_spans(frame: pl.DataFrame, column: str, ids: Sequence[Sequence[str]]) -> list[Any]:
    """Of each row the place of every id, None where it isn't known."""
    rows = _column(frame, column)
    may_be_empty = column == RETRIEVED_SPANS
    for row, items in enumerate(ids):
        places = [None] * len(items) if rows[row] is None else rows[row]
        if len(places) != len(items):
            argument = f"{column} of {_row_name(frame, row)}"
            raise InvalidInput(argument, len(places), f"{len(items)} places, one for each id")
        pairs = zip(items, places, strict=True)
        rows[row] = [_read_place(item, place, may_be_empty) for item, place in pairs]
    return rows


def _read_place(item: str, place: Any, may_be_empty: bool) -> Span | None:
    if isinstance(place, Mapping):
        names = ("source", "document", "document_id", "start", "end")
        place = tuple(place[name] for name in names if name in place)
    if place is None or (isinstance(place, tuple) and None in place):
        return None
    return read_span(item, place, may_be_empty=may_be_empty)


def with_expected_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of labels by place alone, with the ids that `Relevance(spans=...)` gives them."""
    if EXPECTED in frame.columns or EXPECTED_SPANS not in frame.columns:
        _check_columns(frame, [RETRIEVED, EXPECTED])
        return frame
    _check_columns(frame, [RETRIEVED])
    ids = [
        None if places is None else ["{}[{}:{}]".format(*place.values()) for place in places]
        for places in frame[EXPECTED_SPANS].to_list()
    ]
    return frame.with_columns(pl.Series(EXPECTED, ids, pl.List(pl.String)))


def frame_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """An Arrow table as Polars holds it."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    unreadable = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException)
    columns: dict[str, pl.Series] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            items = pa.table({name: _own_items(_plain_lists(column))})
            columns[name] = pl.DataFrame(pl.from_arrow(items))[name]
        except unreadable as error:
            expected = "a type of Arrow that Polars reads, such as list<string>"
            raise InvalidInput(f"column {name}", str(column.type), expected) from error
    return pl.DataFrame(columns)


def _plain_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of one length and views of lists, which Polars doesn't read with nulls, as lists."""
    kind = str(column.type)
    if kind.startswith(("fixed_size_list", "list_view", "large_list_view")):
        return pa.chunked_array([column.to_pylist()], pa.large_list(column.type.value_type))
    return column


def _own_items(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists without the items of the rows around a slice, which Polars would look at, too."""
    chunks = []
    for chunk in column.chunks:
        if type(chunk) not in (pa.ListArray, pa.LargeListArray):  # a map is a list, too
            return column
        offsets = chunk.offsets.to_numpy()
        items = _as_views(chunk.values.slice(offsets[0], offsets[-1] - offsets[0]))
        mask = None
        if chunk.null_count:
            mask = chunk.is_null()
        chunks.append(type(chunk).from_arrays(offsets - offsets[0], items, mask=mask))
    return pa.chunked_array(chunks) if chunks else column


def _as_views(items: pa.Array) -> pa.Array:
    """Texts as Polars holds them, which Arrow makes in half the time."""
    if not (pa.types.is_string(items.type) or pa.types.is_large_string(items.type)):
        return items
    try:
        return items.cast(pa.string_view())
    except (AttributeError, pa.ArrowNotImplementedError):  # before Arrow 18
        return items
