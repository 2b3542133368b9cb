"""Two reviewers of the same items: how far they agree, and what a third has to judge."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.review.review_items import SCALES, ItemKey, PoolLike, ReviewPool
from llama_index_rag_metrics.labels.review.review_judgements import (
    Grade,
    Judgement,
    ReviewsLike,
    as_reviews,
    check_scale,
)
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import check_options
from llama_index_rag_metrics.statistics.kappa import Kappa, cohens_kappa

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.model import Report


class Disagreement(NamedTuple):
    """An item on which two reviewers differ."""

    first: Judgement
    second: Judgement

    @property
    def key(self) -> ItemKey:
        return self.first.key


@dataclass(frozen=True)
class ScaleAgreement:
    """How far two reviewers agree on one scale; `grades` are those given, best first.

    `counts` has (the first's grade, the second's) to how many items have both. In `weighted_kappa`
    a disagreement counts by its squared distance; None where a scale of words isn't known.
    """

    scale: str
    grades: Sequence[Grade]
    counts: Mapping[tuple[Grade, Grade], int]
    kappa: Kappa
    weighted_kappa: Kappa | None

    @property
    def n(self) -> int:
        return sum(self.counts.values())

    @property
    def n_agreed(self) -> int:
        return sum(n for (first, second), n in self.counts.items() if first == second)

    def specific(self, grade: Grade) -> float:
        """The probability that one reviewer gives this grade when the other did, in [0, 1]."""
        n_given = sum(n * pair.count(grade) for pair, n in self.counts.items())
        return 2 * self.counts.get((grade, grade), 0) / n_given if n_given else 0.0


@dataclass(frozen=True, repr=False)
class ReviewerAgreement(Reportable):
    """How far two reviewers agree, and where they don't.

    Attributes:
        names: of the two.
        scales: name of the scale to the agreement on its items: `kappa`, `weighted_kappa` (by the
            squared distance in grades), `counts` of pairs of grades, and `specific(grade)`.
        disagreements: the items that they judged differently.
        only: how many items the first alone judged, and the second alone.
        confidence: of the intervals.

    Examples:
        >>> anna, ben = {"q": {"a": 3, "b": 0, "c": 1}}, {"q": {"a": 3, "b": 0, "c": 2}}
        >>> agreement = compare_reviewers(anna, ben)
        >>> agreement.n, [differing.key.doc_id for differing in agreement.disagreements]
        (3, ['c'])
    """

    names: tuple[str, str]
    scales: Mapping[str, ScaleAgreement]
    disagreements: Sequence[Disagreement]
    only: tuple[int, int]
    confidence: float

    @property
    def kappa(self) -> Kappa:
        """Cohen's kappa, where all items have one scale.

        Raises:
            InvalidInput: they have several; `scales` has the kappa of each.
        """
        if len(self.scales) > 1:
            raise InvalidInput("scales", [*self.scales], "one scale", "Ask scales[…].kappa.")
        return next(iter(self.scales.values())).kappa

    @property
    def n(self) -> int:
        """How many items both judged."""
        return sum(scale.n for scale in self.scales.values())

    def third_pass(self, pool: PoolLike) -> ReviewPool:
        """The items of a pool on which the two differ, for a third reviewer.

        Raises:
            InvalidInput: the pool lacks one of them.
        """
        read = ReviewPool.of(pool)
        wanted = {disagreement.key for disagreement in self.disagreements}
        items = [item for item in read.items if item.key in wanted]
        if lacking := wanted - {item.key for item in items}:
            sought = f"one without {min(lacking, key=str)}"
            raise InvalidInput("pool", sought, "the pool that both reviewed")
        return replace(read, items=items)

    def to_jsonl(self, path: str | os.PathLike[str], pool: PoolLike) -> None:
        """Write the pool of a third pass, without anybody's grades; see `third_pass`."""
        self.third_pass(pool).to_jsonl(path)

    def report(self, *, full: bool = False) -> Report:
        """Kappa, the agreement by grade, and the items on which they differ."""
        from llama_index_rag_metrics.labels.review.reviewers_report import reviewers_report

        return reviewers_report(self, full=full)


def compare_reviewers(
    first: ReviewsLike, second: ReviewsLike, *, confidence: float = 0.95
) -> ReviewerAgreement:
    """How far two reviewers agree on the items that both judged, and where they don't.

    Args:
        first: a file that the review page exported, or {query id: relevance}, such as a judge's.
        second: the same by somebody else.
        confidence: of the intervals, such as 0.95.

    Raises:
        FileFormatError: a line can't be read; says where and why.
        FileNotFoundError: there is no such file.
        InvalidInput: there is no item that both judged, or an argument can't be used.

    Examples:
        >>> agreement = compare_reviewers({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 1, "c": 0}})
        >>> agreement.n, agreement.only, [pair.key.doc_id for pair in agreement.disagreements]
        (2, (0, 1), ['b'])
    """
    check_options(confidence, 100, 0)
    judged = [
        {review.key: review for review in as_reviews(reviews, argument) if review.is_judged}
        for reviews, argument in ((first, "first"), (second, "second"))
    ]
    pairs = [Disagreement(judged[0][key], judged[1][key]) for key in judged[0] if key in judged[1]]
    if not pairs:
        raise InvalidInput("second", f"{len(judged[1])} judgements", "some of the items in first")
    for pair in pairs:
        check_scale("second", pair.second, pair.first.scale)
    by_scale = grouped((pair.first.scale, pair) for pair in pairs)
    return ReviewerAgreement(
        _names(*(by_key.values() for by_key in judged)),
        {scale: _on_scale(scale, of_scale, confidence) for scale, of_scale in by_scale.items()},
        [pair for pair in pairs if pair.first.grade != pair.second.grade],
        (len(judged[0]) - len(pairs), len(judged[1]) - len(pairs)),
        confidence,
    )


def _on_scale(scale: str, pairs: Sequence[Disagreement], confidence: float) -> ScaleAgreement:
    graded: list[Any] = [(first.grade, second.grade) for first, second in pairs]
    counts = Counter(graded)
    grades, is_ordered = _in_order(scale, {grade for pair in counts for grade in pair})
    place = {grade: -float(number) for number, grade in enumerate(grades)}
    value = {grade: place[grade] if isinstance(grade, str) else float(grade) for grade in grades}
    values = np.array([[value[grade] for grade in pair] for pair in graded])
    questions = [pair.key.query_id for pair in pairs]
    kappa, weighted = (
        cohens_kappa(*values.T, weights=weights, confidence=confidence, clusters=questions)
        for weights in (None, "quadratic")
    )
    return ScaleAgreement(scale, grades, counts, kappa, weighted if is_ordered else None)


def _in_order(scale: str, grades: set[Grade]) -> tuple[list[Grade], bool]:
    """The grades, best first, and whether that order is known."""
    words = [grade for grade in grades if isinstance(grade, str)]
    if not words:
        return sorted(grades, key=float, reverse=True), True
    known = [choice.grade for choice in SCALES[scale].choices] if scale in SCALES else []
    if set(known) >= grades:
        return [grade for grade in known if grade in grades], True
    return sorted(grades, key=str), False


def _names(*reviews: Iterable[Judgement]) -> tuple[str, str]:
    """The names of two reviewers, where each has one."""
    first, second = ({judgement.reviewer for judgement in of_one} for of_one in reviews)
    if len(first) == len(second) == 1 and first != second and "" not in first | second:
        return first.pop(), second.pop()
    return "first", "second"
