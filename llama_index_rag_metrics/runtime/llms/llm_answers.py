"""The JSON in what an LLM wrote: fenced, amid chatter, or behind its reasoning.

An answer is never guessed: where a text holds two that differ, neither counts.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

AnyAnswer = TypeVar("AnyAnswer", bound=BaseModel)

_REASONING_BEGINS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_REASONING_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_CUT_OFF = re.compile(r"(?:^|(?<=[.!?:]))[ \t]{0,8}<think(?:ing)?>", re.IGNORECASE | re.MULTILINE)
"""Where reasoning begins that is never closed; amid a sentence, the tag is merely mentioned."""
_JSON_BEGINS = re.compile(r"[{\[]")


def without_reasoning(text: str) -> str:
    """A text without the parts in which an LLM thinks aloud.

    Some LLMs, and some servers, leave the opening tag out; then all before the closing one goes.
    Without a closing one, the LLM was cut off: all from the opening one on goes.

    >>> without_reasoning("<think>Is it a 3? No.</think>2"), without_reasoning("Hm.</think>2")
    ('2', '2')
    >>> without_reasoning("<think>Maybe the final score: 1")
    ''
    """
    parts, end = [], 0
    while (begins := _REASONING_BEGINS.search(text, end)) and (
        ends := _REASONING_ENDS.search(text, begins.end())
    ):
        parts.append(text[end : begins.start()])
        end = ends.end()
    rest = text[end:]
    if not parts and (ends := _REASONING_ENDS.search(rest)):
        rest = rest[ends.end() :]
    if begins := _CUT_OFF.search(rest):
        rest = rest[: begins.start()]
    return "".join([*parts, rest])


def json_values(text: str) -> list[Any]:
    """The JSON objects and lists in a text, in order; not those within others.

    Examples:
        >>> json_values('Sure! Here is the answer: {"grade": 2}. See [1] and {"a", "b"}.')
        [{'grade': 2}, [1]]
    """
    return json_and_text(text)[0]


def json_and_text(text: str) -> tuple[list[Any], str]:
    """The JSON objects and lists in a text, and the text around them.

    Examples:
        >>> json_and_text('Here: {"grade": 2}!')
        ([{'grade': 2}], 'Here: !')
    """
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    values, around, position, end = [], [], 0, 0
    while begins := _JSON_BEGINS.search(text, position):
        try:
            value, position = decoder.raw_decode(text, begins.start())
        except json.JSONDecodeError:
            position = begins.end()
        except RecursionError:
            break
        else:
            values.append(value)
            around.append(text[end : begins.start()])
            end = position
    return values, "".join([*around, text[end:]])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    for key, value in pairs:
        if record[key] != value:
            raise Contradiction(f"{key!r} stands there twice, and differs")
    return record


class Contradiction(ValueError):
    """An answer says two things at once."""


def json_answer(answer_class: type[AnyAnswer], text: str) -> AnyAnswer:
    """The one answer that the JSON in a text gives.

    An object may be wrapped in another with a single key, such as a tool's name.

    Examples:
        >>> class Grade(BaseModel):
        ...     grade: int
        >>> json_answer(Grade, 'Certainly: {"grade": 2}')
        Grade(grade=2)
        >>> json_answer(Grade, 'Either {"grade": 2} or {"grade": 3}.')
        Traceback (most recent call last):
        ValueError: two answers that differ: {"grade": 2} and {"grade": 3}
    """
    fitting: list[AnyAnswer] = []
    refused: ValidationError | None = None
    for value in json_values(without_reasoning(text)):
        try:
            fitting.append(_validated(answer_class, value))
        except ValidationError as error:
            refused = refused or error
    if not fitting:
        raise refused or ValueError(f"no JSON in {shortened(text)}")
    first = fitting[0]
    if differing := [answer for answer in fitting if answer != first]:
        both = " and ".join(
            shortened(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False), quoted=False)
            for answer in (first, differing[0])
        )
        raise ValueError(f"two answers that differ: {both}")
    return first


def shortened(text: str, most: int = 80, *, quoted: bool = True) -> str:
    """A text in one line for an error, cut where it is long."""
    line = " ".join(text.split())
    line = line if len(line) <= most else f"{line[:most]}…"
    return repr(line) if quoted else line


def _validated(answer_class: type[AnyAnswer], value: Any) -> AnyAnswer:
    """Validated as JSON, in which strict models take lists for tuples and texts for enums."""
    try:
        return answer_class.model_validate_json(json.dumps(value))
    except ValidationError:
        if not isinstance(value, dict) or len(value) != 1:
            raise
        (inner,) = value.values()
        if not isinstance(inner, (dict, list)):
            raise
        return answer_class.model_validate_json(json.dumps(inner))
