"""Two reviewers of the same items: how far they agree, and what a third has to judge."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from llama_index_rag_metrics.files.records import format_grade
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.review.reviews import (
    SCALES,
    Grade,
    ItemKey,
    Judgement,
    PoolLike,
    ReviewPool,
    ReviewsLike,
    as_reviews,
    check_scale,
)
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, kappa_in_words, mean_of, percent
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import check_options
from llama_index_rag_metrics.statistics.kappa import MODERATE, Kappa, Weights, cohens_kappa


class Disagreement(NamedTuple):
    first: Judgement
    second: Judgement

    @property
    def key(self) -> ItemKey:
        return self.first.key


@dataclass(frozen=True)
class ScaleAgreement:
    """How far two reviewers agree on one scale; `grades` are those given, best first.

    `counts` is by (the first's grade, the second's); `weighted_kappa`, by squared distance, is None
    where the order of a scale of words isn't known.
    """

    scale: str
    grades: Sequence[Grade]
    counts: Mapping[tuple[Grade, Grade], int]
    kappa: Kappa
    weighted_kappa: Kappa | None

    @property
    def n(self) -> int:
        return self.kappa.n

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
        """Cohen's kappa, where all items have one scale; else an InvalidInput."""
        if len(self.scales) > 1:
            raise InvalidInput("scales", [*self.scales], "one scale", "Ask scales[…].kappa.")
        return next(iter(self.scales.values())).kappa

    @property
    def n(self) -> int:
        """How many items both judged."""
        return sum(scale.n for scale in self.scales.values())

    def third_pass(self, pool: PoolLike) -> ReviewPool:
        """The items of a pool on which the two differ, which it must have, for a third reviewer."""
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

    def report(self, *, full: bool = False) -> m.Report:
        """Kappa, the agreement by grade, and the items on which they differ."""
        return _report(self, _MOST_ON_PAGE if full else _MOST_SHOWN)


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
        InvalidInput: there is no item that both judged, or an argument can't be used.

    Examples:
        >>> agreement = compare_reviewers({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 1, "c": 0}})
        >>> agreement.n, agreement.only, [pair.key.doc_id for pair in agreement.disagreements]
        (2, (0, 1), ['b'])
    """
    check_options(confidence, 100, 0)
    mine, others = (
        {review.key: review for review in as_reviews(reviews, argument) if review.is_judged}
        for reviews, argument in ((first, "first"), (second, "second"))
    )
    pairs = [Disagreement(mine[key], others[key]) for key in mine if key in others]
    if not pairs:
        raise InvalidInput("second", f"{len(others)} judgements", "some of the items in first")
    for pair in pairs:
        check_scale("second", pair.second, pair.first.scale)
    by_scale = grouped((pair.first.scale, pair) for pair in pairs)
    by_name = [{review.reviewer for review in judged.values()} for judged in (mine, others)]
    names = [name for of_one in by_name for name in of_one if len(of_one) == 1 and name]
    return ReviewerAgreement(
        (names[0], names[1]) if len(set(names)) == 2 else ("first", "second"),
        {scale: _on_scale(scale, of_scale, confidence) for scale, of_scale in by_scale.items()},
        [pair for pair in pairs if pair.first.grade != pair.second.grade],
        (len(mine) - len(pairs), len(others) - len(pairs)),
        confidence,
    )


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

    Args:
        judged: query id to relevance, such as of `LLMRelevancy.grade`; negative means unjudged.
        human: the same by other judges.
        weights: "linear" or "quadratic": a disagreement counts by its distance in grades, or by
            that squared; None: all count alike.
        min_grade: compare only whether the grades reach this one.
        confidence: of the interval, in which the items of a query belong together.

    Returns:
        kappa (1 if they always agree, 0 if as often as by chance; NaN if all grades are the same),
        n (the items that both judged), and low and high, the ends of its interval; None if none
        can be given.

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
    both = graded_by_both(judged, human)
    query_ids = [query_id for query_id, *_ in both]
    pairs = np.array([grades for _, *grades in both], np.float64)
    if not both:
        remedy = "Look whether both use the same ids."
        expected = "grades of some of the questions and passages that were judged"
        raise InvalidInput("human", f"{len(human)} questions", expected, remedy)
    if min_grade is not None:
        pairs = (pairs >= min_grade).astype(np.float64)
    if len(broken := pairs[pairs != np.floor(pairs)]):
        remedy = "Or compare by min_grade=...."
        raise InvalidInput("grades", float(broken[0]), "whole grades", remedy)
    kappa = cohens_kappa(*pairs.T, weights=weights, confidence=confidence, clusters=query_ids)
    return Agreement(kappa.kappa, kappa.low, kappa.high, kappa.n)


def graded_by_both(
    judged: Mapping[str, RelevanceLike], human: Mapping[str, RelevanceLike]
) -> list[tuple[str, float, float]]:
    """Query and both grades of every item with two; negative grades mean unjudged."""
    both = []
    for query_id in judged:
        first, second = (Relevance.of(each.get(query_id, {})).grades for each in (judged, human))
        pairs = ((grade, second.get(item, -1.0)) for item, grade in first.items())
        both += [(query_id, *grades) for grades in pairs if min(grades) >= 0]
    return both


def _on_scale(scale: str, pairs: Sequence[Disagreement], confidence: float) -> ScaleAgreement:
    graded: list[Any] = [(first.grade, second.grade) for first, second in pairs]
    counts = Counter(graded)
    given: set[Any] = {grade for pair in counts for grade in pair}
    are_numbers = not any(isinstance(grade, str) for grade in given)
    known = SCALES[scale].grades if scale in SCALES else []
    is_ordered = are_numbers or given <= {*known}
    # best first, where that is known
    grades = sorted(given, key=float if are_numbers else str, reverse=are_numbers)
    if is_ordered and not are_numbers:
        grades = [grade for grade in known if grade in given]
    place = {grade: -float(number) for number, grade in enumerate(grades)}
    value = {grade: place[grade] if isinstance(grade, str) else float(grade) for grade in grades}
    values = np.array([[value[grade] for grade in pair] for pair in graded])
    questions = [pair.key.query_id for pair in pairs]
    kappa, weighted = (
        cohens_kappa(*values.T, weights=weights, confidence=confidence, clusters=questions)
        for weights in (None, "quadratic")
    )
    return ScaleAgreement(scale, grades, counts, kappa, weighted if is_ordered else None)


_AGREEMENT = "Agreement"
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200
_COLUMNS = (*ItemKey._fields, "scale", "first", "second", "first_note", "second_note")
_EXPLAINED = (
    "Kappa is the agreement beyond chance: 1 where they always agree, 0 where as often as by "
    "chance; weighted, a disagreement counts by its squared distance in grades. Specific "
    "agreement: the probability that one gives a grade when the other did."
)


def _report(agreement: ReviewerAgreement, most: int) -> m.Report:
    first, second = agreement.names
    scales, disagreements = agreement.scales.values(), agreement.disagreements
    is_one = len(scales) == 1
    level = f"{percent(agreement.confidence)} intervals."
    only = zip(agreement.names, agreement.only, strict=True)
    lead = [
        f"{counted(agreement.n, 'item', 'items')} judged by both",
        *(f"{n:,} by {name} alone" for name, n in only if n),
    ]
    remarks = [(pair.key.query_id, "", [_remark(agreement.names, pair)]) for pair in disagreements]
    records = [
        (*pair.key, pair.first.scale, *(each.grade for each in pair), *(each.note for each in pair))
        for pair in disagreements
    ]
    return m.Report(
        title=f"{first} and {second}",
        lead=", ".join(lead),
        decision=[_sentence(scale, "" if is_one else f" by {scale.scale}") for scale in scales],
        sections=[
            m.Section(
                _AGREEMENT,
                [_table(scale, "" if is_one else scale.scale) for scale in scales],
                f"Rows: {first}; columns: {second}. {level} {_EXPLAINED}",
            )
        ],
        listings=[m.Listing.of("For a third pass", remarks, most)],
        records=m.Records.of([dict(zip(_COLUMNS, row, strict=True)) for row in records], _COLUMNS),
    )


def _sentence(scale: ScaleAgreement, of_scale: str) -> m.Statement:
    n, kappa, weighted = scale.n, scale.kappa, scale.weighted_kappa
    agreed = f"agree on {scale.n_agreed:,} of {counted(n, 'item', 'items')}{of_scale}"
    if math.isnan(kappa.kappa):
        return m.Statement(f"They {agreed}: {kappa_in_words(kappa)}.", evidence=_AGREEMENT)
    more = "" if weighted is None else f"; weighted {kappa_in_words(weighted)}"
    found = f"{agreed}: {kappa_in_words(kappa)}{more}"
    if kappa.is_moderate:
        return m.Statement(f"They {found}.", "best", evidence=_AGREEMENT)
    if kappa.is_moderate is False:
        advice = "Make the rubric clearer, and judge what they disagree on again."
        return m.Statement(f"They hardly {found}. {advice}", "alarm", evidence=_AGREEMENT)
    text = f"They {found}. From {MODERATE} on that is moderate; more grades would decide it."
    return m.Statement(text, "open", evidence=_AGREEMENT)


def _table(scale: ScaleAgreement, title: str) -> m.Table:
    rows = []
    for grade in scale.grades:
        counts = {other: scale.counts.get((grade, other), 0) for other in scale.grades}
        specific = mean_of(m.Cell(scale.specific(grade), "score"), scale.n)
        cells = [
            m.Cell(n, "count", "best" if other == grade else "normal")
            for other, n in counts.items()
        ]
        rows.append(m.Row(_text(grade), [*cells, specific]))
    head = [*map(_text, scale.grades), "specific agreement"]
    return m.Table(title, head, [rows], first="grade")


def _text(grade: Grade | None) -> str:
    if grade is None or isinstance(grade, str):
        return grade or ""
    return format_grade(float(grade))


def _remark(names: tuple[str, str], disagreement: Disagreement) -> str:
    item = " ".join(filter(None, disagreement.key[1:]))
    grades = [
        f"{name} {_text(judgement.grade)}{f' ({judgement.note})' if judgement.note else ''}"
        for name, judgement in zip(names, disagreement, strict=True)
    ]
    return f"{item}: {', '.join(grades)}"
