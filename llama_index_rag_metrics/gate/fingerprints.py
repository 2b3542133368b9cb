"""Fingerprint: whether a query and its ranking are still the same, without holding any text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from llama_index_rag_metrics.evaluation import EvaluationResults
from llama_index_rag_metrics.gate.results import Results, scores_of
from llama_index_rag_metrics.relevance import Relevance

_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of a query: "" for what isn't known.

    Attributes:
        question: of its text.
        judgements: of what is relevant to it.
        ranking: of the ids that were retrieved, in order.
    """

    question: str = ""
    judgements: str = ""
    ranking: str = ""


def fingerprints(results: Results) -> dict[str, Fingerprint]:
    """Query id to the fingerprint of its question, judgements and ranking, as far as known."""
    scores = scores_of(results)
    relevance = results.relevance if isinstance(results, EvaluationResults) else {}
    return {
        query_id: Fingerprint(
            _digest(scores.queries[query_id]) if query_id in scores.queries else "",
            _digest(_plain(relevance[query_id])) if query_id in relevance else "",
            scores.rankings.get(query_id, ""),
        )
        for query_id in (*scores.query_ids, *scores.excluded)
    }


def _plain(relevance: Relevance) -> Any:
    grades = sorted((str(item), float(grade)) for item, grade in relevance.grades.items())
    groups = sorted(sorted(map(str, group)) for group in relevance.alternatives or ())
    return [grades, groups]


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()[:_DIGITS]
