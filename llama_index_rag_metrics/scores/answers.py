"""What was wanted and what came, in a few words a query, kept with the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.rankings.matching import BY_ID
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.query_lines import retrieved_name, wanted_names
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.scores.scores import LazyRows
from llama_index_rag_metrics.scores.systems import System, query_answers

_MOST_ITEMS = 5

KeptAnswer: TypeAlias = Mapping[str, Sequence[str]]
"""{"wanted": the items wanted, "got": those that came}, in words."""


def keep_answers(system: System) -> dict[str, Mapping[str, KeptAnswer]]:
    """Matcher, the default first, to query id to what was wanted and what came.

    Only the first items of each ranking are kept, and put into words on demand.
    """
    examples: dict[str, str] = {}
    metrics = sorted(system.scores, key=lambda metric: _own_matcher(metric) is not None)
    for metric in metrics:
        matched = system.matched.get(metric)
        examples.setdefault(BY_ID if matched is None else matched.matcher, metric)
    first = {
        query_id: Ranking(ranking.ids[:_MOST_ITEMS]) for query_id, ranking in system.run.items()
    }
    kept = system._replace(run=Run(first))
    return {
        matcher: LazyRows(system.scores.query_ids, partial(_answer_in_words, kept, metric))
        for matcher, metric in examples.items()
    }


def answer_of(system: System, query_id: str, metric: str) -> KeptAnswer:
    """What was wanted and what came for one query, from its ranking or as the scores keep it."""
    if query_id in system.run:
        return _answer_in_words(system, metric, query_id)
    kept = system.scores.answers
    matcher = _own_matcher(metric)
    by_query = kept.get(matcher or "", next(iter(kept.values()), {}))
    return by_query.get(query_id, {})


def _answer_in_words(system: System, metric: str, query_id: str) -> KeptAnswer:
    query = query_answers(query_id, [system], metric)
    (answer,) = query.answers
    return {
        "wanted": wanted_names(query)[:_MOST_ITEMS],
        "got": [retrieved_name(item) for item in (answer.retrieved or ())[:_MOST_ITEMS]],
    }


def _own_matcher(metric: str) -> str | None:
    """The matcher that a metric names itself."""
    try:
        return getattr(resolve(metric), "match", None)
    except (RagMetricsError, ImportError):
        return None
