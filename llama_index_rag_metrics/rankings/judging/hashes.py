"""Lists of ids, compared by 64-bit hashes: which repeat an earlier one, and which are wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, none_of_them
from llama_index_rag_metrics.runtime.errors import InvalidInput, mixed_id_types
from llama_index_rag_metrics.runtime.lazy import Lazy

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Lazy("polars")

Keys: TypeAlias = npt.NDArray[np.uint64]
Halves: TypeAlias = npt.NDArray[np.uint32]
Values = TypeVar("Values", IntArray, FloatArray)

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number, by which a list's position is spread over 64 bits."""

_FEW = 32
"""Up to this many wanted members are looked for one by one; more are joined by key."""

_SHORT = 1024
"""Among this many members, two lower halves of a hash seldom agree by chance."""

_MOST_FILLED = 2
"""Rows of unequal length may take this many times the space of their members."""


@dataclass(eq=False)
class HashedLists:
    """Lists of hashes, flat."""

    value: Keys
    counts: IntArray

    @cached_property
    def half(self) -> Halves:
        return self.value.astype(np.uint32)

    @cached_property
    def rows(self) -> Halves | None:
        """(lists, longest) the lower halves, a list a row; None where most of it would be empty."""
        n_lists, longest = len(self.counts), self.longest
        if n_lists * longest == len(self.value):
            return self.half.reshape(n_lists, longest)
        if n_lists * longest > _MOST_FILLED * len(self.value):
            return None
        place = np.arange(longest, dtype=np.uint32)
        rows = np.tile(place, (n_lists, 1))
        rows[place < self.counts[:, np.newaxis]] = self.half
        return rows

    @cached_property
    def key(self) -> Keys:
        """(items,) a hash of each member together with its list."""
        spread = np.arange(len(self.counts), dtype=np.uint64) * _SPREAD
        return np.asarray(np.repeat(spread, self.counts) ^ self.value, np.uint64)

    @cached_property
    def begin(self) -> IntArray:
        """(lists,) the position of each list's first member."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def longest(self) -> int:
        return int(self.counts.max(initial=0))

    def repeats(self) -> tuple[IntArray, IntArray] | None:
        """The members that agree with an earlier one of their list, and an earlier one of each."""
        rows = self.rows if self.longest <= _SHORT else None
        if rows is None:
            return self._repeats_by_key()
        in_order = np.sort(rows, axis=1)
        lists = np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))
        order = np.argsort(rows[lists], axis=1, kind="stable")
        in_order = np.take_along_axis(rows[lists], order, axis=1)
        row, place = np.nonzero(in_order[:, 1:] == in_order[:, :-1])
        earlier, again = order[row, place], order[row, place + 1]
        is_there = again < self.counts[lists[row]]
        begin = self.begin[lists[row]][is_there]
        earlier, again = begin + earlier[is_there], begin + again[is_there]
        if (self.value[earlier] != self.value[again]).any():  # halves that agree by chance
            return self._repeats_by_key()
        return (again, earlier) if len(again) else None

    def _repeats_by_key(self) -> tuple[IntArray, IntArray] | None:
        order = np.argsort(self.key, kind="stable")
        key = self.key[order]
        is_again = key[1:] == key[:-1]
        if not is_again.any():
            return None
        return order[1:][is_again], order[:-1][is_again]

    def find(self, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        """The members that agree with a wanted one of the same list: their positions, in order."""
        rows = self.rows if wanted.longest <= _FEW else None
        return self._by_key(wanted) if rows is None else self._by_comparing(rows, wanted)

    def _by_comparing(self, rows: Halves, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        """Every list's members are compared with its first wanted one, its second, and so on."""
        agrees = np.zeros(rows.shape, np.bool_)
        for nth in range(wanted.longest):
            sought = np.where(wanted.counts > nth, wanted.begin + nth, 0)
            agrees |= rows == wanted.half[sought][:, np.newaxis]
        row, place = np.divmod(np.flatnonzero(agrees), max(1, self.longest))
        is_there = place < self.counts[row]
        row, position = row[is_there], (self.begin[row] + place)[is_there]
        equal = np.full(len(position), -1)
        for nth in range(wanted.longest):
            sought = np.where(wanted.counts > nth, wanted.begin + nth, 0)[row]
            agree = (self.value[position] == wanted.value[sought]) & (wanted.counts > nth)[row]
            equal[agree] = sought[agree]
        return position[equal >= 0], equal[equal >= 0]

    def _by_key(self, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        members = pl.DataFrame({"key": self.key}).with_row_index("position")
        sought = pl.DataFrame({"key": wanted.key}).with_row_index("which")
        joined = members.join(sought, on="key").sort("position", "which")
        position, equal = (
            joined[name].to_numpy().astype(np.int64) for name in ("position", "which")
        )
        return position, equal


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
        lists = as_lists(frame[column])
        if lists.null_count() == len(lists) and not isinstance(lists.dtype, pl.List):
            lists = pl.Series(column, [None] * len(lists), pl.List(pl.String))
        if not isinstance(lists.dtype, pl.List) or lists.dtype.inner.is_nested():
            raise InvalidInput(f"column {column}", lists.dtype, "a list of ids in every row")
        length = lists.list.len().fill_null(0)
        ids = lists.filter(length > 0).explode()
        counts = length.to_numpy().astype(np.int64)
        query = np.repeat(np.arange(len(lists)), counts)
        if ids.null_count():
            row = row_name(frame, int(query[int(ids.is_null().arg_max() or 0)]))
            raise InvalidInput(f"{column} of {row}", None, "a list of ids, without None")
        return cls(_comparable(ids, column), query, counts)

    @cached_property
    def hashed(self) -> HashedLists:
        return HashedLists(self.ids.hash().to_numpy(), self.counts)

    def rank(self, position: IntArray) -> IntArray:
        """(positions,) the rank in its list of each member, from 1."""
        return position - self.hashed.begin[self.query[position]] + 1

    def distinct(self, grade: FloatArray | None = None) -> IdLists:
        """The lists without copies, which must have the grade of what they repeat."""
        repeats = self.hashed.repeats()
        if repeats is None:
            return self
        copies, earlier = repeats
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
        return np.delete(values, self.copies) if len(self.copies) else values

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


def check_column(frame: pl.DataFrame, column: str, content: str = "", remedy: str = "") -> None:
    if column not in frame.columns:
        raise InvalidInput("table", frame.columns, f"a column {column}{content}", remedy)


def as_lists(column: pl.Series) -> pl.Series:
    """A column whose arrays of one length, if it has such, are lists."""
    return column.arr.to_list() if isinstance(column.dtype, pl.Array) else column


def check_lengths(
    frame: pl.DataFrame, column: str, counts: IntArray, wanted: IntArray, what: str
) -> None:
    """Refuse a row whose list has another length than wanted; `what` says of what."""
    if (unequal := counts != wanted).any():
        row = int(unequal.argmax())
        argument = f"{column} of {row_name(frame, row)}"
        raise InvalidInput(argument, int(counts[row]), f"{wanted[row]} {what}")


def list_lengths(frame: pl.DataFrame, column: str) -> IntArray:
    """(rows,) how many members the lists of a column have."""
    lists = as_lists(frame[column])
    if lists.null_count() == len(lists):  # of any type, such as Null
        return np.zeros(len(lists), np.int64)
    return np.asarray(lists.list.len().fill_null(0).to_numpy(), np.int64)


def row_name(frame: pl.DataFrame, row: int) -> str:
    return f"question {frame['query_id'][row]!r}" if "query_id" in frame.columns else f"row {row}"


def _comparable(ids: pl.Series, column: str) -> pl.Series:
    """Ids that are the same get the same hash: whole numbers of one width, texts as texts."""
    comparable: pl.Series = ids
    if ids.dtype.is_integer():
        comparable = ids.cast(pl.Int64, strict=False)
        if comparable.null_count():
            item = ids[int(comparable.is_null().arg_max() or 0)]
            expected = "ids from -2**63 to 2**63 - 1"
            raise InvalidInput(f"column {column}", item, expected, "Convert both columns to texts.")
    elif isinstance(ids.dtype, (pl.Categorical, pl.Enum)):
        comparable = ids.cast(pl.String)
    return comparable
