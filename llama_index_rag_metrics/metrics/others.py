"""What trec_eval, BEIR, Azure and ndeval have beside the usual metrics, equal to their code."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from llama_index_rag_metrics.metrics.base import (
    BinaryMetric,
    GainMetric,
    NamedMetric,
    WholeRankingMetric,
)
from llama_index_rag_metrics.metrics.gains import (
    HIGHEST_EXPONENT,
    check_grades,
    discounted,
    discounted_gain,
)
from llama_index_rag_metrics.metrics.groups import NoveltyMetric, ideal_ranking, over_perfect
from llama_index_rag_metrics.metrics.sets import JudgedItemsMetric, check_corpus_size
from llama_index_rag_metrics.rankings.judging.judged import (
    GroupHits,
    Hits,
    Ranked,
    grades_best_first,
)
from llama_index_rag_metrics.runtime.arrays import FloatArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput

Rounding: TypeAlias = Literal["up", "nearest"]

_LEVELS = ":".join(f"{tenth / 10}" for tenth in range(11))


class RetrievedCount(WholeRankingMetric):
    """How many distinct passages were retrieved (trec_eval num_ret)."""

    name = "num_ret"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        return hits.depth.astype(np.float64)


class RelevantCount(WholeRankingMetric):
    """How many passages are relevant, retrieved or not (trec_eval num_rel)."""

    name = "num_rel"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        return hits.n_relevant.astype(np.float64)


class HitCount(BinaryMetric):
    """How many relevant passages are within rank k (trec_eval num_rel_ret, ranx hits)."""

    name = "num_rel_ret"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        return hits.count.astype(np.float64)


class NonrelevantCount(WholeRankingMetric):
    """How many passages judged not relevant were retrieved (trec_eval num_nonrel_judged_ret)."""

    name = "num_nonrel_judged_ret"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        judged = hits.judged.at(None, 0.0)
        return (judged.count - hits.count).astype(np.float64)


class InterpolatedPrecision(WholeRankingMetric):
    """The highest precision at any rank by which a share of the relevant passages was found.

    trec_eval's iprec_at_recall; 0 where fewer items were retrieved than the share stands for. That
    is ⌊recall · R + 0.9⌋ hits ("up", trec_eval up to version 9) or ⌊recall · R + 0.5⌋ ("nearest").
    """

    name = "iprec_at_recall"
    recall: float = Field(ge=0, le=1, description="a share of the relevant passages")
    rounding: Rounding = Field(default="up", description="how the share is rounded: up or nearest")

    def score(self, hits: Hits) -> FloatArray:
        return interpolated(hits, self.recall, self.rounding)


class ElevenPointAverage(WholeRankingMetric):
    """The mean of the interpolated precision at recall 0, 0.1, …, 1 (trec_eval 11pt_avg)."""

    name = "eleven_point_average"
    levels: str = Field(
        default=_LEVELS, description="levels of recall, ascending, as in 0.2:0.5:0.8"
    )
    rounding: Rounding = Field(default="up", description="how a level is rounded: up or nearest")

    @field_validator("levels")
    @classmethod
    def _ascending(cls, levels: str) -> str:
        numbers = _numbers(levels)
        if not numbers or numbers != sorted(numbers) or not 0 <= numbers[0] <= numbers[-1] <= 1:
            raise InvalidInput("levels", levels, "ascending numbers from 0 to 1, as in 0.2:0.5:0.8")
        return levels

    def score(self, hits: Hits) -> FloatArray:
        levels = _numbers(self.levels)
        total = np.zeros(hits.n_queries)
        for level in reversed(levels):  # trec_eval adds from the end
            total += interpolated(hits, level, self.rounding)
        return total / len(levels)


class SetAP(WholeRankingMetric):
    """Precision times recall of all that was retrieved: hits² / (n · R) (trec_eval set_map)."""

    name = "set_map"

    def score(self, hits: Hits) -> FloatArray:
        count, n_relevant = hits.count.astype(np.float64), hits.n_relevant.astype(np.float64)
        return ratio(count * count, hits.depth * n_relevant)


class RelativePrecision(BinaryMetric):
    """Precision over the best that was possible: hits / min(n, R), @k: hits within k / min(k, R).

    trec_eval's set_relative_P, and with a cutoff relative_P_k.
    """

    name = "relative_precision"

    def score(self, hits: Hits) -> FloatArray:
        return ratio(hits.count, np.minimum(hits.length, hits.n_relevant))


class PrecisionAtMultiple(WholeRankingMetric):
    """Precision at rank ⌊multiple · R + 0.9⌋ (trec_eval Rprec_mult)."""

    name = "r_precision_multiple"
    multiple: float = Field(gt=0, allow_inf_nan=False, description="of R")

    def score(self, hits: Hits) -> FloatArray:
        rank = np.floor(self.multiple * hits.n_relevant + 0.9)
        return ratio(hits.sum_by_query(hits.rank <= rank[hits.query]), rank)


class BinaryG(WholeRankingMetric):
    """Σ over hits of 1 / log2(2 + non-relevant passages above), over R (trec_eval binG)."""

    name = "bin_g"

    def score(self, hits: Hits) -> FloatArray:
        above = hits.rank - hits.ordinal
        return ratio(hits.sum_by_query(1 / np.log2(2 + above)), hits.n_relevant)


class Utility(WholeRankingMetric):
    """Passages counted with four weights (trec_eval utility): relevant ones retrieved, others
    retrieved, relevant ones missed, others not retrieved.

    By default relevant passages retrieved less others retrieved. The fourth weight needs
    `corpus_size`, trec_eval's -N.
    """

    name = "utility"
    bounds = (-math.inf, math.inf)
    weights: str = Field(default="1:-1:0:0", description="four numbers, as in 1:-0.5:-1:0")
    corpus_size: int | None = Field(
        default=None, gt=0, strict=True, description="passages in the corpus"
    )

    @model_validator(mode="after")
    def _can_be_counted(self) -> Self:
        if self._numbers()[3] and self.corpus_size is None:
            expected = "the size of the corpus, for the fourth weight"
            remedy = f"Write utility(weights={self.weights}, corpus_size=...)."
            raise InvalidInput("corpus_size", None, expected, remedy)
        return self

    def _numbers(self) -> list[float]:
        numbers = _numbers(self.weights)
        if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
            raise InvalidInput("weights", self.weights, "four numbers, as in 1:-0.5:-1:0")
        return numbers

    def score(self, hits: Hits) -> FloatArray:
        found, others, missed, rest = self._numbers()
        n_others = hits.depth - hits.count
        total = found * hits.count + others * n_others + missed * (hits.n_relevant - hits.count)
        if self.corpus_size is not None:
            check_corpus_size(hits.judged, self.corpus_size)
            total = total + rest * (self.corpus_size - n_others - hits.n_relevant)
        return np.asarray(total, np.float64)


class Unjudged(JudgedItemsMetric):
    """How many of the first k passages have no label, over k (trec_eval 10 unj); without k, over n.

    Missing ranks count as judged. An item with a negative grade isn't judged.
    """

    name = "unjudged"
    needs_relevance: ClassVar[bool] = False

    def score(self, hits: Hits) -> FloatArray:
        return ratio(hits.depth - hits.count, hits.length)


class GradedRBP(GainMetric):
    """Rank-biased precision of graded relevance: (1 - p) Σ gain · p^(rank - 1) (trec_eval 10 rbp).

    The gain is the grade, over the query's highest judged grade where that is above 1. Moffat and
    Zobel, "Rank-biased precision for measurement of retrieval effectiveness", TOIS 27(1), 2008.
    """

    name = "graded_rbp"
    p: float = Field(default=0.9, gt=0, lt=1, description="the reader's persistence")

    def score(self, hits: Hits) -> FloatArray:
        judged = hits.judged
        highest = np.ones(hits.n_queries)
        np.maximum.at(highest, judged.judged_query, judged.judged_grade)
        gain = hits.grade / highest[hits.query]
        return (1 - self.p) * hits.sum_by_query(gain * np.power(self.p, hits.rank - 1))


class RBPResidual(JudgedItemsMetric):
    """The most that rank-biased precision could rise (trec_eval 10 rbp_resid).

    It would rise by this if every item without a judgement, at any rank, were relevant:
    1 - (1 - p) Σ p^(rank - 1) over the judged items. trec_eval has 0 where all items are judged.
    """

    name = "rbp_residual"
    needs_relevance: ClassVar[bool] = False
    p: float = Field(default=0.9, gt=0, lt=1, description="the reader's persistence")

    def score(self, hits: Hits) -> FloatArray:
        known = (1 - self.p) * hits.sum_by_query(np.power(self.p, hits.rank - 1))
        return np.where(hits.count < hits.depth, 1 - known, 0.0)


class MappedNDCG(JudgedItemsMetric):
    """nDCG with your own gains for some grades (trec_eval ndcg.1=3,2=9).

    A grade that isn't named is its own gain; grade 0 may have a gain. The ideal ranking has
    all judged items with a gain above 0.
    """

    name = "mapped_ndcg"
    gains: str = Field(description="whole grades and their gains, as in 1:3;2:9")

    @field_validator("gains")
    @classmethod
    def _pairs(cls, gains: str) -> str:
        try:
            pairs = _gain_pairs(gains)
        except ValueError:
            pairs = {}
        if not pairs or any(grade < 0 or grade % 1 for grade in pairs):
            raise InvalidInput("gains", gains, "whole grades from 0 on and gains, as in 1:3;2:9")
        return gains

    def score(self, hits: Hits) -> FloatArray:
        judged = hits.judged
        is_judged = judged.judged_grade >= 0
        query = judged.judged_query[is_judged]
        counts = np.bincount(query, minlength=hits.n_queries)
        best = grades_best_first(self._mapped(judged.judged_grade[is_judged]), counts)
        ideal = Ranked(hits.n_queries, query, np.empty(0, np.int64), best)
        ideal.rank = ideal.ordinal
        counted = best > 0
        if hits.cutoff is not None:
            counted &= ideal.rank <= np.broadcast_to(hits.cutoff, hits.n_queries)[query]
        ideal = Ranked(hits.n_queries, query[counted], ideal.rank[counted], best[counted])
        ranked = Ranked(hits.n_queries, hits.query, hits.rank, self._mapped(hits.grade))
        return ratio(discounted_gain(ranked, "linear"), discounted_gain(ideal, "linear"))

    def _mapped(self, grade: FloatArray) -> FloatArray:
        gain: FloatArray = grade.copy()
        for of_grade, mapped in _gain_pairs(self.gains).items():
            gain[grade == of_grade] = mapped
        return gain


def interpolated(hits: Hits, recall: float, rounding: Rounding = "up") -> FloatArray:
    """(queries,) the highest precision at any rank with this recall or more."""
    wanted = np.floor(recall * hits.n_relevant + (0.9 if rounding == "up" else 0.5))
    counted = hits.ordinal >= wanted[hits.query]
    best = np.zeros(hits.n_queries)
    np.maximum.at(best, hits.query[counted], (hits.ordinal / hits.rank)[counted])
    return best


def _numbers(text: str) -> list[float]:
    """The numbers between colons; none where one isn't a number."""
    try:
        return list(map(float, text.split(":")))
    except ValueError:
        return []


def _gain_pairs(text: str) -> dict[float, float]:
    pairs = (pair.split(":") for pair in text.split(";"))
    return {float(grade): float(gain) for grade, gain in pairs}


_FACTOR = 0.6


class XDCG(GainMetric):
    """25 times the weighted mean of the first k grades, with weights 0.6^(rank - 1) (Azure's xdcg).

    From 0 to 100 where the highest grade is 4. Missing ranks have grade 0; no ideal ranking enters.
    """

    name = "xdcg"
    bounds = (0.0, math.inf)

    def score(self, hits: Hits) -> FloatArray:
        whole = (1 - np.power(_FACTOR, hits.length)) / (1 - _FACTOR)
        return 25 * ratio(hits.sum_by_query(hits.grade * np.power(_FACTOR, hits.rank - 1)), whole)


class Fidelity(GainMetric):
    """Recall weighed by grade: Σ 2^(grade + 1) - 1 of what was retrieved, over that of what is
    labelled (Azure's fidelity). Grade 0 has no weight.
    """

    name = "fidelity"

    def score(self, hits: Hits) -> FloatArray:
        check_grades(hits, HIGHEST_EXPONENT, "Use a smaller scale.")
        judged = hits.judged
        weight = np.where(judged.judged_grade > 0, np.exp2(judged.judged_grade + 1) - 1, 0.0)
        known = np.bincount(judged.judged_query, weight, hits.n_queries)
        return ratio(hits.sum_by_query(np.exp2(hits.grade + 1) - 1), known)


class AlphaDCG(NoveltyMetric):
    """Discounted novelty gain over that of a ranking in which each passage supplies every facet.

    ndeval's alpha-DCG, which at rank 1 doesn't divide. `alpha_ndcg` divides by what there is.
    """

    name = "alpha_dcg"

    def score(self, groups: GroupHits) -> FloatArray:
        gained = discounted(groups, self.gain(groups))
        return over_perfect(gained, groups, self.alpha, lambda rank: np.log2(rank + 1))


class NERRIA(NoveltyMetric):
    """ERR-IA over that of the greedily chosen ideal ranking of `alpha_ndcg` (ndeval's nERR-IA).

    A ranking that beats the greedy ideal has 1 here, and more than 1 in ndeval.
    """

    name = "nerr_ia"

    def score(self, groups: GroupHits) -> FloatArray:
        ideal = ideal_ranking(groups, self.alpha, self.min_grade)
        gained = groups.sum_by_query(self.gain(groups) / groups.rank)
        return ratio(gained, ideal.sum_by_query(ideal.grade / ideal.rank))


# all that are defined here, in this order
CLASSES: tuple[type[NamedMetric], ...] = tuple(
    value
    for value in [*globals().values()]
    if isinstance(value, type) and issubclass(value, NamedMetric) and value.__module__ == __name__
)
