"""How the rest could be judged: samples of grades, each scored by the metric itself."""

from __future__ import annotations

import numpy as np

from llama_index_rag_metrics.judging import FloatArray, JudgedRankings
from llama_index_rag_metrics.judging.columns import best_first
from llama_index_rag_metrics.labels.pooling.items import PoolItems
from llama_index_rag_metrics.metrics import RankingMetric


def scores_if(metric: RankingMetric, items: PoolItems, grades: FloatArray) -> FloatArray:
    """(samples, queries, systems) the scores if items were judged as given.

    Args:
        metric: the metric.
        items: the items.
        grades: (samples, items) the grade of every item.
    """
    n_samples, n_queries = len(grades), len(items.query_ids)
    counts = np.bincount(items.query, minlength=n_queries)
    judged_grade = best_first(grades.ravel(), np.tile(counts, n_samples))
    judged_offset = np.concatenate([[0], np.cumsum(np.tile(counts, n_samples))])
    shift = np.arange(n_samples)[:, None] * n_queries
    scores = np.empty((n_samples, n_queries, items.rank.shape[1]))
    for system, rank in enumerate(items.rank.T):
        retrieved = np.flatnonzero(rank)
        retrieved = retrieved[np.lexsort((rank[retrieved], items.query[retrieved]))]
        judged = JudgedRankings(
            depth=np.tile(items.depth[:, system], n_samples),
            item_query=(items.query[retrieved] + shift).ravel(),
            item_rank=np.tile(rank[retrieved], n_samples),
            item_grade=grades[:, retrieved].ravel(),
            judged_grade=judged_grade,
            judged_offset=judged_offset,
        )
        scores[:, :, system] = metric.score_queries(judged).reshape(n_samples, n_queries)
    return scores
