"""trec_eval's lines: measure, query and value, four decimals, and its own averages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.trec_eval.measures import Column
from llama_index_rag_metrics.scores import Scores

_LEAST = 1e-5
"""What a score under it counts as in a geometric mean, as in trec_eval."""

_ALL = "all"


def report_lines(
    scores: Scores, columns: Sequence[Column], *, per_query: bool = False, complete: bool = False
) -> Iterator[str]:
    """The report of one run.

    Averages are trec_eval's: over the judged queries that the run has a ranking of, those with
    nothing relevant included, scored 0.

    Args:
        scores: the scores by the columns' metrics, made with `no_relevant="zero"`.
        columns: what to print.
        per_query: print every query first, in the order of their ids (trec_eval's -q).
        complete: average over all judged queries; those without a ranking score 0 (its -c).
    """
    absent = set(scores.empty)
    ranked = sorted(one for one in scores.query_ids if one not in absent)
    if per_query:
        by_metric = {name: scores.by_query(name) for name in scores}
        for query_id in ranked:
            for column in columns:
                if column.metric is not None and column.summary in ("mean", "sum"):
                    value = by_metric[column.metric.metric_name][query_id]
                    yield _line(column, plain(query_id), value)
    counted = scores if complete else scores.select(ranked)
    for column in columns:
        yield _line(column, _ALL, _summary(column, counted))


def _summary(column: Column, scores: Scores) -> float | str:
    if column.summary == "run id":
        return plain(scores.name)
    if column.metric is None:
        return len(scores.query_ids)
    name = column.metric.metric_name
    if column.summary == "sum":
        return math.fsum(scores[name])
    if column.summary == "geometric mean":
        logs = [math.log(max(score, _LEAST)) for score in scores[name].tolist()]
        return math.exp(math.fsum(logs) / len(logs)) if logs else 0.0
    return scores.means[name] if scores.n(name) else 0.0


def _line(column: Column, query_id: str, value: float | str) -> str:
    if column.summary == "run id":
        text = str(value)
    elif column.summary in ("sum", "number of queries"):
        text = f"{value:.0f}"
    else:
        text = f"{value:6.4f}"
    return f"{column.label:<22}\t{query_id}\t{text}"
