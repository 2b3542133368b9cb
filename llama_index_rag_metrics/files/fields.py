"""The names of fields and columns, ours first in each tuple, and names nearly like them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
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

GENERATED_FROM = "contexts"
"""In a test set of ragas 0.1 what a question is made from; beside an answer, what was retrieved."""

ANSWERED = {"answer", "response"}

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

_LISTS = (*(RETRIEVED, SCORES, TEXTS, TOKENS), *(SPANS, RELEVANCE, GRADES, EXPECTED_SPANS))
LISTS = {name for names in _LISTS for name in names}

_BESIDE = {*DOC_ID, CALLS, MODEL_CONTEXT, REPEAT, "latency", "error"}
KNOWN = {*QUERY_ID, *DOC_ID, *SCORE, *RANK, *GRADE, *LISTS, *_BESIDE}

RESERVED = {*(*QUERY_ID, *QUERY, *LABELS, *ANSWERED), *(GENERATED_FROM, "metadata", "document_id")}
"""Names that mean something in the record of a question, so that metadata can't go by them."""

_ITEM = "(doc|document|passage|chunk|node|context)s?"
_LABELS = re.compile(
    rf"(\w*_)?({_ITEM}|answers?|gold(en)?|targets?|correct|positives?|(ground_)?truth)_?ids?"
    rf"|(gold|golden|correct|positive|expected|target)_?{_ITEM}|gold|golden|positives|labels|qrels",
    re.IGNORECASE,
)
"""What labels are called where they aren't called nearly like a field that is read."""


def first_of(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    for name in names:
        if (value := record.get(name)) is not None:
            return value
    return None


def is_long(names: Iterable[str]) -> bool:
    return not set(DOC_ID).isdisjoint(names)


def nearest(name: object, fields: Iterable[str]) -> str | None:
    """The field of which a name is a variant or a slip, or None."""
    spelled = {_letters(field): field for field in reversed(list(fields))}
    close = get_close_matches(_letters(str(name)), spelled, 1, 0.8)
    return spelled[close[0]] if close else None


def spelt_like(name: object, fields: Iterable[str]) -> str | None:
    """The first of the fields, where a name is one of them but for case, spaces and dashes."""
    first, *_ = fields = list(fields)
    return first if _letters(str(name)) in map(_letters, fields) else None


def meant_as_labels(name: object) -> str | None:
    likely = "expected_ids" if _LABELS.fullmatch(str(name)) else None
    return nearest(name, LABELS) or likely


def unread_fields(names: Collection[str]) -> dict[str, str]:
    """Names in a record that aren't read, and the missing field that each resembles."""
    beside = GRADES if set(RELEVANCE).isdisjoint(names) else ()  # grades are those of expected ids
    groups = (SCORE, RANK, GRADE) if is_long(names) else [_ for _ in _LISTS if _ is not beside]
    absent = [name for group in groups if set(group).isdisjoint(names) for name in group]
    read = {name for group in groups for name in group} | RESERVED | _BESIDE | {*TEXT}
    meant = {name: nearest(name, absent) for name in names if name not in read}
    return {name: field for name, field in meant.items() if field is not None}


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())
