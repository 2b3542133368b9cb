"""A question or a document as a record: one JSON line, one row of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.lines import Faults, Place, from_json, to_json
from llama_index_rag_metrics.files.squad import take_answers
from llama_index_rag_metrics.rankings.relevance import Nugget, Relevance, facets_of, refuse_pairs
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import truncated


def read_place(value: Any, place: Place) -> Span | None:
    """A place: an object, or source, start and end, which may be equal; None if missing."""
    if is_missing(value):
        return None
    parts = value
    if isinstance(value, Mapping):
        parts = f.first_of(value, f.PLACE_SOURCE), value.get("start"), value.get("end")
    if isinstance(parts, (list, tuple)):
        parts = tuple(map(_whole, parts))
    kinds = tuple(map(type, parts)) if isinstance(parts, tuple) else ()
    if kinds != (str, int, int) or not 0 <= parts[1] <= parts[2] <= LONGEST:
        raise place.wrong("a span: source, start and end", value)
    return Span(*parts)


def _whole(part: Any) -> Any:
    """A whole number that pandas made a float."""
    return int(part) if type(part) is float and part.is_integer() else part


def is_missing(value: Any) -> bool:
    """Whether there is nothing; older versions of Polars read a missing object as one of Nones."""
    is_object = isinstance(value, Mapping) and bool(value)
    return value is None or (is_object and all(part is None for part in value.values()))


def read_expected_spans(places: Any, place: Place) -> Relevance:
    if not isinstance(places, (list, tuple)):
        raise place.wrong("places, a list", places)
    known = [span for span in (read_place(part, place) for part in places) if span is not None]
    try:
        return Relevance.of_spans(known)
    except InvalidInput as error:
        raise place.wrong("places of passages", str(error)) from error


def place_record(span: Span | None) -> dict[str, Any] | None:
    return None if span is None else span._asdict()


_EXPECTED = 'nuggets, a list of {"text": …, "importance": "vital" or "okay", "supports": {id: …}}'


def read_nuggets(value: object, place: Place) -> list[Nugget]:
    """The nuggets of a question; one without importance is vital."""
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(nugget, Mapping) for nugget in value
    ):
        raise place.wrong(_EXPECTED, value)
    nuggets: dict[str, Nugget] = {}
    for record in value:
        try:
            nugget = Nugget(
                record["text"], record.get("importance") or "vital", record.get("supports") or {}
            )
        except LookupError as error:
            raise place.wrong(_EXPECTED, record) from error
        except InvalidInput as error:
            raise place.wrong(_EXPECTED, str(error)) from error
        if nugget.text in nuggets:
            raise place.wrong("every nugget of a question once", nugget.text)
        nuggets[nugget.text] = nugget
    return list(nuggets.values())


def are_nuggets(value: object) -> bool:
    return isinstance(value, (list, tuple)) and any(
        isinstance(record, Mapping) and "text" in record for record in value
    )


def nuggets_record(
    query_id: str, query: str, nuggets: Iterable[Nugget], error: str | None = None
) -> dict[str, Any]:
    records = [
        {
            "text": nugget.text,
            "importance": nugget.importance,
            **({"supports": dict(nugget.supports)} if nugget.supports else {}),
        }
        for nugget in nuggets
    ]
    record = {"query_id": query_id, "query": query, f.NUGGETS: records}
    return record if error is None else {**record, "error": error}


def read_supporting_facts(facts: Any, place: Place) -> Relevance:
    """A facet for each title in [[title, sentence], …] or {"title": [title, …], …}."""
    titles: Any = facts.get("title") if isinstance(facts, Mapping) else facts
    if titles is facts and isinstance(facts, (list, tuple)):
        titles = [fact[0] if isinstance(fact, (list, tuple)) and fact else None for fact in facts]
    is_list = isinstance(titles, (list, tuple))
    if not is_list or not all(isinstance(title, str) and title for title in titles):
        expected = "supporting facts, [[title, sentence], …] or {'title': [title, …]}"
        raise place.wrong(expected, facts)
    return Relevance.facets({title: [title] for title in titles})


_COLLECTIONS = (list, tuple, set, frozenset)
SEPARATORS, _SPACE = re.compile("[,;|]"), re.compile(r"\s")


def read_questions(records: Iterable[tuple[Place, object]], faults: Faults) -> DatasetContent:
    content = DatasetContent()
    faults.each(records, lambda record, place: read_question(content, record, place))
    return content


def read_question(content: DatasetContent, record: object, place: Place) -> None:
    """Add a question; one without an id gets its position, other fields become metadata."""
    fields = _fields(record, place)
    given_id = take(fields, f.QUERY_ID)
    query = take(fields, f.QUERY)
    if not isinstance(query, str):
        raise place.wrong(f"a question, one text, under {_either(f.QUERY)}", query or record)
    query_id = f"q{len(content.queries) + 1}" if given_id is None else read_id(given_id, place)
    if query_id in content.queries:
        raise place.wrong("every query id once", query_id)
    judgements, texts = take(fields, f.RELEVANCE), take(fields, f.EXPECTED_TEXTS)
    if texts is None and not f.ANSWERED & set(fields):
        texts = fields.pop(f.GENERATED_FROM, None)
    # whatever can't be read is raised before anything of the record is kept
    relevance = None if judgements is None else read_relevance(judgements, place)
    if relevance is None and f.REFERENCES in fields:
        relevance = read_references(fields.pop(f.REFERENCES), take(fields, f.SOURCE), place)
    if relevance is None and (spans := take(fields, f.EXPECTED_SPANS)) is not None:
        relevance = read_expected_spans(spans, place)
    if relevance is None and f.SUPPORTING_FACTS in fields:
        relevance = read_supporting_facts(fields.pop(f.SUPPORTING_FACTS), place)
    answered = take_answers(fields, place) if relevance is None else None
    if answered is not None:
        relevance, (document, text) = answered
    expected = None if texts is None else read_texts(texts, place)
    ids = take(fields, f.FORBIDDEN_FIELDS)
    forbidden = None if ids is None else [*read_relevance(ids, place).grades]
    content.queries[query_id] = query
    if answered is not None:
        content.corpus[document] = text
    parts = {
        "relevance": relevance,
        "expected_texts": expected,
        "forbidden": forbidden,
        "metadata": take_metadata(fields) or None,
    }
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
    if not isinstance(text, str) or not isinstance(title, str):
        raise place.wrong(f"a text under {_either(f.TEXT)}", record)
    if document_id in content.corpus:
        raise place.wrong("every document id once", document_id)
    content.corpus[document_id] = text
    if title:
        content.titles[document_id] = title
    if metadata := take_metadata(fields):
        content.document_metadata[document_id] = metadata


def read_text_hash(content: DatasetContent, record: Mapping[str, Any], place: Place) -> None:
    passage_id = read_id(record.get("document_id"), place)
    if not isinstance(record[f.TEXT_HASH], str):
        raise place.wrong(f"a text under {f.TEXT_HASH!r}", record[f.TEXT_HASH])
    if passage_id in content.text_hashes:
        raise place.wrong("the hash of every passage once", passage_id)
    content.text_hashes[passage_id] = record[f.TEXT_HASH]


def question_record(content: DatasetContent, query_id: str) -> dict[str, Any]:
    record: dict[str, Any] = {"query_id": query_id, "query": content.queries[query_id]}
    if query_id in content.relevance:
        record["relevance"] = content.relevance[query_id].to_plain()
    names = {"forbidden": "forbidden_ids"}
    for part in ("expected_texts", "forbidden", "metadata"):
        if query_id in (by_query := getattr(content, part)):
            record[names.get(part, part)] = by_query[query_id]
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
    """Relevance in any form: ids, {id: grade}, groups of ids, nuggets, or ready."""
    if isinstance(value, Relevance):
        return value
    if are_nuggets(value):
        return facets_of(read_nuggets(value, place))
    try:
        if isinstance(value, Mapping) and isinstance(value.get("facets"), Mapping):
            facets = {name: _read_ids(group, place) for name, group in value["facets"].items()}
            weights = value.get("weights")
            if weights is not None and not isinstance(weights, Mapping):
                raise place.wrong("weights, {facet: weight}", weights)
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
        if not isinstance(value, _COLLECTIONS):
            return Relevance([_read_only_id(value, place)])
        refuse_pairs(value)
        if value and all(isinstance(item, _COLLECTIONS) for item in value):
            return Relevance.groups([_read_ids(group, place) for group in value])
        return Relevance(_read_ids(value, place))
    except InvalidInput as error:
        raise place.wrong("spans, ids, {id: grade}, groups of ids or facets", str(error)) from error


def _read_only_id(value: object, place: Place) -> str:
    """An id in place of a list, unless it looks like several."""
    if isinstance(value, str) and looks_like_several(value):
        escaped = truncated(to_json([value]))
        expected = f'one id, a list such as ["d1", "d2"], or {escaped} if it is one id'
        raise place.wrong(expected, value)
    return read_id(value, place)


def looks_like_several(text: str) -> bool:
    """Whether a text may be several ids, such as d1,d2 or [d1]; a title has plain words."""
    parts = [part.strip() for part in SEPARATORS.split(text.strip())]
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


def read_references(value: object, source: object, place: Place) -> Relevance:
    """Places as JSON, or a list, of {"start_index", "end_index"}, by default in `source`."""
    passages = from_json(value, place) if isinstance(value, str) else value
    expected = 'references, a list of {"start_index": first character, "end_index": the one after}'
    if not isinstance(passages, (list, tuple)):
        raise place.wrong(expected, value)
    try:
        spans = (
            (passage.get("document_id", source), passage["start_index"], passage["end_index"])
            for passage in passages
        )
        return Relevance.of_spans((read_id(item, place), *span) for item, *span in spans)
    except (InvalidInput, LookupError, TypeError, AttributeError) as error:
        raise place.wrong(expected, str(error)) from error


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
