"""What is reviewed: items of a pool, in an order that tells nothing of systems and ranks."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.files.file_contents import POOL, read_as
from llama_index_rag_metrics.files.lines import Place, from_json, read_lines, to_json, write_lines
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.labels.label_pool import Pool
from llama_index_rag_metrics.labels.review.scales import DEFAULT, SCALES, Scale, read_scale
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.errors import InvalidInput

_DECIDED = (
    "A pool is empty where every verdict is decided; strategy='depth' (--strategy depth) lists "
    "what is unjudged all the same."
)

PoolLike: TypeAlias = "ReviewPool | Pool | str | os.PathLike[str]"


class ItemKey(NamedTuple):
    """What an item is known by.

    Attributes:
        query_id: the question.
        doc_id: the passage; None where a nugget alone is judged.
        nugget_id: the nugget; None where a passage alone is judged.
    """

    query_id: str
    doc_id: str | None = None
    nugget_id: str | None = None

    def record(self) -> dict[str, str]:
        """Those of the ids that there are, by field."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """Something that a reviewer judges.

    Attributes:
        key: what it is known by.
        query: the question.
        text: the passage; "" where there is none.
        nugget: the nugget; "" where there is none.
        scale: the name of the scale that it is judged by.
    """

    key: ItemKey
    query: str
    text: str = ""
    nugget: str = ""
    scale: str = DEFAULT

    def record(self) -> dict[str, str]:
        """The item as a line of a pool, but for its scale."""
        texts = {"query": self.query}
        if self.key.doc_id is not None:
            texts["text"] = self.text
        if self.key.nugget_id is not None:
            texts["nugget"] = self.nugget
        return {**self.key.record(), **texts}


@dataclass(frozen=True)
class ReviewPool:
    """Items to be judged, each once.

    Attributes:
        items: the items.
        scales: name to scale, of every scale that an item names.
    """

    items: Sequence[ReviewItem]
    scales: Mapping[str, Scale] = field(default_factory=lambda: dict(SCALES))

    @classmethod
    def of(cls, pool: PoolLike) -> ReviewPool:
        """A pool that `pool` made, a file of one, or one that is ready.

        Raises:
            FileFormatError: a line can't be read, or repeats an item; says where and why.
            FileNotFoundError: there is no such file.
            InvalidInput: there is nothing to review in it.
        """
        if isinstance(pool, ReviewPool):
            return pool
        if isinstance(pool, Pool):
            place = Place("pool")
            lines = ((place.item(n), record) for n, record in enumerate(pool.records(), 1))
            read = _read(lines)
        elif isinstance(pool, (str, os.PathLike)):
            path = Path(pool)
            with read_as(POOL, path):
                read = _read((place, from_json(line, place)) for place, line in read_lines(path))
        else:
            raise InvalidInput("pool", pool, "a Pool, or a path to what its to_jsonl() wrote")
        if not read.items:
            source = "none" if isinstance(pool, Pool) else str(pool)
            raise InvalidInput("pool", source, "at least one item to review", _DECIDED)
        if not any(item.text or item.key.doc_id is None for item in read.items):
            remedy = "pool(..., dataset=...) and `labels pool --dataset` bring the texts."
            raise InvalidInput("pool", "items without any text", "texts to judge", remedy)
        return read

    def __len__(self) -> int:
        return len(self.items)

    @property
    def queries(self) -> dict[str, str]:
        """Query id to question."""
        return {item.key.query_id: item.query for item in self.items}

    @property
    def extent(self) -> str:
        """How many items of how many questions, in words."""
        items = counted(len(self), "item", "items")
        return f"{items} of {counted(len(self.queries), 'question', 'questions')}"

    @property
    def digest(self) -> str:
        """What tells this pool from others, whatever the order of its items."""
        records = sorted(to_json([item.record(), item.scale]) for item in self.items)
        grades = {
            name: [choice.grade for choice in self.scales[name].choices]
            for name in sorted({item.scale for item in self.items})
        }
        return sha256(json.dumps([records, grades]).encode()).hexdigest()[:32]

    def shuffled(self, seed: int) -> list[ReviewItem]:
        """The items in random order, those of a question together.

        The order in which they came has no influence: it may tell how telling they are.
        """
        by_query: dict[str, list[ReviewItem]] = {}
        for item in sorted(self.items, key=lambda item: to_json(item.key)):
            by_query.setdefault(item.key.query_id, []).append(item)
        chance = random.Random(int(seed))
        groups = list(by_query.values())
        chance.shuffle(groups)
        for group in groups:
            chance.shuffle(group)
        return [item for group in groups for item in group]

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the items, one a line, as `ReviewPool.of` reads them."""
        write_lines(Path(path), (to_json(self._line(item)) for item in self.items))

    def _line(self, item: ReviewItem) -> dict[str, Any]:
        if item.scale == DEFAULT and self.scales[DEFAULT] == SCALES[DEFAULT]:
            return item.record()
        scale = self.scales[item.scale]
        is_known = SCALES.get(item.scale) == scale
        return {**item.record(), "scale": item.scale if is_known else scale.record()}


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
            raise place.wrong("every item once", " ".join(filter(None, item.key)))
        items[item.key] = item
    return ReviewPool(list(items.values()), {**SCALES, **used})


def read_key(record: Mapping[str, Any], place: Place) -> ItemKey:
    """The ids of an item or of a judgement.

    Raises:
        FileFormatError: there is no query, or neither a passage nor a nugget.
    """
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
    texts = {"query": True, "text": key.doc_id is not None, "nugget": key.nugget_id is not None}
    for name, is_needed in texts.items():
        if is_needed and not isinstance(record.get(name), str):
            raise place.wrong(f"a field {name!r}, a text", sorted(record))
    query, text, nugget = (record[name] if needed else "" for name, needed in texts.items())
    return ReviewItem(key, query or key.query_id, text, nugget, scale)
