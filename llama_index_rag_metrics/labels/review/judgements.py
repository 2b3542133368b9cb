"""What people judged: read, brought together, and compared."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np

from llama_index_rag_metrics.files.lines import Location, from_json, read_lines
from llama_index_rag_metrics.files.records import Qrels, format_grade, read_id
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, kappa_in_words, mean_of
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    LabelWarning,
    check_amount,
    warn_caller,
)
from llama_index_rag_metrics.statistics.intervals import check_confidence
from llama_index_rag_metrics.statistics.kappa import Kappa, Weights, cohens_kappa

T = TypeVar("T")

DEFAULT = "relevance"  # the rubric of `LLMRelevancy`, which judgements don't name
_OTHER_GRADE = "a grade of 0 to 3; grades by another rubric name it as their 'scale'"
_EXPLAINED = (
    "Kappa is the agreement beyond chance: 1 if they always agree, 0 if as often as by chance."
)
_MIXED = "grades by different rubrics are mixed: {names}"
_UNDECIDED = (
    "reviewers differ on {n:,} of {total:,} passages, which stay unlabelled; `agreement` lists "
    "them for a third pass"
)
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200


class Judgement(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """One reviewer's grade of a passage, None where it isn't judged; `judged_at` is ISO 8601."""

    query_id: str
    doc_id: str
    grade: float | None
    scale: str = DEFAULT
    skipped: bool = False
    reviewer: str = ""
    judged_at: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.query_id, self.doc_id

    @property
    def is_judged(self) -> bool:
        """Whether it is graded and not skipped; negative grades mean unjudged, as everywhere."""
        return self.grade is not None and self.grade >= 0 and not self.skipped

    def record(self) -> dict[str, Any]:
        fields = msgspec.structs.asdict(self)
        if self.scale == DEFAULT:
            del fields["scale"]
        return fields


ReviewsLike: TypeAlias = (
    "Sequence[Judgement] | Mapping[str, RelevanceLike] | str | os.PathLike[str]"
)


def converted(record: Any, kind: type[T], location: Location) -> T:
    """A record of a passage as a struct; an error says which field is wrong."""
    expected = f"a record with {', '.join(kind.__annotations__)}"
    location.check(isinstance(record, Mapping), expected, record)
    ids = {}
    for name in ("query_id", "doc_id"):
        if record.get(name) is not None:
            ids[name] = read_id(record[name], location)
    with location.expecting(expected, msgspec.ValidationError, UnicodeEncodeError):
        return msgspec.convert({**record, **ids}, kind)


def read_reviews(path: str | os.PathLike[str]) -> list[Judgement]:
    """Read what the review page exported, skipped passages and notes included."""
    judgements: dict[tuple[str, str], Judgement] = {}
    for location, line in read_lines(Path(path)):
        judgement = converted(from_json(line, location), Judgement, location)
        expected = "every passage of a question once in a file"
        location.check(judgement.key not in judgements, expected, " ".join(judgement.key))
        if judgement.scale == DEFAULT and judgement.is_judged:
            location.check(judgement.grade in (0, 1, 2, 3), _OTHER_GRADE, judgement.grade)
        judgements[judgement.key] = judgement
    return list(judgements.values())


def as_reviews(source: ReviewsLike, argument: str = "reviews") -> Sequence[Judgement]:
    if isinstance(source, (str, os.PathLike)):
        return read_reviews(source)
    judgements: list[Any] = []
    if isinstance(source, Mapping):
        for query_id, relevance in source.items():
            for item, grade in as_relevance(relevance).grades.items():
                judgements.append(Judgement(query_id, item, grade))
    elif isinstance(source, Sequence):
        judgements = list(source)
    is_list = isinstance(source, (Mapping, Sequence))
    if not is_list or not all(isinstance(entry, Judgement) for entry in judgements):
        expected = "a file of judgements, or {query id: relevance}"
        raise InvalidInput(argument, source, expected)
    return judgements


def read_judgements(*reviews: ReviewsLike) -> Qrels:
    """What people judged, as judgements for `pool`, `score_rankings`, `evaluate` and the like.

    A passage has the grade of its only reviewer, or of its first two where they agree. Where these
    differ, the third decides; without a third it stays unjudged, and a warning says how many there
    are. Skipped passages are unjudged.

    Args:
        reviews: for each reviewer, a file that the review page exported, or {query id: relevance};
            a third pass over the disagreements comes last.

    Raises:
        FileFormatError: a line can't be read; says where and why.
        InvalidInput: reviewers graded a passage by different rubrics.

    Examples:
        >>> first = {"q1": {"d1": 3, "d2": 0, "d3": 1}}
        >>> second, third = {"q1": {"d1": 3, "d2": 2}}, {"q1": {"d2": 1}}
        >>> read_judgements(first, second, third)
        {'q1': Relevance({'d1': 3.0, 'd2': 1.0, 'd3': 1.0})}
    """
    graded: dict[tuple[str, str], list[float]] = {}
    scales: dict[tuple[str, str], str] = {}
    for source in reviews:
        for judgement in as_reviews(source):
            if judgement.is_judged and judgement.grade is not None:
                _check_scale(
                    "reviews", judgement, scales.setdefault(judgement.key, judgement.scale)
                )
                graded.setdefault(judgement.key, []).append(judgement.grade)
    rubrics = sorted(set(scales.values()))
    if len(rubrics) > 1:
        warn_caller(LabelWarning(_MIXED.format(names=", ".join(map(repr, rubrics)))))
    n_undecided = 0
    labels: dict[str, dict[str, float]] = {}
    for (query_id, doc_id), grades in graded.items():
        differ = len(grades) > 1 and grades[0] != grades[1]
        if differ and len(grades) == 2:
            n_undecided += 1
        else:
            labels.setdefault(query_id, {})[doc_id] = grades[2] if differ else grades[0]
    if n_undecided:
        warn_caller(LabelWarning(_UNDECIDED.format(n=n_undecided, total=len(graded))))
    return Qrels({query_id: Relevance(grades) for query_id, grades in labels.items()})


def _check_scale(argument: str, judgement: Judgement, scale: str) -> None:
    """Refuse grades by one rubric beside grades of the same passage by another."""
    if judgement.scale != scale:
        passage = " ".join(judgement.key)
        expected = f"grades by {scale!r}, by which another reviewer judged {passage}"
        raise InvalidInput(argument, judgement.scale, expected)


class Disagreement(NamedTuple):
    """A passage that two judges grade differently, with what they noted."""

    query_id: str
    doc_id: str
    first: float
    second: float
    first_note: str = ""
    second_note: str = ""

    def __str__(self) -> str:
        grade, other_grade = format_grade(self.first), format_grade(self.second)
        if self.first_note:
            grade += f" ({self.first_note})"
        if self.second_note:
            other_grade += f" ({self.second_note})"
        return f"{self.doc_id}: {grade} and {other_grade}"


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
    """

    disagreements: Sequence[Disagreement] = ()

    def report(self, *, full: bool = False) -> m.Report:
        """Kappa with its interval, and the passages on which the two differ."""
        passages = counted(self.n, "passage", "passages")
        sentence = kappa_in_words(self)
        remarks = [(pair.query_id, "", [str(pair)]) for pair in self.disagreements]
        kappa = m.Cell(None, "score", "quiet")
        if not math.isnan(self.kappa):
            kappa = m.Cell(self.kappa, "score", low=self.low, high=self.high)
        counts = [m.Cell(self.n, "count"), m.Cell.of(len(remarks), "count")]
        rows = [m.Row("both", [mean_of(kappa, self.n), *counts])]
        table = m.Table("", ("kappa", "passages", "graded differently"), [rows], "judges")
        n_listed = _MOST_ON_PAGE if full else _MOST_SHOWN
        return m.Report(
            title="Agreement",
            lead=f"{len(remarks):,} of {passages} graded differently",
            decision=[m.Statement(f"{sentence.capitalize()} on {passages}.", evidence="Agreement")],
            sections=[m.Section("Agreement", [table], _EXPLAINED)],
            listings=[m.Listing.of("Graded differently", remarks, n_listed)],
            records=m.Records.of_fields(self.disagreements, Disagreement._fields),
        )


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

    Raises:
        FileFormatError: a line of a file can't be read; says where and why.
        InvalidInput: they have no passage in common, grades aren't whole, or an argument can't be
            used.

    Examples:
        >>> agreed = agreement({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 1}})
        >>> [(pair.doc_id, pair.first, pair.second) for pair in agreed.disagreements], agreed.n
        ([('b', 0.0, 1.0)], 2)
    """
    check_confidence(confidence)
    if min_grade is not None:
        check_amount("min_grade", min_grade, "a finite number, or None", math.isfinite)
    if weights not in (None, "linear"):
        raise InvalidInput("weights", weights, "'linear' or None")
    graded_pairs = _graded_by_both(judged, human)
    pairs = np.array([(pair.first, pair.second) for pair in graded_pairs], np.float64)
    if min_grade is not None:
        pairs = (pairs >= min_grade).astype(np.float64)
    broken = pairs[pairs != np.floor(pairs)]
    if len(broken):
        remedy = "Or compare by min_grade=...."
        raise InvalidInput("grades", float(broken[0]), "whole grades", remedy)
    query_ids = [pair.query_id for pair in graded_pairs]
    kappa = cohens_kappa(*pairs.T, weights=weights, confidence=confidence, clusters=query_ids)
    differ = pairs[:, 0] != pairs[:, 1]
    disagreements = tuple(graded_pairs[number] for number in np.flatnonzero(differ))
    return Agreement(kappa.kappa, kappa.low, kappa.high, kappa.n, disagreements)


def _graded_by_both(judged: ReviewsLike, human: ReviewsLike) -> list[Disagreement]:
    """Both grades, alike or not, of every passage that has two."""
    by_key = {review.key: review for review in as_reviews(human, "human") if review.is_judged}
    graded_pairs = []
    for review in as_reviews(judged, "judged"):
        second_review = by_key.get(review.key)
        if second_review is None or not review.is_judged:
            continue
        _check_scale("human", second_review, review.scale)
        grades = float(review.grade or 0), float(second_review.grade or 0)
        graded_pairs.append(Disagreement(*review.key, *grades, review.note, second_review.note))
    if not graded_pairs:
        remedy = "Look whether both use the same ids."
        expected = "grades of some of the questions and passages that were judged"
        raise InvalidInput("human", "none of them", expected, remedy)
    return graded_pairs
