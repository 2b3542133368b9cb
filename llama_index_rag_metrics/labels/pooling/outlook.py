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
        grades: (samples, items) the grade of every item, from 0 on; what has 0 doesn't change the
            sums that these metrics are.
    """
    n_samples, n_queries = len(grades), len(items.query_ids)
    sample, place = divmod(np.flatnonzero(grades), len(items.ids) or 1)
    of_query = sample * n_queries + items.query[place]
    counts = np.bincount(of_query, minlength=n_samples * n_queries)
    judged_grade = best_first(grades[sample, place], counts)
    judged_offset = np.concatenate([[0], np.cumsum(counts)])
    scores = np.empty((n_samples, n_queries, items.rank.shape[1]))
    for system, rank in enumerate(items.rank.T):
        retrieved = np.flatnonzero(rank)
        retrieved = retrieved[np.lexsort((rank[retrieved], items.query[retrieved]))]
        of_system = grades[:, retrieved]
        sample, place = divmod(np.flatnonzero(of_system), len(retrieved) or 1)
        judged = JudgedRankings(
            depth=np.tile(items.depth[:, system], n_samples),
            item_query=sample * n_queries + items.query[retrieved][place],
            item_rank=rank[retrieved][place],
            item_grade=of_system[sample, place],
            judged_grade=judged_grade,
            judged_offset=judged_offset,
        )
        scores[:, :, system] = metric.score_queries(judged).reshape(n_samples, n_queries)
        judged.forget_views()
    return scores
