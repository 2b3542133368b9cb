"""Datasets as one JSON object, ours and LlamaIndex's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from .lines import Location
from .records import GRADED_BY, graded, read_id, read_relevance, read_texts

FORMAT = "llama-index-rag-metrics dataset, version 1"
OF_QUERIES = ("relevance", "metadata", "expected_texts")


def is_dataset(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it can only be a dataset: qrels and runs may have a query called "queries", too."""
    if not isinstance(value, Mapping) or not isinstance(queries := value.get("queries"), Mapping):
        return False
    texts = any(isinstance(text, str) for text in queries.values())
    return value.get("format") == FORMAT or texts


def read_object(value: Mapping[str, Any], location: Location) -> dict[str, Any]:
    """The parts of a dataset in one object, ours or LlamaIndex's."""
    if value.get("format", FORMAT) != FORMAT:
        raise location.wrong(f'"format": "{FORMAT}"', value["format"])
    names = [*_READERS]
    for name, part in value.items():
        if isinstance(part, Mapping) and name not in names:
            raise location.wrong(f"only the parts {', '.join(names)}", name)
    parts: dict[str, Any] = {name: {} for name in names}
    for name, reader in _READERS.items():
        part = {} if value.get(name) is None else value[name]
        location.check(isinstance(part, Mapping), f'"{name}" to be an object, {{id: …}}', part)
        for key, entry in part.items():
            place = Location(f"{location.path}, {name} of {key!r}", location.line)
            if entry is not None or name == "queries":
                parts[name][read_id(key, location)] = reader(entry, place)
    parts["relevance"] = parts["relevance"] or parts["relevant_docs"]
    for query_id, model in parts[GRADED_BY].items():
        parts["relevance"][query_id] = graded(parts["relevance"][query_id], model)
    del parts["relevant_docs"], parts[GRADED_BY]
    for name in OF_QUERIES:
        for query_id in parts[name].keys() - parts["queries"].keys():
            raise location.wrong('only ids of "queries"', query_id)
    parts["notes"] = read_texts(value.get("notes", []), location)
    parts["name"] = str(value.get("name", ""))
    return parts


def _text(value: object, location: Location) -> str:
    location.check(isinstance(value, str), "a text", value)
    return str(value)


def _object(value: Any, location: Location) -> dict[str, Any]:
    location.check(isinstance(value, Mapping), "an object, {key: value}", value)
    return dict(value)


_READERS: dict[str, Callable[[Any, Location], Any]] = {
    "queries": _text,
    "relevance": read_relevance,
    "relevant_docs": read_relevance,
    "corpus": _text,
    "titles": _text,
    "metadata": _object,
    "document_metadata": _object,
    "expected_texts": read_texts,
    GRADED_BY: _text,
}
