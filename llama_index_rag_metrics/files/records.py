"""The values of a record's fields, read and written: ids, numbers, labels, spans, rankings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Annotated, Any
from unicodedata import normalize

import msgspec

from llama_index_rag_metrics.rankings.relevance import Relevance, refuse_pairs
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated

from .fields import CALLS, REPEAT, TABLE, Fields
from .lines import Location, to_json

GRADED_BY = "graded_by"
ASKED = ("query", "asked_by")
"""Fields of a call beside those of a ranking, all texts."""

_AN_ID = "an id, a text that isn't empty"
_A_RECORD = "a record, {field: value}"
_A_SPAN = "a span: source, start and end"
_A_TIME = "a number from 1 on, which time the question was asked"
_LABELS = "spans, ids, {id: grade}, groups of ids or facets"
_SAME_LENGTH = "lists of the same length"
_COLUMNS: Mapping[str, tuple[str, Any, str]] = {
    "retrieved_texts": ("texts", list[str], "texts"),
    "latency": ("latency", float, "seconds"),
    "retrieved_tokens": (
        "tokens",
        list[Annotated[int, msgspec.Meta(ge=0)]],
        "numbers of tokens, from 0 on",
    ),
}
"""Fields of a record: their names in a Ranking, and the kind of their values."""

_COLLECTIONS = (list, tuple, set, frozenset)
_SPAN_SOURCES = ("source", "document", "document_id")
_SEPARATORS = re.compile("[,;|]")
_TWO_LABELS = (
    "labels in one field, not in two: columns={{'labels': {name!r}}} says which; "
    "the other is then metadata"
)
_EACH_ONCE = "every expected id once, and as many grades and places where there are any"
_CONTRADICTION = (
    "one grade for each passage of a question, so delete the lines that are wrong; "
    "of {question!r} and {passage!r} there are {grade:g} and {other:g}"
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
            fields = {"question": query_id, "passage": passage, "grade": grades[passage]}
            raise location.wrong(_CONTRADICTION.format(**fields, other=grade))

    def relevance(self) -> dict[str, Relevance]:
        return {query_id: Relevance(grades) for query_id, grades in self._grades.items()}


class QuestionIds:
    """The ids of questions: their own, or a digest of the question's text."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._asked: Counter[tuple[str, str]] = Counter()

    def read(self, row: Mapping[str, Any], location: Location, *, is_whole: bool = True) -> str:
        """The id of a row's question, of which the row is the whole or one passage."""
        value, text = self._fields.value(row, "query_id"), self._fields.value(row, "query")
        if value is not None or self._fields.has(row, "query_id"):
            return read_id(value, location)
        if not isinstance(text, str):
            raise location.lacks("a field 'query_id'", row)
        key = text, str(row.get(REPEAT))
        self._asked[key] += is_whole
        digest = f"q-{sha256(encoded(comparable(text))).hexdigest()[:12]}"
        return f"{digest}-{self._asked[key]}" if self._asked[key] > 1 else digest


def comparable(question: str) -> str:
    """A question's text as it is compared: without spaces around it, in one Unicode form."""
    return normalize("NFC", question.strip())


def encoded(text: str) -> bytes:
    """A text as bytes, half a surrogate pair included."""
    return text.encode("utf-8", "surrogatepass")


def format_grade(grade: float) -> str:
    return str(int(grade)) if grade == int(grade) else repr(grade)


def read_id(value: object, location: Location, expected: str = _AN_ID) -> str:
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


def number_or_none(value: Any, location: Location) -> float | None:
    if value is None or value == "":
        return None
    number = read_number(value)
    location.check(not math.isnan(number), "a number", value)
    return number


def read_list(value: Any, location: Location) -> Sequence[Any]:
    values: Any = value.tolist() if hasattr(value, "tolist") else value
    location.check(isinstance(values, (list, tuple)), "a list", values)
    return values  # type: ignore[no-any-return]


def read_texts(value: object, location: Location) -> list[str]:
    texts: list[str] = _converted(value, list[str], "texts", location)
    return texts


def _converted(value: Any, kind: Any, expected: str, location: Location) -> Any:
    value = [value] if isinstance(value, str) and kind == list[str] else value
    # half an emoji where no text belongs is the second
    with location.expecting(expected, msgspec.ValidationError, UnicodeEncodeError):
        return msgspec.convert(value, kind)


def read_span(value: Any, location: Location) -> Span | None:
    """A span: an object, or source, start and end, which may be equal; None if missing."""
    if is_missing(value):
        return None
    parts = value
    if isinstance(value, Mapping):
        sources = [value[name] for name in _SPAN_SOURCES if value.get(name) is not None]
        parts = [*sources[:1], value.get("start"), value.get("end")]
    # pandas makes floats of whole numbers
    source, start, end = _converted(parts, tuple[str, float, float], _A_SPAN, location)
    is_whole = start.is_integer() and end.is_integer()
    location.check(is_whole and 0 <= start <= end <= LONGEST, _A_SPAN, value)
    return Span(source, int(start), int(end))


def is_missing(value: Any) -> bool:
    """Whether there is nothing; older versions of Polars read a missing object as one of Nones."""
    is_object = isinstance(value, Mapping) and bool(value)
    return value is None or (is_object and all(part is None for part in value.values()))


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
        relevance = read_relevance(labels, location)
    else:
        relevance = _labelled(labels, grades, spans, location)
    return graded(relevance, row.get(GRADED_BY))


def graded(relevance: Relevance, model: Any) -> Relevance:
    """The labels as graded by an LLM, which reports say; as they are where none did."""
    if not isinstance(model, str) or not model:
        return relevance
    from llama_index_rag_metrics.metrics.texts.llm_relevancy import GradedRelevance

    return GradedRelevance(relevance, model)  # type: ignore[arg-type]


def _labelled(labels: Any, grades: Any, spans: Any, location: Location) -> Relevance:
    """Labels whose grades or places stand beside them."""
    values = read_list([] if grades is None else grades, location)
    numbers = [read_grade(grade, location) for grade in values]
    values = read_list([] if spans is None else spans, location)
    places = [read_span(span, location) for span in values]
    present = [span for span in places if span is not None]
    if labels is None:
        with location.expecting(_EACH_ONCE, InvalidInput):
            is_whole = len(present) == len(places)
            return Relevance(spans=present, grades=None if grades is None else numbers * is_whole)
    ids = [read_id(item, location) for item in read_list(labels, location)]
    lengths = {len(set(ids)), len(ids)}
    lengths |= {len(column) for column in (numbers, places) if column}
    is_right = len(lengths) == 1 and (numbers or grades is None or not ids)
    location.check(is_right, _EACH_ONCE, [labels, grades, spans])
    relevance = Relevance(dict(zip(ids, numbers, strict=True)) if numbers else ids)
    if spans is None:
        return relevance
    pairs = zip(ids, places, strict=False)
    return Relevance(relevance, spans={item: span for item, span in pairs if span is not None})


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
    """The same labels with texts as ids: numbers, as other tools write them, are spelled out."""
    if isinstance(value, Mapping):
        of_groups = (value.get(name) for name in ("facets", "groups", "spans"))
        if any(isinstance(part, (Mapping, list)) for part in of_groups):
            weights = value.get("weights") or {}
            location.check(isinstance(weights, Mapping), "weights, {facet: weight}", weights)
            return value
        return {read_id(item, location): grade for item, grade in value.items()}
    if not isinstance(value, _COLLECTIONS):
        return [read_id(value, location)]
    items = list(value)
    refuse_pairs(items)
    if items and all(isinstance(item, _COLLECTIONS) for item in items):
        return [[read_id(item, location) for item in group] for group in items]
    return [read_id(item, location) for item in items]


def _looks_like_several(text: str) -> bool:
    """Whether a text may be several ids, such as d1,d2 or [d1]; a title has plain words."""
    text = text.strip()
    if text.startswith(("[{", '["', "['", '{"', "{'", "array(")):
        return True
    parts = [part.strip() for part in _SEPARATORS.split(text)]
    if len(parts) > 1:
        return not any(len(part.split()) > 1 for part in parts)
    words = text.split()
    is_list = text.startswith("[") and text.endswith("]")
    return is_list or (len(words) > 1 and not any(word.isalpha() for word in words))


def relevance_record(query_id: str, relevance: Relevance) -> dict[str, Any]:
    record: dict[str, Any] = {"query_id": query_id, "expected_ids": relevance.to_plain()}
    if relevance.alternatives is None:
        grades, spans = relevance.grades, relevance.spans
        record |= {"expected_ids": [*grades], "grades": [*grades.values()]}
        if spans is not None:
            places = map(spans.get, grades)
            record["expected_spans"] = [place and place._asdict() for place in places]
    if model := getattr(relevance, GRADED_BY, ""):
        record[GRADED_BY] = model
    return record


def read_ranking(record: Mapping[str, Any], location: Location, fields: Fields = TABLE) -> Ranking:
    """Read what was retrieved for a question, with the calls of a session if there were any."""
    columns = _read_columns(record, location, fields)
    if (calls := record.get(CALLS)) is not None:
        columns["calls"] = tuple(_read_call(call, location) for call in read_list(calls, location))
    with location.expecting(_SAME_LENGTH, InvalidInput):
        return Ranking(**columns)


def read_repeat(record: Mapping[str, Any], location: Location, fields: Fields = TABLE) -> int:
    value = fields.value(record, REPEAT)
    if value is None or value == "":
        return 1
    repeat = read_number(value)
    is_right = not isinstance(value, bool) and repeat >= 1 and repeat.is_integer()
    location.check(is_right, _A_TIME, value)
    return int(repeat)


def ranking_record(query_id: str, repeat: int, ranking: Ranking) -> dict[str, Any]:
    """The record of a ranking, which `read_ranking` reads."""
    record = {"query_id": query_id, REPEAT: repeat, **_plain_columns(ranking)}
    if repeat == 1:
        del record[REPEAT]
    if ranking.calls is not None:
        record[CALLS] = [
            {**{name: getattr(call, name) for name in ASKED}, **_plain_columns(call)}
            for call in ranking.calls
        ]
    return record


def read_ids(value: object, location: Location) -> list[str]:
    items = read_list(value, location)
    are_pairs = any(isinstance(item, (list, tuple)) for item in items)
    expected = f"{_AN_ID}, or {{id: number}}" if are_pairs else _AN_ID
    return [read_id(item, location, expected) for item in items]


def plain_score(score: float | None) -> float | None:
    return None if score is None or math.isnan(score) else float(score)


def _read_call(value: Any, location: Location) -> Call:
    location.check(isinstance(value, Mapping), _A_RECORD, value)
    texts = {name: value[name] for name in ASKED if value.get(name) is not None}
    for text in texts.values():
        location.check(isinstance(text, str), "a text", text)
    columns = _read_columns(value, location, TABLE)
    with location.expecting(_SAME_LENGTH, InvalidInput):
        return Call(**columns, **texts)


def _read_columns(record: Mapping[str, Any], location: Location, fields: Fields) -> dict[str, Any]:
    columns: dict[str, Any] = {"ids": read_ids(fields.value(record, "retrieved_ids"), location)}
    for field, (name, kind, expected) in _COLUMNS.items():
        value = fields.value(record, field)
        if value is not None:
            columns[name] = _converted(value, kind, expected, location)
    scores, spans = fields.value(record, "scores"), fields.value(record, "retrieved_spans")
    if scores is not None:
        numbers = read_list(scores, location)
        columns["scores"] = [number_or_none(number, location) for number in numbers]
    if spans is not None:
        columns["spans"] = [read_span(span, location) for span in read_list(spans, location)]
    if (error := fields.value(record, "error")) is not None:
        columns["error"] = str(error)
    return columns


def _plain_columns(items: Ranking) -> dict[str, Any]:
    record: dict[str, Any] = {"retrieved_ids": list(items.ids)}
    if items.scores is not None:
        record["scores"] = [plain_score(score) for score in items.scores]
    if items.texts is not None:
        record["retrieved_texts"] = list(items.texts)
    if items.latency is not None:
        record["latency"] = float(items.latency)
    if items.error is not None:
        record["error"] = items.error
    if items.spans is not None:
        record["retrieved_spans"] = [span and span._asdict() for span in items.spans]
    if items.tokens is not None:
        record["retrieved_tokens"] = list(items.tokens)
    return record
