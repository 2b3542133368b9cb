"""The values of a record's fields: ids, numbers, labels, spans, texts."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from unicodedata import normalize

from llama_index_rag_metrics.rankings.relevance import Relevance, refuse_pairs
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated

from .fields import REPEAT, Fields
from .lines import Location, to_json

AN_ID = "an id, a text that isn't empty"
_COLLECTIONS = (list, tuple, set, frozenset)
_SPAN_SOURCES = ("source", "document", "document_id")
SEPARATORS, _SPACE = re.compile("[,;|]"), re.compile(r"\s")
_TWO_LABELS = (
    "labels in one field, not in two: columns={{'labels': {name!r}}} says which; "
    "the other is then metadata"
)
_CONTRADICTION = (
    "one grade for each passage of a question, so delete the lines that are wrong; "
    "of {question} and {passage} there are {grade:g} and {other:g}"
)


class Qrels(dict[str, Relevance]):
    """Query id to Relevance.

    Attributes:
        metadata: query id to its `conversation`, where the labels say it.

    Examples:
        >>> from llama_index_rag_metrics import read_qrels
        >>> read_qrels({"q1": {"d1": 2, "d2": 0}})
        {'q1': Relevance({'d1': 2.0, 'd2': 0.0})}
    """

    metadata: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


class Judgements:
    """Judgements, one after another; equal ones count once, contradicting ones are an error."""

    def __init__(self) -> None:
        self._grades: dict[str, dict[str, float]] = {}

    def add(self, query_id: str, passage: str, grade: float, location: Location) -> None:
        grades = self._grades.setdefault(query_id, {})
        if grades.setdefault(passage, grade) != grade:
            raise location.wrong(
                _CONTRADICTION.format(
                    question=repr(query_id),
                    passage=repr(passage),
                    grade=grades[passage],
                    other=grade,
                )
            )

    def relevance(self) -> dict[str, Relevance]:
        """Query id to its Relevance."""
        return {query_id: Relevance(grades) for query_id, grades in self._grades.items()}


class QuestionIds:
    """The ids of questions: their own, or a digest of the question's text."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._asked: Counter[tuple[str, str]] = Counter()

    def read(self, row: Mapping[str, Any], location: Location, *, is_whole: bool = True) -> str:
        """The id of a row's question, of which the row is the whole or one passage."""
        value, text = (self._fields.value(row, field) for field in ("query_id", "query"))
        if value is None and not isinstance(text, str) and not self._fields.has(row, "query_id"):
            raise location.lacks("a field 'query_id'", row)
        if value is not None or not isinstance(text, str):
            return read_id(value, location)
        key = text, str(row.get(REPEAT))
        self._asked[key] += is_whole
        digest = f"q-{sha256(encoded(comparable(text))).hexdigest()[:12]}"
        if self._asked[key] > 1:
            return f"{digest}-{self._asked[key]}"
        return digest


def comparable(question: str) -> str:
    """A question's text as it is compared: without spaces around it, in one Unicode form."""
    return normalize("NFC", question.strip())


def encoded(text: str) -> bytes:
    """A text as bytes, half a surrogate pair included."""
    return text.encode("utf-8", "surrogatepass")


def format_grade(grade: float) -> str:
    if grade == int(grade):
        return str(int(grade))
    return repr(grade)


def read_id(value: object, location: Location, expected: str = AN_ID) -> str:
    """An id as a string: numbers, as other tools write them, are spelled out."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise location.wrong(expected, value)


def read_grade(value: object, location: Location) -> float:
    grade = read_number(value)
    location.check(math.isfinite(grade), "a grade, a finite number", value)
    return grade


def read_number(value: object) -> float:
    """A number, or its text as every language writes it; NaN where it is none."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def read_list(value: Any, location: Location) -> Sequence[Any]:
    values = value.tolist() if hasattr(value, "tolist") else value
    location.check(isinstance(values, (list, tuple)), "a list", values)
    items: Sequence[Any] = values
    return items


def read_texts(value: object, location: Location) -> list[str]:
    texts: Any = value
    if isinstance(value, str):
        texts = [value]
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise location.wrong("expected texts, a list of texts", value)
    return list(texts)


def read_span(value: Any, location: Location) -> Span | None:
    """A span: an object, or source, start and end, which may be equal; None if missing."""
    if is_missing(value):
        return None
    parts = value
    if isinstance(value, Mapping):
        sources = [value[name] for name in _SPAN_SOURCES if value.get(name) is not None]
        parts = [*sources[:1], value.get("start"), value.get("end")]
    if isinstance(parts, (list, tuple)):
        parts = [_whole(edge) for edge in parts]
    is_typed = isinstance(parts, list) and [*map(type, parts)] == [str, int, int]
    is_span = is_typed and 0 <= parts[1] <= parts[2] <= LONGEST
    location.check(is_span, "a span: source, start and end", value)
    return Span(*parts)


def _whole(edge: Any) -> Any:
    """A whole number that pandas made a float."""
    if type(edge) is float and edge.is_integer():
        return int(edge)
    return edge


def is_missing(value: Any) -> bool:
    """Whether there is nothing; older versions of Polars read a missing object as one of Nones."""
    is_object = isinstance(value, Mapping) and bool(value)
    return value is None or (is_object and all(part is None for part in value.values()))


def span_record(span: Span | None) -> dict[str, Any] | None:
    return None if span is None else span._asdict()


def read_labels(row: Mapping[str, Any], fields: Fields, location: Location) -> Relevance | None:
    """The labels of a question: ids, with `grades` and `expected_spans` beside them; or None."""
    names = [name for name in fields.names("expected_ids") if row.get(name) is not None]
    if len(names) > 1:
        raise location.wrong(_TWO_LABELS.format(name=names[-1]), names)
    labels, spans = (fields.value(row, field) for field in ("expected_ids", "expected_spans"))
    grades = fields.value(row, "grades")
    if grades is None and not fields.has(row, "retrieved_ids"):
        grades = fields.value(row, "scores")
    numbers = None if grades is None else read_list(grades, location)
    places = None if spans is None else read_list(spans, location)
    if labels is None and places is None:
        return None
    if labels is None:
        return _spans_alone(numbers, places or (), location)
    if numbers is None and places is None:
        return read_relevance(labels, location)
    ids = [read_id(item, location) for item in read_list(labels, location)]
    columns = [column for column in (numbers, places, set(ids)) if column is not None]
    is_right = all(len(column) == len(ids) for column in columns)
    expected = "every expected id once, and as many grades and places where there are any"
    location.check(is_right, expected, dict(row))
    return _labelled(ids, numbers, places, location)


def _labelled(
    ids: Sequence[str],
    grades: Sequence[Any] | None,
    spans: Sequence[Any] | None,
    location: Location,
) -> Relevance:
    relevance = Relevance(ids)
    if grades is not None:
        numbers = [read_grade(grade, location) for grade in grades]
        relevance = Relevance(dict(zip(ids, numbers, strict=True)))
    if spans is None:
        return relevance
    places = zip(ids, (read_span(span, location) for span in spans), strict=True)
    return Relevance(relevance, spans={item: span for item, span in places if span is not None})


def _spans_alone(
    grades: Sequence[Any] | None, spans: Sequence[Any], location: Location
) -> Relevance:
    places = [read_span(span, location) for span in spans]
    present = [span for span in places if span is not None]
    numbers = None if grades is None else [read_grade(grade, location) for grade in grades]
    if numbers is not None and len(present) < len(places):
        numbers = []
    expected = "a place for each judgement, and every place once"
    with location.expecting(expected, InvalidInput):
        return Relevance(spans=present, grades=numbers)


def read_relevance(value: object, location: Location) -> Relevance:
    """Labels in one value: ids, {id: grade}, groups of ids, facets, or one id."""
    if isinstance(value, Relevance):
        return value
    with location.expecting("spans, ids, {id: grade}, groups of ids or facets", InvalidInput):
        if isinstance(value, Mapping):
            return _relevance_object(value, location)
        if isinstance(value, _COLLECTIONS):
            return _relevance_list(value, location)
        if isinstance(value, str) and looks_like_several(value):
            escaped = truncated(to_json([value]))
            expected = f'one id, a list such as ["d1", "d2"], or {escaped} if it is one id'
            raise location.wrong(expected, value)
        return Relevance([read_id(value, location)])


def _relevance_object(value: Mapping[Any, Any], location: Location) -> Relevance:
    if isinstance(value.get("facets"), Mapping):
        facets = {name: _read_ids(ids, location) for name, ids in value["facets"].items()}
        weights = value.get("weights")
        is_right = weights is None or isinstance(weights, Mapping)
        location.check(is_right, "weights, {facet: weight}", weights)
        return Relevance(facets=facets, weights=weights, **_grades_beside(value, location))
    if isinstance(value.get("groups"), list):
        groups = [_read_ids(ids, location) for ids in value["groups"]]
        return Relevance(groups=groups, **_grades_beside(value, location))
    if isinstance(value.get("spans"), Mapping):
        judged = read_relevance(value.get("judgements", list(value["spans"])), location)
        return Relevance(judged, spans=value["spans"])
    return Relevance({read_id(item, location): grade for item, grade in value.items()})


def _relevance_list(value: Iterable[Any], location: Location) -> Relevance:
    items = list(value)
    refuse_pairs(items)
    if items and all(isinstance(item, _COLLECTIONS) for item in items):
        return Relevance(groups=[_read_ids(ids, location) for ids in items])
    return Relevance(_read_ids(items, location))


def _read_ids(value: object, location: Location) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise location.wrong("a list of ids", value)
    return [read_id(item, location) for item in value]


def _grades_beside(value: Mapping[str, Any], location: Location) -> dict[str, Any]:
    grades = value.get("grades")
    if not isinstance(grades, Mapping):
        return {}
    return {"grades": {read_id(item, location): grade for item, grade in grades.items()}}


def looks_like_several(text: str) -> bool:
    """Whether a text may be several ids, such as d1,d2 or [d1]; a title has plain words."""
    text = text.strip()
    if text.startswith(("[{", '["', "['", '{"', "{'")):
        return True
    parts = [part.strip() for part in SEPARATORS.split(text)]
    if len(parts) > 1:
        return not any(_SPACE.search(part) for part in parts)
    words = text.split()
    is_list = text.startswith("[") and text.endswith("]")
    return is_list or (len(words) > 1 and not any(word.isalpha() for word in words))


def relevance_record(query_id: str, relevance: Relevance) -> dict[str, Any]:
    if relevance.alternatives is not None:
        return {"query_id": query_id, "expected_ids": relevance.to_plain()}
    grades, spans = relevance.grades, relevance.spans
    record = {"query_id": query_id, "expected_ids": [*grades], "grades": [*grades.values()]}
    if spans is not None:
        record["expected_spans"] = [span_record(spans.get(item)) for item in grades]
    return record
