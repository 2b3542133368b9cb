"""Places in documents, as files write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.formats.lines import Place
from llama_index_rag_metrics.span import Span, read_span

_WISH = 'a place, {"source": document id, "start": first character, "end": the one after}'
_SOURCE = ("source", "document", "document_id")


def read_place(given: Any, place: Place) -> Span | None:
    """A place in a document: an object, or a list of its three parts; None where it isn't known.

    Raises:
        FileFormatError: it isn't one.

    Examples:
        >>> read_place({"document": "moons.txt", "start": 100, "end": 200}, Place("run.jsonl"))
        Span(source='moons.txt', start=100, end=200)
    """
    if given is None:
        return None
    parts = given
    if isinstance(given, Mapping):
        source = next((given[name] for name in _SOURCE if given.get(name) is not None), None)
        parts = source, given.get("start"), given.get("end")
    try:
        return read_span("a place", parts)
    except InvalidInput as problem:
        raise place.wrong(_WISH, given) from problem


def place_record(span: Span | None) -> dict[str, Any] | None:
    """What `read_place` reads."""
    return None if span is None else span._asdict()
