"""Judging from columns, by 64-bit hashes of ids, with the same result as `judge` of lists.

What hashes can't decide (two ids of one hash), and groups, goes through `judge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.rankings.judging import hashes
from llama_index_rag_metrics.rankings.judging.columns import EXPECTED_SPANS, JudgedSpans, place_rows
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, grades_best_first
from llama_index_rag_metrics.rankings.judging.judged_column import (
    EXPECTED,
    RETRIEVED,
    JudgedColumn,
    JudgedTable,
)
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.relevance import HIGHEST_GRADE, Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.lazy import Lazy

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
else:
    pl, pa = Lazy("polars"), Lazy("pyarrow")

GRADES, WEIGHTS = "grades", "facet_weights"


def judge_table(frame: pl.DataFrame, columns: Sequence[type[JudgedColumn]] = ()) -> JudgedRankings:
    """Bring the relevance and the rankings of a table together, row by row."""
    for column in (RETRIEVED, EXPECTED):
        hashes.check_column(frame, column)
    if _is_grouped(frame[EXPECTED].dtype):
        return _judge_rows(frame, columns)
    try:
        return _judge_hashed(frame, columns)
    except hashes.Collision:
        return _judge_rows(frame, columns)


def _judge_hashed(frame: pl.DataFrame, columns: Sequence[type[JudgedColumn]]) -> JudgedRankings:
    expected, retrieved = (hashes.IdLists.read(frame, name) for name in (EXPECTED, RETRIEVED))
    grade = _read_grades(frame, expected)
    retrieved, expected = retrieved.distinct(), expected.distinct(grade)
    grade = expected.kept(grade)
    position, found = retrieved.find(expected)
    table = JudgedTable(frame, retrieved, expected, grade)
    return JudgedRankings(
        depth=retrieved.counts,
        item_query=retrieved.query[position],
        item_rank=retrieved.rank(position),
        item_grade=grade[found],
        judged_grade=grades_best_first(grade, expected.counts),
        judged_offset=np.concatenate([[0], np.cumsum(expected.counts)]),
        columns={kind: column for kind in columns if (column := kind.of_table(table)) is not None},
    )


def _read_grades(frame: pl.DataFrame, judged: hashes.IdLists) -> FloatArray:
    """(judgements,) the grade of every expected id, 1 in rows without grades."""
    if GRADES not in frame.columns or frame[GRADES].null_count() == len(frame):
        return np.ones(len(judged.ids))
    grades = hashes.as_lists(frame[GRADES])
    if grades.dtype == pl.List(pl.Null):
        grades = grades.cast(pl.List(pl.Float64))
    if not isinstance(grades.dtype, pl.List) or not grades.dtype.inner.is_numeric():
        raise InvalidInput(f"column {GRADES}", grades.dtype, "a list of numbers in every row")
    n_given, is_given = grades.list.len().fill_null(0), grades.is_not_null().to_numpy()
    counts = np.where(is_given, n_given, judged.counts)
    hashes.check_lengths(frame, GRADES, counts, judged.counts, "grades, one for each expected id")
    is_graded = np.repeat(is_given, judged.counts)
    grade = np.ones(len(judged.ids))
    numbers = grades.filter(n_given > 0).explode().cast(pl.Float64)
    grade[is_graded] = numbers.fill_null(float("nan")).to_numpy()
    if (wrong := np.flatnonzero(~(np.abs(grade) <= HIGHEST_GRADE))).size:
        item, row = int(wrong[0]), int(judged.query[wrong[0]])
        argument = f"grade of {judged.ids[item]!r} in {hashes.row_name(frame, row)}"
        expected = f"a finite number of at most {HIGHEST_GRADE:g}"
        raise InvalidInput(argument, float(grade[item]), expected)
    return grade


def _is_grouped(expected: pl.DataType) -> bool:
    return isinstance(expected, pl.List) and isinstance(expected.inner, pl.List)


def _judge_rows(frame: pl.DataFrame, columns: Sequence[type[JudgedColumn]]) -> JudgedRankings:
    relevance: list[Any] = frame[EXPECTED].to_list()
    is_grouped = _is_grouped(frame[EXPECTED].dtype)
    if GRADES in frame.columns and frame[GRADES].null_count() < len(frame):
        if is_grouped:
            remedy = f"Leave {GRADES} out, or null: groups are binary."
            raise InvalidInput("table", f"groups and {GRADES}", f"groups or {GRADES}", remedy)
        grades = frame[GRADES].to_list()
        relevance = [
            ids if numbers is None or ids is None else dict(zip(ids, numbers, strict=True))
            for ids, numbers in zip(relevance, grades, strict=True)
        ]
    elif is_grouped and WEIGHTS in frame.columns:
        rows = zip(relevance, frame[WEIGHTS].to_list(), strict=True)
        relevance = [_weighted(frame, row, *cells) for row, cells in enumerate(rows)]
    if JudgedSpans in columns:  # the only column that the labels have, too
        if is_grouped:
            expected = f"a list of ids in every row, beside {EXPECTED_SPANS}"
            raise InvalidInput(f"column {EXPECTED}", "groups", expected)
        pairs = zip(relevance, place_rows(frame, EXPECTED_SPANS), strict=True)
        relevance = [ids if ids is None else _placed(ids, spans) for ids, spans in pairs]
    ids = [ids or [] for ids in frame[RETRIEVED].to_list()]
    cells = {name: values for kind in columns for name, values in kind.cells(frame).items()}
    rankings = [
        Ranking(retrieved, **{name: values[row] for name, values in cells.items()})
        for row, retrieved in enumerate(ids)
    ]
    return judge(relevance, rankings if cells else ids, columns)


def _placed(ids: Any, spans: Sequence[Span | None]) -> Relevance:
    places = zip(ids, spans, strict=True)
    return Relevance.of(ids).with_spans({item: span for item, span in places if span is not None})


def _weighted(
    frame: pl.DataFrame, row: int, groups: list[list[str]] | None, weights: list[float] | None
) -> RelevanceLike | None:
    if groups is None or weights is None:
        return groups
    if len(weights) != len(groups):
        expected = f"{len(groups)} weights, one for each group"
        raise InvalidInput(f"{WEIGHTS} of {hashes.row_name(frame, row)}", len(weights), expected)
    names = list(map(str, range(len(groups))))
    facets = dict(zip(names, groups, strict=True))
    return Relevance.facets(facets, weights=dict(zip(names, weights, strict=True)))


def frame_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
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


def check_undamaged(table: object) -> None:
    """Refuse a damaged table of Arrow: reading it could end the process."""
    if isinstance(table, (pa.Table, pa.RecordBatch)):
        try:
            table.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidInput("table", str(error), "an Arrow table that isn't damaged") from error


def _plain_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of the kinds that Polars doesn't read, or not with nulls, as those that it does."""
    kind = column.type
    views = [getattr(pa.types, name, None) for name in ("is_list_view", "is_large_list_view")]
    is_view = any(test is not None and test(kind) for test in views)
    if not is_view and not pa.types.is_fixed_size_list(kind):
        return column
    return pa.chunked_array([column.to_pylist()], pa.large_list(kind.value_type))


def _own_items(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists without the items of the rows around a slice, which Polars would look at, too."""
    chunks = []
    for chunk in column.chunks:
        if type(chunk) not in (pa.ListArray, pa.LargeListArray):  # a map is a list, too
            return column
        offsets = chunk.offsets.to_numpy()
        items = _as_views(chunk.values.slice(offsets[0], offsets[-1] - offsets[0]))
        mask = chunk.is_null() if chunk.null_count else None
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
