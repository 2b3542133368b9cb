"""Datasets in memory: what a JSON file or a table holds, and objects of other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files import tables
from llama_index_rag_metrics.files.data_libraries import is_ir_dataset, read_ir_dataset
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.fields import EXAMPLE, QUERY
from llama_index_rag_metrics.files.json_datasets import is_mapping, read_mapping
from llama_index_rag_metrics.files.lines import Faults, Place, name_of
from llama_index_rag_metrics.files.records import (
    is_squad,
    read_question,
    read_questions,
    squad_rows,
)
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import UnknownFormat

_INDEX = ("", "Unnamed: 0")


def read_columns(data: Mapping[str, Any], place: Place, faults: Faults) -> DatasetContent:
    """Read a table of questions by columns: {column: {row: value}} or {column: [value, …]}."""
    for name, part in data.items():
        is_column = isinstance(part, Iterable) and not isinstance(part, str)
        place.check(is_column, f"a column {name!r}, a list or {{row: value}}", part)
    columns = [list(part.values() if isinstance(part, dict) else part) for part in data.values()]
    lengths = [len(column) for column in columns]
    place.check(len(set(lengths)) <= 1, "columns of the same length", lengths)
    rows = [dict(zip(data, values, strict=True)) for values in zip(*columns, strict=True)]
    return read_questions(place.numbered(rows), faults)


def read_csv(path: Path, faults: Faults) -> DatasetContent:
    content = DatasetContent()
    headings, rows = tables.read_table(path, ",", faults)

    def read(row: list[str], place: Place) -> None:
        cells = {
            name: (text or None) if name in QUERY else tables.read_field(name, text, place)
            for name, text in dict(zip(headings, row, strict=True)).items()
            if name not in _INDEX
        }
        read_question(content, cells, place)

    faults.each(rows, read)
    if not (content.queries or faults.skipped):
        raise Place(str(path)).wrong("headings such as query,expected_ids, and a row a question")
    content.name = name_of(path)
    return content


def read_frame(frame: Any, faults: Faults) -> DatasetContent:
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
        read_question(content, {**row, **cells}, place)

    faults.each(rows, read)
    return content


UNDERSTOOD = (
    "a BEIR folder (queries.jsonl, corpus.jsonl, qrels/test.tsv)",
    "a folder with TREC's qrels.txt and topics.tsv",
    "JSON of this package's save()",
    "JSON of LlamaIndex's EmbeddingQAFinetuneDataset or LabelledRagDataset",
    "a ragas test set (JSON, JSONL or CSV)",
    "JSON of SQuAD, or rows with context, question and answers",
    f"JSONL with one question per line, such as {EXAMPLE}",
)

IN_MEMORY = "RetrievalDataset({query id: text}, {query id: relevant ids}), in memory"


def read_value(data: object, place: Place, faults: Faults) -> DatasetContent:
    if isinstance(data, (list, tuple)):
        return read_questions(place.numbered(data), faults)
    if not isinstance(data, dict):
        raise UnknownFormat(place.path, f"it is a {type(data).__name__}", UNDERSTOOD)
    if is_mapping(data):
        return read_mapping(data, place, faults)
    if isinstance(examples := data.get("examples"), (list, tuple)):
        return read_questions(place.numbered(examples), faults)
    if is_squad(data):
        return read_questions(squad_rows(data, place), faults)
    if any(isinstance(data.get(name), (dict, list)) for name in QUERY):
        return read_columns(data, place, faults)
    if any(name in data for name in QUERY):
        return read_questions([(place, data)], faults)
    raise UnknownFormat(place.path, f"its keys are {list(data)[:8]}", [IN_MEMORY, *UNDERSTOOD])


def read_object(source: Any, faults: Faults) -> DatasetContent:
    place = Place(f"this {type(source).__name__}")
    if isinstance(source, (Mapping, list, tuple)):
        return read_value(dict(source) if isinstance(source, Mapping) else source, place, faults)
    if isinstance(queries := getattr(source, "queries", None), Mapping):
        others = ("corpus", "relevant_docs", "mode")
        parts = {name: getattr(source, name) for name in others if hasattr(source, name)}
        return read_mapping({"queries": queries, **parts}, place, faults)
    if isinstance(examples := getattr(source, "examples", None), (list, tuple)):
        dumped = [
            example.model_dump() if hasattr(example, "model_dump") else example
            for example in examples
        ]
        return read_questions(place.numbered(dumped), faults)
    if is_ir_dataset(source):
        return read_ir_dataset(source, faults=faults)
    if isinstance(source, Reportable):
        raise UnknownFormat(place.path, "it holds results, not questions", UNDERSTOOD)
    if tables.is_frame(source):
        return read_frame(source, faults)
    kinds = [*UNDERSTOOD, "the same in memory", "a data frame", "a dataset of ir_datasets"]
    raise UnknownFormat(place.path, "it has none of their attributes", kinds)
