"""Scoring tables of rankings, a row a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from llama_index_rag_metrics.files.fields import REPEAT
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.arrow import (
    EXPECTED,
    EXPECTED_SPANS,
    FIELDS,
    GRADES,
    QUERY_ID,
    RETRIEVED,
    WEIGHTS,
    frame_of,
    judge_table,
    with_expected_ids,
)
from llama_index_rag_metrics.rankings.judging.beside import needs_of
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    LabelWarning,
    MissingExtra,
    warn_caller,
)
from llama_index_rag_metrics.runtime.masking import describe_error

from .batches import (
    REASONS,
    Failed,
    Metrics,
    NoRelevant,
    ScoredBatch,
    ScoringOptions,
    compares_ids,
    ranking_metrics,
    score_batch,
)
from .label_fit import Asked, fit_notes
from .notes import Facts, Presence, label_notes

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    Table = TypeVar("Table", pa.Table, pa.RecordBatch, pl.DataFrame, pd.DataFrame)


ERROR, EXCLUDED, N_RETRIEVED, N_RELEVANT = "error", "excluded", "n_retrieved", "n_relevant"

_COLUMNS = (QUERY_ID, RETRIEVED, EXPECTED, EXPECTED_SPANS, GRADES, WEIGHTS, ERROR)

_READS_ALL = "score_rankings(qrels, read_run(path), …) reads them."

# so many ids are judged at once: few enough to stay near a cache, enough to pay for the calls
_MOST_IDS = 1 << 20


def score_table(
    table: Table,
    metrics: Metrics,
    *,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    keep: Sequence[str] = (),
) -> Table:
    """Score a table of rankings, one row per query.

    A pure function: the scores of a row are the same, to the last bit, in any table, and the same
    as those of `score_rankings`.

    Args:
        table: a table or a record batch of pyarrow, or a frame of polars or pandas, with columns
            `retrieved_ids` (ranked ids; null counts as an empty ranking), `expected_ids` (the
            judged ids, or groups of them; null where the query is unjudged) and, optionally,
            `grades` (one for each expected id; null where each has grade 1), `query_id`, and
            `error` (a text where the retriever failed). Cutoffs by tokens need `retrieved_tokens`
            (how many each retrieved item has). Span metrics need `expected_spans` and
            `retrieved_spans`: of each id {source: its document, start: first character, end: the
            one after the last}, or null; `expected_ids` may be missing then.
        metrics: names, or metrics.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            (null scores), score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        keep: further columns of the table to keep, such as a language, to group by. A table with a
            column `repeat` above 1 is refused unless it is kept: its rows aren't questions.

    Returns:
        The same kind of table, one row for each row of `table`: `query_id` where it was there, a
        column for each metric, null where the query is left out, `excluded`, which says why,
        `n_retrieved` (distinct items), `n_relevant` (items with a grade
        above 0), `error` where it was there, and the columns of `keep`.

    Raises:
        InvalidInput: a column is missing or can't be used; names the query.
        InvalidInput: ids of different types on the two sides.
        MissingExtra: pyarrow and polars aren't installed.

    Examples:
        >>> import pyarrow as pa
        >>> table = pa.table({"retrieved_ids": [["a", "b"]], "expected_ids": [["b"]]})
        >>> score_table(table, ["mrr", "recall@1"]).select(["mrr", "recall@1"]).to_pylist()
        [{'mrr': 0.5, 'recall@1': 0.0}]
    """
    ranking_metrics_of_table = ranking_metrics(metrics)
    scored = _score(table, ranking_metrics_of_table, ScoringOptions(no_relevant, failed), keep)
    import polars as pl

    if any(metric.needs_relevance for metric in ranking_metrics_of_table):
        for note in _label_notes(table, scored, by_id=compares_ids(ranking_metrics_of_table)):
            warn_caller(LabelWarning(note))
    result: Table = _like(
        table, pl.concat(frame for frame, _ in scored), ranking_metrics_of_table, keep
    )
    return result


def _label_notes(
    table: Any, scored: Sequence[tuple[pl.DataFrame, ScoredBatch]], *, by_id: bool
) -> list[str]:
    """The notes on labels that don't fit, of all parts of a table."""
    facts = Facts.joined([batch.facts for _, batch in scored])
    asked_at = _rows_of(to_polars(table))
    fit = fit_notes(asked_at, len(table), missed=facts.missed) if by_id else []
    return label_notes(facts, asked_at, fit, by_id=by_id)


def _rows_of(frame: pl.DataFrame) -> Callable[[int], Asked]:
    """A function from the position of a row to what its question wants and got."""

    def asked_at(row: int) -> Asked:
        query_id = frame[QUERY_ID][row] if QUERY_ID in frame.columns else row
        labels = frame[EXPECTED][row] if EXPECTED in frame.columns else None
        retrieved = frame[RETRIEVED][row]
        return Asked(
            query_id,
            None if labels is None else labels.to_list(),
            () if retrieved is None else retrieved.to_list(),
        )

    return asked_at


def _score(
    table: Any, metrics: Sequence[RankingMetric], options: ScoringOptions, keep: Sequence[str] = ()
) -> list[tuple[pl.DataFrame, ScoredBatch]]:
    _check_kind(table)
    names = _columns(table)
    check_columns(keep, names, [metric.metric_name for metric in metrics])
    columns_needed: list[str] = []
    for need in needs_of(metrics):
        columns_needed += FIELDS[need]
    if REPEAT in names and REPEAT not in keep:
        times = to_polars(table[[REPEAT]] if _is_pandas(table) else table.select([REPEAT]))[REPEAT]
        if times.dtype.is_numeric() and (times > 1).any():
            expected = "a table in which each question was asked once: tables don't hold repeats"
            raise InvalidInput("table", REPEAT, expected, _READS_ALL)
    if RETRIEVED in names and (EXPECTED in names or EXPECTED_SPANS in names):
        names_read = [
            column
            for column in dict.fromkeys((*_COLUMNS, *columns_needed, *keep))
            if column in names
        ]
        columns = _columnar(table[names_read] if _is_pandas(table) else table.select(names_read))
    else:  # which is said where the columns are read
        columns = _columnar(table)

    def score(part: Any) -> tuple[pl.DataFrame, ScoredBatch]:
        return _score_part(part, metrics, options, keep)

    with ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(score, parts(columns)))


def _score_part(
    part: pl.DataFrame | pa.Table | pa.RecordBatch,
    metrics: Sequence[RankingMetric],
    options: ScoringOptions,
    keep: Sequence[str] = (),
) -> tuple[pl.DataFrame, ScoredBatch]:
    """The scores of a part, as `score_table` returns them and as arrays."""
    import polars as pl

    frame = with_expected_ids(to_polars(part))
    is_judged = frame[EXPECTED].is_not_null().to_numpy()
    is_failed = np.zeros(len(frame), np.bool_)
    if ERROR in frame.columns:
        is_failed = frame[ERROR].is_not_null().to_numpy()
    scored = score_batch(
        judge_table(frame, needs_of(metrics)),
        metrics,
        options,
        Presence(
            is_judged, is_judged, frame[RETRIEVED].is_not_null().to_numpy() | is_failed, is_failed
        ),
        _rows_of(frame),
    )
    columns: dict[str, Any] = {QUERY_ID: frame[QUERY_ID]} if QUERY_ID in frame.columns else {}
    for metric, column in scored.columns.items():
        series, has_value = pl.Series(metric, column), scored.has_value(metric)
        is_complete = bool(has_value.all())
        columns[metric] = series if is_complete else series.set(pl.Series(~has_value), None)
    columns |= {
        EXCLUDED: pl.Series(REASONS, dtype=pl.String).gather(scored.reason),
        N_RETRIEVED: scored.depth,
        N_RELEVANT: scored.n_relevant,
    }
    if ERROR in frame.columns:
        errors = frame[ERROR].to_list()
        masked = {error: describe_error(error) for error in set(errors) if error is not None}
        columns[ERROR] = pl.Series([*map(masked.get, errors)], dtype=frame[ERROR].dtype)
    columns |= {name: frame[name] for name in keep}
    return pl.DataFrame(columns), scored


def score_schema(table: pa.Schema, metrics: Metrics, *, keep: Sequence[str] = ()) -> pa.Schema:
    """The schema of what `score_table` returns, for engines that need it beforehand.

    Args:
        table: the schema of the table that will be scored.
        metrics: names, or metrics.
        keep: further columns of the table to keep.

    Examples:
        >>> import pyarrow as pa
        >>> given = pa.schema({"query_id": pa.string(), "retrieved_ids": pa.list_(pa.string())})
        >>> score_schema(given, "mrr").names
        ['query_id', 'mrr', 'excluded', 'n_retrieved', 'n_relevant']
    """
    import pyarrow as pa

    fields = {metric.metric_name: pa.float64() for metric in ranking_metrics(metrics)}
    check_columns(keep, table.names, list(fields))
    names_kept = (QUERY_ID, ERROR, *keep)
    fields |= {EXCLUDED: pa.string(), N_RETRIEVED: pa.int64(), N_RELEVANT: pa.int64()}
    order = dict.fromkeys((QUERY_ID, *fields, ERROR, *keep))
    fields |= {column: table.field(column).type for column in names_kept if column in table.names}
    return pa.schema({column: fields[column] for column in order if column in fields})


def check_columns(wanted: Sequence[str], there: Sequence[str], metrics: Sequence[str]) -> None:
    """Columns to keep have to be there, and to be called otherwise than those of the scores."""
    if isinstance(wanted, str):
        raise InvalidInput("keep", wanted, "a list of columns", f"Write one as [{wanted!r}].")
    for column in wanted:
        if column not in there:
            names = ", ".join(map(str, there))
            raise InvalidInput("keep", column, f"columns of the table: {names}")
        if column in (*metrics, EXCLUDED, N_RETRIEVED, N_RELEVANT):
            remedy = "Give it another name in the table."
            raise InvalidInput("keep", column, "a name that no column of the scores has", remedy)


def parts(table: Any) -> Iterator[Any]:
    """Slices of a frame or table that are judged at once."""
    names = {RETRIEVED, EXPECTED}.intersection(_columns(table))
    n_ids = sum(_n_ids(table[column]) for column in names)
    n_parts = -(-n_ids // _MOST_IDS)
    if n_parts > 1:  # so that no worker is left without a part at the end
        n_parts += -n_parts % workers()
    rows = max(1, -(-len(table) // max(1, n_parts)))
    return (table.slice(start, rows) for start in range(0, max(1, len(table)), rows))


def _n_ids(column: Any) -> int:
    import polars as pl
    import pyarrow as pa

    if isinstance(column, pl.Series):
        return int(column.list.len().sum()) if isinstance(column.dtype, pl.List) else 0
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    lists = (pa.ListArray, pa.LargeListArray)  # of which a map is a subclass
    return sum(len(chunk.flatten()) for chunk in chunks if type(chunk) in lists)


def _columns(table: Any) -> Sequence[str]:
    columns: Sequence[str] = getattr(table, "column_names", None) or table.columns
    return columns


def to_polars(table: Any) -> pl.DataFrame:
    import polars as pl

    _check_kind(table)
    columns = _columnar(table)
    return columns if isinstance(columns, pl.DataFrame) else frame_of(columns)


def workers() -> int:
    """How many threads to use: as many as Polars, which obeys POLARS_MAX_THREADS."""
    import polars as pl

    return pl.thread_pool_size()


def _check_kind(table: Any) -> None:
    try:
        import polars as pl
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtra("score_table()", "batch") from error
    if isinstance(table, (pl.DataFrame, pa.Table, pa.RecordBatch)) or _is_pandas(table):
        return
    expected = "a table or a record batch of pyarrow, or a frame of polars or pandas"
    raise InvalidInput("table", type(table).__name__, expected)


def _is_pandas(table: Any) -> bool:
    return hasattr(table, "iloc") and hasattr(table, "columns")


def _columnar(table: Any) -> Any:
    """A frame of pandas as one of polars; anything else unchanged."""
    import polars as pl
    import pyarrow as pa

    if not _is_pandas(table):
        return table
    try:
        return pl.from_pandas(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput("table", str(error), "values of one type in every column") from error


def _like(
    table: Any, scored: pl.DataFrame, metrics: Sequence[RankingMetric], keep: Sequence[str]
) -> Any:
    """The scores in the form of the given table."""
    import polars as pl
    import pyarrow as pa

    if isinstance(table, pl.DataFrame):
        return scored
    if _is_pandas(table):
        return scored.to_pandas().set_axis(table.index)
    arrow = scored.to_arrow().cast(score_schema(table.schema, metrics, keep=keep))
    if isinstance(table, pa.Table):
        return arrow
    batches = arrow.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], arrow.schema)
