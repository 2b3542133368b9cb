"""Curves: what one number at one cutoff doesn't show, over the same queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.rankings.judging import judge
from llama_index_rag_metrics.rankings.matching import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.scores.scoring import EVERY_QUERY, score_with
from llama_index_rag_metrics.scores.systems import System

RECALL_LEVELS = tuple(level / 10 for level in range(11))
"""Where trec_eval's `iprec_at_recall` looks."""

_STEPS = (1, 1.5, 2, 3, 5, 7)
_CUTOFFS = (*range(1, 11), 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)


def ranking_metric(name: str) -> RankingMetric | None:
    """The metric of a name, if it reads rankings; None for metrics of texts and unknown names."""
    try:
        metric = resolve(name)
    except (RagMetricsError, ImportError):
        return None
    return metric if isinstance(metric, RankingMetric) else None


def cutoffs_of(systems: Iterable[System]) -> list[int]:
    """The cutoffs of a curve: dense at the top, up to the longest ranking."""
    rankings = (ranking for system in systems for ranking in system.run.values())
    depth = max((len(ranking.ids) for ranking in rankings), default=0)
    return sorted({k for k in _CUTOFFS if k < depth} | ({depth} if depth else set()))


def budgets_of(systems: Iterable[System]) -> list[int]:
    """The cutoffs by tokens of a curve, up to all that was retrieved for a query."""
    rankings = (ranking for system in systems for ranking in system.run.values())
    most = max((sum(ranking.tokens or ()) for ranking in rankings), default=0)
    steps = (round(step * 10**power) for power in range(1, 9) for step in _STEPS)
    return [*takewhile(most.__gt__, steps), *([most] if most else [])]


def means_by_cutoff(
    system: System,
    metric: str,
    cutoffs: Sequence[int],
    query_ids: Iterable[str] | None = None,
    *,
    in_tokens: bool = False,
) -> dict[int, float]:
    """Cutoff to the mean of a metric there; nothing for metrics without cutoffs.

    A cutoff at which the metric has no value is left out. At the metric's own cutoff it is the mean
    reported. `query_ids` chooses queries; None takes all that have a value.
    """
    uncut = ranking_metric(metric)
    if uncut is None or "k" not in type(uncut).model_fields or not cutoffs:
        return {}
    not_taken = {"k", "tokens", "match", "ideal"}
    parameters = {**uncut.model_dump(exclude=not_taken, exclude_none=True), "match": BY_ID}
    cutoff = "tokens" if in_tokens else "k"
    chosen = [
        type(uncut).model_validate({**parameters, cutoff: n, "match": BY_ID}) for n in cutoffs
    ]
    relevance, rankings = _scored(system, metric, query_ids)
    if in_tokens and not all(ranking.tokens is not None for ranking in rankings if ranking.ids):
        return {}
    if "spans" in uncut.needs and not all(
        ranking.spans is not None for ranking in rankings if ranking.ids
    ):
        return {}
    scores = score_with(chosen, relevance, rankings, replace(EVERY_QUERY, tolerant=True))
    names = {n: cut.metric_name for n, cut in zip(cutoffs, chosen, strict=True)}
    return {n: scores.means[name] for n, name in names.items() if scores.n(name)}


def interpolated_precision(
    system: System, metric: str, query_ids: Iterable[str] | None = None
) -> list[float]:
    """Interpolated precision at recall 0, 0.1, …, 1, averaged over the queries; [] without queries.

    At each level the highest precision at any rank with at least that recall: trec_eval's
    `iprec_at_recall`, rounding included. Items of grade 1 or more are relevant. The mean is over
    queries with a value for the metric, whose matcher recognises the items.
    """
    relevance, rankings = _scored(system, metric, query_ids)
    if not relevance:
        return []
    hits = judge(relevance, [ranking.ids for ranking in rankings]).at(None, 1.0)
    precision = hits.ordinal / hits.rank
    curve = []
    for level in RECALL_LEVELS:
        needed = (level * hits.n_relevant + 0.9).astype(np.int64)
        best = np.zeros(len(relevance))
        reached = hits.ordinal >= needed[hits.query]
        np.maximum.at(best, hits.query[reached], precision[reached])
        curve.append(float(best.mean()))
    return curve


def _scored(
    system: System, metric: str, query_ids: Iterable[str] | None
) -> tuple[list[Relevance], list[Ranking]]:
    """Relevance and ranking, by the metric's matcher, of each query with a value for it."""
    judgements, run = system.judged_by(metric)
    chosen = None if query_ids is None else set(query_ids)
    scored = [
        query_id for query_id in system.by_query(metric) if chosen is None or query_id in chosen
    ]
    # what is scored here has no error: whether a failed query counts was decided before
    rankings = [
        replace(run[query_id], error=None) if query_id in run else Ranking() for query_id in scored
    ]
    return [judgements.get(query_id, Relevance()) for query_id in scored], rankings
