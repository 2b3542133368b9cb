"""Places in documents, as files write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index_rag_metrics.files.fields import PLACE_SOURCE
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.errors import InvalidInput


def read_place(value: Any, place: Place) -> Span | None:
    """A place in a document: an object, or a list of its three parts; None where it isn't known.

    A retrieved item may hold nothing, so that the end is the start.

    Examples:
        >>> read_place({"document": "moons.txt", "start": 100, "end": 200}, Place("run.jsonl"))
        Span(source='moons.txt', start=100, end=200)
    """
    if is_missing(value):
        return None
    parts = value
    if isinstance(value, Mapping):
        source = next((value[name] for name in PLACE_SOURCE if value.get(name) is not None), None)
        parts = source, value.get("start"), value.get("end")
    if isinstance(parts, (list, tuple)):
        parts = tuple(map(_whole, parts))
    kinds = tuple(map(type, parts)) if isinstance(parts, tuple) else ()
    if kinds != (str, int, int) or not 0 <= parts[1] <= parts[2] <= LONGEST:
        raise place.wrong("a span: source, start and end", value)
    return Span(*parts)


def _whole(part: Any) -> Any:
    """A whole number that pandas made a float of, as it does beside missing ones, as it was."""
    return int(part) if type(part) is float and part.is_integer() else part


def is_missing(value: Any) -> bool:
    """Whether there is nothing; older versions of Polars read a missing object as one of Nones."""
    is_object = isinstance(value, Mapping) and bool(value)
    return value is None or (is_object and all(part is None for part in value.values()))


def read_expected_spans(places: Any, place: Place) -> Relevance:
    """Labels by place alone: a list of places."""
    if not isinstance(places, (list, tuple)):
        raise place.wrong("places, a list", places)
    known = [span for span in (read_place(part, place) for part in places) if span is not None]
    try:
        return Relevance.of_spans(known)
    except InvalidInput as error:
        raise place.wrong("places of passages", str(error)) from error


def place_record(span: Span | None) -> dict[str, Any] | None:
    """What `read_place` reads."""
    return None if span is None else span._asdict()
