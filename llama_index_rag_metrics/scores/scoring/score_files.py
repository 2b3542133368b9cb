"""Scoring stored runs of any size: files go through memory a piece at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from llama_index_rag_metrics.files.file_kinds import format_of
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.files.runs.read_runs import read_qrels
from llama_index_rag_metrics.files.runs.stored_runs import Scattered, StoredRun, qrels_table
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.arrow import GRADES, WEIGHTS
from llama_index_rag_metrics.rankings.judging.columns import EXPECTED_SPANS, span_series
from llama_index_rag_metrics.rankings.judging.judged import Selection
from llama_index_rag_metrics.rankings.judging.judged_column import (
    EXPECTED,
    QUERY_ID,
    RETRIEVED,
    JudgedColumn,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.atomic_files import whole_file
from llama_index_rag_metrics.runtime.errors import IdTypeMismatch, InvalidInput
from llama_index_rag_metrics.runtime.progress import byte_progress
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scoring.batches import (
    Failed,
    Metrics,
    NoRelevant,
    ScoredBatch,
    ScoringOptions,
    collect,
    no_common_query,
    ranking_metrics,
)
from llama_index_rag_metrics.scores.scoring.score_tables import (
    ERROR,
    check_columns,
    judge_part,
    parts,
    score_part,
    to_polars,
    workers,
)
from llama_index_rag_metrics.scores.scoring.totals import ScoreTotals

if TYPE_CHECKING:
    import polars as pl

    from llama_index_rag_metrics.files.runs.stored_runs import Columns

    Part: TypeAlias = tuple[pl.DataFrame, ScoredBatch]
    """The scores of some queries: as `score_table` returns them, and as arrays."""


class JudgementColumns:
    """Qrels as columns, to be joined to rankings; a row a query, as `_table` makes them."""

    def __init__(
        self, table: pl.DataFrame, metadata: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.metadata = metadata or {}
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
        judged = read_qrels(qrels, on_error=on_error)
        return cls(_table(judged), judged.metadata)

    def join(self, tables: Iterable[Columns], run: Path) -> Iterator[pl.DataFrame]:
        """Rankings with the judgements of their queries; at the end, queries without rankings."""
        import polars as pl

        is_seen = np.zeros(len(self._position), np.bool_)
        a_query, table = None, pl.DataFrame()
        for rankings in tables:
            table = _with_text_ids(to_polars(rankings))
            query_ids = table[QUERY_ID].to_list()
            positions = [self._position.get(query_id) for query_id in query_ids]
            is_seen[[position for position in positions if position is not None]] = True
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
    numbers = pl.List(pl.Float64)
    if not any(each.alternatives is not None for each in judged):
        ids = pl.Series(EXPECTED, [list(each.grades) for each in judged], pl.List(pl.String))
        grades = pl.Series(GRADES, [list(each.grades.values()) for each in judged], numbers)
        columns = [query_ids, ids, grades]
        if any(each.spans for each in judged):
            places = ([(each.spans or {}).get(item) for item in each.grades] for each in judged)
            columns.append(span_series(EXPECTED_SPANS, places))
        return pl.DataFrame(columns)
    if any(each.is_graded for each in judged):
        remedy = "Score such runs with score_rankings(qrels, read_run(path), metrics)."
        raise InvalidInput("qrels", "groups and grades", "groups or grades", remedy)
    groups = [[*map(list, each.alternatives or ([item] for item in each))] for each in judged]
    expected = pl.Series(EXPECTED, groups, pl.List(pl.List(pl.String)))
    nothing = pl.Series(GRADES, [None] * len(judged), numbers)
    weights = pl.Series(WEIGHTS, [each.weights for each in judged], numbers)
    return pl.DataFrame([query_ids, expected, nothing, weights])


def keep_all(
    parts: Iterable[Part],
    metric_names: Sequence[str],
    keep: Sequence[str],
    told: Mapping[str, Mapping[str, Any]],
) -> Scores:
    """All scores, in memory; metadata of the queries are those told and the columns to `keep`."""
    metadata = {query_id: dict(row) for query_id, row in told.items()}
    rankings: dict[str, str] = {}

    def batches() -> Iterator[tuple[Sequence[str], Any, ScoredBatch]]:
        for frame, scored in parts:
            ids = frame[QUERY_ID].to_list()
            if keep:
                for query_id, row in zip(ids, frame.select(keep).to_dicts(), strict=True):
                    metadata[query_id] = {**metadata.get(query_id, {}), **row}
            rankings.update(zip(ids, scored.digests, strict=True))
            yield ids, frame[ERROR] if ERROR in frame.columns else (), scored

    return collect(batches(), metric_names, metadata=metadata, rankings=rankings)


def total(parts: Iterable[Part], metric_names: Sequence[str], path: Path | None) -> ScoreTotals:
    """Means and counts; with a path, the scores of each query go to a Parquet file."""
    from pyarrow.parquet import ParquetWriter

    totals, writer = ScoreTotals.nothing(metric_names), None
    with ExitStack() as stack:
        partial = None if path is None else stack.enter_context(whole_file(path))
        for frame, scored in parts:
            totals += ScoreTotals.of(scored)
            if partial is not None:
                table = frame.to_arrow()
                writer = writer or stack.enter_context(ParquetWriter(partial, table.schema))
                writer.write_table(table)
    return replace(totals, path=path)


@overload
def score_files(
    run: str | PathLike[str],
    qrels: Any,
    metrics: Metrics,
    *,
    per_query: Literal[True] = True,
    no_relevant: NoRelevant = ...,
    failed: Failed = ...,
    max_retrieved: int | None = ...,
    judged_only: bool = ...,
    min_score: float | None = ...,
    keep: Sequence[str] = ...,
    on_error: OnError = ...,
    name: str = ...,
    show_progress: bool = ...,
) -> Scores: ...


@overload
def score_files(
    run: str | PathLike[str],
    qrels: Any,
    metrics: Metrics,
    *,
    per_query: Literal[False] | str | PathLike[str],
    no_relevant: NoRelevant = ...,
    failed: Failed = ...,
    max_retrieved: int | None = ...,
    judged_only: bool = ...,
    min_score: float | None = ...,
    keep: Sequence[str] = ...,
    on_error: OnError = ...,
    name: str = ...,
    show_progress: bool = ...,
) -> ScoreTotals: ...


def score_files(
    run: str | PathLike[str],
    qrels: Any,
    metrics: Metrics,
    *,
    per_query: bool | str | PathLike[str] = True,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    max_retrieved: int | None = None,
    judged_only: bool = False,
    min_score: float | None = None,
    keep: Sequence[str] = (),
    on_error: OnError = "raise",
    name: str = "",
    show_progress: bool = False,
) -> Scores | ScoreTotals:
    """Score a stored run, however large: TREC, Parquet and Arrow files are streamed.

    The numbers are those of `score_rankings`, to the last bit. A TREC run whose queries aren't
    contiguous is split into temporary files first, which take as much space as the run.

    Args:
        run: a path to a run in any format of `read_run`, or to a folder of Parquet files. Files of
            other formats than TREC, Parquet and Arrow are read whole.
        qrels: what `read_qrels` reads: a path, or a mapping; it has to fit into memory. None takes
            `expected_ids`, `grades` and `expected_spans` from the rows of the run.
        metrics: names, or metrics.
        per_query: whether the score of each query is kept, in memory; or a path to a Parquet file
            that they are streamed to, with the columns of `score_table`.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            of the means and count it, score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        max_retrieved: how many items of each ranking count, best first; None: all.
        judged_only: only items with a judgement count, and the ranks close up, as in Sakai's
            condensed lists: for judgements with holes.
        min_score: only passages that the retriever gave at least this score count, as behind
            LlamaIndex's SimilarityPostprocessor; their ranks close up.
        keep: further columns of a Parquet or Arrow file to keep, such as a language: as metadata,
            for `Scores.slices`, or as columns of the file that scores are streamed to.
        on_error: "raise" ends at the first line that can't be read; "skip" leaves such lines out
            and warns of them.
        name: what to call the run; by default the tag of a TREC run, or the file's name.
        show_progress: whether to show a progress bar on standard error.

    Returns:
        The scores; or, where they aren't kept in memory, their means and counts.

    Raises:
        FileFormatError: a line can't be read; says where and why.
        FileNotFoundError: there is no such file.
        InvalidInput: an argument can't be used, run and qrels have no query in common, or the run
            holds calls and a metric is of calls: `score_rankings` reads them.
        MissingExtra: polars and pyarrow aren't installed.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = Path(folder, "bm25.run")
        ...     _ = run.write_text("q1 Q0 d2 1 9.5 bm25\\nq1 Q0 d1 2 8.1 bm25\\n")
        ...     scores = score_files(run, {"q1": {"d1": 2}}, ["mrr", "recall@1"])
        >>> scores
        <Scores bm25: 1 question; mrr: 0.5000, recall@1: 0.0000>
    """
    options = ScoringOptions(no_relevant, failed, Selection(max_retrieved, judged_only, min_score))
    chosen = ranking_metrics(metrics)
    measured = [field for column in options.columns(chosen) for field in column.fields]
    source = StoredRun(Path(run), on_error, keep, measured)
    names = [metric.metric_name for metric in chosen]
    target = None if isinstance(per_query, bool) else Path(per_query)
    if target is not None:
        if source.holds(target):
            other = f"a file other than the run {source.path}"
            expected = f"{other}, which it would overwrite or become part of"
            raise InvalidInput("per_query", str(target), expected)
        check_columns(keep, keep, names)
    judgements = None
    if qrels is not None or not source.holds_relevance:
        judged = source.path if qrels is None else qrels
        judgements = JudgementColumns.read(judged, on_error)
    score = partial(_score_stored, source, chosen, options, keep, per_query is True)
    with byte_progress(f"scoring {source.path.name}", source.size, show=show_progress) as on_read:
        for parted in (False, True):
            tables = source.tables(on_read, parted=parted)
            joined = tables if judgements is None else judgements.join(tables, source.path)
            parts = _score(joined, score)
            with suppress(Scattered):
                if per_query is True:
                    told = {} if judgements is None else judgements.metadata
                    scores = keep_all(parts, names, keep, told)
                    return scores.replace(name=name or source.name, **asdict(options.selection))
                return replace(total(parts, names, target), name=name or source.name)
    raise AssertionError("a run that was parted is contiguous")


def _score_stored(
    source: StoredRun,
    metrics: Sequence[RankingMetric],
    options: ScoringOptions,
    keep: Sequence[str],
    keep_digests: bool,
    part: Columns,
) -> Part:
    """`score_part`, with errors that say where in the run they are."""
    try:
        return score_part(part, metrics, options, keep, keep_digests=keep_digests)
    except (InvalidInput, IdTypeMismatch):
        columns = options.columns(metrics)
        if (misfit := _misfit(part, columns)) is None:
            raise  # the options say that this is an error
    if isinstance(misfit, IdTypeMismatch):
        expected = "ids of one type on both sides"
        raise source.place_of(None).wrong(expected, misfit.types) from misfit
    is_of_table, query_id = misfit.argument == "table", None
    expected = misfit.expected if is_of_table else f"{misfit.argument} to be {misfit.expected}"
    if _misfit(part[:0], columns) is None:
        sizes = range(1, len(part))
        first = bisect_left(sizes, True, key=lambda n: _misfit(part[:n], columns) is not None)
        query_id = str(part[QUERY_ID][first])
    raise source.place_of(query_id).wrong(expected, misfit.value) from misfit


def _misfit(
    part: Columns, columns: Sequence[type[JudgedColumn]]
) -> InvalidInput | IdTypeMismatch | None:
    """Why a part can't be judged; None where it can."""
    try:
        judge_part(part, columns)
    except (InvalidInput, IdTypeMismatch) as error:
        return error
    return None


def _score(tables: Iterable[Columns], score: Callable[[Columns], Part]) -> Iterator[Part]:
    """The scores of tables, a few at a time in as many threads, in order."""
    with ThreadPoolExecutor(workers()) as pool:
        waiting: deque[Future[Part]] = deque()
        for table in tables:
            for part in parts(table):
                waiting.append(pool.submit(score, part))
                if len(waiting) > 2 * workers():
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
