"""What comes back for questions that have no answer: judged, and nothing is relevant."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from llama_index_rag_metrics.metrics.base import CutMetric, RankingMetric
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.runtime.arrays import FloatArray

__all__ = ["Abstained", "Returned"]


class UnanswerableMetric(RankingMetric):
    """A metric of the questions without an answer; all others are left out of its mean."""

    recognises: ClassVar[bool] = False
    in_groups: ClassVar[bool] = True
    of_unanswerable: ClassVar[bool] = True


class Abstained(UnanswerableMetric):
    """1 if nothing was returned for a question that has no answer, else 0.

    Other questions are left out. A question on which the retriever failed has 0: a failure doesn't
    show that it would have abstained.

    Examples:
        >>> Abstained().compute(expected_ids=[], retrieved_ids=["a"]).score
        0.0
    """

    name = "abstained"

    def _score(self, judged: JudgedRankings) -> FloatArray:
        return np.asarray(judged.depth == 0, np.float64)


class Returned(CutMetric, UnanswerableMetric):
    """The passages that were returned for a question that has no answer; @k: of the first k.

    Unbounded; less is better. Copies of a passage count once. Other questions are left out, and
    those on which the retriever failed.

    Examples:
        >>> Returned(k=5).compute(expected_ids=[], retrieved_ids=["a", "b", "a"]).score
        2.0
    """

    name = "returned"
    bounds = (0.0, float("inf"))
    lower_is_better: ClassVar[bool] = True

    def _score(self, judged: JudgedRankings) -> FloatArray:
        return judged.at(self.cutoff).depth.astype(np.float64)
