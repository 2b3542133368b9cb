"""Collections of the datasets library of Hugging Face, and of ir_datasets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llama_index_rag_metrics.files.beir import read_query
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.fields import DOC_ID, GRADE, QUERY_ID, first_of
from llama_index_rag_metrics.files.lines import Faults, Place, Rows
from llama_index_rag_metrics.files.records import Judgements, read_document
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra


def read_hugging_face(
    name: str | os.PathLike[str],
    split: str | None,
    *,
    qrels: str | os.PathLike[str] | None,
    subset: str | None,
    corpus: bool,
    faults: Faults,
) -> DatasetContent:
    collection = os.fspath(name)
    content = DatasetContent(name=os.path.basename(collection))  # noqa: PTH119 (a hub's name)
    prefix = f"{subset}-" if subset else ""
    questions = _rows(collection, [f"{prefix}queries"], split)
    faults.each(questions, partial(read_query, content))
    names = [f"{prefix}qrels", subset or "default"]
    judged = _rows(os.fspath(qrels or name), names, split)
    names_of = (QUERY_ID, DOC_ID, GRADE)
    content.relevance = _read_judgements(
        judged, lambda row: [first_of(row, names) for names in names_of], content, faults
    )
    for query_id in content.queries.keys() - content.relevance.keys():
        del content.queries[query_id]
        content.metadata.pop(query_id, None)
    if corpus:
        documents = _rows(collection, [f"{prefix}corpus"], split)
        faults.each(documents, partial(read_document, content))
    return content


def _rows(collection: str, names: Sequence[str], split: str | None) -> Rows:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra("from_hugging_face()", "datasets") from error
    known = datasets.get_dataset_config_names(collection)
    configuration = next((name for name in names if name in known), None)
    if configuration is None:
        expected = f"a collection with the configuration {' or '.join(names)}"
        remedy = f"It has {sorted(known)}. Labels from elsewhere: qrels='…'."
        raise InvalidInput("name", collection, expected, remedy)
    splits = datasets.get_dataset_split_names(collection, configuration)
    chosen = _choose(split, splits, configuration)
    table = datasets.load_dataset(collection, configuration, split=chosen)
    return Place(f"{collection}, {configuration}, {chosen}").numbered(table, "row")


def _choose(split: str | None, splits: Sequence[str], configuration: str) -> str:
    """MTEB names the split of corpus and queries after them, or after the judgements."""
    if len(splits) == 1 and (split is None or splits[0] in configuration):
        return splits[0]
    wanted = split or "test"
    if wanted not in splits:
        expected = f"one of {sorted(splits)}, the splits of {configuration}"
        raise InvalidInput("split", split, expected)
    return wanted


def _read_judgements(
    rows: Rows, fields: Callable[[Any], Sequence[Any]], content: DatasetContent, faults: Faults
) -> dict[str, Relevance]:
    judgements = Judgements(content.queries, "the id of one of its questions")

    def read(row: Any, place: Place) -> None:
        query_id, document_id, grade, *facet = fields(row)
        judgements.add(query_id, document_id, grade, place, *facet)

    faults.each(rows, read)
    return judgements.relevance()


def is_ir_dataset(source: Any) -> bool:
    return all(callable(getattr(source, method, None)) for method in ("has_queries", "has_qrels"))


def read_ir_dataset(source: Any, *, corpus: bool = True, faults: Faults) -> DatasetContent:
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
        rows = Place(f"{name} qrels").numbered(source.qrels_iter())
        content.relevance = _read_judgements(rows, _judgement_fields, content, faults)
    if corpus and source.has_docs():
        content.corpus = {
            document.doc_id: document.default_text() for document in source.docs_iter()
        }
    return content


def _judgement_fields(judged: Any) -> tuple[Any, ...]:
    facet = getattr(judged, "subtopic_id", None)
    return judged.query_id, judged.doc_id, judged.relevance, facet
