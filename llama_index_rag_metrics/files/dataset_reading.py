"""Reading datasets: files, BEIR folders, frames, records, and objects of other libraries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import InvalidInput, unknown_format

from .conversations import read_conversation
from .dataset_objects import read_object
from .fields import EXAMPLE, LABELS, TABLE, Fields
from .lines import Location, name_of
from .read_runs import read_qrels
from .records import (
    GRADED_BY,
    Judgements,
    QuestionIds,
    read_grade,
    read_id,
    read_labels,
    read_texts,
)
from .sources import Row, frame_records, is_frame, open_source, records_of

if TYPE_CHECKING:
    import pandas as pd

Corpus: TypeAlias = "Mapping[str, str] | pd.DataFrame | str | os.PathLike[str]"
Parts: TypeAlias = dict[str, Any]
"""Arguments of `RetrievalDataset`."""

_UNDERSTOOD = (
    "a BEIR folder (queries.jsonl, corpus.jsonl, qrels/test.tsv)",
    "JSON of this package's save()",
    "JSON of LlamaIndex's EmbeddingQAFinetuneDataset or LabelledRagDataset",
    f"JSONL, CSV, TSV or Parquet with a question a row, such as {EXAMPLE}, also of ragas",
    "in memory {'queries': {id: text}, 'relevant_docs': {id: ids}}, a list of such rows, a data "
    "frame, a dataset of ir_datasets",
)
_A_QUESTION = f"a question, one text, under `query`, `question` or `user_input`, such as {EXAMPLE}"
_A_CORPUS = "{document id: text}, a data frame, or a path to JSON lines of documents"
_unknown = partial(unknown_format, understood=_UNDERSTOOD)


def read_dataset(
    source: Any, corpus: Corpus | None, columns: Mapping[str, str] | None, split: str | None
) -> Parts:
    """Read a dataset of whatever kind; `corpus` are documents from elsewhere."""
    is_path = isinstance(source, (str, os.PathLike))
    if is_path and Path(source).is_dir():
        parts = _read_beir(Path(source), split)
    elif callable(getattr(source, "has_queries", None)):
        parts = _read_ir_dataset(source, has_documents=corpus is None)
    else:
        parts = _read_source(source, Fields(columns))
        if is_path:
            parts["name"] = parts.get("name") or name_of(Path(source))
    if corpus is not None:
        for name, part in read_corpus(corpus).items():
            parts[name] = {**parts.get(name, {}), **part}
    return parts


def read_corpus(source: Corpus) -> Parts:
    """The corpus, titles and metadata of documents: texts by id, a frame, or JSON lines."""
    parts = _Parts(TABLE)
    rows: Iterable[Row] = ()
    if isinstance(source, (str, os.PathLike)):
        rows = open_source(source, TABLE, _unknown).rows
    elif isinstance(source, Mapping):
        parts.corpus.update(source)
    elif is_frame(source):
        rows = frame_records(source, Location("the data frame"))
    else:
        raise InvalidInput("corpus", source, _A_CORPUS)
    for location, row in rows:
        parts.add_document(row, location)
    return {name: getattr(parts, name) for name in ("corpus", "titles", "document_metadata")}


def _read_source(source: Any, fields: Fields) -> Parts:
    if isinstance(source, Reportable):
        raise _unknown(f"this {type(source).__name__}", "it holds results, not questions")
    if isinstance(getattr(source, "queries", None), Mapping):
        names = ("queries", "corpus", "relevant_docs")
        source = {name: getattr(source, name) for name in names if hasattr(source, name)}
    opened = open_source(getattr(source, "examples", source), fields, _unknown)
    value, location = opened.value, opened.location
    if opened.is_trec:
        raise _unknown(location.path, "its name ends in none of .jsonl, .json, .csv, …")
    if value is None:
        parts = _read_rows(opened.rows, fields)
        if opened.name and not parts["queries"] and not parts["corpus"]:
            raise _unknown(location.path, "there is no question in it")
        return parts
    if "format" in value or isinstance(value.get("queries"), Mapping):
        return read_object(value, location)
    if isinstance(examples := value.get("examples"), list):
        return _read_rows(records_of(location.numbered(examples)), fields)
    if fields.has(value, "query"):
        return _read_rows([(location, dict(value))], fields)
    raise _unknown(location.path, f"its keys are {list(value)[:8]}")


def _read_rows(rows: Iterable[Row], fields: Fields) -> Parts:
    parts = _Parts(fields)
    for location, row in rows:
        if "document_id" in row and not fields.has(row, "query"):
            parts.add_document(row, location)
        else:
            parts.add_question(row, location)
    return {name: part for name, part in vars(parts).items() if not name.startswith("_")}


class _Parts:
    """The parts of a dataset that is read row by row."""

    def __init__(self, fields: Fields) -> None:
        self._fields, self._question_ids = fields, QuestionIds(fields)
        self.queries: dict[str, str] = {}
        self.relevance: dict[str, Any] = {}
        self.expected_texts: dict[str, list[str]] = {}
        self.metadata: dict[str, dict[str, Any]] = {}
        self.corpus: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        self.document_metadata: dict[str, dict[str, Any]] = {}

    def add_question(self, row: Mapping[str, Any], location: Location) -> None:
        fields = self._fields
        values = {name: value for name, value in row.items() if value is not None}
        if not fields.has(row, "query"):
            raise location.lacks(_A_QUESTION, values)
        query = fields.value(values, "query")
        location.check(isinstance(query, str), _A_QUESTION, query or values)
        query_id = self._question_ids.read(values, location)
        location.check(query_id not in self.queries, "every query id once", query_id)
        self.queries[query_id] = query
        relevance = read_labels(values, fields, location)
        if relevance is not None:
            self.relevance[query_id] = relevance
        if (texts := fields.value(values, "expected_texts")) is not None:
            self.expected_texts[query_id] = read_texts(texts, location)
        if not fields.has(values, "retrieved_ids"):
            fields.take(values, "scores")
        for field in ("query_id", "query", *LABELS):
            fields.take(values, field)
        values.pop(GRADED_BY, None)
        try:
            metadata = read_conversation(_metadata(values))
        except ValueError as error:
            raise location.wrong(*error.args) from error
        if metadata:
            self.metadata[query_id] = metadata

    def add_document(self, row: Mapping[str, Any], location: Location) -> None:
        fields = self._fields
        values = {name: value for name, value in row.items() if value is not None}
        document_id = read_id(fields.take(values, "document_id"), location)
        text, title = fields.take(values, "text"), fields.take(values, "title")
        are_texts = isinstance(text, str) and isinstance(title, (str, type(None)))
        location.check(are_texts, "a text under 'text' or 'contents'", row)
        location.check(document_id not in self.corpus, "every document id once", document_id)
        self.corpus[document_id] = text
        if title:
            self.titles[document_id] = title
        if metadata := _metadata(values):
            self.document_metadata[document_id] = metadata


def _metadata(values: dict[str, Any]) -> dict[str, Any]:
    """The rest of a record; a field called metadata prevails over the others."""
    metadata = values.get("metadata")
    if not isinstance(metadata, Mapping):
        return values
    return {name: value for name, value in values.items() if name != "metadata"} | dict(metadata)


def _read_beir(folder: Path, split: str | None) -> Parts:
    """Read queries.jsonl, corpus.jsonl and qrels/<split>.tsv, each of them packed or not."""
    files = {path.name.split(".jsonl")[0]: path for path in sorted(folder.glob("*.jsonl*"))}
    if "queries" not in files:
        inside = sorted(path.name for path in folder.iterdir())
        raise _unknown(str(folder), f"the folder holds {inside[:8]}")
    fields = Fields({"question": "text"})
    parts = _read_rows(open_source(files["queries"], fields, _unknown).rows, fields)
    if "corpus" in files:
        parts |= read_corpus(files["corpus"])
    parts["name"] = folder.name
    splits = {path.name.split(".")[0]: path for path in sorted((folder / "qrels").glob("*.tsv*"))}
    if split is None and "test" in splits:
        split = "test"
    elif split is None and len(splits) <= 1:
        split = next(iter(splits), None)
    if split is None and not splits:
        return parts
    if split not in splits:
        raise InvalidInput("split", split, f"one of {sorted(splits)}")
    labels = {name: read_qrels(path) for name, path in splits.items()}
    for query_id in labels[split]:
        location = Location(str(splits[split]))
        location.check(query_id in parts["queries"], "a query id of queries.jsonl", query_id)
    for query_id in set().union(*labels.values()) - labels[split].keys():
        parts["queries"].pop(query_id, None)
        parts["metadata"].pop(query_id, None)
    return {**parts, "relevance": dict(labels[split])}


def _read_ir_dataset(source: Any, *, has_documents: bool) -> Parts:
    name = source.dataset_id() if callable(getattr(source, "dataset_id", None)) else ""
    if not source.has_queries():
        expected = "a collection with questions"
        raise InvalidInput("dataset", name or source, expected, "Choose one of its subsets.")
    parts: Parts = {"name": name, "queries": {}, "metadata": {}}
    for query in source.queries_iter():
        text = query.default_text()
        fields = query._asdict()
        query_id = fields.pop("query_id")
        parts["queries"][query_id] = text
        metadata = {key: value for key, value in fields.items() if value not in (None, "", text)}
        parts["metadata"][query_id] = metadata
    if source.has_qrels():
        judgements = Judgements()
        for location, qrel in Location(f"{name} qrels").numbered(source.qrels_iter()):
            is_asked = qrel.query_id in parts["queries"]
            location.check(is_asked, "the id of one of its questions", qrel.query_id)
            grade = read_grade(qrel.relevance, location)
            judgements.add(qrel.query_id, qrel.doc_id, grade, location)
        parts["relevance"] = judgements.relevance()
    if has_documents and source.has_docs():
        documents = source.docs_iter()
        parts["corpus"] = {document.doc_id: document.default_text() for document in documents}
    return parts
