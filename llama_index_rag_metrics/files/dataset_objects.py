"""Datasets as one JSON object, ours and LlamaIndex's, and as records, one a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard

from llama_index_rag_metrics.runtime.errors import InvalidInput

from .dataset_content import OF_QUERIES, DatasetContent
from .lines import Location, to_json, write_lines
from .records import read_id, read_relevance, read_texts

_FORMAT = "llama-index-rag-metrics dataset, version 1"
_LABELS = "relevance", "relevant_docs"


def is_dataset(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it can only be a dataset: qrels and runs may have a query called "queries", too."""
    if not isinstance(value, Mapping) or not isinstance(queries := value.get("queries"), Mapping):
        return False
    texts = any(isinstance(text, str) for text in queries.values())
    return value.get("format") == _FORMAT or texts


def read_object(value: Mapping[str, Any], location: Location) -> dict[str, Any]:
    """The parts of a dataset in one object, checked, as arguments of `RetrievalDataset`."""
    if value.get("format", _FORMAT) != _FORMAT:
        raise location.wrong(f'"format": "{_FORMAT}"', value["format"])
    names = ["queries", *_LABELS, *_OTHERS]
    for name, part in value.items():
        if isinstance(part, Mapping) and name not in names:
            raise location.wrong(f"only the parts {', '.join(names)}", name)
    parts: dict[str, Any] = {}
    for name, reader in _READERS.items():
        parts[name] = _read_part(value, name, reader, location)
    if not parts["relevance"]:
        parts["relevance"] = _read_part(value, "relevant_docs", read_relevance, location)
    for name in OF_QUERIES:
        for query_id in parts[name].keys() - parts["queries"].keys():
            raise location.wrong('only ids of "queries"', query_id)
    parts["notes"] = read_texts(value.get("notes", []), location)
    parts["name"] = str(value.get("name", ""))
    return parts


def write_dataset(content: DatasetContent, path: Path) -> None:
    """Write all of a dataset: .json is one object, .jsonl a line a question or a document."""
    if check_ending(path) == ".json":
        write_lines(path, [to_json(_object(content), indent=1)])
        return
    write_lines(path, map(to_json, chain(_question_records(content), _document_records(content))))


def check_ending(path: Path) -> str:
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending not in (".json", ".jsonl", ".ndjson"):
        raise InvalidInput("path", str(path), "a name that ends in .json or .jsonl")
    return ending


def _object(content: DatasetContent) -> dict[str, Any]:
    labels = {query_id: labels.to_plain() for query_id, labels in content.relevance.items()}
    data = {
        "format": _FORMAT,
        "name": content.name,
        "queries": content.queries,
        "relevance": labels,
    }
    data |= {name: part for name in _OTHERS if (part := getattr(content, name))}
    if content.notes:
        data["notes"] = content.notes
    return data


def _question_records(content: DatasetContent) -> Iterator[dict[str, Any]]:
    for query_id, query in content.queries.items():
        record: dict[str, Any] = {"query_id": query_id, "query": query}
        if query_id in content.relevance:
            record["expected_ids"] = content.relevance[query_id].to_plain()
        if query_id in content.expected_texts:
            record["expected_texts"] = content.expected_texts[query_id]
        if query_id in content.metadata:
            record["metadata"] = content.metadata[query_id]
        yield record


def _document_records(content: DatasetContent) -> Iterator[dict[str, Any]]:
    for document_id, text in content.corpus.items():
        title = content.titles.get(document_id, "")
        record: dict[str, Any] = {"document_id": document_id, "title": title, "text": text}
        if document_id in content.document_metadata:
            record["metadata"] = content.document_metadata[document_id]
        yield record


def _read_part(
    value: Mapping[str, Any], name: str, read: Callable[[Any, Location], Any], location: Location
) -> dict[str, Any]:
    part = value.get(name)
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise location.wrong(f'"{name}" to be an object, {{id: …}}', part)
    values = {}
    for key, entry in part.items():
        if entry is not None or read is _text:
            place = Location(f"{location.path}, {name} of {key!r}", location.line)
            values[read_id(key, location)] = read(entry, place)
    return values


def _text(value: object, location: Location) -> str:
    location.check(isinstance(value, str), "a text", value)
    return str(value)


def _metadata(value: Any, location: Location) -> dict[str, Any]:
    location.check(isinstance(value, Mapping), "an object, {key: value}", value)
    return dict(value)


_READERS: dict[str, Callable[[Any, Location], Any]] = {
    "queries": _text,
    "relevance": read_relevance,
    "corpus": _text,
    "titles": _text,
    "metadata": _metadata,
    "document_metadata": _metadata,
    "expected_texts": read_texts,
}
_OTHERS = [*_READERS][2:]
