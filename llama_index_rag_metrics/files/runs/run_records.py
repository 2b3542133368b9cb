"""Rankings and judgements as records: one a query, or one a document."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.judgements import read_grade
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import place_record, read_id, read_place, read_relevance
from llama_index_rag_metrics.files.runs.run_fields import list_of, read_ids
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import FieldsUnread, InvalidInput


def column_fields(columns: Mapping[str, str]) -> dict[str, str]:
    for field in columns:
        if field not in f.KNOWN:
            known = "query_id, retrieved_ids, scores, retrieved_texts, relevance, grades or doc_id"
            raise InvalidInput("columns", field, f"fields such as {known}")
    return {column: field for field, column in columns.items()}


def rename(names: Sequence[str], fields: Mapping[str, str]) -> list[str]:
    """Names of columns as fields; a column that was called like such a field isn't read."""
    taken = set(fields.values())
    return [fields.get(name, f"another {name}" if name in taken else name) for name in names]


def renamed(record: Any, fields: Mapping[str, str]) -> Any:
    if not fields or not isinstance(record, Mapping):
        return record
    return dict(zip(rename(list(record), fields), record.values(), strict=True))


def warn_unread(what: str, records: Iterable[Collection[str]]) -> None:
    unread = {name: field for names in records for name, field in f.unread_fields(names).items()}
    if unread:
        named = sorted(unread.items(), key=str)
        meant = ", ".join(f"{name!r} (did you mean {field!r}?)" for name, field in named)
        warn_caller(FieldsUnread(f"{what} has fields that aren't read: {meant}"))


def check_long(names: Sequence[str], place: Place) -> None:
    if f.is_long(names) and set(f.QUERY_ID).isdisjoint(names):
        raise place.lacks(f"a column {f.QUERY_ID[0]!r}", names)


def as_record(item: object, place: Place) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        return {key: value for key, value in item.items() if value is not None}
    fields = {name: getattr(item, name) for name in f.KNOWN if hasattr(item, name)}
    example = '{"query_id": "q1", "doc_id": "d1", "score": 1}'
    place.check(fields, f"a record, such as {example} or a Qrel of ir_measures", item)
    return fields


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


def column_of(names: Sequence[str], known: Iterable[str]) -> Callable[[Sequence[Any]], Any]:
    for name in known:
        if name in names:
            return itemgetter(names.index(name))
    return lambda row: None


def row_id(value: Any, place: Place) -> str:
    return value if type(value) is str and value else read_id(None if value == "" else value, place)
