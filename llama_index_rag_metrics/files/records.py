"""The values of a record's fields, read and written: ids, numbers, labels, spans, rankings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from numbers import Real
from types import MappingProxyType
from typing import Annotated, Any
from unicodedata import normalize

import msgspec
from typing_extensions import TypedDict

from llama_index_rag_metrics.rankings.relevance import Relevance, refuse_pairs
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.rankings.span import Span, read_span
from llama_index_rag_metrics.runtime.atomic_files import short_hash
from llama_index_rag_metrics.runtime.containers import map_values, picked, present
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated

from .fields import CALLS, REPEAT, TABLE, Fields
from .lines import Location, to_json

GRADED_BY = "graded_by"
ASKED = ("query", "asked_by")  # fields of a call beside those of a ranking, all texts
_A_SPAN = "spans, {source, start, end} each"
_LABELS = 'spans, ids, {id: grade}, groups of ids or facets, such as ["d1"] or {"d1": 2}'
_SAME_LENGTH = "lists of the same length"
_EACH_ONCE = "every expected id once, and as many grades and places where there are any"
_TWO_LABELS = (
    "labels in one field, not in two: columns={{'labels': {name!r}}} says which; "
    "the other is then metadata"
)
_CONTRADICTION = (
    "one grade for each passage of a question, so delete the lines that are wrong (subtopics are "
    "Relevance(facets=...)); of {question!r} and {passage!r} there are {grade:g} and {other:g}"
)
_SEVERAL = re.compile(r"[,;|\[{]")
_COLLECTIONS = (list, tuple, set, frozenset)


class _Place(TypedDict):
    """A span in a file; older versions of Polars read a missing one as one of Nones."""

    source: str | None
    start: int | None
    end: int | None


# fields of a record: their names in a Ranking, and the kind of their values
_COLUMNS: Mapping[str, tuple[str, Any]] = {
    "scores": ("scores", list[float | None]),
    "retrieved_texts": ("texts", list[str]),
    "latency": ("latency", float),
    "error": ("error", str),
    "retrieved_spans": ("spans", object),
    "retrieved_tokens": ("tokens", list[Annotated[int, msgspec.Meta(ge=0)]]),
}


class Qrels(dict[str, Relevance]):
    """Query id to Relevance; `metadata` has the `conversation` of questions whose labels say it."""

    metadata: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


class Judgements:
    """Collects judgements: equal ones count once, contradicting ones are an error."""

    def __init__(self) -> None:
        self._grades: dict[str, dict[str, float]] = {}

    def add(self, query_id: str, passage: str, grade: Any, location: Location) -> None:
        number = number_of(grade)
        location.check(math.isfinite(number), "a grade, a finite number", grade)
        grades = self._grades.setdefault(query_id, {})
        if grades.setdefault(passage, number) != number:
            fields = {"question": query_id, "passage": passage, "grade": grades[passage]}
            raise location.wrong(_CONTRADICTION.format(**fields, other=number))

    def relevance(self) -> dict[str, Relevance]:
        return map_values(Relevance, self._grades)


def question_id(row: Mapping[str, Any], fields: Fields, location: Location) -> str:
    """The id of a row's question: its own, or a digest of the question's text."""
    value, text = fields.value(row, "query_id"), fields.value(row, "query")
    if value is not None or fields.has(row, "query_id"):
        return read_id(value, location)
    if not isinstance(text, str):
        raise location.lacks("a field 'query_id'", row)
    return f"q-{short_hash(comparable(text))}"


def comparable(question: str) -> str:
    """A question's text as it is compared: without spaces around it, in one Unicode form."""
    return normalize("NFC", question.strip())


def format_grade(grade: float) -> str:
    return str(int(grade)) if grade == int(grade) else repr(grade)


def converted(value: Any, kind: Any, expected: str, location: Location) -> Any:
    """A value as this kind, numbers also from their texts, lists from arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if kind is float and isinstance(value, str) and value.isascii() and "_" not in value:
        with suppress(ValueError):
            value = float(value)  # msgspec refuses .5 and 1.
    # half an emoji where no text belongs is the second
    with location.expecting(expected, msgspec.ValidationError, UnicodeEncodeError):
        return msgspec.convert(value, kind, strict=False)


def read_id(value: object, location: Location) -> str:
    """An id as a string: numbers, as other tools write them, are spelled out."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise location.wrong("an id, a text that isn't empty", value)


def read_ids(value: Any, location: Location) -> list[str]:
    is_list = isinstance(value, (list, tuple)) or hasattr(value, "tolist")
    location.check(is_list, "a list", value)
    return [read_id(item, location) for item in value]


def number_or_none(value: Any, location: Location) -> float | None:
    if value is None or value == "":
        return None
    number = number_of(value)
    location.check(not math.isnan(number), "a number", value)
    return number


def number_of(value: Any) -> float:
    """Return a number, finite or not, also from its text; NaN where there is none."""
    is_other = isinstance(value, str) and (not value.isascii() or "_" in value)
    try:
        return math.nan if is_other or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def read_texts(value: Any, location: Location) -> list[str]:
    """Read texts, or one; refuse a text that looks like a printed list."""
    if isinstance(value, str):
        is_printed = value.startswith(('["', "['", "[]"))
        expected = f"a list of texts, or {truncated(to_json([value]))} if it is one text"
        location.check(not is_printed, expected, value)
        return [value]
    texts: list[str] = converted(value, list[str], "texts", location)
    return texts


def read_spans(value: Any, location: Location) -> list[Span | None]:
    """Read the spans of passages, None where one is missing; a span may be empty."""
    spans: list[Span | None] = []
    with location.expecting(_A_SPAN, InvalidInput):
        for place in converted(value, list[_Place | None], _A_SPAN, location):
            if place is None or place["source"] is None:
                spans.append(None)
            else:
                parts = (place["source"], place["start"], place["end"])
                spans.append(read_span("a passage", parts, may_be_empty=True))
    return spans


def read_labels(row: Mapping[str, Any], fields: Fields, location: Location) -> Relevance | None:
    """The labels of a question: ids, with `grades` and `expected_spans` beside them; or None."""
    names = [name for name in fields.names("expected_ids") if row.get(name) is not None]
    if len(names) > 1:
        raise location.wrong(_TWO_LABELS.format(name=names[-1]), names)
    labels, spans = fields.value(row, "expected_ids"), fields.value(row, "expected_spans")
    grades = fields.value(row, "grades")
    if grades is None and not fields.has(row, "retrieved_ids"):
        grades = fields.value(row, "scores")
    if labels is None and spans is None:
        return None
    if grades is None and spans is None:
        return graded(read_relevance(labels, location), row.get(GRADED_BY))
    return graded(_labelled(labels, grades, spans, location), row.get(GRADED_BY))


def graded(relevance: Relevance, model: Any) -> Relevance:
    """Return labels that name the LLM that graded them; as they are where none did."""
    if not isinstance(model, str) or not model:
        return relevance
    from llama_index_rag_metrics.metrics.texts.llm_relevancy import GradedRelevance

    return GradedRelevance(relevance, model)  # type: ignore[arg-type]


def _labelled(labels: Any, grades: Any, spans: Any, location: Location) -> Relevance:
    numbers = converted(grades, list[float] | None, _EACH_ONCE, location)
    places: list[Span | None] | None = None
    ids: list[str] = []
    if spans is not None:
        places = read_spans(spans, location)
    if labels is not None:
        ids = read_ids(labels, location)
    lengths = {len(column) for column in (ids, set(ids), numbers, places) if column is not None}
    location.check(labels is None or len(lengths) == 1, _EACH_ONCE, [labels, grades, spans])
    with location.expecting(_EACH_ONCE, InvalidInput):
        if labels is None:
            return Relevance(spans=list(filter(None, places or ())), grades=numbers)
        relevance = Relevance(dict(zip(ids, numbers or [1.0] * len(ids), strict=True)))
        if places is None:
            return relevance
        return Relevance(relevance, spans=present(dict(zip(ids, places, strict=True))))


def read_relevance(value: Any, location: Location) -> Relevance:
    """Labels in one value: ids, {id: grade}, groups of ids, facets, or one id."""
    if isinstance(value, Relevance):
        return value
    if isinstance(value, str) and _looks_like_several(value):
        escaped = truncated(to_json([value]))
        expected = f'one id, a list such as ["d1", "d2"], or {escaped} if it is one id'
        raise location.wrong(expected, value)
    with location.expecting(_LABELS, InvalidInput, TypeError, AttributeError):
        return Relevance(_with_ids(value, location))


def _with_ids(value: Any, location: Location) -> Any:
    """Return labels whose ids are strings: numbers, as other tools write them, are spelled out."""
    if isinstance(value, Mapping):
        for part in map(value.get, ("facets", "groups", "spans")):
            if isinstance(part, (Mapping, list)):
                return value
        grades = {read_id(item, location): grade for item, grade in value.items()}
        location.check(len(grades) == len(value), "every id once", list(value))
        return grades
    items = list(value) if isinstance(value, _COLLECTIONS) else [value]
    refuse_pairs(items)
    location.check(not any(isinstance(item, Mapping) for item in items), _LABELS, value)
    if items and all(isinstance(item, _COLLECTIONS) for item in items):
        return [read_ids(group, location) for group in map(list, items)]
    return read_ids(items, location)


def _looks_like_several(text: str) -> bool:
    """Whether a text looks like several ids, such as d1,d2 or d1 d2, and not like a title."""
    words = text.split()
    has_words = any(map(str.isalpha, words))
    return bool(_SEVERAL.search(text)) or (len(words) > 1 and not has_words)


def relevance_record(query_id: str, relevance: Relevance) -> dict[str, Any]:
    record: dict[str, Any] = {"query_id": query_id, "expected_ids": relevance.to_plain()}
    if relevance.alternatives is None:
        grades, spans = relevance.grades, relevance.spans
        record |= {"expected_ids": list(grades), "grades": list(grades.values())}
        if spans is not None:
            record["expected_spans"] = _plain("spans", map(spans.get, grades))
    if model := getattr(relevance, GRADED_BY, ""):
        record[GRADED_BY] = model
    return record


def read_ranking(record: Mapping[str, Any], location: Location, fields: Fields = TABLE) -> Ranking:
    """Read what was retrieved for a question, with the calls of a session if there were any."""
    columns = _read_columns(record, location, fields)
    if (calls := record.get(CALLS)) is not None:
        records = converted(calls, list[dict[str, Any]], "a list of calls", location)
        columns["calls"] = tuple(_read_call(call, location) for call in records)
    with location.expecting(_SAME_LENGTH, InvalidInput):
        return Ranking(**columns)


def _read_call(record: Mapping[str, Any], location: Location) -> Call:
    texts = present(picked(record, ASKED))
    converted(texts, dict[str, str], "texts", location)
    with location.expecting(_SAME_LENGTH, InvalidInput):
        return Call(**_read_columns(record, location, TABLE), **texts)


def _read_columns(record: Mapping[str, Any], location: Location, fields: Fields) -> dict[str, Any]:
    columns: dict[str, Any] = {"ids": read_ids(fields.value(record, "retrieved_ids"), location)}
    for field, (name, kind) in _COLUMNS.items():
        value = fields.value(record, field)
        if value is not None:
            columns[name] = converted(value, kind, f"the values of {field!r}", location)
    for score in columns.get("scores", ()):
        location.check(score is None or not math.isnan(score), "a score, a number", score)
    if "spans" in columns:
        columns["spans"] = read_spans(columns["spans"], location)
    return columns


def read_repeat(record: Mapping[str, Any], location: Location, fields: Fields = TABLE) -> int:
    value = fields.value(record, REPEAT)
    if value is None or value == "":
        return 1
    expected = "a number from 1 on, which time the question was asked"
    number: int = converted(value, Annotated[int, msgspec.Meta(ge=1)], expected, location)
    return number


def ranking_record(query_id: str, repeat: int, ranking: Ranking) -> dict[str, Any]:
    record = {"query_id": query_id, REPEAT: repeat, **_plain_columns(ranking)}
    if repeat == 1:
        del record[REPEAT]
    if ranking.calls is not None:
        record[CALLS] = list(map(_plain_columns, ranking.calls))
    return record


def _plain_columns(items: Ranking) -> dict[str, Any]:
    record = {name: getattr(items, name) for name in ASKED if isinstance(items, Call)}
    record["retrieved_ids"] = list(items.ids)
    for field, (name, _) in _COLUMNS.items():
        if (value := getattr(items, name)) is not None:
            record[field] = _plain(name, value)
    return record


def _plain(name: str, value: Any) -> Any:
    if name == "scores":
        return list(map(plain_score, value))
    if name == "spans":
        return [span and Span(*span)._asdict() for span in value]
    return value if isinstance(value, (str, Real)) else list(value)


def plain_score(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else float(score)
