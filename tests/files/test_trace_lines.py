"""Lines of OTLP/JSON that are decoded at once, and lines that are looked through part by part."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.telemetry import request, retrieval, span

from llama_index_rag_metrics import read_traces
from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.traces import containers
from llama_index_rag_metrics.files.traces.containers import spans_of_line
from llama_index_rag_metrics.runtime.errors import FileFormatError

EVENTS = [
    {"name": "RetrievalStartEvent", "attributes": [{"key": "query", "value": {"stringValue": "x"}}]}
]
SPANS: list[dict[str, Any]] = [
    retrieval("r1", "x", ["a", "b"], "root", begin=1, question_id="q1"),
    retrieval("k1", "x", ["b", "a"], "root", kind="RERANKER", begin=2, tags=["one", 2, 0.5]),
    span("failed", "root", openinference__span__kind="RETRIEVER", error="ValueError: down"),
    {**retrieval("r2", "y", ["c"], "root"), "events": EVENTS, "droppedAttributesCount": 0},
    span("root", openinference__span__kind="AGENT", input__value="Who?", metadata={"a": [1]}),
]
ODD: list[Any] = [
    *(None, True, 0, -7, 10**30, 0.5, float("inf"), float("nan"), "", "7", "x", "\ud800"),
    *([], {}, [None], {"values": 3}, {"values": [None, {"intValue": "3"}]}),
    *({"stringValue": 3}, {"intValue": "3"}, {"doubleValue": "NaN"}, {"boolValue": True}),
    *({"stringValue": "a", "intValue": 1}, {"arrayValue": {"values": [{"stringValue": "a"}]}}),
    {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}},
]
NAMES = ["spanId", "parent_span_id", "attributes", "key", "value", "events", "further", "\ud800"]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in a value, as what it stands in and its key or index there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from places(inner)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line with something odd in it: a wrong type, another or no key, a key that is repeated."""
    data = request(*copy.deepcopy(SPANS))
    for _ in range(draw(st.integers(0, 3))):
        options = list(places(data))
        if not options:
            break
        parent, key = options[draw(st.integers(0, len(options) - 1))]
        change = draw(st.sampled_from(["replace", "replace", "remove", "rename"]))
        if change == "replace" or isinstance(parent, list):
            parent[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        else:
            value = parent.pop(key)
            if change == "rename":
                parent[draw(st.sampled_from(NAMES))] = value
    line = json.dumps(data)
    repeated = draw(st.sampled_from([None, "spanId", "value", "stringValue", "spans"]))
    return line.replace(f'"{repeated}":', f'"{repeated}": 5, "{repeated}":', 1)


def read(path: Path, line: str) -> list[str]:
    """All that comes of reading a line."""
    path.write_text(f"{line}\n", encoding="utf-8")
    try:
        run = read_traces(path)
    except FileFormatError as error:
        return [str(error)]
    return [repr(dict(run)), repr(run.queries), repr(run.notes)]


@pytest.mark.slow
@given(line=lines())
@settings(examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_ways_read_the_same(tmp_path: Path, line: str) -> None:
    path = tmp_path / "traces.jsonl"
    outcome = read(path, line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(containers, "spans_of_line", lambda *_: None)
        assert read(path, line) == outcome


def test_what_the_specification_writes_is_decoded_at_once() -> None:
    line = json.dumps(request(*SPANS)).encode()
    spans = list(spans_of_line(line, Location("x", 1)) or ())
    assert [decoded.span_id for decoded in spans] == ["r1", "k1", "failed", "r2", "root"]
    assert [decoded.parent_id for decoded in spans] == ["root", "root", "root", "root", None]


@pytest.mark.parametrize(
    "line",
    [
        b'{"resourceSpans": [{"scope_spans": []}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 7, "spanId": "s"}]}]}]}',
        b'{"resourceSpans": [], "further": "\xff"}',
        b'{"resourceSpans": [' + b"[" * 5000,
        b'{"info": {}, "data": {"spans": []}}',
    ],
)
def test_anything_else_is_looked_through(line: bytes) -> None:
    assert spans_of_line(line, Location("x", 1)) is None
