"""What is reviewed, and by which scales; the order hides systems and ranks."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.files.file_kinds import POOL, read_as
from llama_index_rag_metrics.files.lines import (
    Place,
    from_json,
    read_lines,
    read_text,
    to_json,
    write_lines,
)
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.pooling import Pool
from llama_index_rag_metrics.metrics.texts.llm_judge import RUBRIC
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.errors import InvalidInput

_GRADE_LINE = re.compile(r"^(\d):[ \t]+(.+)$", re.MULTILINE)
_FIELDS = ("grade", "key", "label", "rubric")


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer of a scale: its grade, the digit to press, the button's text, its rubric."""

    grade: float | str
    key: str
    label: str
    rubric: str


@dataclass(frozen=True, slots=True)
class Scale:
    """A question about an item, and the answers, best first."""

    name: str
    intro: str
    choices: Sequence[Choice]

    @property
    def grades(self) -> list[float | str]:
        return [choice.grade for choice in self.choices]


_RELEVANCE_LABELS = ("Not about it", "On the subject", "Part of an answer", "Exact answer")

SCALES: Mapping[str, Scale] = {
    "relevance": Scale(
        "relevance",
        "How well does the passage answer the question?",
        [
            Choice(int(key), key, _RELEVANCE_LABELS[int(key)], rubric[:1].upper() + rubric[1:])
            for key, rubric in _GRADE_LINE.findall(RUBRIC.replace("query", "question"))
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
    """A user's scale: name, intro, and choices of grade, key, label and rubric."""
    if not isinstance(record, Mapping):
        raise place.wrong(f"a scale, one of {', '.join(SCALES)}, or an object", record)
    name, intro, choices = record.get("name"), record.get("intro", ""), record.get("choices")
    if not isinstance(name, str) or not name:
        raise place.wrong("a scale with a 'name'", record)
    if not isinstance(intro, str) or not isinstance(choices, list):
        raise place.wrong("a scale with an 'intro', a text, and 'choices', a list", record)
    read = [_choice(choice, place) for choice in choices]
    for unique in ("grade", "key"):
        values = [getattr(choice, unique) for choice in read]
        if len(set(values)) < len(values):
            raise place.wrong(f"every {unique} of a scale once", values)
    if len(read) < 2:
        raise place.wrong("a scale of at least two choices", choices)
    scale = Scale(name, intro, read)
    if name in SCALES and not set(scale.grades) <= set(SCALES[name].grades):
        expected = f"a scale called otherwise than {name!r}, which has other grades"
        raise place.wrong(expected, scale.grades)
    return scale


def read_rubric(path: Path) -> Scale:
    """A user's rubric: lines such as "2: The passage …" after the question, or a scale as .json.

    It is named by a hash of what it says, which tells grades by two rubrics apart.
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
    return read_scale(asdict(Scale(name, intro or SCALES[DEFAULT].intro, choices)), place)


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


_DECIDED = (
    "A pool is empty if every comparison is decided; strategy='depth' (--strategy depth) lists "
    "unlabelled passages all the same."
)

PoolLike: TypeAlias = "ReviewPool | Pool | str | os.PathLike[str]"


class ItemKey(NamedTuple):
    """The ids of an item: of a passage, a nugget, or both."""

    query_id: str
    doc_id: str | None = None
    nugget_id: str | None = None

    def __str__(self) -> str:
        return " ".join(filter(None, self))

    def record(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    def texts(self) -> list[str]:
        """The names of the texts that such an item has."""
        named = {"query": self.query_id, "text": self.doc_id, "nugget": self.nugget_id}
        return [name for name, value in named.items() if value is not None]


@dataclass(frozen=True, slots=True)
class ReviewItem:
    key: ItemKey
    query: str
    text: str = ""
    nugget: str = ""
    scale: str = DEFAULT

    def record(self) -> dict[str, str]:
        """The item as a line of a pool, without its scale."""
        return {**self.key.record(), **{name: getattr(self, name) for name in self.key.texts()}}


@dataclass(frozen=True)
class ReviewPool:
    """Items to be judged, each once, and the scales that they name."""

    items: Sequence[ReviewItem]
    scales: Mapping[str, Scale] = field(default_factory=lambda: dict(SCALES))

    @classmethod
    def of(cls, pool: PoolLike) -> ReviewPool:
        if isinstance(pool, ReviewPool):
            return pool
        if isinstance(pool, Pool):
            records = enumerate(pool.records(), 1)
            read = _read((Place("pool").item(number), record) for number, record in records)
        elif isinstance(pool, (str, os.PathLike)):
            path = Path(pool)
            with read_as(POOL, path):
                read = _read((place, from_json(line, place)) for place, line in read_lines(path))
        else:
            raise InvalidInput("pool", pool, "a Pool, or a path to what its to_jsonl() wrote")
        if not read.items:
            source = "none" if isinstance(pool, Pool) else str(pool)
            raise InvalidInput("pool", source, "at least one passage or nugget to review", _DECIDED)
        if not any(item.text or item.key.doc_id is None for item in read.items):
            remedy = "pool(..., dataset=...) and `labels pool --dataset` bring the texts."
            raise InvalidInput("pool", "passages without any text", "texts to judge", remedy)
        return read

    def __len__(self) -> int:
        return len(self.items)

    @property
    def queries(self) -> dict[str, str]:
        return {item.key.query_id: item.query for item in self.items}

    @property
    def extent(self) -> str:
        items = counted(len(self), "item", "items")
        return f"{items} of {questions(len(self.queries))}"

    @property
    def digest(self) -> str:
        """A hash of the pool, whatever the order of its items."""
        records = sorted(to_json([item.record(), item.scale]) for item in self.items)
        names = sorted({item.scale for item in self.items})
        grades = {name: self.scales[name].grades for name in names}
        return sha256(json.dumps([records, grades]).encode()).hexdigest()[:32]

    def shuffled(self, seed: int) -> list[ReviewItem]:
        """The items in random order, those of a question together, whatever order they came in."""
        in_order = sorted(self.items, key=lambda item: to_json(item.key))
        groups = list(grouped((item.key.query_id, item) for item in in_order).values())
        rng = random.Random(int(seed))
        rng.shuffle(groups)
        for group in groups:
            rng.shuffle(group)
        return [item for group in groups for item in group]

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the items, one a line, as `ReviewPool.of` reads them."""
        write_lines(Path(path), (to_json(self._line(item)) for item in self.items))

    def _line(self, item: ReviewItem) -> dict[str, Any]:
        scale = self.scales[item.scale]
        if SCALES.get(item.scale) != scale:
            return {**item.record(), "scale": asdict(scale)}
        return {**item.record(), **({} if item.scale == DEFAULT else {"scale": item.scale})}


def _read(lines: Iterable[tuple[Place, object]]) -> ReviewPool:
    items: dict[ItemKey, ReviewItem] = {}
    used: dict[str, Scale] = {}
    for place, record in lines:
        if not isinstance(record, Mapping):
            raise place.wrong("an item, {field: value}", record)
        named = record.get("scale", DEFAULT)
        is_known = isinstance(named, str) and named in SCALES
        scale = SCALES[named] if is_known else read_scale(named, place)
        if used.setdefault(scale.name, scale) != scale:
            raise place.wrong(f"one scale that is called {scale.name!r}", named)
        item = _item(record, scale.name, place)
        if item.key in items:
            raise place.wrong("every item once", str(item.key))
        items[item.key] = item
    return ReviewPool(list(items.values()), {**SCALES, **used})


def read_key(record: Mapping[str, Any], place: Place) -> ItemKey:
    if record.get("query_id") is None:
        raise place.wrong("a field 'query_id'", sorted(record))
    ids = [record.get(name) for name in ("doc_id", "nugget_id")]
    if ids == [None, None]:
        raise place.wrong("a field 'doc_id', or 'nugget_id'", sorted(record))
    return ItemKey(
        read_id(record["query_id"], place),
        *(None if value is None else read_id(value, place) for value in ids),
    )


def _item(record: Mapping[str, Any], scale: str, place: Place) -> ReviewItem:
    key = read_key(record, place)
    texts: dict[str, Any] = {name: record.get(name) for name in key.texts()}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise place.wrong(f"a field {name!r}, a text", sorted(record))
    return ReviewItem(key, **{**texts, "query": texts["query"] or key.query_id, "scale": scale})
