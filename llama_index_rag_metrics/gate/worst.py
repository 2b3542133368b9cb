"""The queries that speak most against a rule, with what was wanted and what came."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from llama_index_rag_metrics.evaluation import EvaluationResults
from llama_index_rag_metrics.evaluation.results.report import systems_of
from llama_index_rag_metrics.gate.results import Results, scores_of
from llama_index_rag_metrics.gate.rules import Rule
from llama_index_rag_metrics.gate.verdicts import WorstQuery
from llama_index_rag_metrics.scores.answers import answer_of


def worst_queries(
    results: Results,
    columns: Mapping[str, tuple[float, float | None]],
    rule: Rule,
    metric: str,
    n: int,
) -> tuple[WorstQuery, ...]:
    """The n queries that speak most against a rule, worst first; among equals, as they came.

    Args:
        results: for questions, judgements and rankings, as far as they are known.
        columns: query id to (score now, score before), of the queries that decided.
        rule: against the baseline, the queries that lost most count, and only those that lost;
            else the queries with the worst scores, without those of the best score there is.
        metric: the name under which the results have the rule's metric.
        n: at most this many.
    """
    sign = -1.0 if rule.lower_is_better else 1.0
    goodness = {
        query_id: sign * (now - (before or 0.0)) for query_id, (now, before) in columns.items()
    }
    ceiling = 0.0 if rule.baseline else max(goodness.values(), default=inf)
    if not rule.baseline and ceiling == min(goodness.values(), default=inf):
        ceiling = inf
    below = [query_id for query_id, good in goodness.items() if good < ceiling]
    ids = sorted(below, key=lambda query_id: goodness[query_id])[:n]
    return tuple(_describe(query_id, metric, results, *columns[query_id]) for query_id in ids)


def _describe(
    query_id: str,
    metric: str,
    results: Results,
    now: float,
    before: float | None,
) -> WorstQuery:
    known = results if isinstance(results, EvaluationResults) else scores_of(results)
    (system,) = systems_of(known)
    answer = answer_of(system, query_id, metric)
    details = system.scores.details.get(metric, {}).get(query_id, {})
    ranks, ids = (details.get(f"forbidden_{kind}", ()) for kind in ("ranks", "ids"))
    return WorstQuery(
        query_id,
        system.scores.queries.get(query_id, ""),
        now,
        before,
        tuple(answer.get("wanted", ())),
        tuple(answer.get("got", ())),
        system.scores.failed.get(query_id, ""),
        tuple(zip(ranks, ids, strict=True)),
    )
