"""Datasets as JSON: one object that holds all of it, or a question or a document a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from llama_index_rag_metrics.files import records
from llama_index_rag_metrics.files.dataset_content import (
    ALL_BUT_MODE,
    OF_QUERIES,
    DatasetContent,
    check_fits,
)
from llama_index_rag_metrics.files.fields import EXAMPLE, TEXT_HASH
from llama_index_rag_metrics.files.lines import (
    Faults,
    Place,
    from_json,
    name_of,
    read_lines,
    to_json,
    write_lines,
)

T = TypeVar("T")

_FORMAT = "llama-index-rag-metrics dataset, version 1"
_JUDGEMENTS = {"relevance", "relevant_docs"}


def is_mapping(data: Mapping[str, object]) -> bool:
    return "format" in data or isinstance(data.get("queries"), Mapping)


def is_dataset(data: object) -> TypeGuard[Mapping[str, object]]:
    """Whether this can only be a dataset: qrels and runs may have a query called "queries", too."""
    if not isinstance(data, Mapping) or not isinstance(queries := data.get("queries"), Mapping):
        return False
    return data.get("format") == _FORMAT or any(isinstance(text, str) for text in queries.values())


def has_judgements(data: object) -> TypeGuard[Mapping[str, object]]:
    return is_dataset(data) and not _JUDGEMENTS.isdisjoint(data)


def read_mapping(data: Mapping[str, object], place: Place, faults: Faults) -> DatasetContent:
    if data.get("format", _FORMAT) != _FORMAT:
        raise place.wrong(f'"format": "{_FORMAT}"', data["format"])
    known = ["queries", *sorted(_JUDGEMENTS), *_OPTIONAL]
    for name, value in data.items():
        if isinstance(value, Mapping) and name not in known:
            faults.take(place.wrong(f"only the parts {', '.join(known)}", name))
    parts: dict[str, Any] = {
        name: _part(data, name, read, place, faults) for name, read in _READERS.items()
    }
    if not parts["relevance"]:
        parts["relevance"] = _part(data, "relevant_docs", records.read_relevance, place, faults)
    content = DatasetContent(
        **parts,
        name=str(data.get("name", "")),
        mode=str(data.get("mode", "text")),
        notes=records.read_texts(data.get("notes", []), place),
    )
    for part in OF_QUERIES:
        by_query = getattr(content, part)
        for query_id in by_query.keys() - content.queries.keys():
            faults.take(place.wrong('only ids of "queries"', query_id))
            del by_query[query_id]
    return content


def write_mapping(content: DatasetContent, path: Path) -> None:
    data = {
        "format": _FORMAT,
        "name": content.name,
        "queries": content.queries,
        "relevance": {
            query_id: judged.to_plain() for query_id, judged in content.relevance.items()
        },
        **{name: part for name in _OPTIONAL if (part := getattr(content, name))},
        **({"mode": content.mode} if content.mode != "text" else {}),
        **({"notes": content.notes} if content.notes else {}),
    }
    write_lines(path, [to_json(data, indent=1)])


def write_embedding_qa(content: DatasetContent, path: Path, *, lossy: bool = False) -> None:
    """Write the JSON of LlamaIndex's old dataset, whose reader uses the platform's encoding."""
    form = "the JSON of EmbeddingQAFinetuneDataset"
    check_fits(content, form, ["nothing relevant", "mode"], lossy=lossy)
    data = {
        "queries": content.queries,
        "corpus": {item: content.indexed_text(item) for item in content.corpus},
        "relevant_docs": {query_id: [*ids] for query_id, ids in content.relevance.items()},
        "mode": content.mode,
    }
    write_lines(path, [to_json(data, ascii_only=True, indent=4)])


def _part(
    data: Mapping[str, object],
    name: str,
    read: Callable[[Any, Place], T],
    place: Place,
    faults: Faults,
) -> dict[str, T]:
    part = data.get(name)
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise place.wrong(f'"{name}" to be an object, {{id: …}}', part)
    values: dict[str, T] = {}

    def keep(entry: tuple[object, object], here: Place) -> None:
        values[records.read_id(entry[0], place)] = read(entry[1], here)

    entries = (
        (Place(f"{place.path}, {name} of {key!r}", place.line), (key, value))
        for key, value in part.items()
        if value is not None or read is _text
    )
    faults.each(entries, keep)
    return values


def _text(value: object, place: Place) -> str:
    place.check(isinstance(value, str), "a text", value)
    return str(value)


def _metadata(value: Any, place: Place) -> dict[str, Any]:
    place.check(isinstance(value, Mapping), "an object, {key: value}", value)
    return dict(value)


_READERS: dict[str, Callable[[Any, Place], Any]] = {
    "queries": _text,
    "relevance": records.read_relevance,
    "corpus": _text,
    "titles": _text,
    "metadata": _metadata,
    "document_metadata": _metadata,
    "expected_texts": records.read_texts,
    "forbidden": lambda value, place: [*records.read_relevance(value, place).grades],
    "text_hashes": _text,
}
_OPTIONAL = [*_READERS][2:]


def read_jsonl(path: Path, faults: Faults) -> DatasetContent:
    content = DatasetContent(name=name_of(path))

    def read(line: str, place: Place) -> None:
        record = from_json(line, place)
        if isinstance(record, dict) and {"document_id", TEXT_HASH} == record.keys():
            records.read_text_hash(content, record, place)
        elif isinstance(record, dict) and "document_id" in record:
            records.read_document(content, record, place, ["document_id"])
        else:
            records.read_question(content, record, place)

    faults.each(read_lines(path, faults), read)
    if not (content.queries or content.corpus or content.text_hashes or faults.skipped):
        raise Place(str(path)).wrong(f"lines such as {EXAMPLE}")
    return content


def write_jsonl(content: DatasetContent, path: Path, *, lossy: bool = False) -> None:
    check_fits(content, "JSONL", ALL_BUT_MODE, lossy=lossy)
    questions = (records.question_record(content, query_id) for query_id in content.queries)
    documents = (records.document_record(content, document_id) for document_id in content.corpus)
    hashes = (
        {"document_id": passage_id, TEXT_HASH: text_hash}
        for passage_id, text_hash in content.text_hashes.items()
    )
    write_lines(path, map(to_json, chain(questions, documents, hashes)))
