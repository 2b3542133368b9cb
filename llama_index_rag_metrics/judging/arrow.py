"""Judging from columns: a batch of Arrow or Polars → JudgedRankings, without a Python object an id.

Ids are compared by 64-bit hashes, and those that agree are then compared themselves: the result is
exact, and the same to the last bit as that of `judge` on lists. What hashes can't decide (two ids
of one hash) and what has no columns (groups) goes through `judge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.errors import IdTypeMismatch, InvalidInput
from llama_index_rag_metrics.judging.judged import (
    BoolArray,
    FloatArray,
    IntArray,
    JudgedRankings,
    best_first,
)
from llama_index_rag_metrics.judging.lists import judge
from llama_index_rag_metrics.relevance import HIGHEST_GRADE

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

QUERY_ID, RETRIEVED, EXPECTED, GRADES = "query_id", "retrieved_ids", "expected_ids", "grades"

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number, by which a query's position is spread over 64 bits."""

_SLOTS = 4
"""Slots for every expected id: with more, fewer share one, and less of it fits the cache."""

_NONE = np.array([], np.int64)

Keys: TypeAlias = npt.NDArray[np.uint64]


class _Collision(Exception):
    """Two ids of one hash."""


def judge_table(frame: pl.DataFrame) -> JudgedRankings:
    """Bring the relevance and the rankings of a table together, row by row.

    Args:
        frame: one row a query. `retrieved_ids`: the ranked ids, best first; null counts as empty.
            `expected_ids`: the judged ids, or groups of them; null where the query is unjudged.
            `grades`, if there: the grade of each expected id; a row without them has grade 1 each.

    Raises:
        InvalidInput: a column is missing or holds what can't be used; names the row.
        IdTypeMismatch: ids of different types on the two sides.

    Examples:
        >>> import polars as pl
        >>> frame = pl.DataFrame({"retrieved_ids": [["b", "x", "b", "a"]], "expected_ids": [["a"]]})
        >>> judge_table(frame).item_rank
        array([3])
    """
    import polars as pl

    for column in (RETRIEVED, EXPECTED):
        if column not in frame.columns:
            raise InvalidInput("table", frame.columns, f"a column {column}")
    expected = frame[EXPECTED]
    if isinstance(expected.dtype, pl.List) and isinstance(expected.dtype.inner, pl.List):
        return _judge_rows(frame)
    judged, ranked = _Lists.read(frame, EXPECTED), _Lists.read(frame, RETRIEVED)
    if len(judged.ids) and len(ranked.ids) and judged.ids.dtype != ranked.ids.dtype:
        raise IdTypeMismatch(map(str, (judged.ids.dtype, ranked.ids.dtype)))
    grade = _read_grades(frame, judged)
    try:
        return _judge_hashed(judged, grade, ranked)
    except _Collision:
        return _judge_rows(frame)


def frame_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """A table of Arrow as Polars has it, for `judge_table`."""
    import polars as pl
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    try:
        # Polars holds texts as views; Arrow makes these in half the time
        views = {
            field.name: pa.list_(pa.string_view())
            for field in table.schema
            if field.type == pa.list_(pa.string())
        }
        fields = [pa.field(one.name, views.get(one.name, one.type)) for one in table.schema]
        return pl.DataFrame(pl.from_arrow(table.cast(pa.schema(fields))))
    except (AttributeError, pa.ArrowNotImplementedError):  # before Arrow 18
        return pl.DataFrame(pl.from_arrow(table))


@dataclass(eq=False)
class _Lists:
    """A column of lists, flat.

    Attributes:
        ids: (items,) the members of all lists.
        query: (items,) the row of each.
        counts: (queries,) how many members each list has.
    """

    ids: pl.Series
    query: IntArray
    counts: IntArray

    @classmethod
    def read(cls, frame: pl.DataFrame, column: str) -> _Lists:
        import polars as pl

        given = frame[column]
        if given.dtype == pl.Null:
            given = given.cast(pl.List(pl.String))
        if isinstance(given.dtype, pl.Array):
            given = given.arr.to_list()
        if not isinstance(given.dtype, pl.List):
            raise InvalidInput(f"column {column}", given.dtype, "a list of ids in every row")
        length = given.list.len().fill_null(0)
        ids = given.filter(length > 0).explode()
        counts = length.to_numpy().astype(np.int64)
        query = np.repeat(np.arange(len(given)), counts)
        if ids.null_count():
            row = _row(frame, int(query[int(ids.is_null().arg_max() or 0)]))
            raise InvalidInput(f"{column} of {row}", None, "a list of ids, without None")
        return cls(_comparable(ids), query, counts)

    def keep(self, kept: BoolArray | None) -> _Lists:
        """Without the copies that `_first_copies` found."""
        if kept is None:
            return self
        query = self.query[kept]
        return _Lists(
            self.ids.gather(np.flatnonzero(kept)),
            query,
            np.bincount(query, minlength=len(self.counts)),
        )

    def keys(self) -> Keys:
        """(items,) a hash of each id together with its query."""
        spread = np.arange(len(self.counts), dtype=np.uint64) * _SPREAD
        keys: Keys = np.repeat(spread, self.counts) ^ self.ids.hash().to_numpy()
        return keys


def _judge_hashed(judged: _Lists, grade: FloatArray, ranked: _Lists) -> JudgedRankings:
    key, wanted = ranked.keys(), judged.keys()
    if (kept := _first_copies(ranked, key)) is not None:
        ranked, key = ranked.keep(kept), key[kept]
    if (kept := _first_copies(judged, wanted, grade)) is not None:
        judged, wanted, grade = judged.keep(kept), wanted[kept], grade[kept]
    at, expected = _matches(key, wanted)
    _check_same(ranked, at, judged, expected)
    depth, n_judged = ranked.counts, judged.counts
    item_query = ranked.query[at]
    return JudgedRankings(
        depth=depth,
        item_query=item_query,
        item_rank=at - (np.cumsum(depth) - depth)[item_query] + 1,
        item_grade=grade[expected],
        judged_grade=best_first(grade, n_judged),
        judged_offset=np.concatenate([[0], np.cumsum(n_judged)]),
        group_query=_NONE,
        pair_group=_NONE,
        pair_item=_NONE,
    )


def _first_copies(lists: _Lists, key: Keys, grade: FloatArray | None = None) -> BoolArray | None:
    """(items,) whether an item is the first of its id in its list; None where all are."""
    counts = lists.counts
    if len(key) and counts[0] and (counts == counts[0]).all():
        rows = key.reshape(len(counts), -1)  # short rows are sorted more quickly
    else:
        rows = key.reshape(1, -1)
    ordered = np.sort(rows)
    if not (ordered[:, 1:] == ordered[:, :-1]).any():
        return None
    order = np.argsort(key, kind="stable")
    repeats = np.flatnonzero(key[order[1:]] == key[order[:-1]])
    copy, before = order[repeats + 1], order[repeats]
    _check_same(lists, copy, lists, before)
    if grade is not None and (differing := np.flatnonzero(grade[copy] != grade[before])).size:
        one = lists.ids[int(copy[differing[0]])]
        raise InvalidInput(EXPECTED, one, "one grade for each id", "Keep one of its judgements.")
    first = np.ones(len(key), np.bool_)
    first[copy] = False
    return first


def _matches(key: Keys, wanted: Keys) -> tuple[IntArray, IntArray]:
    """The positions of the keys that are wanted, in order, and which wanted one each is.

    Every wanted key is put into the slot that its upper bits say. Where several want one slot, the
    last has it, and the others are looked for again, by other bits, among the keys of such slots.
    A slot knows the lower half of its key, which makes it small; whether ids that agree so far are
    the same is for `_check_same` to say.

    Args:
        key: (items,) where to look.
        wanted: (judgements,) what to look for; all distinct.
    """
    at: list[IntArray] = []
    which: list[IntArray] = []
    places, looked_for = None, np.arange(len(wanted))
    while len(looked_for):
        bits = (_SLOTS * len(looked_for)).bit_length()
        slot, slot_wanted = _upper(key, bits), _upper(wanted, bits)
        lower, lower_wanted = key.astype(np.uint32), wanted.astype(np.uint32)
        holds, owner = np.zeros(1 << bits, np.uint32), np.zeros(1 << bits, np.int32)
        holds[slot_wanted], owner[slot_wanted] = lower_wanted, looked_for
        is_wanted = holds.take(slot, mode="clip") == lower
        hits = np.flatnonzero(is_wanted)
        at.append(hits if places is None else places[hits])
        which.append(owner[slot[hits]].astype(np.int64))
        outdone = holds[slot_wanted] != lower_wanted
        contested = np.zeros(1 << bits, np.bool_)
        contested[slot_wanted[outdone]] = True
        again = np.flatnonzero(contested.take(slot, mode="clip") > is_wanted)
        places, looked_for = again if places is None else places[again], looked_for[outdone]
        key, wanted = key[again] * _SPREAD, wanted[outdone] * _SPREAD
    found = np.concatenate([_NONE, *at])
    order = np.argsort(found, kind="stable")
    return found[order], np.concatenate([_NONE, *which])[order]


def _upper(key: Keys, bits: int) -> IntArray:
    upper: IntArray = (key >> np.uint64(64 - bits)).view(np.int64)
    return upper


def _check_same(some: _Lists, at: IntArray, others: _Lists, there: IntArray) -> None:
    """Equal hashes must stand for equal ids of the same query.

    Raises:
        _Collision: they don't.
    """
    same_query = np.array_equal(some.query[at], others.query[there])
    if not same_query or not (some.ids.gather(at) == others.ids.gather(there)).all():
        raise _Collision


def _read_grades(frame: pl.DataFrame, judged: _Lists) -> FloatArray:
    """(judgements,) the grade of every expected id, 1 in rows without grades."""
    import polars as pl

    if GRADES not in frame.columns or frame[GRADES].null_count() == len(frame):
        return np.ones(len(judged.ids))
    given = frame[GRADES]
    if isinstance(given.dtype, pl.Array):
        given = given.arr.to_list()
    if not isinstance(given.dtype, pl.List) or not given.dtype.inner.is_numeric():
        raise InvalidInput(f"column {GRADES}", given.dtype, "a list of numbers in every row")
    n_given, n_judged = given.list.len(), frame[EXPECTED].list.len().fill_null(0)
    is_given = given.is_not_null()
    if (unequal := is_given & (n_given != n_judged).fill_null(value=False)).any():
        at = int(unequal.arg_max() or 0)
        wish = f"{n_judged[at]} grades, one for each expected id"
        raise InvalidInput(f"{GRADES} of {_row(frame, at)}", n_given[at], wish)
    is_graded = np.repeat(is_given.to_numpy(), judged.counts)
    grade = np.ones(len(judged.ids))
    numbers = given.filter(n_given.fill_null(0) > 0).explode().cast(pl.Float64)
    grade[is_graded] = numbers.fill_null(float("nan")).to_numpy()
    if (wrong := np.flatnonzero(~(np.abs(grade) <= HIGHEST_GRADE))).size:
        one, at = int(wrong[0]), int(judged.query[wrong[0]])
        argument = f"grade of {judged.ids[one]!r} in {_row(frame, at)}"
        wish = f"a finite number of at most {HIGHEST_GRADE:g}"
        raise InvalidInput(argument, float(grade[one]), wish)
    return grade


def _comparable(ids: pl.Series) -> pl.Series:
    """Ids that are the same get the same hash: whole numbers of one width, texts as texts."""
    import polars as pl

    same: pl.Series = ids
    if ids.dtype.is_integer():
        same = ids.cast(pl.Int64)
    elif isinstance(ids.dtype, (pl.Categorical, pl.Enum)):
        same = ids.cast(pl.String)
    return same


def _judge_rows(frame: pl.DataFrame) -> JudgedRankings:
    """The same through lists."""
    relevance: list[Any] = frame[EXPECTED].to_list()
    if GRADES in frame.columns:
        grades = frame[GRADES].to_list()
        relevance = [
            ids if given is None or ids is None else dict(zip(ids, given, strict=True))
            for ids, given in zip(relevance, grades, strict=True)
        ]
    return judge(relevance, [ids or [] for ids in frame[RETRIEVED].to_list()])


def _row(frame: pl.DataFrame, at: int) -> str:
    return f"query {frame[QUERY_ID][at]!r}" if QUERY_ID in frame.columns else f"row {at}"
