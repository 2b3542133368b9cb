"""What fields and columns are called: one table, and what a caller says of a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from llama_index_rag_metrics.runtime.errors import InvalidInput

REPEAT, CALLS = "repeat", "retrieval_calls"  # which time it was asked; a session's calls
NAMES: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "query-id", "q_id", "_id", "id", "question_id"),
    "query": ("query", "question", "user_input"),
    "expected_ids": (
        *("relevance", "relevant_docs", "expected_ids", "relevant_ids"),
        *("reference_context_ids", "retrieval_gt"),
    ),
    "expected_texts": ("expected_texts", "reference_contexts", "ground_truth_context"),
    "expected_spans": ("expected_spans",),
    "grades": ("grades",),
    "retrieved_ids": ("retrieved_ids", "retrieved", "doc_ids", "retrieved_context_ids"),
    "scores": ("scores", "retrieved_scores"),
    "retrieved_texts": ("retrieved_texts", "texts", "retrieved_contexts"),
    "retrieved_tokens": ("retrieved_tokens",),
    "retrieved_spans": ("retrieved_spans", "spans"),
    "latency": ("latency",),
    "error": ("error",),
    REPEAT: (REPEAT,),
    "doc_id": ("doc_id", "docno", "docid", "document_id", "corpus-id", "corpus_id", "pid"),
    "score": ("score",),
    "rank": ("rank",),
    "grade": ("grade", "relevance", "rel", "label", "rating", "score"),
    "document_id": ("document_id", "_id", "doc_id", "id"),
    "text": ("text", "contents"),
    "title": ("title",),
}
"""A field's names: ours, and those of LlamaIndex, ragas, BEIR, ranx, ir_measures, PyTerrier."""

LABELS = ("expected_ids", "expected_texts", "expected_spans", "grades")
TEXTS = ("query_id", "query", "doc_id")  # their cells are never JSON
EXAMPLE = '{"query": "Why?", "expected_ids": ["d1"]}'
_COLUMNS = "fields such as query_id, retrieved_ids, scores, question, labels, grades or doc_id"


class Fields:
    """The names of a source's fields: those of the table, or what `columns` says instead."""

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        renamed: dict[str, tuple[str, ...]] = {}
        for field, column in (columns or {}).items():
            name = {"labels": "expected_ids"}.get(field, field)
            meant = [key for key, names in NAMES.items() if name == key or name in names]
            if not meant:
                raise InvalidInput("columns", field, _COLUMNS)
            renamed |= dict.fromkeys(meant, (column,))
        self.label_columns = {renamed[field][0] for field in LABELS if field in renamed}
        claimed = set(chain.from_iterable(renamed.values()))
        self._names = dict(NAMES)
        for key, names in NAMES.items():
            self._names[key] = tuple(name for name in names if name not in claimed)
        self._names |= renamed

    def names(self, *fields: str) -> tuple[str, ...]:
        return tuple(chain.from_iterable(self._names[field] for field in fields))

    def has(self, names: Iterable[str], field: str) -> bool:
        return not set(self._names[field]).isdisjoint(names)

    def value(self, row: Mapping[str, Any], field: str) -> Any:
        for name in self._names[field]:
            if (value := row.get(name)) is not None:
                return value
        return None

    def take(self, row: dict[str, Any], field: str) -> Any:
        for name in self._names[field]:
            if row.get(name) is not None:
                return row.pop(name)
        return None


TABLE = Fields()
