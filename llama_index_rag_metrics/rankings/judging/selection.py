"""Which of the retrieved items count, decided before any metric looks at them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, Ranked
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.arrays import IntArray


@dataclass(frozen=True)
class Selection:
    """The retrieved items that count.

    Attributes:
        max_retrieved: only this many of each ranking, from its first on (trec_eval -M); None: all.
        judged_only: of these only those with a grade of 0 or more; the ranks close up (trec_eval
            -J; Sakai's condensed lists).
    """

    max_retrieved: int | None = None
    judged_only: bool = False

    def __post_init__(self) -> None:
        if self.max_retrieved is not None:
            check_integer("max_retrieved", self.max_retrieved, 1, "at least 1, or None for all")

    def of(self, judged: JudgedRankings) -> JudgedRankings:
        """The rankings as if only the selected items had been retrieved."""
        if self == ALL_RETRIEVED:
            return judged
        kept = np.ones(len(judged.item_rank), np.bool_)
        depth = judged.depth
        if self.max_retrieved is not None:
            kept &= judged.item_rank <= self.max_retrieved
            depth = np.minimum(depth, self.max_retrieved)
        if self.judged_only:
            kept &= judged.item_grade >= 0
        items = Ranked(
            len(judged), judged.item_query[kept], judged.item_rank[kept], judged.item_grade[kept]
        )
        begin = np.cumsum(judged.depth) - judged.depth
        rank = self._ranks(judged, depth, begin, items)
        tokens = None if judged.tokens is None else judged.tokens[rank > 0]
        spans = {unit: places.reranked(rank, begin) for unit, places in judged.spans.items()}
        forbidden = None if judged.forbidden is None else judged.forbidden.reranked(rank, begin)
        in_pairs = kept[judged.pair_item]
        position = np.cumsum(kept) - 1
        return replace(
            judged,
            depth=items.count if self.judged_only else depth,
            item_query=items.query,
            item_rank=items.ordinal if self.judged_only else items.rank,
            item_grade=items.grade,
            pair_group=judged.pair_group[in_pairs],
            pair_item=position[judged.pair_item[in_pairs]],
            tokens=tokens,
            spans=spans,
            forbidden=forbidden,
        )

    def _ranks(
        self, judged: JudgedRankings, depth: IntArray, begin: IntArray, items: Ranked
    ) -> IntArray:
        """(retrieved,) the new rank of every retrieved item; 0 where it doesn't count."""
        if self.judged_only:
            rank = np.zeros(judged.depth.sum(), np.int64)
            rank[begin[items.query] + items.rank - 1] = items.ordinal
            return rank
        rank = np.arange(1, judged.depth.sum() + 1) - np.repeat(begin, judged.depth)
        return np.where(rank <= np.repeat(depth, judged.depth), rank, 0)


ALL_RETRIEVED = Selection()
