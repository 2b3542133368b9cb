"""Collections of the ir_datasets library: objects that iterate over queries, qrels and docs."""

from __future__ import annotations

from typing import Any

from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.judgements import FacetJudgements, Judgements, read_grade
from llama_index_rag_metrics.files.lines import Faults, Place
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput


def is_ir_dataset(source: Any) -> bool:
    """Whether this is a collection of that library, told by its methods."""
    return all(callable(getattr(source, method, None)) for method in ("has_queries", "has_qrels"))


def read_ir_dataset(
    source: Any, *, corpus: bool = True, faults: Faults | None = None
) -> DatasetContent:
    """Read the queries, the judgements and the documents that a collection has.

    Texts are those that the library chooses (`default_text`); the other fields of a query become
    its metadata. Judgements by subtopic become facets.
    """
    faults = faults or Faults()
    name = source.dataset_id() if callable(getattr(source, "dataset_id", None)) else ""
    if not source.has_queries():
        expected = "a collection with queries"
        raise InvalidInput("dataset", name or source, expected, "Choose one of its subsets.")
    content = DatasetContent(name=name)
    for query in source.queries_iter():
        text = query.default_text()
        fields = {
            key: value for key, value in query._asdict().items() if value not in (None, "", text)
        }
        content.queries[fields.pop("query_id")] = text
        if fields:
            content.metadata[query.query_id] = fields
    if source.has_qrels():
        content.relevance = _read_qrels(source, content, faults)
    if corpus and source.has_docs():
        content.corpus = {
            document.doc_id: document.default_text() for document in source.docs_iter()
        }
    return content


def _read_qrels(source: Any, content: DatasetContent, faults: Faults) -> dict[str, Relevance]:
    known = content.queries, "the id of one of its queries"
    judgements, by_subtopic = Judgements(*known), FacetJudgements(*known)

    def read(judgement: Any, place: Place) -> None:
        query_id, document_id = judgement.query_id, judgement.doc_id
        grade = read_grade(judgement.relevance, place)
        if hasattr(judgement, "subtopic_id"):
            by_subtopic.add(query_id, judgement.subtopic_id, document_id, grade, place)
        else:
            judgements.add(query_id, document_id, grade, place)

    numbered = enumerate(source.qrels_iter(), 1)
    faults.each(
        ((Place(f"{content.name} qrels, item {n}"), judgement) for n, judgement in numbered), read
    )
    return judgements.relevance() | by_subtopic.relevance()
