"""What a ranking costs, whatever its quality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from llama_index_rag_metrics.metrics.base import (
    CutMetric,
    LabelFreeMetric,
    RankingMetric,
    ThresholdMetric,
)
from llama_index_rag_metrics.rankings.judging.columns import JudgedCalls, calls_in
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray, ratio

__all__ = ["Calls", "NewRelevant", "RepeatedCalls", "Tokens", "WastedCalls"]


class Tokens(CutMetric, LabelFreeMetric):
    """The tokens of what was retrieved, which a model has to read; @k: of the first k passages.

    Unbounded, and no measure of quality: less is cheaper. Copies of an item cost nothing.

    Examples:
        >>> texts = ["one two", "three"]
        >>> Tokens(k=1).compute(retrieved_ids=["a", "b"], retrieved_texts=texts).score
        2.0
    """

    name = "tokens"
    bounds = (0.0, float("inf"))
    reads = frozenset({"tokens"})

    def _score(self, judged: JudgedRankings) -> FloatArray:
        return judged.tokens_at(self.cutoff).astype(np.float64)


class CallMetric(RankingMetric):
    """A metric of the calls of a question; a ranking without calls is one call."""

    reads = frozenset({"calls"})


def _mean(calls: JudgedCalls, values: IntArray | BoolArray) -> FloatArray:
    """(queries,) the mean of a value over a question's calls."""
    return ratio(np.bincount(calls.query, values, len(calls.judged)), calls.count)


class Calls(LabelFreeMetric, CallMetric):
    """The retrievals that were made for a question. Less is cheaper.

    Unbounded, and no measure of quality; a question for which none was made has 0.

    Examples:
        >>> Calls().compute(retrieved_ids=["a", "b"]).score
        1.0
    """

    name = "calls"
    bounds = (0.0, float("inf"))

    def _score(self, judged: JudgedRankings) -> FloatArray:
        return calls_in(judged).count.astype(np.float64)


class RepeatedCalls(LabelFreeMetric, CallMetric):
    """The share of a question's calls that ask what an earlier one has asked. Less is better.

    Two different retrievers may be asked the same; where these aren't known, two different tools.
    Case and white space don't matter. 0 where there is no call.

    Examples:
        >>> RepeatedCalls().compute(retrieved_ids=["a", "b"]).score
        0.0
    """

    name = "repeated_calls"

    def _score(self, judged: JudgedRankings) -> FloatArray:
        calls = calls_in(judged)
        return _mean(calls, calls.is_repeated)


class NewRelevant(ThresholdMetric, CallMetric):
    """The relevant passages that a call is the first to bring: mean over a question's calls.

    Unbounded; 0 where there is no call.

    Examples:
        >>> NewRelevant().compute(expected_ids=["a", "b"], retrieved_ids=["a", "x", "b"]).score
        2.0
    """

    name = "new_relevant"
    bounds = (0.0, float("inf"))

    def _score(self, judged: JudgedRankings) -> FloatArray:
        calls = calls_in(judged)
        return _mean(calls, calls.new_relevant(self.min_grade))

    def details(self, judged: JudgedRankings) -> Sequence[dict[str, Any]]:
        """What each call brought, by query."""
        calls = calls_in(judged)
        rows: list[dict[str, Any]] = [{"by_call": []} for _ in range(len(judged))]
        new = calls.new_relevant(self.min_grade)
        for query, n_new in zip(calls.query.tolist(), new.tolist(), strict=True):
            rows[query]["by_call"].append(n_new)
        return rows


class WastedCalls(ThresholdMetric, CallMetric):
    """The share of a question's calls that bring no new relevant passage. Less is better.

    0 where there is no call.

    Examples:
        >>> WastedCalls().compute(expected_ids=["a"], retrieved_ids=["x", "y"]).score
        1.0
    """

    name = "wasted_calls"
    lower_is_better: ClassVar[bool] = True

    def _score(self, judged: JudgedRankings) -> FloatArray:
        calls = calls_in(judged)
        return _mean(calls, calls.new_relevant(self.min_grade) == 0)
