"""Rankings and judgements as records: one a query, or one a document."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import (
    is_missing,
    place_record,
    read_grade,
    read_id,
    read_number,
    read_place,
    read_relevance,
    read_texts,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
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
        return None if (value := getattr(items, self.name)) is None else self.plain(value)


def read_ranking(record: Mapping[str, Any], place: Place) -> Ranking:
    context = record.get(f.MODEL_CONTEXT)
    with place.expecting("lists of the same length", InvalidInput):
        calls = list_of(record.get(f.CALLS), place, _read_call)
        known = {} if is_missing(context) else _read(_SHARED, _mapping(context, place), place)
        return Ranking(
            **_read(_SHARED, record, place),
            calls=None if calls is None else tuple(calls),
            context=Ranking(**known) if known else None,
        )


def read_repeat(record: Mapping[str, Any], place: Place) -> int:
    given = record.get(f.REPEAT)
    repeat = 1 if is_missing(given) or given == "" else read_number(given)
    is_known = not isinstance(given, bool) and repeat >= 1 and float(repeat).is_integer()
    place.check(is_known, "a number from 1 on, which time the question was asked", given)
    return int(repeat)


def ranking_record(query_id: str, repeat: int, ranking: Ranking) -> dict[str, Any]:
    asked = {"query_id": query_id, **({f.REPEAT: repeat} if repeat > 1 else {})}
    record = {**asked, **_record(_SHARED, ranking)}
    if ranking.calls is not None:
        record[f.CALLS] = [
            {**{name: getattr(call, name) for name in ASKED}, **_record(_SHARED, call)}
            for call in ranking.calls
        ]
    if ranking.context is not None:
        record[f.MODEL_CONTEXT] = _record(_SHARED, ranking.context)
    return record


def read_ids(value: object, place: Place) -> list[str]:
    ids = as_list(value, place)
    return [
        item if type(item) is str and (item or place.is_ours) else read_id(item, place)
        for item in ids
    ]


def as_list(value: Any, place: Place) -> Sequence[Any]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, (list, tuple)):
        raise place.wrong("a list", value)
    return value


def list_of(value: object, place: Place, read: Callable[[Any, Place], T]) -> list[T] | None:
    return None if value is None else [read(item, place) for item in as_list(value, place)]


def number_or_none(value: Any, place: Place) -> float | None:
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
    values = ((field, f.first_of(record, field.names)) for field in fields)
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


def _mapping(value: Any, place: Place) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise place.wrong("a record, {field: value}", value)
    return value


def _text(value: Any, place: Place) -> str:
    place.check(value is None or isinstance(value, str), "a text", value)
    return value or ""


def plain_score(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else float(score)


def _count(value: object, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise place.wrong("a number of tokens, from 0 on", value)
    return value


_SHARED = (
    Field("ids", f.RETRIEVED, read_ids, list),
    Field("scores", f.SCORES, _each(number_or_none), lambda scores: list(map(plain_score, scores))),
    Field("texts", f.TEXTS, read_texts, list),
    Field("latency", ("latency",), lambda value, place: read_number(value), float),
    Field("error", ("error",), lambda value, place: str(value), str),
    Field("spans", f.SPANS, _each(read_place), lambda spans: list(map(place_record, spans))),
    Field("tokens", f.TOKENS, _each(_count), list),
)

FIELDS = {field.column: field for field in _SHARED}


def rename(names: Sequence[str], fields: Mapping[str, str]) -> list[str]:
    """Names of columns as fields; a column that was called like such a field isn't read."""
    taken = set(fields.values())
    return [fields.get(name, f"another {name}" if name in taken else name) for name in names]


def renamed(record: Any, fields: Mapping[str, str]) -> Any:
    if not fields or not isinstance(record, Mapping):
        return record
    return dict(zip(rename(list(record), fields), record.values(), strict=True))


def relevance_record(query_id: str, relevance: Relevance) -> dict[str, Any]:
    if relevance.alternatives is not None:
        return {"query_id": query_id, "expected_ids": relevance.to_plain()}
    grades, spans = relevance.grades, relevance.spans
    record = {"query_id": query_id, "expected_ids": [*grades], "grades": [*grades.values()]}
    if spans is not None:
        record["expected_spans"] = [place_record(spans.get(item)) for item in grades]
    return record


def read_expected(record: Mapping[str, Any], place: Place) -> Relevance:
    names = (f.RELEVANCE, f.GRADES, f.EXPECTED_SPANS)
    expected_ids, grades, spans = (f.first_of(record, field) for field in names)
    numbers, places = list_of(grades, place, read_grade), list_of(spans, place, read_place)
    if expected_ids is None and places is not None:
        known = [span for span in places if span is not None]
        with place.expecting("a place for each judgement, and every place once", InvalidInput):
            return Relevance.of_spans(known, numbers if len(known) == len(places) else [])
    if numbers is None and places is None:
        return read_relevance(expected_ids, place)
    ids = read_ids(expected_ids, place)
    beside = [column for column in (numbers, places) if column is not None]
    is_right = all(len(column) == len(ids) for column in (*beside, set(ids)))
    expected = "every expected id once, and as many grades and places where there are any"
    place.check(is_right, expected, dict(record))
    relevance = Relevance(ids if numbers is None else dict(zip(ids, numbers, strict=True)))
    if places is None:
        return relevance
    spans_of = zip(ids, places, strict=True)
    return relevance.with_spans({item: span for item, span in spans_of if span is not None})
