"""Datasets in memory: what a JSON file holds, and objects of other tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.fields import EXAMPLE, QUERY
from llama_index_rag_metrics.files.frame import is_frame
from llama_index_rag_metrics.files.ir_datasets import is_ir_dataset, read_ir_dataset
from llama_index_rag_metrics.files.labelled_rag import (
    is_columns,
    read_columns,
    read_examples,
    read_frame,
)
from llama_index_rag_metrics.files.lines import Faults, Place
from llama_index_rag_metrics.files.mapping import is_mapping, read_mapping
from llama_index_rag_metrics.files.records import read_questions
from llama_index_rag_metrics.files.squad import is_squad, squad_rows
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


def read_value(data: object, place: Place, faults: Faults | None = None) -> DatasetContent:
    """Read a dataset from the value of a JSON file, or the same in memory."""
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
    """Read a dataset from an object that holds one.

    Objects are told by what they have, so that LlamaIndex's old classes needn't be installed.
    """
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
        return read_examples(dumped, place, faults)
    if is_ir_dataset(source):
        return read_ir_dataset(source, faults=faults)
    if isinstance(source, Reportable):
        raise UnknownFormat(place.path, "it holds results, not questions", UNDERSTOOD)
    if is_frame(source):
        return read_frame(source, faults)
    kinds = [*UNDERSTOOD, "the same in memory", "a data frame", "a dataset of ir_datasets"]
    raise UnknownFormat(place.path, "it has none of their attributes", kinds)
