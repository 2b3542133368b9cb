"""Judgements of reviewers: read, and merged to Relevance."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from llama_index_rag_metrics.files.file_kinds import REVIEW, read_as
from llama_index_rag_metrics.files.judgements import Qrels, read_grade
from llama_index_rag_metrics.files.lines import Place, from_json, read_lines
from llama_index_rag_metrics.labels.review.review_items import DEFAULT, SCALES, ItemKey, read_key
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

Grade: TypeAlias = float | str
"""A number, or a word of a scale of words."""

_TEXTS = ("reviewer", "judged_at", "note")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One reviewer's grade of one item, None where it isn't judged; `judged_at` is ISO 8601."""

    key: ItemKey
    grade: Grade | None
    scale: str = DEFAULT
    skipped: bool = False
    reviewer: str = ""
    judged_at: str = ""
    note: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether it is graded and not skipped; negative grades mean unjudged, as everywhere."""
        is_graded = isinstance(self.grade, str) or (self.grade is not None and self.grade >= 0)
        return is_graded and not self.skipped

    def record(self) -> dict[str, Any]:
        named = {} if self.scale == DEFAULT else {"scale": self.scale}
        fields = {name: getattr(self, name) for name in ("grade", "skipped", *_TEXTS)}
        return {**self.key.record(), **named, **fields}


ReviewsLike: TypeAlias = (
    "Sequence[Judgement] | Mapping[str, RelevanceLike] | str | os.PathLike[str]"
)


class MergedJudgements(Qrels):
    """Query id to Relevance, from several reviewers."""

    undecided: tuple[tuple[str, str], ...] = ()
    """(query id, passage) pairs on which they differ, and nobody else decides."""


def read_reviews(path: str | os.PathLike[str]) -> list[Judgement]:
    """Read what the review page exported, skipped items and notes included."""
    judgements: dict[ItemKey, Judgement] = {}
    with read_as(REVIEW, Path(path)):
        for place, line in read_lines(Path(path)):
            judgement = _read_judgement(from_json(line, place), place)
            if judgements.setdefault(judgement.key, judgement) is not judgement:
                raise place.wrong("every item once in a file", str(judgement.key))
    return list(judgements.values())


def read_judgements(*reviews: ReviewsLike) -> MergedJudgements:
    """What people judged, as judgements for `pool`, `score_rankings`, `evaluate` and the like.

    A passage has the grade of its only reviewer, or of its first two where they agree. Where these
    differ, the third decides; without a third it stays unjudged: `undecided` lists it, and a
    warning says how many there are. Skipped items are unjudged; judgements of nuggets are left out.

    Args:
        reviews: for each reviewer, a file that the review page exported, or {query id: relevance};
            a third pass over the disagreements comes last.

    Raises:
        FileFormatError: a line can't be read; says where and why.
        FileNotFoundError: there is no such file.
        InvalidInput: a grade of a passage is a word, or reviewers graded it by different scales.

    Examples:
        >>> first = {"q1": {"d1": 3, "d2": 0, "d3": 1}}
        >>> second, third = {"q1": {"d1": 3, "d2": 2}}, {"q1": {"d2": 1}}
        >>> read_judgements(first, second, third)
        {'q1': Relevance({'d1': 3.0, 'd2': 1.0, 'd3': 1.0})}
    """
    graded: dict[ItemKey, list[float]] = {}
    scales: dict[ItemKey, str] = {}
    for judgement in (judgement for source in reviews for judgement in as_reviews(source)):
        if judgement.key.nugget_id is not None or not judgement.is_judged:
            continue
        if not isinstance(judgement.grade, (int, float)):
            raise InvalidInput("grade", judgement.grade, "numbers for passages")
        check_scale("reviews", judgement, scales.setdefault(judgement.key, judgement.scale))
        graded.setdefault(judgement.key, []).append(judgement.grade)
    if len(names := sorted(set(scales.values()))) > 1:
        several = ", ".join(map(repr, names))
        warn_caller(LabelWarning(f"grades by different scales are mixed: {several}"))
    undecided: list[tuple[str, str]] = []
    grades: dict[str, dict[str, float]] = {}
    for key, (first, *others) in graded.items():
        deciding = others[1:] if others and others[0] != first else [first]
        if deciding:
            grades.setdefault(key.query_id, {})[str(key.doc_id)] = deciding[0]
        else:
            undecided.append((key.query_id, str(key.doc_id)))
    merged = MergedJudgements({key: Relevance(of_query) for key, of_query in grades.items()})
    merged.undecided = tuple(undecided)
    if undecided:
        warn_caller(
            LabelWarning(
                f"reviewers differ on {len(undecided):,} of {len(graded):,} passages, which stay "
                "unlabelled; `compare_reviewers` lists them for a third pass"
            )
        )
    return merged


def as_reviews(source: ReviewsLike, argument: str = "reviews") -> Sequence[Judgement]:
    if isinstance(source, (str, os.PathLike)):
        return read_reviews(source)
    if isinstance(source, Mapping):
        return [
            Judgement(ItemKey(query_id, item), grade)
            for query_id, relevance in source.items()
            for item, grade in Relevance.of(relevance).grades.items()
        ]
    if isinstance(source, Sequence):
        judgements = [entry for entry in source if isinstance(entry, Judgement)]
        if len(judgements) == len(source):
            return judgements
    expected = "a file of judgements, what read_reviews() made of it, or {query id: relevance}"
    raise InvalidInput(argument, source, expected)


def check_scale(argument: str, judgement: Judgement, scale: str) -> None:
    if judgement.scale != scale:
        expected = f"grades by {scale!r}, by which another reviewer judged {judgement.key}"
        raise InvalidInput(argument, judgement.scale, expected)


def _read_judgement(record: object, place: Place) -> Judgement:
    if not isinstance(record, Mapping):
        raise place.wrong("a judgement, {field: value}", record)
    if "grade" not in record:
        raise place.wrong("a field 'grade'", sorted(record))
    key, grade = read_key(record, place), record["grade"]
    if grade is not None and (isinstance(grade, bool) or not isinstance(grade, str)):
        grade = read_grade(None if isinstance(grade, bool) else grade, place)
    scale, skipped = record.get("scale", DEFAULT), record.get("skipped", False)
    texts = {name: record.get(name, "") for name in _TEXTS}
    for name, text in {"scale": scale, **texts}.items():
        if not isinstance(text, str):
            raise place.wrong(f"{name}, a text", text)
    if not isinstance(skipped, bool):
        raise place.wrong("skipped, true or false", skipped)
    _check_grade(grade, scale, place)
    return Judgement(key, grade, scale, skipped, **texts)


def _check_grade(grade: Grade | None, scale: str, place: Place) -> None:
    """Refuse a grade that isn't of its scale, if that is known; below 0 it is no judgement."""
    if grade is None or scale not in SCALES or (not isinstance(grade, str) and grade < 0):
        return
    if grade not in SCALES[scale].grades:
        wanted = ", ".join(map(str, SCALES[scale].grades))
        expected = f"a grade of the scale {scale!r}, one of {wanted}"
        if scale == DEFAULT:
            expected += "; grades by another rubric name it as their 'scale'"
        raise place.wrong(expected, grade)
