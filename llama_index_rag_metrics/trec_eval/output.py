"""trec_eval's lines: measure, query and value, four decimals, and its own averages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from llama_index_rag_metrics.judging import FloatArray
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.trec_eval.measures import Column, Version

_LEAST = 1e-5
"""What a score under it counts as in a geometric mean, as in trec_eval."""

_ALL = "all"


def report_lines(
    scores: Scores,
    columns: Sequence[Column],
    *,
    per_query: bool = False,
    complete: bool = False,
    summary: bool = True,
    version: Version = 9,
) -> Iterator[str]:
    """The report of one run.

    Averages are trec_eval's: over the judged queries that the run has a ranking of, those with
    nothing relevant included, scored 0; added one after another in the order of the query ids.

    Args:
        scores: the scores by the columns' metrics, made with `no_relevant="zero"`.
        columns: what to print.
        per_query: print every query first, in the order of their ids (trec_eval's -q).
        complete: average over all judged queries; those without a ranking score 0 (its -c).
        summary: print the averages (without it, trec_eval's -n).
        version: the trec_eval that is followed: with `per_query` and `complete`, 10 prints the
            queries without a ranking, too.
    """
    absent = set(scores.empty)
    ranked = sorted(query_id for query_id in scores.query_ids if query_id not in absent)
    if per_query:
        by_metric = {name: scores.by_query(name) for name in scores}
        for query_id in sorted(scores.query_ids) if complete and version == 10 else ranked:
            for column in columns:
                if column.metric is not None and column.summary in ("mean", "sum"):
                    value = by_metric[column.metric.metric_name][query_id]
                    yield _line(column, plain(query_id), value)
    if summary:
        n_queries = len(scores.query_ids) if complete else len(ranked)
        for column in columns:
            yield _line(column, _ALL, _summary(column, scores, ranked, n_queries, complete))


def _summary(
    column: Column, scores: Scores, ranked: Sequence[str], n_queries: int, complete: bool
) -> float | str:
    if column.summary == "run id":
        return plain(scores.name)
    if column.metric is None:
        return n_queries
    if complete and column.of_all_judged is not None:
        return _sum(scores[column.of_all_judged.metric_name])
    by_query = scores.by_query(column.metric.metric_name)
    values = np.array([by_query[query_id] for query_id in ranked], np.float64)
    if column.summary == "geometric mean":
        logs = _sum(np.array([math.log(max(value, _LEAST)) for value in values.tolist()]))
        logs += (n_queries - len(ranked)) * math.log(_LEAST)
        return math.exp(logs / n_queries) if n_queries else 0.0
    total = _sum(values)
    return total if column.summary == "sum" or not n_queries else total / n_queries


def _sum(values: FloatArray) -> float:
    """Added one after another: the last digit that is printed depends on it."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def _line(column: Column, query_id: str, value: float | str) -> str:
    if column.summary == "run id":
        text = str(value)
    elif column.summary in ("sum", "number of queries"):
        text = f"{value:.0f}"
    else:
        text = f"{value:6.4f}"
    return f"{column.label:<22}\t{query_id}\t{text}"
