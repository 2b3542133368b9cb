"""Whether the labels of an evaluation fit what was retrieved, and what could be."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import NodeWithScore
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, item_id
from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.label_fit import Asked, Stock, fit_notes, text_match_note


def fit_of_ids(dataset: RetrievalDataset, run: Run, indexed: Collection[str]) -> list[str]:
    """Return what is wrong with the ids of labels; `indexed` are those of the index, if known."""
    query_ids = [query_id for query_id in dataset.queries if query_id in run]

    def asked_at(row: int) -> Asked:
        query_id = query_ids[row]
        ranking = run[query_id]
        return Asked(query_id, dataset.relevance.get(query_id, ()), ranking.ids, ranking.texts)

    texts = {item: dataset.indexed_text(item) for item in dataset.corpus}
    stock = Stock("the corpus", dataset.corpus.keys(), texts)
    if indexed:
        stock = Stock("the index", indexed, texts)
    return fit_notes(asked_at, len(query_ids), stock)


def fit_of_texts(matched: Matched, run: Run) -> str:
    """Return how many passages were credited by a text that isn't the labelled one."""
    return text_match_note(matched, {query_id: run[query_id].texts or () for query_id in run})


def indexed_ids(source: object, match_on: MatchOn) -> Collection[str]:
    """Return the ids of all nodes of an index in memory, or of a retriever's; nothing if unknown.

    The docstore of an index whose vector store keeps the texts is empty.
    """
    docstore = _docstore(source)
    if docstore is None:
        return ()
    try:
        return {item_id(NodeWithScore(node=node), match_on) for node in docstore.docs.values()}
    except InvalidInput:  # some nodes lack what is compared
        return ()


def _docstore(source: Any) -> SimpleDocumentStore | None:
    if not isinstance(source, BaseIndex):
        inner = getattr(source, "retriever", None) or source
        source = getattr(inner, "_index", None)
    docstore = getattr(source, "docstore", None)
    return docstore if isinstance(docstore, SimpleDocumentStore) else None
