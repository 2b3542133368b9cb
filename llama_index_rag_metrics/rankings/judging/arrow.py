"""Judging from columns, by 64-bit hashes of ids, with the same result as `judge` of lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.rankings.relevance import HIGHEST_GRADE, Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.containers import BoolArray, FloatArray, IntArray, Lazy
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .judged import JudgedRankings, grades_best_first
from .lists import judge

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
else:
    pl, pa = Lazy("polars"), Lazy("pyarrow")

QUERY_ID, RETRIEVED, EXPECTED = "query_id", "retrieved_ids", "expected_ids"
GRADES, RETRIEVED_TOKENS = "grades", "retrieved_tokens"

# up to this length, comparing all pairs of a list is faster than sorting it, and 16 bits do
_MOST_PAIRED = 32
_CACHED = 1 << 17  # hashes, of eight bytes

Bits: TypeAlias = npt.NDArray[np.unsignedinteger]


def judge_table(frame: pl.DataFrame, needs: Collection[str] = ()) -> JudgedRankings:
    """Bring the relevance and the rankings of a table together; tokens alone may be needed."""
    if not needs:
        with suppress(Irregular):
            return _judge_hashed(frame)
    return _judge_rows(frame, needs)


class Irregular(Exception):
    """Hashes can't judge a table, `judge` can: two ids have one, or columns are no plain lists."""


def _judge_hashed(frame: pl.DataFrame) -> JudgedRankings:
    labels, retrieved = IdLists.read(frame[EXPECTED]), IdLists.read(frame[RETRIEVED])
    if labels.ids.dtype != retrieved.ids.dtype:
        raise Irregular
    grade = _read_grades(frame, labels)
    label_copies, originals = labels.copies()
    if (grade[label_copies] != grade[originals]).any():
        raise Irregular
    copies = np.sort(retrieved.copies()[0])
    query, position, label = retrieved.find(labels)
    is_first = ~(np.isin(position, copies) | np.isin(label, label_copies))
    query, position, label = query[is_first], position[is_first], label[is_first]
    begin = retrieved.begin[query]
    n_copies_above = np.searchsorted(copies, position) - np.searchsorted(copies, begin)
    offset = np.concatenate([[0], np.cumsum(labels.n_distinct(label_copies))])
    return JudgedRankings(
        depth=retrieved.n_distinct(copies),
        item_query=query,
        item_rank=position - begin + 1 - n_copies_above,
        item_grade=grade[label],
        judged_grade=grades_best_first(np.delete(grade, label_copies), offset),
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
        flat = cls(ids, counts)
        bits_of_empty = _hashes(pl.Series([""])).astype(flat.bits.dtype)
        candidates = ids.gather(np.flatnonzero(flat.bits == bits_of_empty))
        if ids.null_count() or "" in candidates.to_list():
            raise Irregular
        return flat

    @cached_property
    def begin(self) -> IntArray:
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def bits(self) -> Bits:
        """(ids,) so many bits of each id's hash that those of two of a list rarely agree."""
        is_short = self.counts.max(initial=0) <= _MOST_PAIRED
        bits: Bits = np.empty(len(self.ids), np.uint16 if is_short else np.uint32)
        for start in range(0, len(bits), _CACHED):  # all whole hashes wouldn't fit into a cache
            bits[start : start + _CACHED] = _hashes(self.ids.slice(start, _CACHED))
        return bits

    def n_distinct(self, copies: IntArray) -> IntArray:
        of_copy = np.searchsorted(self.begin, copies, side="right") - 1
        return self.counts - np.bincount(of_copy, minlength=len(self.counts))

    @cached_property
    def blocks(self) -> list[tuple[IntArray, Bits]]:
        """Lists of one length, up to twice it, and the bits of their ids, a list a column."""
        lists, longest = np.arange(len(self.counts)), int(self.counts.max(initial=0))
        if len(lists) * longest == len(self.bits):
            return [(lists, np.ascontiguousarray(self.bits.reshape(len(lists), longest).T))]
        blocks = []
        power = np.frexp(self.counts)[1]
        for exponent in np.unique(power[self.counts > 0]):
            of_length = lists[power == exponent]
            position, is_id = self._positions(of_length)
            filling = np.arange(len(position), dtype=self.bits.dtype)[:, np.newaxis]
            blocks.append((of_length, np.where(is_id, self.bits[position], filling)))
        return blocks

    def _positions(self, lists: IntArray) -> tuple[IntArray, BoolArray]:
        """(longest, lists) the positions of ids, the last again to fill up; and which are ids."""
        begin, count = self.begin[lists], self.counts[lists]
        place = np.arange(count.max(initial=0))[:, np.newaxis]
        return begin + np.minimum(place, count - 1), place < count

    def copies(self) -> tuple[IntArray, IntArray]:
        """The positions of ids that repeat an earlier one of a list, and of what they repeat."""
        pairs = [np.empty((2, 0), np.int64)]
        for lists, bits in self.blocks:
            columns, steps = bits, range(1, len(bits))
            if len(bits) > _MOST_PAIRED:
                columns, steps = np.sort(bits, axis=0), range(1, 2)
            has_equals = np.zeros(len(lists), np.bool_)
            for step in steps:
                has_equals |= (columns[step:] == columns[:-step]).any(axis=0)
            position, is_id = self._positions(lists[has_equals])
            hashes = _hashes(self.ids.gather(position.ravel())).reshape(position.shape)
            order = np.argsort(hashes, axis=0, kind="stable")
            position = np.take_along_axis(position, order, axis=0)
            hashes = np.take_along_axis(hashes, order, axis=0)
            is_copy = np.take_along_axis(is_id, order, axis=0)[1:]
            is_copy &= hashes[1:] == hashes[:-1]
            pairs.append(np.array([position[1:][is_copy], position[:-1][is_copy]]))
        copy, original = np.concatenate(pairs, axis=1)
        if len(copy) and not (self.ids.gather(copy) == self.ids.gather(original)).all():
            raise Irregular
        return copy, original

    def find(self, labels: IdLists) -> tuple[IntArray, IntArray, IntArray]:
        """The lists, the positions in order, and the labels of ids that are their list's labels."""
        candidates = [(np.array([], np.int64),) * 3]
        for lists, bits in self.blocks:
            label_bits = _hashes(labels.ids).astype(bits.dtype)
            n_labels = labels.counts[lists]
            for nth in range(n_labels.max(initial=0)):
                has_nth = np.flatnonzero(n_labels > nth)
                nth_bits = bits if len(has_nth) == len(lists) else bits[:, has_nth]
                row = lists[has_nth]
                label = labels.begin[row] + nth
                agrees = np.flatnonzero(nth_bits == label_bits[label])
                place = agrees // len(row)
                number = agrees - place * len(row)
                is_there = place < self.counts[row[number]]
                place, number = place[is_there], number[is_there]
                candidates.append((row[number], self.begin[row[number]] + place, label[number]))
        row, position, label = map(np.concatenate, zip(*candidates, strict=True))
        is_equal = (self.ids.gather(position) == labels.ids.gather(label)).to_numpy()
        order = np.flatnonzero(is_equal)[np.argsort(position[is_equal])]
        return row[order], position[order], label[order]


def _hashes(ids: pl.Series) -> npt.NDArray[np.uint64]:
    return ids.hash().to_numpy()


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
    relevance: list[Relevance | None] = []
    rankings: list[Ranking | Sequence[str]] = []
    names: list[str] = []
    for number, row in enumerate(frame.iter_rows(named=True)):
        names.append(str(row.get(QUERY_ID, number)))
        try:
            relevance.append(_labels(row))
            ids = row[RETRIEVED] or []
            rankings.append(ids)
            if needs:
                rankings[-1] = Ranking(ids, tokens=row[RETRIEVED_TOKENS] or [])
        except InvalidInput as error:
            place = f"question {row[QUERY_ID]!r}" if QUERY_ID in row else f"row {number}"
            argument = f"{error.argument} of {place}"
            raise InvalidInput(argument, error.value, error.expected, error.remedy) from error
    return judge(relevance, rankings, needs, query_ids=names)


def _labels(row: Mapping[str, Any]) -> Relevance | None:
    ids, grades = row[EXPECTED], row.get(GRADES)
    if ids is None:
        return None
    if grades is None:
        return Relevance(ids)
    if ids and isinstance(ids[0], list):
        remedy = f"Groups are binary: leave out {GRADES}."
        raise InvalidInput(EXPECTED, "groups", "a list of ids in every row", remedy)
    if not isinstance(grades, list) or len(grades) != len(ids):
        raise InvalidInput(GRADES, grades, f"a list of {len(ids)}, one for each that is expected")
    graded: dict[str, Any] = {}
    for item, grade in zip(ids, grades, strict=True):
        if item in graded and graded[item] != grade:
            pair = [graded[item], grade]
            raise InvalidInput(GRADES, pair, f"one for {item!r}, which is repeated")
        graded[item] = grade
    return Relevance(graded)


def frame_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
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
    """Lists without the items around a slice, their texts as views, as Polars has them."""
    chunks = []
    for chunk in column.chunks:
        if type(chunk) not in (pa.ListArray, pa.LargeListArray):  # a map is a list, too
            return column
        offsets = chunk.offsets.to_numpy()
        items = chunk.values.slice(offsets[0], offsets[-1] - offsets[0])
        if items.type == pa.string():
            with suppress(pa.ArrowNotImplementedError):  # by earlier versions
                items = items.cast(pa.string_view())
        chunks.append(type(chunk).from_arrays(offsets - offsets[0], items, mask=chunk.is_null()))
    if not chunks:
        return column
    return pa.chunked_array(chunks)
