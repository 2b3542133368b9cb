"""Figures that need rankings: a metric by its cutoff, precision at levels of recall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index_rag_metrics.evaluation.curves import (
    RECALL_LEVELS,
    budgets_of,
    cutoffs_of,
    interpolated_precision,
    means_by_cutoff,
    ranking_metric,
)
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.model import headline
from llama_index_rag_metrics.scores.systems import System, metrics_of


def curve_figures(
    systems: Sequence[System], query_ids: Iterable[str] | None = None
) -> dict[str, Draw]:
    """What draws the curves of some systems.

    Args:
        systems: those without rankings have no curve.
        query_ids: only these of their queries; None for all.
    """
    metrics = metrics_of(systems)
    chosen = None if query_ids is None else list(query_ids)
    return {
        "by_cutoff": lambda name: _by_cutoff(systems, name or headline(metrics), chosen),
        "by_tokens": lambda name: _by_cutoff(
            systems, name or headline(metrics), chosen, in_tokens=True
        ),
        "precision_recall": lambda name: _precision_recall(
            systems, name or headline(metrics), chosen
        ),
    }


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
        "%{x:,} tokens: %{y:.4f}" if in_tokens else "k = %{x}: %{y:.4f}",
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
        "recall %{x:.1f}: precision %{y:.4f}",
    )
