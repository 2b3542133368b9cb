"""Holes in judgements: what the means would be if unjudged retrieved items were (not) relevant.

Judgements are never complete: a new retriever finds items that nobody judged, and they count as not
relevant. So each mean is taken again with the unjudged items that it sees, those within its k,
judged not relevant, and once more with all of them judged relevant. For hit rate, reciprocal rank,
precision and rank-biased precision these are bounds, whatever the true judgements are. For other
metrics they are two cases among many: a relevant item also raises what a perfect ranking would
reach, so that the worst case can lie elsewhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    ranking_metric,
    system_of,
)
from llama_index_rag_metrics.metrics.base import GroupMetric, RankingMetric
from llama_index_rag_metrics.metrics.ranks import MRR, RBP
from llama_index_rag_metrics.metrics.sets import HitRate, Judged, Precision
from llama_index_rag_metrics.rankings.matching.matcher_names import Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import carried, mean_of
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scoring.batches import EVERY_QUERY
from llama_index_rag_metrics.scores.scoring.score_rankings import score_with
from llama_index_rag_metrics.statistics.intervals import exact_mean

EXPLAINED = (
    "How each mean could change if the unlabelled passages that it counts were labelled. Bounds "
    "hold whatever the labels are; the two cases are examples."
)
_View: TypeAlias = "tuple[str | None, int | None, float, tuple[str, ...]]"
"""What metrics see alike: the name of a matcher, a cutoff, the grade of relevance, the queries."""

_Scored: TypeAlias = "tuple[RankingMetric, Mapping[str, float]]"
_HEAD = ("unlabelled within k", "current", "all irrelevant", "all relevant", "")


@dataclass(frozen=True, slots=True, repr=False)
class Holes(Reportable):
    """A mean with the unjudged retrieved items taken as not relevant and as relevant.

    Attributes:
        mean: as it was scored.
        not_relevant: the mean with the unjudged items within k judged not relevant.
        relevant: the mean with them judged relevant.
        unjudged: how many of the `retrieved` items within k, over all n queries, are unjudged.
        bounds: whether the mean lies between the two whatever the judgements of these items are;
            if not, the two are "as if", not the worst and the best case.
    """

    metric: str
    mean: float
    not_relevant: float
    relevant: float
    n: int
    unjudged: int
    retrieved: int
    bounds: bool

    def report(self, *, full: bool = False) -> m.Report:
        """The mean and the two others."""
        return JudgementHoles([self]).report()


class JudgementHoles(Reportable, tuple[Holes, ...]):
    """The holes under several metrics."""

    def report(self, *, full: bool = False) -> m.Report:
        """A row a metric."""
        table = m.Table("", _HEAD, [[_row(hole.metric, hole) for hole in self]])
        return m.Report(
            title="Unlabelled passages",
            decision=[self._decision()],
            sections=[m.Section("Unlabelled passages", [table], EXPLAINED)],
            metrics=[hole.metric for hole in self],
            records=m.Records.of_fields(self, [field.name for field in fields(Holes)]),
        )

    def _decision(self) -> m.Statement:
        """How far the metric that stands for all could move."""
        chosen = m.headline([hole.metric for hole in self])
        if not chosen:
            return m.Statement("Unlabelled passages affect none of these metrics.")
        hole = next(hole for hole in self if hole.metric == chosen)
        if not hole.unjudged:
            return m.Statement(f"Every passage that {hole.metric} counts is labelled.", "best")
        ends = hole.not_relevant, hole.relevant
        mean, low, high = (carried(end, hole.n) for end in (hole.mean, *ends))
        unlabelled = f"{hole.unjudged:,} of {hole.retrieved:,} passages that count are unlabelled"
        could = f"; {low} and {high} if all of them are irrelevant or all relevant"
        if hole.bounds:
            could = f", and between {low} and {high} whatever their labels"
        return m.Statement(f"{unlabelled}: {hole.metric} is {mean}{could}.", "open")


def judgement_holes(
    results: EvaluationResults,
    metrics: Iterable[str] | None = None,
    *,
    query_ids: Iterable[str] | None = None,
    grade: float = 1.0,
) -> JudgementHoles:
    """Compute each mean again, with unjudged retrieved items as not relevant and as relevant.

    Unjudged is what has no grade or a negative one; where the judgements name relevant items only,
    that is everything else. Metrics of texts, groups, spans, leaks and calls, those with a cutoff
    by tokens, `judged` itself, metrics of questions without an answer and those of your own are
    left out: unjudged items don't affect them, or the effect isn't known.

    Args:
        results: of an evaluation. Its rankings and relevance are needed; bare scores have none.
        metrics: names of some of its metrics; None for all.
        query_ids: only these of its queries; None for all that are scored.
        grade: the grade of an item taken as relevant, above 0; raised to a metric's `min_grade`.

    Raises:
        InvalidInput: these aren't the results of an evaluation, or the grade isn't above 0.
        UnknownMetric: the results have no such metric.

    Examples:
        >>> from llama_index_rag_metrics import evaluate, judgement_holes
        >>> judged = {"q1": {"d1": 1, "d3": 0}}
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": judged}
        >>> results = evaluate(lambda query: ["d2", "d1", "d3"], dataset, ["mrr"])
        >>> [hole] = judgement_holes(results)
        >>> hole.not_relevant, hole.mean, hole.relevant  # an unjudged item stands first
        (0.5, 0.5, 1.0)
    """
    if not isinstance(results, EvaluationResults):
        remedy = "Bare Scores know no rankings."
        raise InvalidInput("results", type(results).__name__, "results of an evaluation", remedy)
    check_amount("grade", grade, "a number above 0", lambda value: 0 < value < math.inf)
    chosen = set(results.scores.query_ids if query_ids is None else query_ids)
    answering: list[RankingMetric] = []
    system = system_of(results)
    alike: dict[_View, list[_Scored]] = defaultdict(list)
    for name in results.scores.metric_names if metrics is None else metrics:
        by_query = results.scores.by_query(name).items()
        scores = {query_id: score for query_id, score in by_query if query_id in chosen}
        metric = _answering(name)
        if metric is not None and scores:
            answering.append(metric)
            needed = max(grade, getattr(metric, "min_grade", grade))
            view = (metric.match, getattr(metric, "k", None), needed, tuple(scores))
            alike[view].append((metric, scores))
    by_metric = {
        holes.metric: holes
        for view, scored in alike.items()
        for holes in _holes(view, scored, system.judged_by(scored[0][0].metric_name))
    }
    return JudgementHoles(by_metric[metric.metric_name] for metric in answering)


def _holes(view: _View, scored: Sequence[_Scored], judged_by: Matched) -> Iterator[Holes]:
    """Holes of metrics of one view, judged once."""
    _, cutoff, grade, query_ids = view
    asked = [
        (query_id, run.get(query_id, Ranking()))
        for run in judged_by.run.each_time
        for query_id in query_ids
        if query_id in run or query_id not in judged_by.run
    ]
    rankings = [list(dict.fromkeys(ranking.ids)) for _, ranking in asked]
    judged = [judged_by.relevance.get(query_id, Relevance()).grades for query_id, _ in asked]
    seen = [ranking[:cutoff] for ranking in rankings]
    unjudged = [
        [item for item in items if not grades.get(item, -1) >= 0]
        for items, grades in zip(seen, judged, strict=True)
    ]

    def scores_if(grade: float) -> Scores:
        filled = [
            Relevance({**grades, **dict.fromkeys(items, grade)})
            for grades, items in zip(judged, unjudged, strict=True)
        ]
        return score_with([metric for metric, _ in scored], filled, rankings, EVERY_QUERY)

    def mean_of(scores: Scores, metric: str) -> float:
        runs: dict[str, list[float]] = defaultdict(list)
        for (query_id, _), score in zip(asked, scores[metric].tolist(), strict=True):
            runs[query_id].append(score)
        return exact_mean(np.array([math.fsum(each) / len(each) for each in runs.values()]))

    not_relevant, relevant = scores_if(0.0), scores_if(grade)
    for metric, scores in scored:
        yield Holes(
            metric=metric.metric_name,
            mean=math.fsum(scores.values()) / len(scores),
            not_relevant=mean_of(not_relevant, metric.metric_name),
            relevant=mean_of(relevant, metric.metric_name),
            n=len(scores),
            unjudged=sum(map(len, unjudged)),
            retrieved=sum(map(len, seen)),
            bounds=_is_bounded(metric),
        )


def _answering(name: str) -> RankingMetric | None:
    """The metric of a name, or None where unjudged items can't change it."""
    metric = ranking_metric(name)
    if metric is None or metric.passes or metric.needs or metric.of_unanswerable:
        return None
    if isinstance(metric, (GroupMetric, Judged)):
        return None
    return metric


def _is_bounded(metric: RankingMetric) -> bool:
    """Whether one more relevant item can only raise the score, and nothing else changes it."""
    if isinstance(metric, HitRate):
        return not metric.use_granular_hit_rate
    if isinstance(metric, MRR):
        return not metric.use_granular_mrr
    return isinstance(metric, (Precision, RBP))


def hole_tables(by_system: Mapping[str, Sequence[Holes]]) -> list[m.Table]:
    """One table for all systems with unjudged items within k; none where there are none."""
    rows = [
        _row(f"{hole.metric} of {name}", hole)
        for name, holes in by_system.items()
        for hole in holes
        if hole.unjudged
    ]
    return [m.Table("Unlabelled passages", _HEAD, [rows], place="detail")] if rows else []


def _row(label: str, holes: Holes) -> m.Row:
    return m.Row(
        label,
        [
            m.Cell((holes.unjudged, holes.retrieved), "share"),
            *(
                mean_of(m.Cell(mean, "score"), holes.n)
                for mean in (holes.mean, holes.not_relevant, holes.relevant)
            ),
            m.Cell("bounds" if holes.bounds else "two cases", tone="quiet"),
        ],
    )
