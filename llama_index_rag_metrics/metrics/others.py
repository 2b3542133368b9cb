"""What BEIR, Azure and ndeval have beside the usual metrics, equal to their code."""

from __future__ import annotations

import math

import numpy as np

from llama_index_rag_metrics.metrics.base import GainMetric, NamedMetric
from llama_index_rag_metrics.metrics.gains import HIGHEST_EXPONENT, check_grades, discounted
from llama_index_rag_metrics.metrics.groups import NoveltyMetric, ideal_ranking, over_perfect
from llama_index_rag_metrics.rankings.judging.judged import GroupHits, Hits
from llama_index_rag_metrics.runtime.arrays import FloatArray, ratio

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


CLASSES: tuple[type[NamedMetric], ...] = (XDCG, Fidelity, AlphaDCG, NERRIA)
