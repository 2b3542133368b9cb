"""A grade from 0 to 3 in an LLM's answer: in JSON, behind its label, out of 3, or alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from llama_index_rag_metrics.runtime.models import json_and_text, without_reasoning

HIGHEST = 3

# what JSON calls a grade, without case, spaces and underscores; O is TREC's overall score
_KEYS = frozenset(
    {"grade", "score", "rating", "relevance", "finalscore", "relevancescore", "relevancegrade", "o"}
)

_WHOLE = r"(-?\d{1,6}(?:\.0{1,6})?)"
_OUT_OF_3 = r"\s{0,3}(?:/|out\s{1,3}of)\s{0,3}3(?![\w%]|[.,]\d)"
# what makes a number something other than a grade: 2.5, 20%, 2-3, 2 or 3, 2/10
_GOES_ON = r"(?![\w%]|[.,]\s?\d|\s{0,3}(?:[-–—/]|(?:to|or|and|of|out\s{1,3}of)\b)?\s{0,3}\d)"
_FLAGS = re.IGNORECASE | re.ASCII
_LABEL = re.compile(
    r"\b(?:score|grade|rating|relevance|category|O)\s{0,3}(?:[:=]|\bis\b)\s{0,3}", _FLAGS
)
_BEHIND_LABEL = re.compile(rf"{_WHOLE}(?:{_OUT_OF_3})?{_GOES_ON}", _FLAGS)
_RATED = re.compile(
    rf"\b(?:rate|grade|score|give)\b[^.\n\d]{{0,60}}(?<![\w-]){_WHOLE}{_OUT_OF_3}{_GOES_ON}", _FLAGS
)
_ALONE = re.compile(rf"[\s\"'(]*{_WHOLE}(?:{_OUT_OF_3})?[\s\"').]*", _FLAGS)
_MARKDOWN = re.compile(r"[*`_#]+")
_MOST_CHARACTERS = 80  # of what stands behind a label, and of an answer in an error


def read_grade(text: str) -> int:
    """The grade that an answer gives, whatever its form.

    Raises:
        ValueError: it gives none that is clear, or two that differ.
    """
    objects, around = json_and_text(without_reasoning(text).strip())
    prose = _MARKDOWN.sub(" ", around)
    grades = {*_in_json(objects), *_in_prose(prose)}
    if not objects and (number := _ALONE.fullmatch(prose)):
        grades.add(_grade(number[1]))
    if len(grades) > 1:
        raise ValueError(f"grades that differ: {' and '.join(map(str, sorted(grades)))}")
    if not grades:
        raise _no_grade(text)
    return grades.pop()


def _in_json(objects: list[dict[str, Any]]) -> Iterator[int]:
    for outer in objects:
        members = list(outer.values())
        is_wrapped = len(members) == 1 and isinstance(members[0], dict)
        record: Mapping[str, Any] = members[0] if is_wrapped else outer
        for key, value in record.items():
            is_in_words = isinstance(value, str) and not re.search(r"\d", value)
            is_grade = re.sub(r"[\s_-]", "", key).lower() in _KEYS
            if is_grade and value is not None and not is_in_words:
                yield _grade(value)


def _in_prose(prose: str) -> Iterator[int]:
    for label in _LABEL.finditer(prose):
        line = prose[label.end() : label.end() + _MOST_CHARACTERS].partition("\n")[0]
        if number := _BEHIND_LABEL.match(line):
            yield _grade(number[1])
        elif re.search(r"\d", line):
            raise _no_grade(label[0] + line)
    for sentence in _RATED.finditer(prose):
        yield _grade(sentence[1])


def _grade(value: Any) -> int:
    number = value
    if isinstance(value, str) and re.fullmatch(rf"\s*{_WHOLE}\s*", value, re.ASCII):
        number = float(value)
    if type(number) not in (int, float) or number != number // 1:
        raise ValueError(f"{json.dumps(value)[:40]} isn't a whole number")
    if not 0 <= number <= HIGHEST:
        raise ValueError(f"{number:g} isn't a grade from 0 to {HIGHEST}")
    return int(number)


def _no_grade(text: str) -> ValueError:
    line = " ".join(text.split())
    return ValueError(f"no grade from 0 to {HIGHEST} in {line[:_MOST_CHARACTERS]!r}")
