"""Documents of spans: whole columns at once are what one document after another is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_index_rag_metrics import read_traces
from llama_index_rag_metrics.errors import FileFormatError
from llama_index_rag_metrics.formats.lines import Faults, Place
from llama_index_rag_metrics.formats.traces.documents import (
    Columns,
    Document,
    Documents,
    Retrieved,
)
from llama_index_rag_metrics.formats.traces.openinference import OpenInference
from llama_index_rag_metrics.formats.traces.otlp import OtlpSpan, otlp_spans

PLACE = Place("traces.jsonl", 3)
PREFIX = "retrieval.documents"
FIELDS = ("id", "content", "score", "metadata")

ODD_VALUES: list[Any] = [
    {"stringValue": ""},
    {"stringValue": 5},
    {"stringValue": "d", "intValue": "1"},
    {"intValue": "7", "stringValue": "d"},
    {"intValue": "7"},
    {"doubleValue": 7},
    {"doubleValue": "0.5"},
    {"doubleValue": "half"},
    {"doubleValue": 0.5, "intValue": "1"},
    {"doubleValue": "NaN"},
    {"boolValue": True},
    {"arrayValue": {"values": [{"stringValue": "d"}]}},
    {"arrayValue": 4},
    {},
    None,
    "d",
    ["d"],
    [0],
    0,
]
PLAIN_VALUES: dict[str, Any] = {
    "id": {"stringValue": "d1"},
    "content": {"stringValue": "Io is a moon."},
    "score": {"doubleValue": 0.5},
    "metadata": {"stringValue": "{}"},
}
FURTHER_KEYS = (f"{PREFIX}.0.document.page", f"{PREFIX}.1.document.id", f"{PREFIX}.5.document.id")
ODD_DOCUMENT_VALUES: list[Any] = [
    None, "", "d", "e", 3, 3.0, 0.25, float("nan"), float("inf"), True, 10**400, ["d"], {"a": 1}
]  # fmt: skip


@st.composite
def otlp_attributes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Those of documents that are alike, apart from a few things."""
    fields = draw(st.lists(st.sampled_from(FIELDS), min_size=1, unique=True))
    values = {
        f"{PREFIX}.{index}.document.{field}": PLAIN_VALUES[field]
        for index in range(draw(st.integers(1, 3)))
        for field in fields
    }
    for key in draw(st.lists(st.sampled_from([*values]), max_size=3)):
        values[key] = draw(st.sampled_from(ODD_VALUES))
    for key in draw(st.lists(st.sampled_from([*values, *FURTHER_KEYS]), max_size=1)):
        if values.pop(key, None) is None:
            values[key] = draw(st.sampled_from([*PLAIN_VALUES.values()]))
    keys = draw(st.one_of(st.just([*values]), st.permutations([*values])))
    return [{"key": key, "value": values[key]} for key in keys]


@st.composite
def odd_documents(draw: st.DrawFn) -> list[Document]:
    """Documents that are alike, apart from a few values."""
    n = draw(st.integers(1, 3))
    plain = {"id": "d1", "text": "Io is a moon.", "score": 0.5}
    columns = {
        name: [None if name != "id" and draw(st.booleans()) else value] * n
        for name, value in plain.items()
    }
    cells = [(name, index) for name in plain for index in range(n)]
    for name, index in draw(st.lists(st.sampled_from(cells), max_size=2)):
        columns[name][index] = draw(st.sampled_from(ODD_DOCUMENT_VALUES))
    return [Document(*row) for row in zip(*columns.values(), strict=True)]


def outcome(read: Callable[[], Any]) -> str:
    """What is read, or why it can't be; NaN's as text, since they differ from themselves."""
    try:
        return repr(read())
    except FileFormatError as error:
        return str(error)


def otlp_span(attributes: list[dict[str, Any]]) -> OtlpSpan:
    raw = {"traceId": "t", "spanId": "s", "attributes": attributes}
    data = {"resourceSpans": [{"scopeSpans": [{"spans": [raw]}]}]}
    (span,) = otlp_spans(data, PLACE, Faults())
    return span


def one_by_one(span: OtlpSpan) -> Iterator[Document]:
    """By definition: documents are numbered from 0, and end where one has none of the fields."""
    index = 0
    while any(f"{PREFIX}.{index}.document.{field}" in span.attributes for field in FIELDS):
        keys = [f"{PREFIX}.{index}.document.{field}" for field in FIELDS]
        yield Document(*map(span.get, keys))
        index += 1
    for key in span.attributes:
        if int(key.split(".")[2]) >= index:
            wish = f"every document from {PREFIX}.0 on; raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
            raise PLACE.wrong(f"{wish} where spans are recorded", key)


def check_documents(attributes: list[dict[str, Any]]) -> None:
    """That they are those of the definition, or are refused for the same reason."""
    span = otlp_span(attributes)
    expected = outcome(lambda: [*one_by_one(span)] or None)
    assert outcome(lambda: [*(OpenInference().documents(span, "retrieval") or ())] or None) == (
        expected
    )


@settings(max_examples=200, deadline=None)
@given(otlp_attributes())
def test_documents_that_are_alike_apart_from_a_few_things(attributes: list[dict[str, Any]]) -> None:
    check_documents(attributes)


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize("field", FIELDS)
def test_one_odd_value(index: int, field: str) -> None:
    for odd in ODD_VALUES:
        values = {
            f"{PREFIX}.{number}.document.{name}": PLAIN_VALUES[name]
            for number in range(3)
            for name in FIELDS
        }
        values[f"{PREFIX}.{index}.document.{field}"] = odd
        check_documents([{"key": key, "value": value} for key, value in values.items()])


def test_the_first_document_at_fault_is_named() -> None:
    values = {
        f"{PREFIX}.0.document.id": {"stringValue": "d1"},
        f"{PREFIX}.0.document.score": {"doubleValue": "half"},
        f"{PREFIX}.1.document.id": {"arrayValue": 4},
        f"{PREFIX}.1.document.score": {"doubleValue": 0.5},
    }
    span = otlp_span([{"key": key, "value": value} for key, value in values.items()])
    with pytest.raises(FileFormatError, match="a value as doubleValue"):
        OpenInference().documents(span, "retrieval")


@settings(max_examples=200, deadline=None)
@given(odd_documents(), st.booleans())
def test_the_columns_of_documents(documents: list[Document], texts: bool) -> None:
    """A document with a number for an id, and nothing else, is read one by one, and all with it."""

    def together() -> tuple[Retrieved, int]:
        columns = Columns("node_id", texts=texts)
        return columns.read(Documents.of(documents), PLACE), columns.nameless

    def by_themselves() -> tuple[Retrieved, int]:
        columns = Columns("node_id", texts=texts)
        read = columns.read(Documents.of([*documents, Document(7)]), PLACE)
        kept = [None if column is None else column[:-1] for column in read]
        return Retrieved(*kept), columns.nameless  # type: ignore[arg-type]

    assert outcome(together) == outcome(by_themselves)


def test_texts_are_kept_once() -> None:
    columns = Columns("node_id", texts=True)
    first, second = (
        columns.read(Documents.of([Document("".join(["d", "1"]), "".join(["I", "o"]))]), PLACE)
        for _ in range(2)
    )
    assert first.ids[0] is second.ids[0]
    assert first.texts is not None
    assert second.texts is not None
    assert first.texts[0] is second.texts[0]


@pytest.mark.parametrize("is_list", [False, True])
def test_what_is_in_memory_stays_as_it_is(is_list: bool) -> None:
    attributes = [
        {"key": "openinference.span.kind", "value": {"stringValue": "RETRIEVER"}},
        {"key": f"{PREFIX}.0.document.id", "value": {"stringValue": "d1"}},
    ]
    raw = {"traceId": "t", "spanId": "s", "attributes": attributes}
    data: Any = {"resourceSpans": [{"scopeSpans": [{"spans": [raw, {**raw, "spanId": "r"}]}]}]}
    source, before = [data] if is_list else data, deepcopy(data)
    assert len(read_traces(source)["t"].calls or ()) == 2
    assert json.dumps(data) == json.dumps(before)
