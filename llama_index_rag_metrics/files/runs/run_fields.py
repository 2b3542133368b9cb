"""A ranking as a record, with the calls of a session, and what a record says of a ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from llama_index_rag_metrics.files.fields import (
    CALLS,
    FORBIDDEN_FIELDS,
    FORBIDDEN_UNKNOWN,
    MODEL_CONTEXT,
    RETRIEVED,
    SCORES,
    SPANS,
    TEXTS,
    TOKENS,
    first_of,
)
from llama_index_rag_metrics.files.judgements import read_number
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import (
    is_missing,
    place_record,
    read_id,
    read_place,
    read_texts,
)
from llama_index_rag_metrics.rankings.run import Call, Items, Ranking
from llama_index_rag_metrics.runtime.errors import InvalidInput

T = TypeVar("T")

ASKED = ("query", "asked_by", "retriever")
"""Fields of a call beside those of a ranking, all texts."""


class Field(NamedTuple):
    """A field of `Ranking`, and the names of records for it, ours first."""

    name: str
    names: Sequence[str]
    read: Callable[[Any, Place], Any]
    plain: Callable[[Any], Any]

    @property
    def column(self) -> str:
        return self.names[0]

    def of(self, items: Items) -> Any:
        """What JSON and Arrow hold of a ranking; None where nothing is known."""
        return None if (value := getattr(items, self.name)) is None else self.plain(value)


def read_ranking(record: Mapping[str, Any], place: Place) -> Ranking:
    """The ranking of a record of a whole query: ids, best first, and what there is beside them."""
    context = record.get(MODEL_CONTEXT)
    try:
        calls = list_of(record.get(CALLS), place, _read_call)
        return Ranking(
            **_read(_SHARED + MARKS, record, place),
            calls=None if calls is None else tuple(calls),
            context=None
            if is_missing(context)
            else Ranking(**_read(_SHARED, _mapping(context, place), place)),
        )
    except InvalidInput as problem:
        raise place.wrong("lists of the same length", str(problem)) from problem


def ranking_record(query_id: str, ranking: Ranking) -> dict[str, Any]:
    """The record that `read_ranking` reads, without what isn't given."""
    record = {"query_id": query_id, **_record(_SHARED + MARKS, ranking)}
    if ranking.calls is not None:
        record[CALLS] = [
            {**{name: getattr(call, name) for name in ASKED}, **_record(_SHARED, call)}
            for call in ranking.calls
        ]
    if ranking.context is not None:
        record[MODEL_CONTEXT] = _record(_SHARED, ranking.context)
    return record


def read_ids(value: object, place: Place) -> list[str]:
    """Ranked ids, a list."""
    ids = as_list(value, place)
    return [
        item if type(item) is str and (item or place.is_ours) else read_id(item, place)
        for item in ids
    ]


def as_list(value: object, place: Place) -> Sequence[Any]:
    """A list, also from an array."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, (list, tuple)):
        raise place.wrong("a list", value)
    return value


def list_of(value: object, place: Place, read: Callable[[Any, Place], T]) -> list[T] | None:
    """What a list holds, item by item; None where there is no list."""
    return None if value is None else [read(item, place) for item in as_list(value, place)]


def number_or_none(value: Any, place: Place) -> float | None:
    """A number, or its text; None where there is none."""
    if value is None or (type(value) is str and not value):
        return None
    number = value if type(value) is float else read_number(value)
    if number != number:  # noqa: PLR0124
        raise place.wrong("a number", value)
    return number


def _read_call(record: object, place: Place) -> Call:
    fields = _mapping(record, place)
    asked: dict[str, Any] = {name: _text(fields.get(name), place) for name in ASKED}
    return Call(**_read(_SHARED, fields, place), **asked)


def _read(fields: Iterable[Field], record: Mapping[str, Any], place: Place) -> dict[str, Any]:
    values = ((field, first_of(record, field.names)) for field in fields)
    return {
        field.name: field.read(value, place)
        for field, value in values
        if value is not None or field.name == "ids"
    }


def _record(fields: Iterable[Field], items: Items) -> dict[str, Any]:
    values = ((field.column, field.of(items)) for field in fields)
    return {column: value for column, value in values if value is not None}


def _each(read: Callable[[Any, Place], T]) -> Callable[[Any, Place], list[T]]:
    return lambda value, place: [read(item, place) for item in as_list(value, place)]


def _mapping(value: object, place: Place) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise place.wrong("a record, {field: value}", value)
    return value


def _text(value: object, place: Place) -> str:
    if value is not None and not isinstance(value, str):
        raise place.wrong("a text", value)
    return value or ""


def plain_score(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else float(score)


def _count(value: object, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise place.wrong("a number of tokens, from 0 on", value)
    return value


_SHARED = (
    Field("ids", RETRIEVED, read_ids, list),
    Field("scores", SCORES, _each(number_or_none), lambda scores: list(map(plain_score, scores))),
    Field("texts", TEXTS, read_texts, list),
    Field("latency", ("latency",), lambda value, place: read_number(value), float),
    Field("error", ("error",), lambda value, place: str(value), str),
    Field("spans", SPANS, _each(read_place), lambda spans: list(map(place_record, spans))),
    Field("tokens", TOKENS, _each(_count), list),
)
"""What rankings and calls have alike."""

MARKS = (
    Field("forbidden", FORBIDDEN_FIELDS, read_ids, list),
    Field("forbidden_unknown", FORBIDDEN_UNKNOWN, read_ids, lambda ids: list(ids) or None),
)
FIELDS = {field.column: field for field in (*_SHARED, *MARKS)}
