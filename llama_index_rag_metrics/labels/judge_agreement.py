"""How far two judges agree, item by item."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.report.numbers import counted, kappa_in_words
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import check_options
from llama_index_rag_metrics.statistics.kappa import Kappa, Weights, cohens_kappa


@dataclass(frozen=True, slots=True, repr=False)
class Agreement(Sentence, Kappa):
    """Cohen's kappa of two judges: 1 if they always agree, 0 if as often as by chance."""

    def __str__(self) -> str:
        return f"{kappa_in_words(self)} on {counted(self.n, 'passage', 'passages')}"


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
        weights: "linear" or "quadratic": a disagreement counts by its distance in grades, or by
            that squared; None: all count alike.
        min_grade: compare only whether the grades reach this one.
        confidence: of the interval, in which the items of a query belong together.

    Returns:
        kappa (1 if they always agree, 0 if as often as by chance), n (the items that both judged),
        and low and high, the ends of its interval; None if none can be given.

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
    query_ids: list[str] = []
    both: list[tuple[float, float]] = []
    for query_id in judged:
        first, second = judged_grades(judged, query_id), judged_grades(human, query_id)
        both += [(grade, second[item]) for item, grade in first.items() if item in second]
        query_ids += [query_id] * (len(both) - len(query_ids))
    pairs = np.array(both, np.float64)
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
        return Agreement(1.0, None, None, len(pairs))
    kappa = cohens_kappa(*pairs.T, weights=weights, confidence=confidence, clusters=query_ids)
    return Agreement(kappa.kappa, kappa.low, kappa.high, kappa.n)


def judged_grades(judgements: Mapping[str, RelevanceLike], query_id: str) -> dict[str, float]:
    """The grades of a query's judged items; those with a negative one are unjudged.

    >>> judged_grades({"q": {"a": 2, "b": 0, "c": -1}}, "q"), judged_grades({}, "q")
    ({'a': 2.0, 'b': 0.0}, {})
    """
    if query_id not in judgements:
        return {}
    grades = Relevance.of(judgements[query_id]).grades
    return {item: grade for item, grade in grades.items() if grade >= 0}
