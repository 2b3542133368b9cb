"""Where the scores of a stream of queries go: into memory, into a Parquet file, or into sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from llama_index_rag_metrics.judging import QUERY_ID, FloatArray
from llama_index_rag_metrics.scores import Counts, Reason, Scores
from llama_index_rag_metrics.scoring.batches import REASONS, ScoredBatch
from llama_index_rag_metrics.scoring.remarks import Remarks
from llama_index_rag_metrics.scoring.totals import ScoreTotals
from llama_index_rag_metrics.writing import whole_file

if TYPE_CHECKING:
    import polars as pl

    Part: TypeAlias = tuple[pl.DataFrame, ScoredBatch]
    """The scores of some queries: as `score_table` returns them, and as arrays."""


def keep_all(parts: Iterable[Part], metric_names: Sequence[str], metadata: Sequence[str]) -> Scores:
    """All scores, in memory; columns of `metadata` become that of the queries."""
    query_ids: list[str] = []
    columns: dict[str, list[FloatArray]] = {metric: [] for metric in metric_names}
    excluded: dict[str, Reason] = {}
    failed: dict[str, str] = {}
    empty: list[str] = []
    no_relevant: list[str] = []
    rows: dict[str, dict[str, Any]] = {}
    own: dict[str, dict[str, float]] = {}
    rankings: dict[str, str] = {}
    counts, remarks = Counts(), Remarks()
    for frame, scored in parts:
        ids = frame[QUERY_ID].to_list()
        query_ids += compress(ids, scored.is_scored)
        for metric, column in scored.columns.items():
            if metric in scored.own:
                known = compress(zip(ids, column.tolist(), strict=True), scored.own[metric])
                own.setdefault(metric, {}).update(known)
            else:
                columns[metric].append(column[scored.is_scored])
        for row in np.flatnonzero(~scored.is_scored).tolist():
            excluded[ids[row]] = cast(Reason, REASONS[scored.reason[row]])
        for row in np.flatnonzero(scored.is_failed).tolist():
            failed[ids[row]] = frame["error"][row]
        empty += compress(ids, scored.is_empty)
        no_relevant += compress(ids, scored.has_no_relevant)
        if metadata:
            rows |= zip(ids, frame.select(metadata).to_dicts(), strict=True)
        rankings |= zip(ids, scored.digests, strict=True)
        counts += scored.counts
        remarks += scored.remarks
    nothing = np.array([], np.float64)
    scores = Scores(
        query_ids,
        {
            metric: np.concatenate([nothing, *some])
            for metric, some in columns.items()
            if metric not in own
        },
        excluded=excluded,
        failed=failed,
        empty=empty,
        no_relevant=no_relevant,
        metadata=rows,
        rankings=rankings,
        notes=[*counts.notes, *remarks.notes()],
    )
    return scores.join(own, order=metric_names) if own else scores


def total(parts: Iterable[Part], metric_names: Sequence[str], path: Path | None) -> ScoreTotals:
    """Means and counts; the scores of each query go to a Parquet file where there is a path."""
    totals = ScoreTotals.nothing(metric_names)
    if path is None:
        for _, scored in parts:
            totals += ScoreTotals.of(scored)
        return totals
    from pyarrow.parquet import ParquetWriter

    writer = None
    with whole_file(path) as partial, ExitStack() as stack:
        for frame, scored in parts:
            table = frame.to_arrow()
            writer = writer or stack.enter_context(ParquetWriter(partial, table.schema))
            writer.write_table(table)
            totals += ScoreTotals.of(scored)
    return replace(totals, path=path)
