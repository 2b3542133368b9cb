"""Measured: the numbers that a rule is decided by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from llama_index_rag_metrics.decisions.calibration import in_words
from llama_index_rag_metrics.decisions.comparison.pairing import (
    Clusters,
    Paired,
    check_finite,
    pair,
)
from llama_index_rag_metrics.decisions.gate.baseline import Baseline
from llama_index_rag_metrics.decisions.gate.bounds import Evidence, MeanEvidence, PairedEvidence
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.metrics.metric_names import metric as metric_of
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError, UnknownMetric
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.intervals import exact_mean
from llama_index_rag_metrics.statistics.prediction_powered import rectified_interval

_NOW, _BEFORE = "now", "baseline"


@dataclass(frozen=True)
class Measured:
    """The numbers that a rule is decided by.

    Attributes:
        metric: the name under which the scores have its metric.
        value: the mean now, or the count.
        n: how many queries have a value, on both sides.
        expected: how many should have one.
        columns: query id to (score now, score before).
        baseline: the mean before; None without a baseline, as is `difference`, the mean paired one.
        evidence: how good or bad the true mean could be; None decides by the value.
        identical: whether the ranking of every query is known to be that of the baseline.
    """

    metric: str
    value: float | int
    n: int
    expected: int
    columns: Mapping[str, tuple[float, float | None]]
    baseline: float | None = None
    difference: float | None = None
    evidence: Evidence | None = None
    identical: bool = False
    notes: Sequence[str] = ()

    @property
    def coverage(self) -> float:
        """The share of the queries that have a value; 0 where there is no query."""
        return self.n / self.expected if self.expected else 0.0


def against(
    rule: Rule,
    now: Scores,
    stored: Baseline,
    same: Sequence[str],
    clusters: Clusters | None,
    judge: Scores | None = None,
) -> Measured:
    """Measure a rule against the baseline or the anchor.

    `same` are the queries that are the same in both; with a judge, the other scores are people's.
    """
    metric = _metric_of_both(rule, now, stored)
    sides = {_BEFORE: stored.scores.select(same), _NOW: now.select(same)}
    paired = pair(sides, _BEFORE, metrics=[metric], clusters=clusters)
    if judge is not None:
        paired = replace(paired, judged=_judged(rule, judge, stored, metric))
    changes = paired.differences(_NOW, _BEFORE, metric)
    differences = paired.evidence(_NOW, metric, _BEFORE)
    values = {name: paired.column(name, metric) for name in sides}
    both = ~np.isnan(differences)
    rows = zip(paired.query_ids, values[_NOW].tolist(), values[_BEFORE].tolist(), strict=True)
    columns = {
        query_id: (score, before)
        for (query_id, score, before), known in zip(rows, both, strict=True)
        if known
    }
    sorted_values, numbers = paired.in_order(differences)
    sorted_changes, _ = paired.in_order(changes)
    means = {
        name: exact_mean(column[both]) if judge is None else _calibrated_mean(paired, name, metric)
        for name, column in values.items()
    }
    identical = _is_identical(columns, now, stored) and not changes[both].any()
    return Measured(
        metric,
        means[_NOW],
        len(columns),
        min(_expected(scores, metric) for scores in sides.values()),
        columns,
        means[_BEFORE],
        exact_mean(differences[both]),
        None
        if rule.observed
        else PairedEvidence(
            _sign(rule) * sorted_values,
            numbers,
            widest=paired.limit(metric),
            changes=sorted_changes,
        ),
        identical and not _judged_apart(paired, metric),
        (*paired.notes, *_worth(paired, _NOW, metric, _BEFORE)),
    )


def _metric_of_both(rule: Rule, now: Scores, stored: Baseline) -> str:
    metric = name_in(now, rule.metric)
    if lower_is_better(metric) and not rule.lower_is_better:
        remedy = f"Write '{metric} <= {rule.reference} + 0.01', for example."
        raise InvalidInput("rule", str(rule), "<= or <, since less is better", remedy)
    if metric not in stored.scores:
        remedy = f"Store a new one from scores by {metric}."
        raise InvalidInput(rule.reference, list(stored.scores), f"scores by {metric}", remedy)
    check_finite(now, [metric])
    return metric


def _judged(rule: Rule, judge: Scores, stored: Baseline, metric: str) -> Paired:
    if stored.judged is None:
        expected = "one that was stored from calibrated scores, like these"
        raise InvalidInput(rule.reference, "people's scores alone", expected)
    sides = {_BEFORE: stored.judged, _NOW: judge}
    return pair(sides, _BEFORE, metrics=[metric], on_missing="intersect")


def _judged_apart(paired: Paired, metric: str) -> bool:
    if paired.judged is None:
        return False
    return bool(np.nan_to_num(paired.judged.differences(_NOW, _BEFORE, metric)).any())


def _calibrated_mean(paired: Paired, name: str, metric: str) -> float:
    return rectified_interval(paired.rectified(name, metric), limits=limits_of(metric))[1].mean


def _worth(paired: Paired, name: str, metric: str, baseline: str | None = None) -> tuple[str, ...]:
    if paired.judged is None:
        return ()
    return (f"{metric}: {in_words(paired.rectified(name, metric, baseline))}",)


def alone(
    rule: Rule, scores: Scores, clusters: Clusters | None, judge: Scores | None = None
) -> Measured:
    """Measure a rule without a baseline; with a judge, the scores are people's."""
    counts = asdict(scores.counts)
    if rule.metric not in scores and rule.metric in counts:
        if rule.confidence is not None:
            sentence = f"rule {str(rule)!r} has a confidence, but a count is certain."
            raise InvalidInput("rule", str(rule), sentence=sentence)
        n = scores.counts.queries
        return Measured(rule.metric, counts[rule.metric], n, n, {})
    metric = name_in(scores, rule.metric)
    check_finite(scores, [metric])
    columns = {query_id: (score, None) for query_id, score in scores.by_query(metric).items()}
    measured = Measured(
        metric, scores.means[metric], len(columns), _expected(scores, metric), columns
    )
    if not columns or (rule.confidence is None and judge is None):
        return measured
    paired = pair({_NOW: scores}, _NOW, metrics=[metric], clusters=clusters)
    if judge is not None:
        paired = replace(paired, judged=pair({_NOW: judge}, _NOW, metrics=[metric]))
    values, numbers = paired.in_order(paired.evidence(_NOW, metric))
    evidence = MeanEvidence(
        _sign(rule) * values,
        numbers,
        limits=limits_of(metric),
        negated=rule.lower_is_better,
        rectified=None if judge is None else paired.rectified(_NOW, metric),
    )
    return replace(
        measured,
        value=measured.value if judge is None else _calibrated_mean(paired, _NOW, metric),
        evidence=None if rule.confidence is None else evidence,
        notes=_worth(paired, _NOW, metric),
    )


def name_in(scores: Scores, name: str) -> str:
    """The name under which the scores have a metric that may be spelt as other tools do."""
    try:
        return name_among(name, scores.metric_names)
    except UnknownMetric as error:
        try:
            usual = metric_of(name).metric_name
        except RagMetricsError:
            raise error from None
        scored = f"one that was scored: {', '.join(scores)}"
        raise InvalidInput("metric of a rule", name, scored, f"Score by {usual}, too.") from None


def _expected(scores: Scores, metric: str) -> int:
    """How many queries should have a value, the failed ones included.

    Queries without relevance count only for a metric that has values for some of them.
    """
    needless = {query_id for query_id, reason in scores.excluded.items() if reason != "failed"}
    n = len({*scores.query_ids, *scores.excluded})
    return n if needless & scores.by_query(metric).keys() else n - len(needless)


def _is_identical(query_ids: Collection[str], now: Scores, stored: Baseline) -> bool:
    pairs = (
        (now.rankings.get(query_id, ""), prints.ranking)
        for query_id in query_ids
        if (prints := stored.fingerprints.get(query_id)) is not None
    )
    same = sum(bool(ranking) and ranking == before for ranking, before in pairs)
    return same == len(query_ids) > 0


def _sign(rule: Rule) -> float:
    return -1.0 if rule.lower_is_better else 1.0
