"""Judging from columns, by 64-bit hashes of ids, with the same result as `judge` of lists.

What hashes can't decide (two ids of one hash), and groups, goes through `judge`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.rankings.relevance import HIGHEST_GRADE, Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import Span, read_span
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.lazy import Lazy

from . import hashes
from .beside import SPANS, TOKENS, check_tokens
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


def judge_table(frame: pl.DataFrame, needs: Collection[str] = ()) -> JudgedRankings:
    """Bring the relevance and the rankings of a table together, row by row."""
    columns = [RETRIEVED, EXPECTED, *(name for need in needs for name in FIELDS[need])]
    for column in columns:
        hashes.check_column(frame, column)
    if SPANS in needs or _is_grouped(frame[EXPECTED].dtype):
        return _judge_rows(frame, needs)
    try:
        return _judge_hashed(frame, needs)
    except hashes.Collision:
        return _judge_rows(frame, needs)


def _judge_hashed(frame: pl.DataFrame, needs: Collection[str]) -> JudgedRankings:
    expected, retrieved = (hashes.IdLists.read(frame, name) for name in (EXPECTED, RETRIEVED))
    grade = _read_grades(frame, expected)
    retrieved, expected = retrieved.distinct(), expected.distinct(grade)
    grade = expected.kept(grade)
    position, label = retrieved.find(expected)
    tokens = retrieved.kept(_read_tokens(frame)) if TOKENS in needs else None
    return JudgedRankings(
        depth=retrieved.counts,
        item_query=retrieved.query[position],
        item_rank=retrieved.rank(position),
        item_grade=grade[label],
        judged_grade=grades_best_first(grade, expected.counts),
        judged_offset=np.concatenate([[0], np.cumsum(expected.counts)]),
        tokens=tokens,
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


def _judge_rows(frame: pl.DataFrame, needs: Collection[str]) -> JudgedRankings:
    relevance: list[Any] = frame[EXPECTED].to_list()
    is_grouped = _is_grouped(frame[EXPECTED].dtype)
    if GRADES in frame.columns and frame[GRADES].null_count() < len(frame):
        if is_grouped:
            remedy = f"Leave {GRADES} out, or null: groups are binary."
            raise InvalidInput("table", f"groups and {GRADES}", f"groups or {GRADES}", remedy)
        for row, grades in enumerate(frame[GRADES].to_list()):
            if grades is not None and relevance[row] is not None:
                relevance[row] = dict(zip(relevance[row], grades, strict=True))
    elif is_grouped and WEIGHTS in frame.columns:
        for row, weights in enumerate(frame[WEIGHTS].to_list()):
            if weights is not None and relevance[row] is not None:
                relevance[row] = _weighted(frame, row, relevance[row], weights)
    retrieved = [ids or [] for ids in frame[RETRIEVED].to_list()]
    tokens: list[Any] = [None] * len(frame)
    spans: list[Any] = [None] * len(frame)
    if TOKENS in needs:
        _read_tokens(frame)
        tokens = [row or [] for row in hashes.as_lists(frame[RETRIEVED_TOKENS]).to_list()]
    if SPANS in needs:
        if is_grouped:
            expected = f"a list of ids in every row, beside {EXPECTED_SPANS}"
            raise InvalidInput(f"column {EXPECTED}", "groups", expected)
        spans = _read_spans(frame, RETRIEVED_SPANS, retrieved)
        ids = [[] if labels is None else list(labels) for labels in relevance]
        for row, places in enumerate(_read_spans(frame, EXPECTED_SPANS, ids)):
            if relevance[row] is not None:
                spans_by_id = {
                    item: span for item, span in zip(ids[row], places, strict=True) if span
                }
                relevance[row] = Relevance(relevance[row], spans=spans_by_id)
    rankings = [
        Ranking(items, tokens=counts, spans=places)
        for items, counts, places in zip(retrieved, tokens, spans, strict=True)
    ]
    return judge(relevance, rankings, needs)


def _weighted(
    frame: pl.DataFrame, row: int, groups: list[list[str]], weights: list[float]
) -> Relevance:
    if len(weights) != len(groups):
        expected = f"{len(groups)} weights, one for each group"
        raise InvalidInput(f"{WEIGHTS} of {hashes.row_name(frame, row)}", len(weights), expected)
    names = [str(number) for number in range(len(groups))]
    facets = dict(zip(names, groups, strict=True))
    return Relevance(facets=facets, weights=dict(zip(names, weights, strict=True)))


def _read_spans(
    frame: pl.DataFrame, column: str, ids: Sequence[Sequence[str]]
) -> list[list[Span | None]]:
    """Of each row the place of every id, None where it isn't known."""
    rows: list[list[Span | None]] = []
    for row, (items, places) in enumerate(zip(ids, frame[column].to_list(), strict=True)):
        row_places = [None] * len(items) if places is None else list(places)
        if len(row_places) != len(items):
            argument = f"{column} of {hashes.row_name(frame, row)}"
            raise InvalidInput(argument, len(row_places), f"{len(items)} places, one for each id")
        pairs = zip(items, row_places, strict=True)
        may_be_empty = column == RETRIEVED_SPANS
        rows.append([_read_place(item, place, may_be_empty) for item, place in pairs])
    return rows


_SOURCE_FIELDS = ("source", "document", "document_id")


def _read_place(item: str, place: Any, may_be_empty: bool) -> Span | None:
    if isinstance(place, Mapping):
        sources = [place[name] for name in _SOURCE_FIELDS if name in place]
        edges = [place[name] for name in ("start", "end") if name in place]
        place = (*sources, *edges)
    if place is None or (isinstance(place, tuple) and None in place):
        return None
    return read_span(item, place, may_be_empty=may_be_empty)


def _read_tokens(frame: pl.DataFrame) -> IntArray:
    """(retrieved,) the tokens of every retrieved item of a table, copies included."""
    lists = hashes.as_lists(frame[RETRIEVED_TOKENS])
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    if inner is None or not (inner.is_integer() or inner == pl.Null):
        expected = "a list of whole numbers in every row"
        raise InvalidInput(f"column {RETRIEVED_TOKENS}", lists.dtype, expected)
    counts = hashes.list_lengths(frame, RETRIEVED_TOKENS)
    n_ids = hashes.list_lengths(frame, RETRIEVED)
    expected = "numbers, one for each retrieved id"
    hashes.check_lengths(frame, RETRIEVED_TOKENS, counts, n_ids, expected)
    numbers = lists.filter(pl.Series(counts > 0)).explode()
    if numbers.null_count():
        raise InvalidInput(f"column {RETRIEVED_TOKENS}", None, "a number for each retrieved id")
    return check_tokens(np.asarray(numbers.cast(pl.Int64).to_numpy(), np.int64))


def with_expected_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of labels by place alone, with the ids that `Relevance(spans=...)` gives them."""
    if EXPECTED in frame.columns or EXPECTED_SPANS not in frame.columns:
        return frame
    ids = [
        None if places is None else ["{}[{}:{}]".format(*place.values()) for place in places]
        for places in frame[EXPECTED_SPANS].to_list()
    ]
    return frame.with_columns(pl.Series(EXPECTED, ids, pl.List(pl.String)))


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
