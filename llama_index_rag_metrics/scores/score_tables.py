"""Scoring tables of rankings, a row a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging import arrow
from llama_index_rag_metrics.rankings.judging.beside import SPANS, needs_of
from llama_index_rag_metrics.runtime.containers import Lazy, picked
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, MissingExtra, warn
from llama_index_rag_metrics.runtime.masking import describe_error

from .batches import (
    REASONS,
    Failed,
    Metrics,
    NoRelevant,
    ScoredBatch,
    ScoringOptions,
    concatenated,
    ranking_metrics,
    score_batch,
)
from .label_fit import Asked
from .notes import label_notes, questions_apart

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    Table = TypeVar("Table", pa.Table, pa.RecordBatch, pl.DataFrame)
else:
    pl, pa = Lazy("polars"), Lazy("pyarrow")

ERROR, EXCLUDED, N_RETRIEVED, N_RELEVANT = "error", "excluded", "n_retrieved", "n_relevant"
_COLUMNS = (arrow.QUERY_ID, arrow.RETRIEVED, arrow.EXPECTED, arrow.GRADES, ERROR)

# about so many ids are judged at once: calls of numpy should outlast a change of threads
_USUAL_IDS = 1 << 20


def score_table(
    table: Table, metrics: Metrics, *, no_relevant: NoRelevant = "exclude", failed: Failed = "zero"
) -> Table:
    """Score a table of rankings, one row per query.

    The scores of a row are the same, to the last bit, in any table, and by `score_rankings`.

    Args:
        table: a table or a record batch of pyarrow, or a frame of polars, with columns
            `retrieved_ids` (ranked ids; null counts as an empty ranking), `expected_ids` (the
            judged ids, or groups of them; null where the query is unjudged) and, optionally,
            `grades` (one for each expected id; null where each has grade 1), `query_id`, and
            `error` (a text where the retriever failed). Cutoffs by tokens need `retrieved_tokens`
            (how many each retrieved item has). Span metrics aren't scored from tables.
        metrics: names, or metrics.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            (null scores), score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.

    Returns:
        The same kind of table, one row for each row of `table`, in its order: `query_id` where it
        was there, a column for each metric, null where the query is left out, `excluded`, which
        says why, `n_retrieved` (distinct items), `n_relevant` (items with a grade above 0), and
        `error` where it was there.

    Raises:
        InvalidInput: a column is missing or can't be used, or ids are of different types on the two
            sides; names the query.
        MissingExtra: pyarrow and polars aren't installed.

    Examples:
        >>> import pyarrow as pa
        >>> table = pa.table({"retrieved_ids": [["a", "b"]], "expected_ids": [["b"]]})
        >>> score_table(table, ["mrr", "recall@1"]).select(["mrr", "recall@1"]).to_pylist()
        [{'mrr': 0.5, 'recall@1': 0.0}]
    """
    scored_metrics = ranking_metrics(metrics)
    options = ScoringOptions(no_relevant, failed)
    frame = _frame(table, scored_metrics)

    def score(part: pl.DataFrame) -> ScoredBatch:
        judged = arrow.judge_table(part, needs_of(scored_metrics))
        is_judged = part[arrow.EXPECTED].is_not_null().to_numpy()
        is_failed = _errors(part).is_not_null().to_numpy()
        return score_batch(judged, scored_metrics, options, is_judged, is_failed, _rows_of(part))

    parts = _parts(frame)
    with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
        in_threads: Iterator[ScoredBatch] = pool.map(score, parts[1:])
        scored = [score(parts[0]), *in_threads]  # the first in this one: new ones begin late
    batch = ScoredBatch(**concatenated(list(map(vars, scored))))
    mismatch = ""
    if arrow.QUERY_ID in frame.columns:
        is_ranked = frame[arrow.RETRIEVED].is_not_null() | _errors(frame).is_not_null()
        judged_ids = frame[arrow.QUERY_ID].filter(frame[arrow.EXPECTED].is_not_null())
        ranked_ids = frame[arrow.QUERY_ID].filter(is_ranked)
        mismatch = questions_apart(dict.fromkeys(judged_ids, ()), dict.fromkeys(ranked_ids))
    for note in label_notes(batch, scored_metrics, _rows_of(frame), mismatch):
        warn(LabelWarning(note))
    result: Table = _like(table, _columns_of(batch, frame), scored_metrics)
    return result


def _errors(frame: pl.DataFrame) -> pl.Series:
    if ERROR in frame.columns:
        if frame[ERROR].dtype not in (pl.String, pl.Categorical, pl.Null):
            expected = "texts, null where the retriever answered"
            raise InvalidInput("column error", str(frame[ERROR].dtype), expected)
        return frame[ERROR].cast(pl.String).replace("", None)
    return pl.repeat(None, len(frame), dtype=pl.String, eager=True)


def _rows_of(frame: pl.DataFrame) -> Callable[[int], Asked]:
    def asked_at(number: int) -> Asked:
        row = frame.row(number, named=True)
        query_id, ids = row.get(arrow.QUERY_ID, number), row[arrow.RETRIEVED] or ()
        return Asked(query_id, row[arrow.EXPECTED], ids)

    return asked_at


def _columns_of(batch: ScoredBatch, frame: pl.DataFrame) -> pl.DataFrame:
    columns: dict[str, Any] = picked(frame.to_dict(), [arrow.QUERY_ID])
    for metric, scores in batch.columns.items():
        columns[metric] = pl.Series(scores, nan_to_null=True)
    columns[EXCLUDED] = pl.Series(REASONS, dtype=pl.String).gather(batch.reason)
    columns[N_RETRIEVED], columns[N_RELEVANT] = batch.depth, batch.n_relevant
    if ERROR in frame.columns:
        errors = [error and describe_error(error) for error in frame[ERROR]]
        columns[ERROR] = pl.Series(errors, dtype=frame[ERROR].dtype)
    return pl.DataFrame(columns)


def score_schema(table: pa.Schema, metrics: Metrics) -> pa.Schema:
    """The schema of what `score_table` returns, for engines that need it beforehand.

    Args:
        table: the schema of the table that will be scored.
        metrics: names, or metrics.

    Examples:
        >>> import pyarrow as pa
        >>> given = pa.schema({"query_id": pa.string(), "retrieved_ids": pa.list_(pa.string())})
        >>> score_schema(given, "mrr").names
        ['query_id', 'mrr', 'excluded', 'n_retrieved', 'n_relevant']
    """
    types = dict(zip(table.names, table.types, strict=True))
    fields = picked(types, [arrow.QUERY_ID])
    for metric in ranking_metrics(metrics):
        fields[metric.metric_name] = pa.float64()
    fields |= {EXCLUDED: pa.string(), N_RETRIEVED: pa.int64(), N_RELEVANT: pa.int64()}
    return pa.schema(fields | picked(types, [ERROR]))


def _parts(frame: pl.DataFrame) -> list[pl.DataFrame]:
    n_ids = sum(len(column.explode()) for column in frame if column.dtype == pl.List)
    n_parts = 1 + n_ids // _USUAL_IDS
    if n_parts > pl.thread_pool_size():  # so that no thread is left without a part at the end
        n_parts -= n_parts % pl.thread_pool_size()
    return list(frame.iter_slices(1 + len(frame) // n_parts)) or [frame]


def _frame(table: Any, metrics: Sequence[RankingMetric]) -> pl.DataFrame:
    try:
        is_arrow = isinstance(table, (pa.Table, pa.RecordBatch))
        is_polars = isinstance(table, pl.DataFrame)
    except ImportError as error:
        raise MissingExtra("score_table()", "batch") from error
    if not is_arrow and not is_polars:
        expected = "a table or a record batch of pyarrow, or a frame of polars"
        remedy = "Of pandas, pyarrow.Table.from_pandas() makes one."
        raise InvalidInput("table", type(table).__name__, expected, remedy)
    columns = table.columns if is_polars else table.schema.names
    needs, items = needs_of(metrics), [arrow.RETRIEVED]
    if SPANS in needs:
        remedy = "score_rankings() takes labels and rankings that have places."
        names = [metric.metric_name for metric in metrics if SPANS in metric.needs]
        raise InvalidInput("metrics", names, "metrics of ids or tokens", remedy)
    if needs:
        items.append(arrow.RETRIEVED_TOKENS)
    for column in (arrow.RETRIEVED, arrow.EXPECTED, *items):
        if column not in columns:
            raise InvalidInput("table", columns, f"a column {column}")
    selected = table.select(list(picked(dict.fromkeys(columns), (*_COLUMNS, *items))))
    frame: pl.DataFrame = selected if is_polars else arrow.frame_of(selected)
    if (errors := _errors(frame)).null_count() < len(frame):  # what failed retrieved nothing
        frame = frame.with_columns(pl.when(errors.is_null()).then(pl.col(items)))
    labels = frame[arrow.EXPECTED].dtype
    is_list = isinstance(labels, (pl.List, pl.Array)) and labels.inner != pl.Struct
    if labels.is_nested() and not is_list:
        remedy = f"Write the ids as lists, and their grades as lists in a column {arrow.GRADES}."
        raise InvalidInput(f"column {arrow.EXPECTED}", str(labels), "lists of ids", remedy)
    return frame


def _like(table: Any, scored: pl.DataFrame, metrics: Sequence[RankingMetric]) -> Any:
    if isinstance(table, pl.DataFrame):
        return scored
    result = scored.to_arrow().cast(score_schema(table.schema, metrics))
    if isinstance(table, pa.Table):
        return result
    columns = [column.combine_chunks() for column in result.columns]
    return pa.RecordBatch.from_arrays(columns, schema=result.schema)
