"""Judgements as columns, beside the rankings of their queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.files.file_kinds import format_of
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.files.runs.read_runs import read_qrels
from llama_index_rag_metrics.files.runs.run_blocks import qrels_table
from llama_index_rag_metrics.rankings.judging import (
    EXPECTED,
    EXPECTED_SPANS,
    GRADES,
    QUERY_ID,
    RETRIEVED,
    WEIGHTS,
    span_series,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.scoring.batches import no_common_query
from llama_index_rag_metrics.scores.scoring.score_tables import to_polars

if TYPE_CHECKING:
    import polars as pl

    from llama_index_rag_metrics.files.runs.stored_runs import Columns


class JudgementColumns:
    """Qrels as columns, to be joined to rankings.

    Args:
        table: a row a query: `query_id`, `expected_ids`, `grades`, perhaps `facet_weights`
            or `expected_spans`.
    """

    def __init__(self, table: pl.DataFrame) -> None:
        self._query_ids = table[QUERY_ID].to_list()
        self._position = {query_id: position for position, query_id in enumerate(self._query_ids)}
        self._columns = table.drop(QUERY_ID).get_columns()

    @classmethod
    def read(cls, qrels: Any, on_error: OnError) -> JudgementColumns:
        """Read whatever `read_qrels` reads; TREC qrels without an object for each judgement."""
        if isinstance(qrels, (str, PathLike)) and format_of(Path(qrels), "qrels") == "trec":
            table = qrels_table(Path(qrels))
            if table is not None:
                return cls(table)
        return cls(_table(read_qrels(qrels, on_error=on_error)))

    def join(self, tables: Iterable[Columns], run: Path) -> Iterator[pl.DataFrame]:
        """Rankings with the judgements of their queries; at the end, queries without rankings."""
        import polars as pl

        is_seen = np.zeros(len(self._position), np.bool_)
        a_query, table = None, pl.DataFrame()
        for rankings in tables:
            table = _with_text_ids(to_polars(rankings))
            query_ids = table[QUERY_ID].to_list()
            positions = [self._position.get(query_id) for query_id in query_ids]
            is_seen[
                np.array([position for position in positions if position is not None], np.int64)
            ] = True
            a_query = a_query or next(iter(query_ids), None)
            rows = pl.Series(positions, dtype=pl.UInt32)
            table = table.with_columns(column.gather(rows) for column in self._columns)
            yield table
        if a_query is not None and len(is_seen) and not is_seen.any():
            raise no_common_query(run, a_query, self._query_ids[0])
        rest = np.flatnonzero(~is_seen)
        left = pl.Series(QUERY_ID, [self._query_ids[position] for position in rest], pl.String)
        nothing = pl.Series(RETRIEVED, [[]] * len(left), pl.List(pl.String))
        without = pl.DataFrame([left, nothing, *(column.gather(rest) for column in self._columns)])
        yield pl.concat([table.drop(RETRIEVED, strict=False).clear(), without], how="diagonal")


def _with_text_ids(table: pl.DataFrame) -> pl.DataFrame:
    """Rankings with texts as ids, as `read_run` and all qrels have them."""
    import polars as pl

    ids = table[RETRIEVED]
    if isinstance(ids.dtype, pl.Array):
        ids = ids.arr.to_list()
    inner = ids.dtype.inner if isinstance(ids.dtype, pl.List) else None
    if inner is not None and (inner.is_integer() or inner in (pl.Categorical, pl.Enum, pl.Null)):
        ids = ids.cast(pl.List(pl.String))
    return table.with_columns(ids, pl.col(QUERY_ID).cast(pl.String))


def _table(relevance: Mapping[str, Relevance]) -> pl.DataFrame:
    import polars as pl

    judged = list(relevance.values())
    query_ids = pl.Series(QUERY_ID, list(relevance), pl.String)
    if not any(judgements.alternatives is not None for judgements in judged):
        ids = pl.Series(
            EXPECTED, [list(judgements.grades) for judgements in judged], pl.List(pl.String)
        )
        grades = [list(judgements.grades.values()) for judgements in judged]
        columns = [query_ids, ids, pl.Series(GRADES, grades, pl.List(pl.Float64))]
        if any(judgements.spans for judgements in judged):
            columns.append(span_series(EXPECTED_SPANS, map(_places, judged)))
        return pl.DataFrame(columns)
    if any(judgements.is_graded for judgements in judged):
        remedy = "Score such runs with score_rankings(qrels, read_run(path), metrics)."
        raise InvalidInput("qrels", "groups and grades", "groups or grades", remedy)
    groups = pl.Series(EXPECTED, list(map(_groups, judged)), pl.List(pl.List(pl.String)))
    nothing = pl.Series(GRADES, [None] * len(judged), pl.List(pl.Float64))
    weights = pl.Series(WEIGHTS, [judgements.weights for judgements in judged], pl.List(pl.Float64))
    return pl.DataFrame([query_ids, groups, nothing, weights])


def _groups(relevance: Relevance) -> list[list[str]]:
    return [
        list(group)
        for group in relevance.alternatives or ([document_id] for document_id in relevance)
    ]


def _places(relevance: Relevance) -> list[Span | None]:
    spans = relevance.spans or {}
    return [spans.get(item) for item in relevance.grades]
