"""The names of fields and columns, ours first in each tuple."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

QUERY_ID = ("query_id", "qid", "query-id", "q_id", "_id", "id", "question_id")
QUERY = ("query", "question", "user_input")
"""Ours and LlamaIndex's; ragas before 0.2; ragas since."""

RELEVANCE = (
    "relevance",
    "relevant_docs",
    "expected_ids",
    "relevant_ids",
    "reference_context_ids",
    "retrieval_gt",
)
EXPECTED_TEXTS = ("expected_texts", "reference_contexts", "ground_truth_context")
"""Ours; LlamaIndex's and ragas' since 0.2; ragas' before 0.1."""

EXPECTED_SPANS = ("expected_spans",)

LABELS = (*RELEVANCE, *EXPECTED_TEXTS, *EXPECTED_SPANS)

PLACE_SOURCE = ("source", "document", "document_id")

EXAMPLE = '{"query": "Why?", "expected_ids": ["d1"]}'

DOCUMENT_ID = ("document_id", "_id", "doc_id", "id")

TEXT = ("text", "contents")
RETRIEVED = ("retrieved_ids", "retrieved", "doc_ids", "retrieved_context_ids")
SCORES = ("scores", "retrieved_scores")
TEXTS = ("retrieved_texts", "texts", "retrieved_contexts")
TOKENS = ("retrieved_tokens",)
SPANS = ("retrieved_spans", "spans")
GRADES = ("grades",)

REPEAT = "repeat"

CALLS, MODEL_CONTEXT = "retrieval_calls", "model_context"
"""The calls of a session, and what finally went to the model; nobody else's names."""

DOC_ID = ("doc_id", "docno", "docid", "document_id", "corpus-id", "corpus_id", "pid")
"""Of a document that was retrieved or judged, in a record of its own."""

SCORE, RANK = ("score",), ("rank",)
GRADE = ("grade", "relevance", "rel", "label", "score")
"""Ours; ir_measures' and ir_datasets'; trec_eval's; PyTerrier's; ranx's and BEIR's."""

LISTS = {*RETRIEVED, *SCORES, *TEXTS, *TOKENS, *SPANS, *RELEVANCE, *GRADES, *EXPECTED_SPANS}

_BESIDE = {CALLS, MODEL_CONTEXT, REPEAT, "latency", "error"}
KNOWN = {*QUERY_ID, *DOC_ID, *SCORE, *RANK, *GRADE, *LISTS, *_BESIDE}


def first_of(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    for name in names:
        if (value := record.get(name)) is not None:
            return value
    return None


def is_long(names: Iterable[str]) -> bool:
    return not set(DOC_ID).isdisjoint(names)
