"""Curves: what one number at one cutoff doesn't show, over the same queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from llama_index_rag_metrics.evaluation.sessions.judged_sessions import recall_by_call
from llama_index_rag_metrics.files.conversations import conversations_of
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.metrics.others import interpolated
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.model import Cell, headline
from llama_index_rag_metrics.report.numbers import score, shown
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.scores.scoring.batches import EVERY_QUERY
from llama_index_rag_metrics.scores.scoring.score_rankings import score_with
from llama_index_rag_metrics.scores.systems import System, best_first, metrics_of
from llama_index_rag_metrics.statistics.intervals import mean_interval

RECALL_LEVELS = tuple(level / 10 for level in range(11))
"""Where trec_eval's `iprec_at_recall` looks."""

_BUDGETS = [round(step * 10**power) for power in range(1, 9) for step in (1, 1.5, 2, 3, 5, 7)]
_CUTOFFS = (*range(1, 11), 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)


def ranking_metric(name: str) -> RankingMetric | None:
    try:
        metric = resolve(name)
    except (RagMetricsError, ImportError):
        return None
    return metric if isinstance(metric, RankingMetric) else None


def cutoffs_of(systems: Iterable[System], *, in_tokens: bool = False) -> list[int]:
    """The cutoffs of a curve: dense at the top, up to the longest ranking, or its tokens."""
    rankings = [ranking for system in systems for ranking in system.run.every_ranking]
    lengths = (sum(each.tokens or ()) if in_tokens else len(each.ids) for each in rankings)
    most = max(lengths, default=0)
    steps = takewhile(most.__gt__, _BUDGETS if in_tokens else _CUTOFFS)
    return [*steps, most] if most else []


def means_by_cutoff(
    system: System,
    metric: str,
    cutoffs: Sequence[int],
    query_ids: Iterable[str] | None = None,
    *,
    in_tokens: bool = False,
) -> dict[int, float]:
    """Cutoff to the mean of a metric there, over these queries, or all that have a value."""
    uncut = ranking_metric(metric)
    if uncut is None or "k" not in type(uncut).model_fields or not cutoffs:
        return {}
    not_taken = {"k", "tokens", "match", "ideal"}
    parameters = {**uncut.model_dump(exclude=not_taken, exclude_none=True), "match": BY_ID}
    cutoff = "tokens" if in_tokens else "k"
    chosen = [type(uncut).model_validate({**parameters, cutoff: n}) for n in cutoffs]
    relevance, rankings = _scored(system, metric, query_ids)
    retrieved = [ranking for ranking in rankings if ranking.ids]
    needs = chosen[0].needs & {"tokens", "spans"}
    if any(getattr(ranking, column) is None for column in needs for ranking in retrieved):
        return {}
    scores = score_with(chosen, relevance, rankings, replace(EVERY_QUERY, tolerant=True))
    names = {n: cut.metric_name for n, cut in zip(cutoffs, chosen, strict=True)}
    return {n: scores.means[name] for n, name in names.items() if scores.n(name)}


def interpolated_precision(
    system: System, metric: str, query_ids: Iterable[str] | None = None
) -> dict[float, float]:
    """trec_eval's `iprec_at_recall` by level of recall, averaged; {} without queries."""
    relevance, rankings = _scored(system, metric, query_ids)
    if not any(relevance):
        return {}
    hits = judge(relevance, [ranking.ids for ranking in rankings]).at(None, 1.0)
    return {level: float(interpolated(hits, level).mean()) for level in RECALL_LEVELS}


def _scored(
    system: System, metric: str, query_ids: Iterable[str] | None
) -> tuple[list[Relevance], list[Ranking]]:
    """Relevance and ranking, by the metric's matcher, of each query with a value for it, of each
    time that it was asked."""
    judged, rankings = list[Relevance](), list[Ranking]()
    chosen = None if query_ids is None else set(query_ids)
    for each in system.repeats or [system]:
        matched = each.judged_by(metric)
        for query_id in each.by_query(metric):
            if chosen is None or query_id in chosen:
                # what is scored here has no error: whether a failed query counts was decided before
                rankings.append(replace(matched.run.get(query_id, Ranking()), error=None))
                judged.append(matched.relevance.get(query_id, Relevance()))
    return judged, rankings


_CALLS = 10
"""Calls that a figure shows."""


def curve_figures(
    systems: Sequence[System], query_ids: Iterable[str] | None = None
) -> dict[str, Draw]:
    """Functions that draw the curves of systems with rankings, over these queries, or all."""
    metrics = metrics_of(systems)
    chosen = None if query_ids is None else list(query_ids)
    kinds: dict[str, Callable[..., Figure | None]] = {
        "recall_by_call": _recall_by_call,
        "by_cutoff": _by_cutoff,
        "by_tokens": partial(_by_cutoff, in_tokens=True),
        "precision_recall": _precision_recall,
    }

    def drawn(draw: Callable[..., Figure | None]) -> Draw:
        return lambda name: draw(systems, name or headline(metrics), chosen)

    return {kind: drawn(draw) for kind, draw in kinds.items()}


def _recall_by_call(
    systems: Sequence[System], metric: str, query_ids: Sequence[str] | None
) -> Figure | None:
    series = []
    for number, system in enumerate(systems):
        matched = system.judged_by(metric)
        relevance, run = matched.relevance, matched.run
        scored = [
            query_id
            for query_id in (system.scores.query_ids if query_ids is None else query_ids)
            if relevance.get(query_id) and query_id in run and run[query_id].calls is not None
        ]
        rankings = [run[query_id] for query_id in scored]
        most = max((len(ranking.calls or ()) for ranking in rankings), default=0)
        if not most:
            continue
        judged = [relevance[query_id] for query_id in scored]
        columns = recall_by_call(judged, rankings, min(most, _CALLS)).T
        means = [float(column.mean()) for column in columns]
        names = [f"call {call}" for call in range(1, len(columns) + 1)]
        together = conversations_of(scored, system.scores.metadata)
        ends = [mean_interval(column, clusters=together) for column in columns]
        low, high = [end.low for end in ends], [end.high for end in ends]
        remarks = [
            f"{name}: {shown(Cell(mean, 'score', low=end.low, high=end.high))}"
            for name, mean, end in zip(names, means, ends, strict=True)
        ]
        series.append(Series(system.name, number, means, names, low, high, remarks))
    if not series:
        return None
    axis = Axis("recall so far, mean over questions", ends=(0, 1.02))
    of_several = any(system.scores.repeats for system in systems)
    remark = "Of the first run of each question." if of_several else ""
    return Figure("points", axis, Axis(), series, remark=remark)


def _by_cutoff(
    systems: Sequence[System],
    metric: str,
    query_ids: Sequence[str] | None,
    *,
    in_tokens: bool = False,
) -> Figure | None:
    cutoffs = cutoffs_of(systems, in_tokens=in_tokens)
    own = ranking_metric(metric)
    if in_tokens and (budget := getattr(own, "tokens", None)):
        cutoffs = sorted({*cutoffs, budget})

    def curve_of(system: System) -> dict[int, float]:
        return means_by_cutoff(system, metric, cutoffs, query_ids, in_tokens=in_tokens)

    what = "tokens" if in_tokens else "k"
    y = Axis(f"{metric.partition('@')[0]}@{what}", from_zero=True)
    place = "{:,} tokens" if in_tokens else "k = {}"
    return _lines(systems, metric, curve_of, Axis(what), y, place)


def _precision_recall(
    systems: Sequence[System], metric: str, query_ids: Sequence[str] | None
) -> Figure | None:
    curve_of = partial(interpolated_precision, metric=metric, query_ids=query_ids)
    x, y = Axis("recall", ends=(-0.02, 1.02)), Axis("interpolated precision", ends=(0, 1.02))
    return _lines(systems, metric, curve_of, x, y, "recall {:g}")


def _lines(
    systems: Sequence[System],
    metric: str,
    curve_of: Callable[[System], Mapping[Any, float]],
    x: Axis,
    y: Axis,
    place: str,
) -> Figure | None:
    """A curve of each system that has the metric; None where all are empty."""
    series = []
    for number in best_first([system.mean(metric) for system in systems], metric):
        system = systems[number]
        if system.run and metric in system.scores:
            curve = curve_of(system)
            remarks = [f"{place.format(at)}: {score(mean)}" for at, mean in curve.items()]
            points = (list(curve), list(curve.values()))
            series.append(Series(system.name, number, *points, remarks=remarks))
    return Figure("lines", x, y, series) if any(each.x for each in series) else None
