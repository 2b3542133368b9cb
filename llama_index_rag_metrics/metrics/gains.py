"""Metrics of graded relevance: the better the item, the larger its gain."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import Self

from llama_index_rag_metrics.rankings.judging.judged import Hits, Ranked
from llama_index_rag_metrics.runtime.containers import FloatArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .base import GainMetric

__all__ = ["DCG", "ERR", "NDCG"]

GainMode: TypeAlias = Literal["linear", "exponential"]

HIGHEST_EXPONENT = 64  # higher grades would leave no room for lower ones in a 64-bit float


class DCG(GainMetric):
    """Σ gain / log2(rank + 1), gain: the grade or 2^grade - 1 (Järvelin and Kekäläinen, TOIS 2002).

    >>> DCG(k=2).compute(expected_ids={"a": 3}, retrieved_ids=["a", "x"]).score
    3.0
    """

    name = "dcg"
    bounds = (0.0, float("inf"))
    mode: GainMode = Field(default="linear", description="linear or exponential gain")

    def score(self, hits: Hits) -> FloatArray:
        _check_mode(hits, self.mode)
        return discounted_gain(hits, self.mode)


class NDCG(GainMetric):
    """DCG / DCG of the best ranking; DCG is Σ gain / log2(rank + 1), the gain by default the grade.

    The ideal has the best min(k, R⁺) grades; without a cutoff as many as were retrieved, or with
    `ideal=all` all R⁺ (trec_eval ndcg), which doesn't reward cutting a list off.

    >>> ndcg = NDCG(mode="exponential", k=10)
    >>> round(ndcg.compute(expected_ids={"a": 3, "b": 1}, retrieved_ids=["b", "a"]).score, 4)
    0.7098
    """

    name = "ndcg"
    mode: GainMode = Field(default="linear", description="linear or exponential gain")
    ideal: Literal["all"] | None = Field(None, description="all: as long as all that is relevant")

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.cutoff is not None and self.ideal is not None:
            cutoff = f"k={self.k}" if self.tokens is None else f"tokens={self.tokens}"
            sentence = f"ideal can't be given with {cutoff}."
            raise InvalidInput("ideal", self.ideal, sentence=sentence, remedy="Drop one.")
        return self

    def score(self, hits: Hits) -> FloatArray:
        _check_mode(hits, self.mode)
        length = hits.judged.n_gaining if self.ideal == "all" else hits.length
        ideal = hits.judged.ideal(length)
        return ratio(discounted_gain(hits, self.mode), discounted_gain(ideal, self.mode))


class ERR(GainMetric):
    """Expected reciprocal rank: the expected 1 / rank of the passage that satisfies a reader.

    Σ 1/rank · stop · Π(1 - stop before), stop = (2^grade - 1) / 2^max_grade (Chapelle, CIKM 2009).

    >>> ERR(max_grade=1).compute(expected_ids=["a"], retrieved_ids=["x", "a"]).score
    0.25
    """

    name = "err"
    max_grade: float = Field(4.0, gt=0, le=HIGHEST_EXPONENT, description="top of the grade scale")

    def score(self, hits: Hits) -> FloatArray:
        _check_grades(hits, self.max_grade, "Raise the metric's max_grade.")
        stop = (np.exp2(hits.grade) - 1) / np.exp2(self.max_grade)
        going_on = np.ones(hits.n_queries)
        score = np.zeros(hits.n_queries)
        # every query's first item, then every second one
        order = np.argsort(hits.ordinal, kind="stable")
        for item in np.split(order, np.cumsum(np.bincount(hits.ordinal)[1:-1])):
            query = hits.query[item]
            score[query] += going_on[query] * stop[item] / hits.rank[item]
            going_on[query] *= 1 - stop[item]
        return score


def discounted_gain(items: Ranked, mode: GainMode) -> FloatArray:
    return discounted(items, items.grade if mode == "linear" else np.exp2(items.grade) - 1)


def discounted(items: Ranked, gain: FloatArray) -> FloatArray:
    return items.sum_by_query(gain / np.log2(items.rank + 1))


def _check_mode(hits: Hits, mode: GainMode) -> None:
    if mode == "exponential":
        _check_grades(hits, HIGHEST_EXPONENT, "Use mode='linear' or a smaller scale.")


def _check_grades(hits: Hits, highest: float, remedy: str) -> None:
    grade = hits.judged.judged_grade
    if grade.size and grade.max() > highest:
        raise InvalidInput("grade", float(grade.max()), f"at most {highest:g}", remedy)
