"""Reading datasets: files, BEIR folders, frames, records, and objects of other libraries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.runtime.containers import map_values, present
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first

from .fields import EXAMPLE, LABELS, TABLE, Fields
from .lines import Location, name_of
from .read_runs import ONCE, is_dataset, read_qrels
from .records import GRADED_BY, Judgements, graded, question_id, read_id, read_labels, read_texts
from .sources import Row, frame_records, is_frame, open_source, records_of, unknown_format

if TYPE_CHECKING:
    import pandas as pd

Corpus: TypeAlias = "Mapping[str, str] | pd.DataFrame | str | os.PathLike[str]"
Parts: TypeAlias = dict[str, Any]  # arguments of `RetrievalDataset`
_UNDERSTOOD = (
    "a BEIR folder (queries.jsonl, corpus.jsonl, qrels/test.tsv)",
    "JSON of this package's save() or of LlamaIndex's EmbeddingQAFinetuneDataset or "
    "LabelledRagDataset, also in memory",
    f"JSONL, CSV, TSV, Parquet, a list or a data frame with a question a row, such as {EXAMPLE}",
    "a dataset of ir_datasets",
)
_A_QUESTION = f"a question, one text, under `query`, `question` or `user_input`, such as {EXAMPLE}"
_JOINED = "a list of texts, as DeepEval's save_as('json', …) keeps it; .csv and .jsonl join by |"
_OF_GOLDENS = ("custom_column_key_values", "actual_output")
_A_CORPUS = "{document id: text}, a data frame, or a path to JSON lines of documents"
_MAPPINGS = (
    *("queries", "relevance", "corpus", "metadata", "expected_texts", "titles"),
    "document_metadata",
)
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
    if isinstance(source, Mapping):
        return {"corpus": source}
    if isinstance(source, (str, os.PathLike)):
        return _read_documents(open_source(source, TABLE, _unknown).rows)
    if not is_frame(source):
        raise InvalidInput("corpus", source, _A_CORPUS)
    return _read_documents(frame_records(source, Location("the data frame")))


def _read_source(source: Any, fields: Fields) -> Parts:
    if hasattr(source, "model_dump"):  # LlamaIndex's
        source = source.model_dump(serialize_as_any=True)
    opened = open_source(source, fields, _unknown)
    value, location = opened.value, opened.location
    if opened.is_trec:
        raise _unknown(location.path, "its name ends in none of .jsonl, .json, .csv, …")
    if value is None:
        parts = _read_questions(opened.rows, fields)
        if opened.name and not parts["queries"]:
            raise _unknown(location.path, "there is no question in it")
        return parts
    if is_dataset(value):
        return _read_parts(value, location)
    if isinstance(examples := value.get("examples"), list):
        return _read_questions(records_of(location.numbered(examples)), fields)
    raise _unknown(location.path, f"its keys are {list(value)[:8]}")


def _read_parts(value: Mapping[str, Any], location: Location) -> Parts:
    parts = {name: value[name] for name in (*_MAPPINGS, "name", "notes") if value.get(name)}
    part_names = (*_MAPPINGS, "relevant_docs", GRADED_BY)
    expected = f"only the parts {', '.join(_MAPPINGS)}"
    for name, part in value.items():
        location.check(name in part_names or not isinstance(part, Mapping), expected, name)
    labels = parts.get("relevance") or value.get("relevant_docs") or {}
    location.check(isinstance(labels, Mapping), "the labels of each query id", labels)
    graders = value.get(GRADED_BY) or {}
    expected = f"a model for each query id in {GRADED_BY}"
    location.check(isinstance(graders, Mapping), expected, graders)
    by_model = {key: graded(labels[key], graders[key]) for key in graders if key in labels}
    return {"queries": {}, **parts, "relevance": {**labels, **by_model}}


def _read_questions(rows: Iterable[Row], fields: Fields) -> Parts:
    parts: Parts = {"queries": {}, "relevance": {}, "expected_texts": {}, "metadata": {}}
    absent, columns = set(fields.label_columns), dict[str, None]()
    for location, row in rows:
        absent.difference_update(row)
        if absent:
            columns |= dict.fromkeys(row)
        values = present(row)
        query = fields.value(values, "query")
        if query is None:
            raise location.lacks(_A_QUESTION, values)
        location.check(isinstance(query, str), _A_QUESTION, query)
        query_id = question_id(row, fields, location)
        location.check(query_id not in parts["queries"], ONCE, [query_id, query])
        parts["queries"][query_id] = query
        relevance = read_labels(values, fields, location)
        if relevance is not None:
            parts["relevance"][query_id] = relevance
        if (texts := fields.value(values, "expected_texts")) is not None:
            is_joined = isinstance(texts, str) and not set(row).isdisjoint(_OF_GOLDENS)
            location.check(not (is_joined and "|" in texts), _JOINED, texts)
            parts["expected_texts"][query_id] = read_texts(texts, location)
        if not fields.has(values, "retrieved_ids"):
            fields.take(values, "scores")  # which are the grades
        for field in ("query_id", "query", *LABELS):
            fields.take(values, field)
        values.pop(GRADED_BY, None)
        parts["metadata"][query_id] = _metadata(values)
    if absent and columns:
        expected = f"a column that the questions have, of {join_first(list(columns), 10)}"
        raise InvalidInput("columns", absent.pop(), expected)
    return parts


def _read_documents(rows: Iterable[Row]) -> Parts:
    parts: Parts = {"corpus": {}, "titles": {}, "document_metadata": {}}
    for location, row in rows:
        values = present(row)
        document_id = read_id(TABLE.take(values, "document_id"), location)
        text, title = TABLE.take(values, "text"), TABLE.take(values, "title")
        are_texts = isinstance(text, str) and isinstance(title, (str, type(None)))
        location.check(are_texts, "a text under 'text' or 'contents'", row)
        location.check(document_id not in parts["corpus"], "every document id once", document_id)
        parts["corpus"][document_id] = text
        if title:
            parts["titles"][document_id] = title
        parts["document_metadata"][document_id] = _metadata(values)
    return parts


def _metadata(values: dict[str, Any]) -> dict[str, Any]:
    """The rest of a record; a field called metadata prevails over the others."""
    if isinstance(values.get("metadata"), Mapping):
        values |= values.pop("metadata")
    return values


def _read_beir(folder: Path, split: str | None) -> Parts:
    """Read queries.jsonl, corpus.jsonl and qrels/<split>.tsv, each of them packed or not."""
    files = {name_of(path): path for path in sorted(folder.glob("*.jsonl*"))}
    if "queries" not in files:
        raise _unknown(str(folder), "the folder holds no queries.jsonl")
    fields = Fields({"question": "text"})
    parts = _read_questions(open_source(files["queries"], fields, _unknown).rows, fields)
    if "corpus" in files:
        parts |= read_corpus(files["corpus"])
    parts["name"] = folder.name
    splits = {name_of(path): path for path in sorted((folder / "qrels").glob("*.tsv*"))}
    if not splits:
        return parts
    defaults = splits.keys() & {"test"} or splits.keys()
    if split is None and len(defaults) == 1:
        (split,) = defaults
    if split not in splits:
        raise InvalidInput("split", split, f"one of {sorted(splits)}")
    labels = map_values(read_qrels, splits)
    for query_id in set().union(*labels.values()) - labels[split].keys():
        parts["queries"].pop(query_id, None)
        parts["metadata"].pop(query_id, None)
    return {**parts, "relevance": dict(labels[split])}


def _read_ir_dataset(source: Any, *, has_documents: bool) -> Parts:
    name = source.dataset_id() if callable(getattr(source, "dataset_id", None)) else ""
    if not source.has_queries():
        raise _unknown(name, "it has no questions; one of its subsets may")
    parts: Parts = {"name": name, "queries": {}, "metadata": {}}
    for query in source.queries_iter():
        fields = query._asdict()
        query_id, text = fields.pop("query_id"), query.default_text()
        parts["queries"][query_id] = text
        metadata = {key: value for key, value in fields.items() if value not in (None, "", text)}
        parts["metadata"][query_id] = metadata
    if source.has_qrels():
        judgements = Judgements()
        for location, qrel in Location(f"{name} qrels").numbered(source.qrels_iter()):
            judgements.add(qrel.query_id, qrel.doc_id, qrel.relevance, location)
        parts["relevance"] = judgements.relevance()
    if has_documents and source.has_docs():
        documents = source.docs_iter()
        parts["corpus"] = {document.doc_id: document.default_text() for document in documents}
    return parts
