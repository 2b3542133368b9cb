"""How far two judges agree, item by item."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import check_options
from llama_index_rag_metrics.statistics.kappa import Weights, cohens_kappa


class Agreement(NamedTuple):
    """How far two judges agree.

    Attributes:
        kappa: Cohen's kappa: 1 where they always agree, 0 where as often as by chance.
        n: how many items both of them judged.
        low: the lower end of kappa's interval; None where none can be given.
        high: the upper end.
    """

    kappa: float
    n: int
    low: float | None = None
    high: float | None = None


def agreement(
    judged: Mapping[str, RelevanceLike],
    human: Mapping[str, RelevanceLike],
    *,
    weights: Weights | None = None,
    min_grade: float | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Cohen's kappa of two judges, over the items that both of them graded.

    A negative grade means unjudged, as everywhere.

    Args:
        judged: query id to relevance, such as of `LLMRelevancy.grade`.
        human: the same by other judges.
        weights: how much a disagreement counts by its distance in grades, or by that squared; None:
            all count alike.
        min_grade: compare only whether the grades reach this one.
        confidence: of the interval, such as 0.95; items of one query belong together there.

    Raises:
        InvalidInput: they have no item in common, there are grades that aren't whole, or an
            argument can't be used.

    Examples:
        >>> agreed = agreement({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 0, "c": 1}})
        >>> agreed.kappa, agreed.n
        (1.0, 2)
    """
    check_options(confidence, 100, 0)
    if min_grade is not None:
        check_amount("min_grade", min_grade, "a finite number, or None", math.isfinite)
    if weights not in (None, "linear", "quadratic"):
        raise InvalidInput("weights", weights, "'linear', 'quadratic' or None")
    graded = [
        (query_id, ours[item], theirs[item])
        for query_id in judged
        if query_id in human
        for ours, theirs in [(judged_grades(judged, query_id), judged_grades(human, query_id))]
        for item in ours
        if item in theirs
    ]
    pairs = np.array([both for _, *both in graded], np.float64)
    if not len(pairs):
        remedy = "Look whether both use the same ids."
        expected = "grades of some of the questions and passages that were judged"
        raise InvalidInput("human", f"{len(human)} questions", expected, remedy)
    if min_grade is not None:
        pairs = (pairs >= min_grade).astype(np.float64)
    if len(broken := pairs[pairs != np.floor(pairs)]):
        remedy = "Or compare by min_grade=...."
        raise InvalidInput("grades", float(broken[0]), "whole grades", remedy)
    if np.ptp(pairs) == 0:  # kappa has no value where nothing varies
        return Agreement(1.0, len(pairs))
    kappa = cohens_kappa(
        pairs[:, 0],
        pairs[:, 1],
        weights=weights,
        confidence=confidence,
        clusters=[query_id for query_id, *_ in graded],
    )
    return Agreement(kappa.kappa, kappa.n, kappa.low, kappa.high)


def judged_grades(judgements: Mapping[str, RelevanceLike], query_id: str) -> dict[str, float]:
    """The grades of a query's judged items; those with a negative one are unjudged.

    >>> judged_grades({"q": {"a": 2, "b": 0, "c": -1}}, "q"), judged_grades({}, "q")
    ({'a': 2.0, 'b': 0.0}, {})
    """
    if query_id not in judgements:
        return {}
    grades = Relevance.of(judgements[query_id]).grades
    return {item: grade for item, grade in grades.items() if grade >= 0}
