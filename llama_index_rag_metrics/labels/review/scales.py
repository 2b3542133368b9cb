"""Scales: the answers that a reviewer chooses from, each with its key and what it means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.lines import Place, from_json, read_text, to_json
from llama_index_rag_metrics.metrics.texts.llm_judge import RUBRIC

_GRADE_LINE = re.compile(r"^(\d):[ \t]+(.+)$", re.MULTILINE)
_FIELDS = ("grade", "key", "label", "rubric")


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer of a scale: what is kept, the digit to press, the button's text, its rubric."""

    grade: float | str
    key: str
    label: str
    rubric: str


@dataclass(frozen=True, slots=True)
class Scale:
    """What is asked of an item, and the answers, best first."""

    name: str
    intro: str
    choices: Sequence[Choice]

    @property
    def grades(self) -> list[float | str]:
        return [choice.grade for choice in self.choices]

    def record(self) -> dict[str, Any]:
        """The scale as JSON holds it; `read_scale` reads it."""
        return {**asdict(self), "choices": [asdict(choice) for choice in self.choices]}


def _for_people(rubric: str) -> str:
    return (rubric[:1].upper() + rubric[1:]).replace("query", "question")


_RELEVANCE_LABELS = {
    "3": "Exact answer",
    "2": "Part of an answer",
    "1": "On the subject",
    "0": "Not about it",
}

SCALES: Mapping[str, Scale] = {
    "relevance": Scale(
        "relevance",
        "How well does the passage answer the question?",
        [
            Choice(int(key), key, _RELEVANCE_LABELS[key], _for_people(rubric))
            for key, rubric in _GRADE_LINE.findall(RUBRIC)
        ],
    ),
    "importance": Scale(
        "importance",
        "Does a good answer need this fact?",
        [
            Choice("vital", "2", "Vital", "An answer without it isn't a good one."),
            Choice("okay", "1", "Okay", "It is worth having; an answer can do without it."),
            Choice("drop", "0", "Drop", "It is wrong, says nothing, or repeats another fact."),
        ],
    ),
    "support": Scale(
        "support",
        "Does the passage say this fact?",
        [
            Choice("full", "2", "Full", "The passage says all of it."),
            Choice("partial", "1", "Partial", "The passage says a part of it."),
            Choice("none", "0", "None", "The passage says nothing of it, or contradicts it."),
        ],
    ),
}
"""The scales that a pool can name: the rubric of `LLMRelevancy`, and those of nuggets."""

DEFAULT = "relevance"
"""The scale of what names none."""


def read_scale(record: object, place: Place) -> Scale:
    """A scale of one's own: name, intro, and choices of grade, key, label and rubric."""
    if not isinstance(record, Mapping):
        raise place.wrong(f"a scale, one of {', '.join(SCALES)}, or an object", record)
    name, intro, choices = record.get("name"), record.get("intro", ""), record.get("choices")
    if not isinstance(name, str) or not name:
        raise place.wrong("a scale with a 'name'", record)
    if not isinstance(intro, str) or not isinstance(choices, list):
        raise place.wrong("a scale with an 'intro', a text, and 'choices', a list", record)
    read = [_choice(choice, place) for choice in choices]
    for field in ("grade", "key"):
        values = [getattr(choice, field) for choice in read]
        if len(set(values)) < len(values):
            raise place.wrong(f"every {field} of a scale once", values)
    if len(read) < 2:
        raise place.wrong("a scale of at least two choices", choices)
    scale = Scale(name, intro, read)
    if name in SCALES and not set(scale.grades) <= set(SCALES[name].grades):
        expected = f"a scale called otherwise than {name!r}, which has other grades"
        raise place.wrong(expected, scale.grades)
    return scale


def read_rubric(path: Path) -> Scale:
    """A rubric of one's own: lines such as "2: The passage …", and before them what is asked.

    It is called after what it says, so that grades by two rubrics are told apart, and those by
    copies of one aren't. A .json file holds a whole scale, as `read_scale` reads it, with its name.
    """
    text, place = read_text(path), Place(str(path))
    if path.suffix == ".json":
        return read_scale(from_json(text, place), place)
    lines = _GRADE_LINE.findall(text)
    choices = [Choice(float(digit), digit, "", rubric.strip()) for digit, rubric in lines]
    choices.sort(key=lambda choice: choice.key, reverse=True)
    intro = " ".join(_GRADE_LINE.sub("", text).split())
    if len(choices) < 2:
        raise place.wrong("a line for each grade, at least two, such as '2: The passage …'", text)
    content = to_json([intro, *((choice.key, choice.rubric) for choice in choices)])
    name = f"own rubric {sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    scale = Scale(name, intro or SCALES[DEFAULT].intro, choices)
    return read_scale(scale.record(), place)


def _choice(record: object, place: Place) -> Choice:
    if not isinstance(record, Mapping) or not {"grade", "key"} <= record.keys():
        raise place.wrong(f"choices with the fields {', '.join(_FIELDS)}", record)
    grade, key = record["grade"], record["key"]
    if isinstance(grade, bool) or not isinstance(grade, (int, float, str)) or grade == "":
        raise place.wrong("a grade, a number or a word", grade)
    if not isinstance(key, str) or len(key) != 1 or key not in "0123456789":
        raise place.wrong("a key, one of the digits, as a text", key)
    texts = [record.get(field, "") for field in ("label", "rubric")]
    if not all(isinstance(text, str) for text in texts) or not any(texts):
        raise place.wrong("a label or a rubric, texts", record)
    return Choice(grade, key, *texts)
