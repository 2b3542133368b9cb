"""A question or a document as a record: one JSON line, one row of a table."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.conversations import read_conversation
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.lines import Place, each, to_json
from llama_index_rag_metrics.rankings.relevance import Relevance, refuse_pairs
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated


class Qrels(dict[str, Relevance]):
    """Query id to Relevance.

    Attributes:
        metadata: query id to its `conversation` and `turn`, where the labels say them.

    Examples:
        >>> from llama_index_rag_metrics import read_qrels
        >>> read_qrels({"q1": {"d1": 2, "d2": 0}})
        {'q1': Relevance({'d1': 2.0, 'd2': 0.0})}
    """

    metadata: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


class Judgements:
    """The judgements of a file, each once; `known` are the query ids there are."""

    def __init__(self, known: Collection[str] | None = None, expected: str = "") -> None:
        self._known = known
        self._expected = expected
        self._grades: dict[str, dict[str, float]] = {}

    def add(self, query_id: object, document_id: object, grade: object, place: Place) -> None:
        query, document = read_id(query_id, place), read_id(document_id, place)
        number = read_grade(grade, place)
        place.check(self._known is None or query in self._known, self._expected, query)
        grades = self._grades.setdefault(query, {})
        if document in grades:
            raise place.wrong("every judgement once", f"{query} {document}")
        grades[document] = number

    def relevance(self) -> dict[str, Relevance]:
        """Query id to its Relevance."""
        return {query_id: Relevance(grades) for query_id, grades in self._grades.items()}


def format_grade(grade: float) -> str:
    return str(int(grade)) if grade == int(grade) else repr(grade)


def read_grade(text: object, place: Place) -> float:
    grade = read_number(text)
    place.check(math.isfinite(grade), "a grade, a finite number", text)
    return grade


def read_number(value: object) -> float:
    """A number, or its text as every language writes it; NaN where it is none."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def read_place(value: Any, place: Place) -> Span | None:
    """A place: an object, or source, start and end, which may be equal; None if missing."""
    if is_missing(value):
        return None
    parts = value
    if isinstance(value, Mapping):
        parts = f.first_of(value, f.PLACE_SOURCE), value.get("start"), value.get("end")
    if isinstance(parts, (list, tuple)):
        # pandas makes whole numbers floats
        parts = [int(at) if type(at) is float and at.is_integer() else at for at in parts]
    is_typed = isinstance(parts, list) and [*map(type, parts)] == [str, int, int]
    is_span = is_typed and 0 <= parts[1] <= parts[2] <= LONGEST
    place.check(is_span, "a span: source, start and end", value)
    return Span(*parts)


def is_missing(value: Any) -> bool:
    """Whether there is nothing; older versions of Polars read a missing object as one of Nones."""
    is_object = isinstance(value, Mapping) and bool(value)
    return value is None or (is_object and all(part is None for part in value.values()))


def read_expected_spans(places: Any, place: Place) -> Relevance:
    place.check(isinstance(places, (list, tuple)), "places, a list", places)
    known = [span for span in (read_place(part, place) for part in places) if span is not None]
    with place.expecting("places of passages", InvalidInput):
        return Relevance.of_spans(known)


def place_record(span: Span | None) -> dict[str, Any] | None:
    return None if span is None else span._asdict()


_COLLECTIONS = (list, tuple, set, frozenset)
SEPARATORS, _SPACE = re.compile("[,;|]"), re.compile(r"\s")


def read_questions(records: Iterable[tuple[Place, object]]) -> DatasetContent:
    content = DatasetContent()
    each(records, lambda record, place: read_question(content, record, place))
    return content


def read_question(content: DatasetContent, record: object, place: Place) -> None:
    """Add a question; one without an id gets its position, other fields become metadata."""
    fields = _fields(record, place)
    given_id = take(fields, f.QUERY_ID)
    query = take(fields, f.QUERY)
    if not isinstance(query, str):
        raise place.wrong(f"a question, one text, under {_either(f.QUERY)}", query or record)
    query_id = f"q{len(content.queries) + 1}" if given_id is None else read_id(given_id, place)
    place.check(query_id not in content.queries, "every query id once", query_id)
    judgements, texts = take(fields, f.RELEVANCE), take(fields, f.EXPECTED_TEXTS)
    # whatever can't be read is raised before anything of the record is kept
    relevance = None if judgements is None else read_relevance(judgements, place)
    if relevance is None and (spans := take(fields, f.EXPECTED_SPANS)) is not None:
        relevance = read_expected_spans(spans, place)
    parts: dict[str, Any] = {
        "relevance": relevance,
        "expected_texts": None if texts is None else read_texts(texts, place),
    }
    try:
        parts["metadata"] = read_conversation(take_metadata(fields)) or None
    except ValueError as error:
        raise place.wrong(*error.args) from error
    content.queries[query_id] = query
    for part, value in parts.items():
        if value is not None:
            getattr(content, part)[query_id] = value


def read_document(
    content: DatasetContent, record: object, place: Place, id_names: Iterable[str] = f.DOCUMENT_ID
) -> None:
    """Add a document; fields without another meaning become its metadata."""
    fields = _fields(record, place)
    document_id = read_id(take(fields, id_names), place)
    text, title = take(fields, f.TEXT), fields.pop("title", "")
    are_texts = isinstance(text, str) and isinstance(title, str)
    place.check(are_texts, f"a text under {_either(f.TEXT)}", record)
    place.check(document_id not in content.corpus, "every document id once", document_id)
    content.corpus[document_id] = text
    if title:
        content.titles[document_id] = title
    if metadata := take_metadata(fields):
        content.document_metadata[document_id] = metadata


def question_record(content: DatasetContent, query_id: str) -> dict[str, Any]:
    record: dict[str, Any] = {"query_id": query_id, "query": content.queries[query_id]}
    if query_id in content.relevance:
        record["relevance"] = content.relevance[query_id].to_plain()
    for part in ("expected_texts", "metadata"):
        if query_id in (by_query := getattr(content, part)):
            record[part] = by_query[query_id]
    return record


def document_record(
    content: DatasetContent, document_id: str, id_name: str = "document_id"
) -> dict[str, Any]:
    record: dict[str, Any] = {
        id_name: document_id,
        "title": content.titles.get(document_id, ""),
        "text": content.corpus[document_id],
    }
    if document_id in content.document_metadata:
        record["metadata"] = content.document_metadata[document_id]
    return record


def read_id(value: object, place: Place) -> str:
    """An id as a string: numbers, as other tools write them, are spelled out."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        numbers = ", or {id: number}" if isinstance(value, (list, tuple)) else ""
        raise place.wrong(f"an id, a text that isn't empty{numbers}", value)
    return value


def read_relevance(value: object, place: Place) -> Relevance:
    if isinstance(value, Relevance):
        return value
    with place.expecting("spans, ids, {id: grade}, groups of ids or facets", InvalidInput):
        if isinstance(value, Mapping) and isinstance(value.get("facets"), Mapping):
            facets = {name: _read_ids(group, place) for name, group in value["facets"].items()}
            weights = value.get("weights")
            is_right = weights is None or isinstance(weights, Mapping)
            place.check(is_right, "weights, {facet: weight}", weights)
            return Relevance.facets(facets, weights=weights, **_read_grades(value, place))
        if isinstance(value, Mapping) and isinstance(value.get("groups"), list):
            groups = [_read_ids(group, place) for group in value["groups"]]
            return Relevance.groups(groups, **_read_grades(value, place))
        if isinstance(value, Mapping) and isinstance(value.get("spans"), Mapping):
            judged = read_relevance(value.get("judgements", list(value["spans"])), place)
            return judged.with_spans(value["spans"])
        if isinstance(value, Mapping):
            return Relevance(
                {read_id(document_id, place): grade for document_id, grade in value.items()}
            )
        if isinstance(value, str) and looks_like_several(value):
            escaped = truncated(to_json([value]))
            expected = f'one id, a list such as ["d1", "d2"], or {escaped} if it is one id'
            raise place.wrong(expected, value)
        if not isinstance(value, _COLLECTIONS):
            return Relevance([read_id(value, place)])
        refuse_pairs(value)
        if value and all(isinstance(item, _COLLECTIONS) for item in value):
            return Relevance.groups([_read_ids(group, place) for group in value])
        return Relevance(_read_ids(value, place))


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


def _read_ids(value: object, place: Place) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise place.wrong("a list of ids", value)
    return [read_id(document_id, place) for document_id in value]


def _read_grades(value: Mapping[str, Any], place: Place) -> dict[str, Any]:
    grades = value.get("grades")
    if not isinstance(grades, Mapping):
        return {}
    return {"grades": {read_id(item, place): grade for item, grade in grades.items()}}


def read_texts(value: object, place: Place) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise place.wrong("expected texts, a list of texts", value)
    return list(texts)


def take_metadata(fields: dict[str, Any]) -> dict[str, Any]:
    """The rest of a record; a field called metadata prevails over the others."""
    metadata = fields.pop("metadata", {})
    return {**fields, **(metadata if isinstance(metadata, Mapping) else {"metadata": metadata})}


def _fields(record: object, place: Place) -> dict[str, Any]:
    if not isinstance(record, Mapping):
        raise place.wrong(f"a record, {{field: value}}, such as {f.EXAMPLE}", record)
    return {key: value for key, value in record.items() if value is not None}


def take(fields: dict[str, Any], names: Iterable[str]) -> Any:
    present = next((name for name in names if name in fields), None)
    return None if present is None else fields.pop(present)


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))
