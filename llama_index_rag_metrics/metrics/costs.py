"""What a ranking costs, whatever its quality."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from llama_index_rag_metrics.judging import FloatArray, JudgedRankings
from llama_index_rag_metrics.metrics.base import CutMetric, RankingMetric


class Tokens(CutMetric, RankingMetric):
    """The tokens of what was retrieved, which a model has to read; @k: of the first k items.

    Unbounded, and no measure of quality: less is cheaper. Copies of an item cost nothing.

    Examples:
        >>> texts = ["one two", "three"]
        >>> Tokens(k=1).compute(retrieved_ids=["a", "b"], retrieved_texts=texts).score
        2.0
    """

    name = "tokens"
    bounds = (0.0, float("inf"))
    needs_relevance: ClassVar[bool] = False
    recognises: ClassVar[bool] = False
    lower_is_better: ClassVar[bool] = True

    @property
    def needs_tokens(self) -> bool:
        return True

    def _score(self, judged: JudgedRankings) -> FloatArray:
        return judged.tokens_at(self.cutoff).astype(np.float64)
