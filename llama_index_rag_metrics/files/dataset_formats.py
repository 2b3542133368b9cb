"""Which format a path is in, told by the path and by what is inside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.beir import is_beir, read_beir, read_corpus
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.fields import EXAMPLE, QUERY
from llama_index_rag_metrics.files.file_kinds import kind_of, name_of
from llama_index_rag_metrics.files.frame import is_frame
from llama_index_rag_metrics.files.ir_datasets import is_ir_dataset, read_ir_dataset
from llama_index_rag_metrics.files.jsonl import read_jsonl
from llama_index_rag_metrics.files.labelled_rag import (
    is_columns,
    read_columns,
    read_csv,
    read_examples,
    read_frame,
)
from llama_index_rag_metrics.files.lines import Faults, Place, from_json, read_text
from llama_index_rag_metrics.files.mapping import is_mapping, read_mapping
from llama_index_rag_metrics.files.records import read_questions
from llama_index_rag_metrics.files.registered_formats import FORMATS
from llama_index_rag_metrics.files.runs.mistaken_files import DATASET, read_as
from llama_index_rag_metrics.files.squad import is_squad, squad_rows
from llama_index_rag_metrics.files.trec import read_trec
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import UnknownFormat

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

_UNREADABLE = {
    "empty": "there is no question in it",
    **dict.fromkeys(
        ("tsv", "parquet", "arrow"), "a table of this kind is read in memory, by from_pandas(frame)"
    ),
}

TREC_FILES = ("qrels.txt", "topics.tsv", "corpus.jsonl")


def read_path(path: Path, split: str | None = None, faults: Faults | None = None) -> DatasetContent:
    """Read a dataset in any format that is understood.

    Args:
        path: a file or a folder.
        split: which split of a BEIR folder.
        faults: what to do with a line or an entry that can't be read.

    Raises:
        UnknownFormat: it is none of those; lists them.
        MistakenFile: it is another kind of file, such as a run; says what reads it.
        FileFormatError: a line can't be read.
        FileNotFoundError: there is nothing at that path.
    """
    with read_as(DATASET, path):
        return _read_folder(path, split, faults) if path.is_dir() else _read_file(path, faults)


def _read_file(path: Path, faults: Faults | None) -> DatasetContent:
    kind = kind_of(path)
    if kind in FORMATS:
        return _named(read_object(FORMATS[kind].load(path, "dataset"), faults), path)
    if kind == "jsonl":
        return read_jsonl(path, faults)
    if kind == "csv":
        return read_csv(path, faults)
    if kind != "json":
        path.stat()  # where there is no such file, that is what is wrong with it
        raise UnknownFormat(str(path), _UNREADABLE.get(kind, "it is no JSON"), UNDERSTOOD)
    place = Place(str(path))
    data = from_json(read_text(path), place)
    if data == []:
        raise UnknownFormat(str(path), _UNREADABLE["empty"], UNDERSTOOD)
    return _named(read_value(data, place, faults), path)


def read_value(data: object, place: Place, faults: Faults | None = None) -> DatasetContent:
    """Read a dataset from the value of a JSON file, or the same in memory.

    Raises:
        UnknownFormat: it is none that is understood; lists them.
        FileFormatError: a part of it can't be read.
    """
    if isinstance(data, (list, tuple)):
        return read_examples(data, place, faults)
    if not isinstance(data, dict):
        raise UnknownFormat(place.path, f"it is a {type(data).__name__}", UNDERSTOOD)
    if is_mapping(data):
        return read_mapping(data, place, faults)
    if isinstance(examples := data.get("examples"), (list, tuple)):
        return read_examples(examples, place, faults)
    if is_squad(data):
        return read_questions(squad_rows(data, place), faults)
    if is_columns(data):
        return read_columns(data, place, faults)
    if any(name in data for name in QUERY):
        return read_questions([(place, data)], faults)
    raise UnknownFormat(place.path, f"its keys are {list(data)[:8]}", [IN_MEMORY, *UNDERSTOOD])


def read_object(source: Any, faults: Faults | None = None) -> DatasetContent:
    """Read a dataset from an object that holds one, or from the path of a file or folder.

    Objects are told by what they have, so that LlamaIndex's old classes needn't be installed.

    Raises:
        UnknownFormat: it is none that is understood; lists them.
        FileFormatError: a part of it can't be read.
    """
    place = Place(f"this {type(source).__name__}")
    if isinstance(source, (str, os.PathLike)):
        return read_path(Path(source), faults=faults)
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
        return read_examples(dumped, place, faults)
    if is_ir_dataset(source):
        return read_ir_dataset(source, faults=faults)
    if isinstance(source, Reportable):
        raise UnknownFormat(place.path, "it holds results, not questions", UNDERSTOOD)
    if is_frame(source):
        return read_frame(source, faults)
    kinds = [*UNDERSTOOD, "the same in memory", "a data frame", "a dataset of ir_datasets"]
    raise UnknownFormat(place.path, "it has none of their attributes", kinds)


def read_trec_folder(folder: Path, faults: Faults | None = None) -> DatasetContent:
    """Read what `RetrievalDataset.to_trec` wrote."""
    qrels, topics, corpus = (folder / name for name in TREC_FILES)
    content = read_trec(qrels, topics, faults)
    content.name = folder.name
    return read_corpus(corpus, content, faults) if corpus.is_file() else content


def _read_folder(folder: Path, split: str | None, faults: Faults | None) -> DatasetContent:
    if is_beir(folder):
        return read_beir(folder, split, faults)
    if all((folder / name).is_file() for name in TREC_FILES[:2]):
        return read_trec_folder(folder, faults)
    inside = sorted(path.name for path in folder.iterdir())
    raise UnknownFormat(str(folder), f"the folder holds {inside[:8]}", UNDERSTOOD)


def _named(content: DatasetContent, path: Path) -> DatasetContent:
    content.name = content.name or name_of(path)
    return content
