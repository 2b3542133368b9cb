"""How far two people, or a person and a judge, agree on the same passages, and where they don't."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from llama_index_rag_metrics.files.records import format_grade
from llama_index_rag_metrics.labels.review.reviews import ReviewsLike, as_reviews, check_scale
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, kappa_in_words, mean_of
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import check_confidence
from llama_index_rag_metrics.statistics.kappa import Kappa, Weights, cohens_kappa


class Disagreement(NamedTuple):
    """A passage that two judges grade differently, with what they noted."""

    query_id: str
    doc_id: str
    first: float
    second: float
    first_note: str = ""
    second_note: str = ""


@dataclass(frozen=True, repr=False)
class Agreement(Reportable, Kappa):
    """How far two judges agree: Cohen's kappa, and the passages on which they don't.

    Attributes:
        kappa: 1 if they always agree, 0 if as often as by chance; NaN if all grades are the same.
        low: the lower end of its interval, or None where none can be given.
        high: the upper end.
        n: how many passages both judged.
        disagreements: query_id, doc_id, first, second, first_note and second_note of the passages
            that they grade differently.

    Examples:
        >>> agreed = agreement({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 1}})
        >>> [(item.doc_id, item.first, item.second) for item in agreed.disagreements]
        [('b', 0.0, 1.0)]
    """

    disagreements: Sequence[Disagreement] = ()

    def report(self, *, full: bool = False) -> m.Report:
        """Kappa with its interval, and the passages on which the two differ."""
        return _report(self, _MOST_ON_PAGE if full else _MOST_SHOWN)


def agreement(
    judged: ReviewsLike,
    human: ReviewsLike,
    *,
    weights: Weights | None = None,
    min_grade: float | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Cohen's kappa of two judges over the passages that both graded, and where they differ.

    Args:
        judged: query id to relevance, such as of `LLMRelevancy.grade`, or a file that the review
            page exported; negative grades mean unjudged.
        human: the same by somebody else.
        weights: "linear": a disagreement counts by its distance in grades; None: all count alike.
        min_grade: compare only whether the grades reach this one.
        confidence: of the interval, in which the passages of a question belong together.

    Returns:
        kappa with low and high, n, and the disagreements.

    Raises:
        FileFormatError: a line of a file can't be read; says where and why.
        InvalidInput: they have no passage in common, there are grades that aren't whole, or an
            argument can't be used.

    Examples:
        >>> agreed = agreement({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 0, "c": 1}})
        >>> agreed.kappa, agreed.n
        (1.0, 2)
    """
    check_confidence(confidence)
    if min_grade is not None:
        check_amount("min_grade", min_grade, "a finite number, or None", math.isfinite)
    if weights not in (None, "linear"):
        raise InvalidInput("weights", weights, "'linear' or None")
    both = _graded_by_both(judged, human)
    if not both:
        remedy = "Look whether both use the same ids."
        expected = "grades of some of the questions and passages that were judged"
        raise InvalidInput("human", "none of them", expected, remedy)
    pairs = np.array([(pair.first, pair.second) for pair in both], np.float64)
    if min_grade is not None:
        pairs = (pairs >= min_grade).astype(np.float64)
    if len(broken := pairs[pairs != np.floor(pairs)]):
        remedy = "Or compare by min_grade=...."
        raise InvalidInput("grades", float(broken[0]), "whole grades", remedy)
    query_ids = [pair.query_id for pair in both]
    kappa = cohens_kappa(*pairs.T, weights=weights, confidence=confidence, clusters=query_ids)
    differ = pairs[:, 0] != pairs[:, 1]
    disagreements = tuple(pair for pair, differs in zip(both, differ, strict=True) if differs)
    return Agreement(kappa.kappa, kappa.low, kappa.high, kappa.n, disagreements)


def _graded_by_both(judged: ReviewsLike, human: ReviewsLike) -> list[Disagreement]:
    """Both grades, alike or not, of every passage that has two."""
    others = {review.key: review for review in as_reviews(human, "human") if review.is_judged}
    both = []
    for review in as_reviews(judged, "judged"):
        other = others.get(review.key)
        if other is None or not review.is_judged:
            continue
        check_scale("human", other, review.scale)
        grades = (float(review.grade or 0), float(other.grade or 0))
        both.append(Disagreement(*review.key, *grades, review.note, other.note))
    return both


_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_AGREEMENT, _LISTING = "Agreement", "Graded differently"
_EXPLAINED = (
    "Kappa is the agreement beyond chance: 1 if they always agree, 0 if as often as by chance."
)


def _report(agreement: Agreement, most: int) -> m.Report:
    passages = counted(agreement.n, "passage", "passages")
    sentence = f"{kappa_in_words(agreement)} on {passages}"
    remarks = [(pair.query_id, "", [_remark(pair)]) for pair in agreement.disagreements]
    records = [pair._asdict() for pair in agreement.disagreements]
    is_known = not math.isnan(agreement.kappa)
    kappa = m.Cell.of(agreement.kappa if is_known else None, "score")
    kappa = kappa._replace(low=agreement.low, high=agreement.high)
    counts = [m.Cell(agreement.n, "count"), m.Cell.of(len(remarks), "count")]
    head = ("kappa", "passages", "graded differently")
    table = m.Table("", head, [[m.Row("both", [mean_of(kappa, agreement.n), *counts])]], "judges")
    return m.Report(
        title=_AGREEMENT,
        lead=f"{len(remarks):,} of {passages} graded differently",
        decision=[m.Statement(f"{sentence[0].upper()}{sentence[1:]}.", evidence=_AGREEMENT)],
        sections=[m.Section(_AGREEMENT, [table], _EXPLAINED)],
        listings=[m.Listing.of(_LISTING, remarks, most)],
        records=m.Records.of(records, Disagreement._fields),
    )


def _remark(pair: Disagreement) -> str:
    grades = []
    for grade, note in ((pair.first, pair.first_note), (pair.second, pair.second_note)):
        noted = f" ({note})" if note else ""
        grades.append(f"{format_grade(grade)}{noted}")
    return f"{pair.doc_id}: {' and '.join(grades)}"
