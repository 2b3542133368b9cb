"""Judging from columns, by 64-bit hashes of ids, with the same result as `judge` of lists.

What hashes can't decide (two ids of one hash), and whatever isn't a plain table of ids and grades,
goes through `judge`, row by row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.rankings.relevance import HIGHEST_GRADE, Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import Span, read_span
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, Lazy
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .beside import SPANS, TOKENS
from .judged import JudgedRankings, grades_best_first
from .lists import judge

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
else:
    pl, pa = Lazy("polars"), Lazy("pyarrow")

QUERY_ID, RETRIEVED, EXPECTED = "query_id", "retrieved_ids", "expected_ids"
GRADES, WEIGHTS, RETRIEVED_TOKENS = "grades", "facet_weights", "retrieved_tokens"
EXPECTED_SPANS, RETRIEVED_SPANS = "expected_spans", "retrieved_spans"

FIELDS = {TOKENS: (RETRIEVED_TOKENS,), SPANS: (EXPECTED_SPANS, RETRIEVED_SPANS)}
"""What metrics need beside ids, and the columns that hold it."""

_MOST_LABELS = 32
"""Up to this many labels of a question are looked for in all rankings at once."""

_MOST_FILLED = 4
"""Rows of unequal length may take this many times the space of their members."""


def judge_table(frame: pl.DataFrame, needs: Collection[str] = ()) -> JudgedRankings:
    """Bring the relevance and the rankings of a table together, row by row."""
    columns = [RETRIEVED, EXPECTED]
    for need in needs:
        columns += FIELDS[need]
    _check_columns(frame, columns)
    if not needs:
        try:
            return _judge_hashed(frame)
        except Irregular:
            pass
    return _judge_rows(frame, needs)


def _check_columns(frame: pl.DataFrame, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in frame.columns:
            raise InvalidInput("table", frame.columns, f"a column {column}")


class Irregular(Exception):
    """Hashes can't judge a table: two ids have one, or its columns are no plain lists."""


def _judge_hashed(frame: pl.DataFrame) -> JudgedRankings:
    expected, retrieved = IdLists.read(frame[EXPECTED]), IdLists.read(frame[RETRIEVED])
    if expected.ids.dtype != retrieved.ids.dtype:
        raise Irregular
    grade = _read_grades(frame, expected)
    copies, originals = expected.repeats()
    if (grade[copies] != grade[originals]).any():
        raise Irregular
    expected, grade = expected.without(copies), np.delete(grade, copies)
    retrieved = retrieved.without(retrieved.repeats()[0])
    position, label = retrieved.find(expected)
    query = retrieved.query[position]
    offset = np.concatenate([[0], np.cumsum(expected.counts)])
    return JudgedRankings(
        depth=retrieved.counts,
        item_query=query,
        item_rank=position - retrieved.begin[query] + 1,
        item_grade=grade[label],
        judged_grade=grades_best_first(grade, offset),
        judged_offset=offset,
    )


@dataclass(eq=False)
class IdLists:
    """A column of lists of ids, flat."""

    ids: pl.Series
    counts: IntArray

    @classmethod
    def read(cls, lists: pl.Series) -> IdLists:
        if not isinstance(lists.dtype, pl.List):
            raise Irregular
        if lists.dtype.inner != pl.String and not lists.dtype.inner.is_integer():
            raise Irregular
        counts = _lengths(lists)
        ids = lists.filter(pl.Series(counts > 0)).explode()
        if ids.null_count():
            raise Irregular
        return cls(ids, counts)

    @cached_property
    def query(self) -> IntArray:
        """(ids,) the row of each id."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def begin(self) -> IntArray:
        """(lists,) the position of each list's first id."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        return self.ids.hash().to_numpy()

    @cached_property
    def halves(self) -> npt.NDArray[np.uint32]:
        """(lists, longest) the lower halves of the hashes, a list a row, filled up."""
        n_lists, longest = len(self.counts), int(self.counts.max(initial=0))
        half = self.hashes.astype(np.uint32)
        if n_lists * longest == len(half):
            return half.reshape(n_lists, longest)
        if n_lists * longest > _MOST_FILLED * len(half):
            raise Irregular
        place = np.arange(longest, dtype=np.uint32)
        rows = np.tile(place, (n_lists, 1))
        rows[place < self.counts[:, np.newaxis]] = half
        return rows

    def repeats(self) -> tuple[IntArray, IntArray]:
        """The positions of ids that repeat an earlier one of their list, and of what they repeat.

        Only the lists in which two halves agree are sorted by whole hashes.
        """
        in_order = np.sort(self.halves, axis=1)
        lists = np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))
        begin, count = self.begin[lists, np.newaxis], self.counts[lists, np.newaxis]
        place = np.minimum(np.arange(self.halves.shape[1]), count - 1)
        hashes = self.hashes[begin + place]
        order = np.argsort(hashes, axis=1, kind="stable")
        hashes = np.take_along_axis(hashes, order, axis=1)
        is_again = (hashes[:, 1:] == hashes[:, :-1]) & (order[:, 1:] < count)
        position = begin + order
        copies, originals = position[:, 1:][is_again], position[:, :-1][is_again]
        self._check_same(copies, self, originals)
        return copies, originals

    def without(self, copies: IntArray) -> IdLists:
        if not len(copies):
            return self
        positions = np.delete(np.arange(len(self.query)), copies)
        counts = self.counts - np.bincount(self.query[copies], minlength=len(self.counts))
        return IdLists(self.ids.gather(positions), counts)

    def find(self, labels: IdLists) -> tuple[IntArray, IntArray]:
        """The positions of the ids that are labels of their row, in order, and of the labels."""
        if labels.counts.max(initial=0) > _MOST_LABELS:
            raise Irregular
        positions, equals = [np.array([], np.int64)], [np.array([], np.int64)]
        label_half = labels.hashes.astype(np.uint32)
        for nth in range(labels.counts.max(initial=0)):
            has_nth = labels.counts > nth
            label = np.where(has_nth, labels.begin + nth, 0)
            agrees = self.halves == label_half[label][:, np.newaxis]
            row, place = np.divmod(np.flatnonzero(agrees), self.halves.shape[1] or 1)
            is_there = has_nth[row] & (place < self.counts[row])
            position, equal = (self.begin[row] + place)[is_there], label[row[is_there]]
            is_equal = self.hashes[position] == labels.hashes[equal]
            positions.append(position[is_equal])
            equals.append(equal[is_equal])
        position, equal = np.concatenate(positions), np.concatenate(equals)
        order = np.argsort(position)
        self._check_same(position[order], labels, equal[order])
        return position[order], equal[order]

    def _check_same(self, positions: IntArray, others: IdLists, equals: IntArray) -> None:
        """Equal hashes must stand for equal ids."""
        if not (self.ids.gather(positions) == others.ids.gather(equals)).all():
            raise Irregular


def _lengths(lists: pl.Series) -> IntArray:
    return np.asarray(lists.list.len().fill_null(0).to_numpy(), np.int64)


def _read_grades(frame: pl.DataFrame, labels: IdLists) -> FloatArray:
    """(labels,) the grade of every label, 1 in rows without grades."""
    grade = np.ones(len(labels.ids))
    if GRADES not in frame.columns:
        return grade
    lists = frame[GRADES]
    if not isinstance(lists.dtype, pl.List) or not lists.dtype.inner.is_numeric():
        raise Irregular
    is_given = lists.is_not_null().to_numpy()
    counts = np.where(is_given, _lengths(lists), labels.counts)
    if (counts != labels.counts).any():
        raise Irregular
    numbers = lists.filter(pl.Series(is_given & (counts > 0))).explode().cast(pl.Float64)
    grade[np.repeat(is_given, labels.counts)] = numbers.fill_null(float("nan")).to_numpy()
    if not (np.abs(grade) <= HIGHEST_GRADE).all():
        raise Irregular
    return grade


def _judge_rows(frame: pl.DataFrame, needs: Collection[str]) -> JudgedRankings:
    """Judge row by row; what can't be used is named with its row."""
    relevance: list[Relevance | None] = []
    rankings: list[Ranking | Sequence[str]] = []
    names: list[str] = []
    for number, row in enumerate(frame.iter_rows(named=True)):
        names.append(str(row.get(QUERY_ID, number)))
        try:
            relevance.append(_labels(row, needs))
            rankings.append(_ranking(row, needs))
        except InvalidInput as error:
            place = f"question {row[QUERY_ID]!r}" if QUERY_ID in row else f"row {number}"
            argument = f"{error.argument} of {place}"
            raise InvalidInput(argument, error.value, error.expected, error.remedy) from error
    return judge(relevance, rankings, needs, query_ids=names)


def _labels(row: Mapping[str, Any], needs: Collection[str]) -> Relevance | None:
    ids = row[EXPECTED]
    if ids is None:
        return None
    grades, weights = row.get(GRADES), row.get(WEIGHTS)
    if ids and isinstance(ids[0], list):
        if grades is not None or SPANS in needs:
            remedy = f"Groups are binary, and known by their ids: leave out {GRADES} and places."
            raise InvalidInput(EXPECTED, "groups", "a list of ids in every row", remedy)
        if weights is None:
            return Relevance(groups=ids)
        facets = _by_id(WEIGHTS, weights, list(map(str, range(len(ids)))))
        return Relevance(facets=dict(zip(facets, ids, strict=True)), weights=facets)
    graded = ids if grades is None else _by_id(GRADES, grades, ids)
    if SPANS not in needs:
        return Relevance(graded)
    places = _by_id(EXPECTED_SPANS, _places(row, EXPECTED_SPANS, ids), ids)
    return Relevance(graded, spans={item: span for item, span in places.items() if span})


def _ranking(row: Mapping[str, Any], needs: Collection[str]) -> Ranking | Sequence[str]:
    ids: Sequence[str] = row[RETRIEVED] or []
    columns: dict[str, Any] = {}
    if TOKENS in needs:
        columns[TOKENS] = row[RETRIEVED_TOKENS] or []
    if SPANS in needs:
        columns[SPANS] = _places(row, RETRIEVED_SPANS, ids)
    return Ranking(ids, **columns) if columns else ids


def _by_id(column: str, values: Sequence[Any], ids: Sequence[str]) -> dict[str, Any]:
    """The values of a column by the id that they belong to."""
    if len(values) != len(ids):
        raise InvalidInput(column, len(values), f"{len(ids)}, one for each that is expected")
    by_id: dict[str, Any] = {}
    for item, value in zip(ids, values, strict=True):
        if item in by_id and by_id[item] != value:
            raise InvalidInput(column, [by_id[item], value], f"one for {item!r}, which is repeated")
        by_id[item] = value
    return by_id


def _places(row: Mapping[str, Any], column: str, ids: Sequence[str]) -> list[Span | None]:
    """The place of each id, None where it isn't known."""
    places = [None] * len(ids) if row[column] is None else row[column]
    if len(places) != len(ids):
        raise InvalidInput(column, len(places), f"{len(ids)} places, one for each id")
    spans: list[Span | None] = []
    for item, place in zip(ids, places, strict=True):
        span = place
        if isinstance(place, Mapping):
            span = place.get("source") and (place["source"], place.get("start"), place.get("end"))
        may_be_empty = column == RETRIEVED_SPANS
        spans.append(span and read_span(item, span, may_be_empty=may_be_empty))
    return spans


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
            items = pa.table({name: _own_items(column)})
            columns[name] = pl.DataFrame(pl.from_arrow(items))[name]
        except unreadable as error:
            expected = "a type of Arrow that Polars reads, such as list<string>"
            raise InvalidInput(f"column {name}", str(column.type), expected) from error
    return pl.DataFrame(columns)


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
