"""Grades in what an LLM wrote: JSON, UMBRELA's own form, or a plain number.

A grade is read and never guessed: where a text names two that differ, a range or a fraction, it is
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from llama_index_rag_metrics.runtime.llms import json_and_text, shortened, without_reasoning

HIGHEST = 3

_GRADE_KEYS = frozenset(
    {"grade", "score", "rating", "relevance", "finalscore", "relevancescore", "relevancegrade", "o"}
)
"""What JSON calls a grade, without case, spaces and underscores; O is TREC's overall score."""

_NUMBER_KEYS = frozenset({"passage", "number", "passagenumber", "index", "id"})

_LABEL = re.compile(
    r"""(?<![\w"']) (?:
    (?: (?:final|overall|relevance)\s+ )? (?: score | grade | rating | relevance | category )
    \s* (?: [:=] | \bis\b )
    | O \s* [:=] ) \s*""",
    re.IGNORECASE | re.VERBOSE,
)
_LABELLED = re.compile(r"(-?\d+(?:\.0+)?)(?=\s*$|\s*[.,;:!)]|\s+[(–—-])")
"""A grade behind its label; what follows on the line holds no further number."""

_PLAIN = re.compile(r"[\s\"'(]*(-?\d+(?:\.0+)?)[\s\"').]*")
_LINE = re.compile(
    r"""^\W* (?:passage|text|document)? \s* \#? (\d+) \s*
    (?: [:)\]=\#]+ | [.–—-]+ (?=\W*\s) ) [^\w-]*
    (?: (?:(?:final|relevance)\s+)? (?:score|grade|rating|relevance) \s* [:=] \s* )?
    (-?\d+) \W*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""The number of a passage and its grade; 1.2 and 1-2 are neither."""

_WORDS_OF_A_LIST = frozenset({"json", "the", "final", "relevance", "grades", "scores", "ratings"})
"""What may be around a list of numbers that are grades; amid other words, they may be anything."""

_MARKDOWN = re.compile(r"[*`_ \t]+")
_MOST_CHARACTERS = 200
"""Of what stands behind a label."""


class Grade(BaseModel):
    """The grade of a passage."""

    model_config = ConfigDict(extra="forbid", strict=True)

    grade: int = Field(default=..., ge=0, le=HIGHEST, description="0, 1, 2 or 3")


class NumberedGrade(Grade):
    """The grade of one of several passages."""

    passage: int = Field(default=..., ge=1, description="the number of the passage")


class Grades(BaseModel):
    """The grades of several passages, each by its number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    grades: list[NumberedGrade] = Field(default=..., description="one for each passage")

    def by_number(self, n: int) -> dict[int, int]:
        """Number to grade, of passages 1 to n; some may be missing."""
        grades: dict[int, int] = {}
        for numbered in self.grades:
            if numbered.passage > n:
                raise ValueError(f"there is no passage {numbered.passage}: they are 1 to {n}")
            if numbered.passage in grades:
                raise ValueError(f"passage {numbered.passage} is graded twice")
            grades[numbered.passage] = numbered.grade
        if not grades:
            raise ValueError("no passage is graded")
        return grades


def read_grade(text: str) -> Grade:
    """The grade that an LLM gives in a text.

    Args:
        text: JSON with a grade, such as {"grade": 2} or TREC's {"M": 2, "T": 1, "O": 2}, also
            fenced or amid chatter; lines such as "##final score: 2" or "Grade: 2"; or "2".

    Examples:
        >>> [read_grade(text).grade for text in ("M: 3\\nT: 1\\n##final score: 2", "**0**", "1.")]
        [2, 0, 1]
        >>> read_grade("2/3")
        Traceback (most recent call last):
        ValueError: no grade from 0 to 3 in '2/3'
    """
    values, around = json_and_text(without_reasoning(text).strip())
    bare = _MARKDOWN.sub(" ", around)
    grades = {*_grades_in_json(values), *_grades_in_lines(bare)}
    if not values and (plain := _PLAIN.fullmatch(bare)):
        grades.add(_grade(plain[1]))
    if len(grades) > 1:
        raise ValueError(f"grades that differ: {' and '.join(map(str, sorted(grades)))}")
    if not grades:
        raise _no_grade(text)
    return Grade(grade=grades.pop())


def read_grades(text: str, n: int) -> Grades:
    """The grades that an LLM gives several passages in a text.

    Args:
        text: JSON with numbers and grades, as a list or as an object; a list of all grades in
            order, with no other words around it; or a line for each passage, such as "Passage 2:
            3".

    Examples:
        >>> [numbered.grade for numbered in read_grades('{"1": 3, "2": 0}', 2).grades]
        [3, 0]
    """
    values, around = json_and_text(without_reasoning(text).strip())
    readings = [reading for value in values if (reading := _grades_of(value, n))]
    if len(readings) > 1 and all(isinstance(value, dict) for value in values):
        readings = [of_items] if (of_items := _of_items(values)) else readings
    lines = [_LINE.match(line) for line in _MARKDOWN.sub(" ", around).splitlines()]
    if by_line := [(int(line[1]), _grade(line[2])) for line in lines if line]:
        readings.append(by_line)
    if any(reading != readings[0] for reading in readings):
        raise ValueError("lists of grades that differ")
    if not readings:
        raise ValueError(f"no grades of passages 1 to {n} in {shortened(text)}")
    is_explicit = by_line or any(
        _grades_of(value, n) for value in values if not _is_list_of_numbers(value)
    )
    if not is_explicit and {*re.findall(r"\w+", around.lower())} - _WORDS_OF_A_LIST:
        raise ValueError(f"a list amid other words may be no grades: {shortened(text)}")
    numbered = [NumberedGrade(passage=number, grade=grade) for number, grade in readings[0]]
    return Grades(grades=numbered)


def _grades_in_json(values: Sequence[Any]) -> Iterator[int]:
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield from _grades_in_object(_unwrapped(item))


def _unwrapped(value: dict[str, Any]) -> dict[str, Any]:
    """The object in one with a single key, such as "result"."""
    inner = next(iter(value.values()), None)
    return inner if len(value) == 1 and isinstance(inner, dict) else value


def _grades_in_object(value: Mapping[str, Any]) -> Iterator[int]:
    for key, member in value.items():
        is_said_in_words = isinstance(member, str) and not re.search(r"\d", member)
        if _bare(key) in _GRADE_KEYS and member is not None and not is_said_in_words:
            yield _grade(member)


def _grades_in_lines(text: str) -> Iterator[int]:
    for label in _LABEL.finditer(text):
        rest = text[label.end() : label.end() + _MOST_CHARACTERS].partition("\n")[0]
        labelled = _LABELLED.match(rest)
        if labelled and not re.search(r"\d", rest[labelled.end() :]):
            yield _grade(labelled[1])
        elif re.search(r"\d", rest):
            raise _no_grade(label[0] + rest)


def _grades_of(value: Any, n: int) -> list[tuple[int, int]]:
    """Numbers and grades of JSON; empty where it holds none."""
    if isinstance(value, dict):
        if value and all(key.strip().isdecimal() for key in value):
            return [(int(key), _grade(member)) for key, member in value.items()]
        inner = [(key, member) for key, member in value.items() if isinstance(member, (list, dict))]
        if len(inner) != 1:
            return _of_items([value])
        key, member = inner[0]
        is_other = _is_list_of_numbers(member) and _bare(key).rstrip("s") not in _GRADE_KEYS
        return [] if is_other else _grades_of(member, n)
    if not isinstance(value, list) or not value:
        return []
    if all(isinstance(item, dict) for item in value):
        return _of_items(value)
    if _is_list_of_numbers(value):
        if len(value) != n:
            raise ValueError(f"{len(value)} grades for {n} passages")
        return [(number, _grade(item)) for number, item in enumerate(value, 1)]
    return []


def _is_list_of_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) in (int, float) for item in value)


def _of_items(items: list[dict[str, Any]]) -> list[tuple[int, int]]:
    pairs = []
    for item in items:
        numbers = [member for key, member in item.items() if _bare(key) in _NUMBER_KEYS]
        grades = {*_grades_in_object(item)}
        if len(numbers) != 1 or len(grades) != 1:
            return []
        pairs.append((_whole(numbers[0]), grades.pop()))
    return pairs


def _grade(value: Any) -> int:
    grade = _whole(value)
    if not 0 <= grade <= HIGHEST:
        raise ValueError(f"{grade} isn't a grade from 0 to {HIGHEST}")
    return grade


def _whole(value: Any) -> int:
    """A whole number, also where it is written as a text or as 2.0."""
    number = value
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,6}(\.0+)?\s*", value, re.ASCII):
        number = float(value)
    if type(number) not in (int, float) or number != number // 1:
        raise ValueError(f"{json.dumps(value)[:40]} isn't a whole number")
    return int(number)


def _bare(key: str) -> str:
    return re.sub(r"[\s_-]", "", key).lower()


def _no_grade(text: str) -> ValueError:
    return ValueError(f"no grade from 0 to {HIGHEST} in {shortened(text)}")
