"""A ranking as a record, and a record as a ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from llama_index_rag_metrics.files.fields import CALLS, CONTEXT, REPEAT, TABLE, Fields
from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.records import (
    AN_ID,
    is_missing,
    read_id,
    read_list,
    read_number,
    read_span,
    read_texts,
    span_record,
)
from llama_index_rag_metrics.rankings.run import Call, Items, Ranking
from llama_index_rag_metrics.runtime.errors import InvalidInput

Read = Callable[[Any, Location], Any]

ASKED = ("query", "asked_by", "retriever")
"""Fields of a call beside those of a ranking, all texts."""

_TIME = "a number from 1 on, which time the question was asked"


def read_ranking(record: Mapping[str, Any], location: Location, fields: Fields = TABLE) -> Ranking:
    """Read what was retrieved for a question, with the calls of a session if there were any."""
    columns = _read_columns(record, location, fields)
    if (calls := record.get(CALLS)) is not None:
        records = read_list(calls, location)
        columns["calls"] = tuple(_read_call(call, location) for call in records)
    context = record.get(CONTEXT)
    with location.expecting("lists of the same length", InvalidInput):
        if not is_missing(context):
            shared = _read_columns(_record(context, location), location, TABLE)
            columns["context"] = Ranking(**shared)
        return Ranking(**columns)


def read_repeat(record: Mapping[str, Any], location: Location, fields: Fields = TABLE) -> int:
    value = fields.value(record, REPEAT)
    if is_missing(value) or value == "":
        return 1
    repeat = read_number(value)
    is_right = not isinstance(value, bool) and repeat >= 1 and float(repeat).is_integer()
    location.check(is_right, _TIME, value)
    return int(repeat)


def ranking_record(query_id: str, repeat: int, ranking: Ranking) -> dict[str, Any]:
    """The record of a ranking, which `read_ranking` reads."""
    record: dict[str, Any] = {"query_id": query_id}
    if repeat > 1:
        record[REPEAT] = repeat
    record |= _plain_columns(ranking)
    if ranking.calls is not None:
        record[CALLS] = [_call_record(call) for call in ranking.calls]
    if ranking.context is not None:
        record[CONTEXT] = _plain_columns(ranking.context)
    return record


def read_ids(value: object, location: Location) -> list[str]:
    expected = f"{AN_ID}, or {{id: number}}" if _are_pairs(value) else AN_ID
    items = read_list(value, location)
    return [read_id(item, location, expected) for item in items]


def number_or_none(value: Any, location: Location) -> float | None:
    if value is None or value == "":
        return None
    number = read_number(value)
    if number != number:  # noqa: PLR0124
        raise location.wrong("a number", value)
    return number


def plain_score(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else float(score)


def _are_pairs(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, (list, tuple)) for item in value)


def _read_call(value: object, location: Location) -> Call:
    record = _record(value, location)
    texts = {name: record[name] for name in ASKED if record.get(name) is not None}
    for text in texts.values():
        location.check(isinstance(text, str), "a text", text)
    columns = _read_columns(record, location, TABLE)
    with location.expecting("lists of the same length", InvalidInput):
        return Call(**columns, **texts)


def _record(value: Any, location: Location) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise location.wrong("a record, {field: value}", value)
    return value


def _read_columns(record: Mapping[str, Any], location: Location, fields: Fields) -> dict[str, Any]:
    columns = {"ids": read_ids(fields.value(record, "retrieved_ids"), location)}
    for field, (name, read, _) in _COLUMNS.items():
        if (value := fields.value(record, field)) is not None:
            columns[name] = read(value, location)
    return columns


def _plain_columns(items: Items) -> dict[str, Any]:
    record: dict[str, Any] = {"retrieved_ids": list(items.ids)}
    for field, (name, _, plain) in _COLUMNS.items():
        if (value := getattr(items, name)) is not None:
            record[field] = plain(value)
    return record


def _call_record(call: Call) -> dict[str, Any]:
    return {**{name: getattr(call, name) for name in ASKED}, **_plain_columns(call)}


def _items(read: Read) -> Read:
    return lambda value, location: [read(item, location) for item in read_list(value, location)]


def _typed(kind: Any, expected: str) -> Read:
    def converted(value: Any, location: Location) -> Any:
        with location.expecting(expected, msgspec.ValidationError):
            return msgspec.convert(value, kind)

    return converted


_COUNT = Annotated[int, msgspec.Meta(ge=0)]

_COLUMNS: Mapping[str, tuple[str, Read, Callable[[Any], Any]]] = {
    "scores": ("scores", _items(number_or_none), lambda scores: [*map(plain_score, scores)]),
    "retrieved_texts": ("texts", read_texts, list),
    "latency": ("latency", lambda value, location: read_number(value), float),
    "error": ("error", lambda value, location: str(value), str),
    "retrieved_spans": ("spans", _items(read_span), lambda spans: [*map(span_record, spans)]),
    "retrieved_tokens": ("tokens", _items(_typed(_COUNT, "a number of tokens, from 0 on")), list),
}
"""A field of a record, its name in a Ranking, and how it is read and written."""
