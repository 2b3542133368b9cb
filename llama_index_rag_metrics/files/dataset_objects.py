"""Datasets as JSON, in memory as objects of other tools, and as collections of other libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files import records, tables
from llama_index_rag_metrics.files.beir import read_corpus
from llama_index_rag_metrics.files.dataset_content import OF_QUERIES, DatasetContent
from llama_index_rag_metrics.files.lines import (
    Place,
    Rows,
    each,
    from_json,
    name_of,
    read_lines,
    to_json,
    write_lines,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownFormat


def _read_judgements(rows: Rows, content: DatasetContent) -> dict[str, Relevance]:
    judgements = records.Judgements(content.queries, "the id of one of its questions")

    def read(row: Any, place: Place) -> None:
        query_id, document_id, grade = row
        judgements.add(query_id, document_id, grade, place)

    each(rows, read)
    return judgements.relevance()


def is_ir_dataset(source: Any) -> bool:
    return all(callable(getattr(source, method, None)) for method in ("has_queries", "has_qrels"))


def read_ir_dataset(source: Any, *, corpus: bool = True) -> DatasetContent:
    name = source.dataset_id() if callable(getattr(source, "dataset_id", None)) else ""
    if not source.has_queries():
        expected = "a collection with questions"
        raise InvalidInput("dataset", name or source, expected, "Choose one of its subsets.")
    content = DatasetContent(name=name)
    for query in source.queries_iter():
        text = query.default_text()
        left_out = (None, "", text)
        fields = {key: value for key, value in query._asdict().items() if value not in left_out}
        content.queries[fields.pop("query_id")] = text
        if fields:
            content.metadata[query.query_id] = fields
    if source.has_qrels():
        rows = (
            (place, (each.query_id, each.doc_id, each.relevance))
            for place, each in Place(f"{name} qrels").numbered(source.qrels_iter())
        )
        content.relevance = _read_judgements(rows, content)
    if corpus and source.has_docs():
        content.corpus = {
            document.doc_id: document.default_text() for document in source.docs_iter()
        }
    return content


if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Corpus: TypeAlias = "Mapping[str, str] | pd.DataFrame | str | os.PathLike[str]"

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


def read_mapping(data: Mapping[str, object], place: Place) -> DatasetContent:
    if data.get("format", _FORMAT) != _FORMAT:
        raise place.wrong(f'"format": "{_FORMAT}"', data["format"])
    known = ["queries", *sorted(_JUDGEMENTS), *_OPTIONAL]
    for name, value in data.items():
        if isinstance(value, Mapping) and name not in known:
            raise place.wrong(f"only the parts {', '.join(known)}", name)
    parts: dict[str, Any] = {
        name: _part(data, name, read, place) for name, read in _READERS.items()
    }
    if not parts["relevance"]:
        parts["relevance"] = _part(data, "relevant_docs", records.read_relevance, place)
    content = DatasetContent(
        **parts,
        name=str(data.get("name", "")),
        mode=str(data.get("mode", "text")),
        notes=records.read_texts(data.get("notes", []), place),
    )
    for part in OF_QUERIES:
        by_query = getattr(content, part)
        for query_id in by_query.keys() - content.queries.keys():
            raise place.wrong('only ids of "queries"', query_id)
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


def _part(
    data: Mapping[str, object], name: str, read: Callable[[Any, Place], T], place: Place
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
    each(entries, keep)
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
}
_OPTIONAL = [*_READERS][2:]


def read_jsonl(path: Path) -> DatasetContent:
    content = DatasetContent(name=name_of(path))

    def read(line: str, place: Place) -> None:
        record = from_json(line, place)
        if isinstance(record, dict) and "document_id" in record:
            records.read_document(content, record, place, ["document_id"])
        else:
            records.read_question(content, record, place)

    each(read_lines(path), read)
    if not (content.queries or content.corpus):
        raise Place(str(path)).wrong(f"lines such as {f.EXAMPLE}")
    return content


def write_jsonl(content: DatasetContent, path: Path) -> None:
    if content.mode != "text":
        expected = f"a name that ends in .json, which holds the mode {content.mode!r}"
        raise InvalidInput("path", str(path), expected)
    questions = (records.question_record(content, query_id) for query_id in content.queries)
    documents = (records.document_record(content, document_id) for document_id in content.corpus)
    write_lines(path, map(to_json, chain(questions, documents)))


_INDEX = ("", "Unnamed: 0")


def read_csv(path: Path) -> DatasetContent:
    content = DatasetContent()
    headings, rows = tables.read_table(path, ",")

    def read(row: list[str], place: Place) -> None:
        cells = {
            name: (text or None) if name in f.QUERY else tables.read_field(name, text, place)
            for name, text in dict(zip(headings, row, strict=True)).items()
            if name not in _INDEX
        }
        records.read_question(content, cells, place)

    each(rows, read)
    if not content.queries:
        raise Place(str(path)).wrong("headings such as query,expected_ids, and a row a question")
    content.name = name_of(path)
    return content


def read_frame(frame: Any) -> DatasetContent:
    """Read a table in memory; in a column of texts alone, lists may stand as text."""
    content = DatasetContent()
    names, table = tables.frame_table(frame)
    rows = list(tables.records_of(names, table))
    columns = [
        name
        for name in tables.LISTED.intersection(names)
        if all(row[name] is None or isinstance(row[name], str) for _, row in rows)
    ]

    def read(row: dict[str, Any], place: Place) -> None:
        cells = {name: tables.read_field(name, row[name], place) for name in columns if row[name]}
        records.read_question(content, {**row, **cells}, place)

    each(rows, read)
    return content


UNDERSTOOD = (
    "a BEIR folder (queries.jsonl, corpus.jsonl, qrels/test.tsv)",
    "JSON of this package's save()",
    "JSON of LlamaIndex's EmbeddingQAFinetuneDataset or LabelledRagDataset",
    "a ragas test set (JSON, JSONL or CSV)",
    f"JSONL with one question per line, such as {f.EXAMPLE}",
)

IN_MEMORY = "RetrievalDataset({query id: text}, {query id: relevant ids}), in memory"


def read_value(data: object, place: Place) -> DatasetContent:
    if isinstance(data, (list, tuple)):
        return records.read_questions(place.numbered(data))
    if not isinstance(data, dict):
        raise UnknownFormat(place.path, f"it is a {type(data).__name__}", UNDERSTOOD)
    if is_mapping(data):
        return read_mapping(data, place)
    if isinstance(examples := data.get("examples"), (list, tuple)):
        return records.read_questions(place.numbered(examples))
    if any(name in data for name in f.QUERY):
        return records.read_questions([(place, data)])
    raise UnknownFormat(place.path, f"its keys are {list(data)[:8]}", [IN_MEMORY, *UNDERSTOOD])


def read_object(source: Any) -> DatasetContent:
    place = Place(f"this {type(source).__name__}")
    if isinstance(source, (Mapping, list, tuple)):
        return read_value(dict(source) if isinstance(source, Mapping) else source, place)
    if isinstance(queries := getattr(source, "queries", None), Mapping):
        others = ("corpus", "relevant_docs", "mode")
        parts = {name: getattr(source, name) for name in others if hasattr(source, name)}
        return read_mapping({"queries": queries, **parts}, place)
    if isinstance(examples := getattr(source, "examples", None), (list, tuple)):
        dumped = [
            example.model_dump() if hasattr(example, "model_dump") else example
            for example in examples
        ]
        return records.read_questions(place.numbered(dumped))
    if is_ir_dataset(source):
        return read_ir_dataset(source)
    if isinstance(source, Reportable):
        raise UnknownFormat(place.path, "it holds results, not questions", UNDERSTOOD)
    if tables.is_frame(source):
        return read_frame(source)
    kinds = [*UNDERSTOOD, "the same in memory", "a data frame", "a dataset of ir_datasets"]
    raise UnknownFormat(place.path, "it has none of their attributes", kinds)


def with_corpus(content: DatasetContent, corpus: Corpus | None) -> DatasetContent:
    if isinstance(corpus, (str, os.PathLike)):
        read_corpus(Path(corpus), content)
    elif isinstance(corpus, Mapping):
        content.corpus.update(corpus)
    elif tables.is_frame(corpus):
        each(tables.frame_records(corpus), partial(records.read_document, content))
    elif corpus is not None:
        expected = "{document id: text}, a data frame, or a path to JSON lines of documents"
        raise InvalidInput("corpus", corpus, expected)
    return content
