"""A ranking as a record, with the calls of a session, and what a record says of a ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from llama_index_rag_metrics.files.fields import (
    CALLS,
    FORBIDDEN,
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


def read_ranking(record: Mapping[str, Any], place: Place) -> Ranking:
    """The ranking of a record of a whole query: ids, best first, and what there is beside them."""
    forbidden, unknown = first_of(record, FORBIDDEN), first_of(record, FORBIDDEN_UNKNOWN)
    context = record.get(MODEL_CONTEXT)
    try:
        calls = list_of(record.get(CALLS), place, _read_call)
        return Ranking(
            **_read_items(record, place),
            forbidden=None if forbidden is None else read_ids(forbidden, place),
            forbidden_unknown=None if unknown is None else read_ids(unknown, place),
            calls=None if calls is None else tuple(calls),
            context=None
            if is_missing(context)
            else Ranking(**_read_items(_mapping(context, place), place)),
        )
    except InvalidInput as problem:
        raise place.wrong("lists of the same length", str(problem)) from problem


def ranking_record(query_id: str, ranking: Ranking) -> dict[str, Any]:
    """The record that `read_ranking` reads, without what isn't given."""
    record = {"query_id": query_id, **_items_record(ranking)}
    if ranking.forbidden is not None:
        record["forbidden_ids"] = list(ranking.forbidden)
    if ranking.forbidden_unknown:
        record["forbidden_unknown_ids"] = list(ranking.forbidden_unknown)
    if ranking.calls is not None:
        record[CALLS] = [
            {
                "query": call.query,
                "asked_by": call.asked_by,
                "retriever": call.retriever,
                **_items_record(call),
            }
            for call in ranking.calls
        ]
    if ranking.context is not None:
        record[MODEL_CONTEXT] = _items_record(ranking.context)
    return record


def read_ids(value: object, place: Place) -> list[str]:
    """Ranked ids, a list."""
    ids = as_list(value, place)
    return [item if type(item) is str and item else read_id(item, place) for item in ids]


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
    return Call(
        **_read_items(fields, place),
        query=_text(fields.get("query"), place),
        asked_by=_text(fields.get("asked_by"), place),
        retriever=_text(fields.get("retriever"), place),
    )


def _read_items(record: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The columns that a ranking and a call share."""
    texts, scores, tokens = (first_of(record, names) for names in (TEXTS, SCORES, TOKENS))
    latency, error, spans = record.get("latency"), record.get("error"), first_of(record, SPANS)
    return {
        "ids": read_ids(first_of(record, RETRIEVED), place),
        "scores": list_of(scores, place, number_or_none),
        "texts": None if texts is None else read_texts(texts, place),
        "latency": None if latency is None else read_number(latency),
        "error": None if error is None else str(error),
        "spans": list_of(spans, place, read_place),
        "tokens": list_of(tokens, place, _count),
    }


def _items_record(items: Items) -> dict[str, Any]:
    """What `_read_items` reads, without what isn't given."""
    scores, spans = items.scores, items.spans
    fields = {
        "retrieved_ids": list(items.ids),
        "scores": None if scores is None else [plain_score(score) for score in scores],
        "retrieved_texts": None if items.texts is None else list(items.texts),
        "latency": items.latency,
        "error": items.error,
        "retrieved_spans": None if spans is None else list(map(place_record, spans)),
        "retrieved_tokens": None if items.tokens is None else list(items.tokens),
    }
    return {field: value for field, value in fields.items() if value is not None}


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
