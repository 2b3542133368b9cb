"""What was wanted and what came, in a few words a query, kept with the scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from llama_index_rag_metrics.errors import RagMetricsError
from llama_index_rag_metrics.matching import BY_ID
from llama_index_rag_metrics.naming import metric as resolve
from llama_index_rag_metrics.report.lines import retrieved_name, wanted_names
from llama_index_rag_metrics.scores.systems import System, query_answers

_MOST_ITEMS = 5

KeptAnswer: TypeAlias = Mapping[str, Sequence[str]]
"""{"wanted": the items wanted, "got": those that came}, in words."""


def keep_answers(system: System) -> dict[str, dict[str, KeptAnswer]]:
    """Name of a matcher, the default first, to query id to what was wanted and what came."""
    examples: dict[str, str] = {}
    metrics = sorted(system.scores, key=lambda metric: _own_matcher(metric) is not None)
    for metric in metrics:
        matched = system.matched.get(metric)
        examples.setdefault(BY_ID if matched is None else matched.matcher, metric)
    return {
        matcher: _by_query(system, metric, system.scores.query_ids)
        for matcher, metric in examples.items()
    }


def answer_of(system: System, query_id: str, metric: str) -> KeptAnswer:
    """What was wanted and what came for one query, from its ranking, or as it was kept."""
    if query_id in system.run:
        return _by_query(system, metric, [query_id])[query_id]
    kept = system.scores.answers
    matcher = _own_matcher(metric)
    by_query = kept.get(matcher or "", next(iter(kept.values()), {}))
    return by_query.get(query_id, {})


def _by_query(system: System, metric: str, query_ids: Iterable[str]) -> dict[str, KeptAnswer]:
    answers: dict[str, KeptAnswer] = {}
    for query_id in query_ids:
        query = query_answers(query_id, [system], metric)
        (answer,) = query.answers
        answers[query_id] = {
            "wanted": wanted_names(query)[:_MOST_ITEMS],
            "got": [retrieved_name(item) for item in (answer.retrieved or ())[:_MOST_ITEMS]],
        }
    return answers


def _own_matcher(metric: str) -> str | None:
    """The matcher that a metric names itself."""
    try:
        return getattr(resolve(metric), "match", None)
    except (RagMetricsError, ImportError):
        return None
