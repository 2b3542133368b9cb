"""Figures that need rankings: a metric by its cutoff, precision at levels of recall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index_rag_metrics.evaluation.results.curves import (
    RECALL_LEVELS,
    budgets_of,
    cutoffs_of,
    interpolated_precision,
    means_by_cutoff,
    ranking_metric,
)
from llama_index_rag_metrics.evaluation.sessions.judged_sessions import recall_by_call
from llama_index_rag_metrics.report import headline
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.numbers import hover
from llama_index_rag_metrics.scores.systems import System, metrics_of
from llama_index_rag_metrics.statistics.intervals import mean_interval

_CALLS = 10
"""How many calls a figure shows."""


def curve_figures(
    systems: Sequence[System], query_ids: Iterable[str] | None = None
) -> dict[str, Draw]:
    """Functions that draw the curves of systems with rankings, over these queries, or all."""
    metrics = metrics_of(systems)
    chosen = None if query_ids is None else list(query_ids)
    return {
        "recall_by_call": lambda name: _recall_by_call(systems, name or headline(metrics), chosen),
        "by_cutoff": lambda name: _by_cutoff(systems, name or headline(metrics), chosen),
        "by_tokens": lambda name: _by_cutoff(
            systems, name or headline(metrics), chosen, in_tokens=True
        ),
        "precision_recall": lambda name: _precision_recall(
            systems, name or headline(metrics), chosen
        ),
    }


def _recall_by_call(
    systems: Sequence[System], metric: str, query_ids: Sequence[str] | None
) -> Figure | None:
    series = []
    for number, system in enumerate(systems):
        relevance, run = system.judged_by(metric)
        scored = [
            query_id
            for query_id in (system.scores.query_ids if query_ids is None else query_ids)
            if relevance.get(query_id) and query_id in run and run[query_id].calls is not None
        ]
        rankings = [run[query_id] for query_id in scored]
        most = max((len(ranking.calls or ()) for ranking in rankings), default=0)
        if most:
            recall = recall_by_call(
                [relevance[query_id] for query_id in scored], rankings, min(most, _CALLS)
            )
            intervals = [mean_interval(column) for column in recall.T]
            series.append(
                Series(
                    system.name,
                    number,
                    [float(column.mean()) for column in recall.T],
                    [f"call {call}" for call in range(1, len(intervals) + 1)],
                    [interval.low for interval in intervals],
                    [interval.high for interval in intervals],
                )
            )
    if not series:
        return None
    axis = Axis("recall so far, mean over questions", ends=(0, 1.02))
    return Figure("points", axis, Axis(), series, f"%{{y}}: {hover('x')}")


def _by_cutoff(
    systems: Sequence[System],
    metric: str,
    query_ids: Sequence[str] | None,
    *,
    in_tokens: bool = False,
) -> Figure | None:
    cutoffs = budgets_of(systems) if in_tokens else cutoffs_of(systems)
    own = ranking_metric(metric)
    if in_tokens and (budget := getattr(own, "tokens", None)):
        cutoffs = sorted({*cutoffs, budget})
    curves = {
        number: means_by_cutoff(system, metric, cutoffs, query_ids, in_tokens=in_tokens)
        for number, system in enumerate(systems)
        if system.run and metric in system.scores
    }
    if not any(curves.values()):
        return None
    what = "tokens" if in_tokens else "k"
    return Figure(
        "lines",
        Axis(what),
        Axis(f"{metric.partition('@')[0]}@{what}", from_zero=True),
        [
            Series(systems[number].name, number, list(curve), list(curve.values()))
            for number, curve in curves.items()
        ],
        f"{'%{x:,} tokens' if in_tokens else 'k = %{x}'}: {hover('y')}",
    )


def _precision_recall(
    systems: Sequence[System], metric: str, query_ids: Sequence[str] | None
) -> Figure | None:
    curves = {
        number: interpolated_precision(system, metric, query_ids)
        for number, system in enumerate(systems)
        if system.run and metric in system.scores
    }
    if not any(curves.values()):
        return None
    return Figure(
        "lines",
        Axis("recall", ends=(-0.02, 1.02)),
        Axis("interpolated precision", ends=(0, 1.02)),
        [
            Series(systems[number].name, number, RECALL_LEVELS[: len(curve)], curve)
            for number, curve in curves.items()
        ],
        f"recall {hover('x', 'level')}: precision {hover('y')}",
    )
