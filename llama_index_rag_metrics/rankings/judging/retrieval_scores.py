"""The retriever's scores of what it retrieved, as a flat array; thresholds are on these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.rankings.judging.hashes import as_lists, check_column
from llama_index_rag_metrics.rankings.judging.judged_column import (
    Batch,
    JudgedColumn,
    JudgedTable,
    first_of_each,
    ids_of,
    item_numbers,
)
from llama_index_rag_metrics.rankings.run import SCORED, UNSCORED, is_number
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

SCORES = "scores"


@dataclass(frozen=True, eq=False)
class RetrievalScores(JudgedColumn):
    """(retrieved,) the score of every distinct retrieved item, by query, then rank.

    A repeated item has that of its first rank.
    """

    name = SCORES
    argument = "retrieved_scores"
    fields = (SCORES,)
    values: FloatArray

    @classmethod
    def of_rankings(cls, batch: Batch) -> RetrievalScores:
        distinct: list[float] = []
        for query, ranking in enumerate(batch.rankings):
            if ids := ids_of(ranking):
                scores = getattr(ranking, SCORES, None)
                if scores is None or not all(map(is_number, scores)):
                    raise batch.sources.lacks(cls.name, query, scores, SCORED, UNSCORED)
                distinct.extend(first_of_each(ids, scores))
        return cls(np.array(distinct, np.float64))

    @classmethod
    def of_table(cls, table: JudgedTable) -> RetrievalScores:
        return cls(table.retrieved.kept(_read_scores(table.frame)))

    @classmethod
    def cells(cls, frame: pl.DataFrame) -> Mapping[str, Sequence[Any]]:
        _read_scores(frame)
        return {cls.name: [scores or [] for scores in as_lists(frame[SCORES]).to_list()]}

    def reranked(self, rank: IntArray, begin: IntArray) -> RetrievalScores:
        return RetrievalScores(self.values[rank > 0])


def _read_scores(frame: pl.DataFrame) -> FloatArray:
    """(retrieved,) the scores of every retrieved item, copies included."""
    check_column(frame, SCORES, ", the retriever's scores of the retrieved ids")
    scores = np.asarray(item_numbers(frame, SCORES).to_numpy(), np.float64)
    if np.isnan(scores).any():
        raise InvalidInput(f"column {SCORES}", math.nan, SCORED)
    return scores
