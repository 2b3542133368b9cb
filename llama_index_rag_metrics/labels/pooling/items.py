"""What could be judged: every item that a system retrieved where a metric sees it, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from llama_index_rag_metrics.judging import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Run


@dataclass(frozen=True, eq=False)
class PoolItems:
    """The items of all questions, those of a question together.

    Attributes:
        query_ids: the questions.
        ids: (items,) the id of each item; of what was retrieved by nobody, too, where it was
            judged: relevant items that nobody found count in recall.
        query: (items,) position of each item's question.
        rank: (items, systems) its rank by each system; 0 where that didn't retrieve it in sight.
        depth: (queries, systems) how many distinct items each system retrieved.
        grade: (items,) its grade; NaN where it is unjudged.
    """

    query_ids: Sequence[str]
    ids: Sequence[str]
    query: IntArray
    rank: IntArray
    depth: IntArray
    grade: FloatArray

    @classmethod
    def of(
        cls,
        runs: Sequence[Run],
        query_ids: Sequence[str],
        judgements: Mapping[str, Relevance],
        depth: int | None,
    ) -> PoolItems:
        """The items of some runs.

        Args:
            runs: the systems.
            query_ids: the questions.
            judgements: what was judged. Negative grades mean unjudged, as everywhere.
            depth: how much of each ranking is in sight; None for all of it.
        """
        ids: list[str] = []
        query: list[int] = []
        rank: list[list[int]] = []
        depths = np.zeros((len(query_ids), len(runs)), np.int64)
        grade: list[float] = []
        for position, query_id in enumerate(query_ids):
            rankings = [
                list(dict.fromkeys(run[query_id].ids)) if query_id in run else [] for run in runs
            ]
            depths[position] = [len(ranking) for ranking in rankings]
            in_sight = [ranking[:depth] for ranking in rankings]
            places = [{item: n for n, item in enumerate(ranking, 1)} for ranking in in_sight]
            grades = judgements.get(query_id, Relevance()).grades
            seen = dict.fromkeys(chain.from_iterable(in_sight))
            own = [*seen, *(item for item in grades if item not in seen)]
            ids += own
            query += [position] * len(own)
            rank += [[place.get(item, 0) for place in places] for item in own]
            known = (grades.get(item, -1.0) for item in own)
            grade += [item_grade if item_grade >= 0 else np.nan for item_grade in known]
        return cls(
            query_ids,
            ids,
            np.array(query, np.int64),
            np.array(rank, np.int64).reshape(-1, len(runs)),
            depths,
            np.array(grade, np.float64),
        )

    @property
    def unjudged(self) -> BoolArray:
        """(items,) whether an item is in sight and has no judgement."""
        return np.asarray(np.isnan(self.grade) & (self.rank > 0).any(axis=1), np.bool_)

    @property
    def tells_rates(self) -> bool:
        """Whether items in sight were judged relevant and others not, so that rates can be learned.

        Labels that list relevant items alone don't tell how many others were looked at.
        """
        grade = self.grade[(self.rank > 0).any(axis=1)]
        return bool((grade > 0).any() and (grade == 0).any())

    @property
    def known(self) -> FloatArray:
        """(items,) the grades, 0 for what is unjudged."""
        return np.nan_to_num(self.grade, nan=0.0)
