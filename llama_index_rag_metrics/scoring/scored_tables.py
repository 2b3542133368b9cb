"""Means and counts of what `score_table` returned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import QUERY_ID, IntArray
from llama_index_rag_metrics.scoring.batches import REASONS, ScoredBatch
from llama_index_rag_metrics.scoring.tables import (
    ERROR,
    EXCLUDED,
    N_RELEVANT,
    N_RETRIEVED,
    to_polars,
)
from llama_index_rag_metrics.scoring.totals import ScoreTotals

if TYPE_CHECKING:
    import polars as pl

    from llama_index_rag_metrics.scoring.tables import Table


def table_totals(scored: Table, *, name: str = "") -> ScoreTotals:
    """Means and counts of one table that `score_table` returned, or of several put together.

    Args:
        scored: a table that `score_table` returned.
        name: what to call the scored system in reports.

    Examples:
        >>> import pyarrow as pa
        >>> from llama_index_rag_metrics import score_table
        >>> table = pa.table({"retrieved_ids": [["a", "b"]] * 2, "expected_ids": [["b"], ["c"]]})
        >>> dict(table_totals(score_table(table, ["mrr", "recall"])).means)
        {'mrr': 0.25, 'recall': 0.5}
    """
    frame = to_polars(scored)
    lacking = [
        column for column in (EXCLUDED, N_RETRIEVED, N_RELEVANT) if column not in frame.columns
    ]
    if lacking:
        raise InvalidInput("scored", frame.columns, f"what score_table returned, with {lacking}")
    metrics = frame.columns[: frame.columns.index(EXCLUDED)]
    is_failed = frame[ERROR].is_not_null() if ERROR in frame.columns else [False] * len(frame)
    names = [column for column in metrics if column != QUERY_ID]
    reason = _codes(frame[EXCLUDED])
    known = {metric: frame[metric].is_not_null().to_numpy() for metric in names}
    batch = ScoredBatch(
        {metric: frame[metric].fill_null(float("nan")).to_numpy() for metric in names},
        reason,
        depth=frame[N_RETRIEVED].to_numpy(),
        n_relevant=frame[N_RELEVANT].to_numpy(),
        is_failed=np.asarray(is_failed, np.bool_),
        own={metric: has for metric, has in known.items() if not np.array_equal(has, reason == 0)},
    )
    return replace(ScoreTotals.of(batch), name=name)


def _codes(excluded: pl.Series) -> IntArray:
    reasons = list(REASONS[1:])
    codes = excluded.replace_strict(reasons, [*range(1, len(REASONS))], default=0)
    return np.asarray(codes.to_numpy(), np.int64)
