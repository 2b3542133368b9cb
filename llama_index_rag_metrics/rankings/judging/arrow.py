"""Judging from columns: a batch of Arrow or Polars → JudgedRankings, without a Python object an id.

Ids are compared by 64-bit hashes, and those that agree are then compared themselves: the result is
exact, and the same to the last bit as that of `judge` on lists. What hashes can't decide (two ids
of one hash) and what has no columns (groups) goes through `judge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.rankings.judging.forbidden import Forbidden
from llama_index_rag_metrics.rankings.judging.hashes import HashedLists
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, best_first, check_tokens
from llama_index_rag_metrics.rankings.judging.judged_spans import Spans, Unit
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.judging.span_columns import (
    EXPECTED,
    EXPECTED_SPANS,
    RETRIEVED_SPANS,
    SpanColumn,
    spans_of_columns,
)
from llama_index_rag_metrics.rankings.relevance import HIGHEST_GRADE, Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import IdTypeMismatch, InvalidInput

if TYPE_CHECKING:
    import polars as pl

QUERY_ID, RETRIEVED, GRADES = "query_id", "retrieved_ids", "grades"
WEIGHTS, TOKENS, FORBIDDEN = "facet_weights", "retrieved_tokens", "forbidden_ids"


class _Collision(Exception):
    """Two ids of one hash."""


def judge_table(
    frame: pl.DataFrame,
    *,
    with_tokens: bool = False,
    with_spans: bool = False,
    with_forbidden: bool = False,
) -> JudgedRankings:
    """Bring the relevance and the rankings of a table together, row by row.

    Args:
        frame: one row a query. `retrieved_ids`: the ranked ids, best first; null counts as empty.
            `expected_ids`: the judged ids, or groups of them; null where the query is unjudged.
            `grades`, if there: the grade of each expected id; a row without them has grade 1 each.
            `facet_weights`, if there: the weight of each group, 1 each in a row without them.
            `retrieved_tokens`: how many tokens each retrieved item has. `expected_spans` and
            `retrieved_spans`: where each id is, {source, start, end}, or null. `forbidden_ids`:
            what the asker may not see; null where nothing is forbidden.
        with_tokens: whether to read `retrieved_tokens`, which must then be there.
        with_forbidden: whether to read `forbidden_ids`, which must then be there.

    Examples:
        >>> import polars as pl
        >>> frame = pl.DataFrame({"retrieved_ids": [["b", "x", "b", "a"]], "expected_ids": [["a"]]})
        >>> judge_table(frame).item_rank
        array([3])
    """
    for column in (RETRIEVED, EXPECTED):
        if column not in frame.columns:
            raise InvalidInput("table", frame.columns, f"a column {column}")
    if with_forbidden and FORBIDDEN not in frame.columns:
        expected = f"a column {FORBIDDEN}, the ids that the asker of each query may not see"
        raise InvalidInput("table", frame.columns, expected)
    if _is_grouped(frame[EXPECTED].dtype):
        return _judge_rows(frame, with_tokens, with_spans, with_forbidden)
    judged, ranked = _Lists.read(frame, EXPECTED), _Lists.read(frame, RETRIEVED)
    if len(judged.ids) and len(ranked.ids) and judged.ids.dtype != ranked.ids.dtype:
        raise IdTypeMismatch(map(str, (judged.ids.dtype, ranked.ids.dtype)))
    grade = _read_grades(frame, judged)
    tokens = _read_tokens(frame) if with_tokens else None
    places = None
    if with_spans:
        places = (
            SpanColumn.read(frame, EXPECTED_SPANS, judged.counts),
            SpanColumn.read(frame, RETRIEVED_SPANS, ranked.counts),
        )
    forbidden = _Lists.read(frame, FORBIDDEN) if with_forbidden else None
    try:
        return _judge_hashed(judged, grade, ranked, tokens, places, forbidden)
    except _Collision:
        return _judge_rows(frame, with_tokens, with_spans, with_forbidden)


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

        lists = frame[column]
        if lists.null_count() == len(lists) and not isinstance(lists.dtype, pl.List):
            lists = pl.Series(column, [None] * len(lists), pl.List(pl.String))
        if isinstance(lists.dtype, pl.Array):
            lists = lists.arr.to_list()
        if not isinstance(lists.dtype, pl.List):
            raise InvalidInput(f"column {column}", lists.dtype, "a list of ids in every row")
        length = lists.list.len().fill_null(0)
        ids = lists.filter(length > 0).explode()
        counts = length.to_numpy().astype(np.int64)
        query = np.repeat(np.arange(len(lists)), counts)
        if ids.null_count():
            row = _row(frame, int(query[int(ids.is_null().arg_max() or 0)]))
            raise InvalidInput(f"{column} of {row}", None, "a list of ids, without None")
        return cls(_comparable(ids, column), query, counts)

    @cached_property
    def hashed(self) -> HashedLists:
        return HashedLists(self.ids.hash().to_numpy(), self.counts)

    def without(self, copies: IntArray) -> _Lists:
        kept = np.delete(np.arange(len(self.query)), copies)
        counts = self.counts - np.bincount(self.query[copies], minlength=len(self.counts))
        return _Lists(self.ids.gather(kept), self.query[kept], counts)


def _judge_hashed(
    judged: _Lists,
    grade: FloatArray,
    ranked: _Lists,
    tokens: IntArray | None,
    places: tuple[SpanColumn, SpanColumn] | None,
    forbidden: _Lists | None,
) -> JudgedRankings:
    if (copies := _copies(ranked)) is not None:
        ranked = ranked.without(copies)
        tokens = None if tokens is None else np.delete(tokens, copies)
        places = None if places is None else (places[0], places[1].without(copies))
    if (copies := _copies(judged, grade)) is not None:
        judged, grade = judged.without(copies), np.delete(grade, copies)
        places = None if places is None else (places[0].without(copies), places[1])
    position, expected = ranked.hashed.find(judged.hashed)
    _check_same(ranked, position, judged, expected)
    depth, n_judged = ranked.counts, judged.counts
    item_query = ranked.query[position]
    return JudgedRankings(
        depth=depth,
        item_query=item_query,
        item_rank=position - ranked.hashed.begin[item_query] + 1,
        item_grade=grade[expected],
        judged_grade=best_first(grade, n_judged),
        judged_offset=np.concatenate([[0], np.cumsum(n_judged)]),
        tokens=None if tokens is None else check_tokens(tokens),
        spans={} if places is None else _spans(judged, grade, ranked, places),
        forbidden=None if forbidden is None else _find_forbidden(forbidden, ranked, judged, grade),
    )


def _find_forbidden(
    forbidden: _Lists, ranked: _Lists, judged: _Lists, grade: FloatArray
) -> Forbidden:
    """What is forbidden among the retrieved and among the judged items."""
    if (copies := _copies(forbidden)) is not None:
        forbidden = forbidden.without(copies)
    positions = []
    for lists in (ranked, judged):
        if len(forbidden.ids) and len(lists.ids) and forbidden.ids.dtype != lists.ids.dtype:
            raise IdTypeMismatch(map(str, (forbidden.ids.dtype, lists.ids.dtype)))
        position, forbidden_position = lists.hashed.find(forbidden.hashed)
        _check_same(lists, position, forbidden, forbidden_position)
        positions.append(position)
    retrieved, known = positions
    query = ranked.query[retrieved]
    rank = retrieved - ranked.hashed.begin[query] + 1
    return Forbidden(query, rank, judged.query[known], grade[known])


def _spans(
    judged: _Lists,
    grade: FloatArray,
    ranked: _Lists,
    places: tuple[SpanColumn, SpanColumn],
) -> Mapping[Unit, Spans]:
    rank = np.arange(1, len(ranked.query) + 1) - ranked.hashed.begin[ranked.query]
    expected = places[0], judged.query, grade
    return spans_of_columns(expected, (places[1], ranked.query, rank))


def _copies(lists: _Lists, grade: FloatArray | None = None) -> IntArray | None:
    """The items that repeat an id of their list; None where there are none."""
    repeats = lists.hashed.repeats()
    if repeats is None:
        return None
    copies, before = repeats
    _check_same(lists, copies, lists, before)
    if grade is not None and (differing := np.flatnonzero(grade[copies] != grade[before])).size:
        document_id = lists.ids[int(copies[differing[0]])]
        raise InvalidInput(
            EXPECTED, document_id, "one grade for each id", "Keep one of its judgements."
        )
    return copies


def _check_same(some: _Lists, positions: IntArray, others: _Lists, there: IntArray) -> None:
    """Equal hashes must stand for equal ids of the same query.

    Raises:
    """
    if not len(positions):  # nor can ids of two types be compared
        return
    same_query = np.array_equal(some.query[positions], others.query[there])
    if not same_query or not (some.ids.gather(positions) == others.ids.gather(there)).all():
        raise _Collision


def _read_grades(frame: pl.DataFrame, judged: _Lists) -> FloatArray:
    """(judgements,) the grade of every expected id, 1 in rows without grades."""
    import polars as pl

    if GRADES not in frame.columns or frame[GRADES].null_count() == len(frame):
        return np.ones(len(judged.ids))
    grades = frame[GRADES]
    if isinstance(grades.dtype, pl.Array):
        grades = grades.arr.to_list()
    if grades.dtype == pl.List(pl.Null):
        grades = grades.cast(pl.List(pl.Float64))
    if not isinstance(grades.dtype, pl.List) or not grades.dtype.inner.is_numeric():
        raise InvalidInput(f"column {GRADES}", grades.dtype, "a list of numbers in every row")
    n_given, n_judged = grades.list.len(), frame[EXPECTED].list.len().fill_null(0)
    is_given = grades.is_not_null()
    if (unequal := is_given & (n_given != n_judged).fill_null(value=False)).any():
        row = int(unequal.arg_max() or 0)
        expected = f"{n_judged[row]} grades, one for each expected id"
        raise InvalidInput(f"{GRADES} of {_row(frame, row)}", n_given[row], expected)
    is_graded = np.repeat(is_given.to_numpy(), judged.counts)
    grade = np.ones(len(judged.ids))
    numbers = grades.filter(n_given.fill_null(0) > 0).explode().cast(pl.Float64)
    grade[is_graded] = numbers.fill_null(float("nan")).to_numpy()
    if (wrong := np.flatnonzero(~(np.abs(grade) <= HIGHEST_GRADE))).size:
        item, row = int(wrong[0]), int(judged.query[wrong[0]])
        argument = f"grade of {judged.ids[item]!r} in {_row(frame, row)}"
        expected = f"a finite number of at most {HIGHEST_GRADE:g}"
        raise InvalidInput(argument, float(grade[item]), expected)
    return grade


def _read_tokens(frame: pl.DataFrame) -> IntArray:
    """(retrieved,) the tokens of every retrieved item."""
    import polars as pl

    if TOKENS not in frame.columns:
        expected = f"a column {TOKENS}, the tokens of each retrieved id"
        raise InvalidInput("table", frame.columns, expected, "Or use cutoffs by rank, such as @10.")
    lists = frame[TOKENS]
    if isinstance(lists.dtype, pl.Array):
        lists = lists.arr.to_list()
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    if inner is None or not (inner.is_integer() or inner == pl.Null):
        raise InvalidInput(f"column {TOKENS}", lists.dtype, "a list of whole numbers in every row")
    counts, n_ids = lists.list.len().fill_null(0), frame[RETRIEVED].list.len().fill_null(0)
    if (unequal := counts != n_ids).any():
        row = int(unequal.arg_max() or 0)
        expected = f"{n_ids[row]} numbers, one for each retrieved id"
        raise InvalidInput(f"{TOKENS} of {_row(frame, row)}", counts[row], expected)
    numbers = lists.filter(counts > 0).explode().cast(pl.Int64)
    if numbers.null_count():
        raise InvalidInput(f"column {TOKENS}", None, "a number for each retrieved id")
    tokens: IntArray = numbers.to_numpy().astype(np.int64, copy=False)
    return tokens


def _comparable(ids: pl.Series, column: str) -> pl.Series:
    """Ids that are the same get the same hash: whole numbers of one width, texts as texts."""
    import polars as pl

    same: pl.Series = ids
    if ids.dtype.is_integer():
        same = ids.cast(pl.Int64, strict=False)
        if same.null_count():
            item = ids[int(same.is_null().arg_max() or 0)]
            expected = "ids from -2**63 to 2**63 - 1"
            raise InvalidInput(f"column {column}", item, expected, "Convert both columns to texts.")
    elif isinstance(ids.dtype, (pl.Categorical, pl.Enum)):
        same = ids.cast(pl.String)
    return same


def _is_grouped(expected: pl.DataType) -> bool:
    import polars as pl

    return isinstance(expected, pl.List) and isinstance(expected.inner, pl.List)


def _judge_rows(
    frame: pl.DataFrame,
    with_tokens: bool,
    with_spans: bool,
    with_forbidden: bool,
) -> JudgedRankings:
    """The same through lists."""
    relevance: list[Any] = frame[EXPECTED].to_list()
    if GRADES in frame.columns and frame[GRADES].null_count() < len(frame):
        if _is_grouped(frame[EXPECTED].dtype):
            remedy = f"Leave {GRADES} out, or null: groups are binary."
            raise InvalidInput("table", f"groups and {GRADES}", f"groups or {GRADES}", remedy)
        grades = frame[GRADES].to_list()
        relevance = [
            ids if numbers is None or ids is None else dict(zip(ids, numbers, strict=True))
            for ids, numbers in zip(relevance, grades, strict=True)
        ]
    elif _is_grouped(frame[EXPECTED].dtype) and WEIGHTS in frame.columns:
        rows = zip(relevance, frame[WEIGHTS].to_list(), strict=True)
        relevance = [_weighted(frame, row, *cells) for row, cells in enumerate(rows)]
    rankings = [ids or [] for ids in frame[RETRIEVED].to_list()]
    tokens = spans = None
    if with_tokens:
        _read_tokens(frame)
        tokens = [counts or [] for counts in frame[TOKENS].to_list()]
    if with_spans:
        relevance, spans = _placed_rows(frame, relevance, rankings)
    forbidden = frame[FORBIDDEN].to_list() if with_forbidden else None
    return judge(relevance, rankings, tokens, spans, forbidden=forbidden)


def _placed_rows(
    frame: pl.DataFrame, relevance: list[Any], rankings: list[list[str]]
) -> tuple[list[Any], list[list[Span | None]]]:
    """The relevance with the places of its ids, and those of the retrieved items, row by row."""
    if _is_grouped(frame[EXPECTED].dtype):
        expected = f"a list of ids in every row, beside {EXPECTED_SPANS}"
        raise InvalidInput(f"column {EXPECTED}", "groups", expected)
    both = _Lists.read(frame, EXPECTED), _Lists.read(frame, RETRIEVED)
    expected_spans, retrieved_spans = (
        SpanColumn.read(frame, column, lists.counts).rows(lists.counts)
        for column, lists in zip((EXPECTED_SPANS, RETRIEVED_SPANS), both, strict=True)
    )
    placed = [
        ids
        if ids is None
        else Relevance.of(ids).with_spans(
            {
                document_id: span
                for document_id, span in zip(ids, spans, strict=True)
                if span is not None
            }
        )
        for ids, spans in zip(relevance, expected_spans, strict=True)
    ]
    return placed, retrieved_spans


def _weighted(
    frame: pl.DataFrame, row: int, groups: list[list[str]] | None, weights: list[float] | None
) -> RelevanceLike | None:
    if groups is None or weights is None:
        return groups
    if len(weights) != len(groups):
        expected = f"{len(groups)} weights, one for each group"
        raise InvalidInput(f"{WEIGHTS} of {_row(frame, row)}", len(weights), expected)
    names = list(map(str, range(len(groups))))
    facets = dict(zip(names, groups, strict=True))
    return Relevance.facets(facets, weights=dict(zip(names, weights, strict=True)))


def _row(frame: pl.DataFrame, row: int) -> str:
    return f"query {frame[QUERY_ID][row]!r}" if QUERY_ID in frame.columns else f"row {row}"
