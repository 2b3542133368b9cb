"""The numbers that a rule is decided by, and the bounds that follow from them.

A rule asks two questions, and each is answered by the method that errs on its safe side.

* Is it safe to pass? By the interval of differences with two pseudo-queries that `compare` has, R
  counted twice: where few queries changed, those that change next may lose as much.
* Is it safe to fail? By Student's t. Where few queries lose, t errs towards no verdict.

Where all changed alike there is no spread for t; the pseudo-queries decide both then. Rates of
false and of true verdicts on real scores are in docs/measurements.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import (
    check_finite,
    pair,
    scored_otherwise,
)
from llama_index_rag_metrics.metrics.metric_names import (
    is_of_unanswerable,
    limits_of,
    lower_is_better,
)
from llama_index_rag_metrics.metrics.metric_names import metric as metric_of
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, NotScored
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.differences import (
    CAUTIOUS,
    pseudo_queries,
    student,
    unvaried,
)
from llama_index_rag_metrics.statistics.intervals import UNIT_RANGE, exact_mean, mean_interval
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.sample_size import Changes, to_be_kept

from .rules import Rule

Bounds: TypeAlias = "tuple[float | None, float | None]"

TOLERABLE = 0.25
"""A larger loss, as a share of the widest difference, isn't proposed as a tolerance."""

MIN_COVERAGE = 0.95
"""With fewer values than this share of the queries, a rule fails."""

_NOW, _BEFORE = "now", "baseline"


@dataclass(frozen=True)
class PairedEvidence:
    """Differences, now minus before, negated where less is better; NaN where there is none."""

    values: FloatArray
    clusters: IntArray | None = None
    widest: float = 1.0
    possible: tuple[float, float] = (-math.inf, math.inf)

    def bounds(self, confidence: float) -> Bounds:
        """The true mean is above the one and below the other, each with this confidence."""
        if not self._has_units:
            return None, None
        assumed = pseudo_queries(self._units, self.widest, math.inf, counted=CAUTIOUS)
        failing = student(self._units)
        if unvaried(self._units)[0]:
            failing = assumed
        lowest = assumed.bounds(confidence)[0][0]
        highest = failing.bounds(confidence)[1][0]
        low, high = np.clip([lowest, highest], *self.possible).tolist()
        return low, high

    def needed(self, tolerance: float, confidence: float) -> int | None:
        """How many questions would show that nothing changed; None where no larger number would."""
        if not self._has_units:
            return None
        number = self._changes.questions(to_be_kept(confidence), tolerance)
        if number is None or number <= self._units.n[0]:
            return None
        return number

    def decidable(self, confidence: float) -> float | None:
        """The smallest tolerable loss that these queries rule out with `POWER`, if unchanged."""
        if not self._has_units:
            return None
        loss = self._changes.distance(to_be_kept(confidence), float(self._units.n[0]))
        if loss is None or loss > TOLERABLE * self.widest:
            return None
        return loss

    @cached_property
    def _changes(self) -> Changes:
        return Changes.seen(self._units, np.array([self.widest]))[0]

    @cached_property
    def _units(self) -> Units:
        return Units.of(self.values.reshape(-1, 1), self.clusters)

    @property
    def _has_units(self) -> bool:
        return int(self._units.n_units[0]) > 1


@dataclass(frozen=True)
class MeanEvidence:
    """Scores of a metric; `is_negated` where less is better."""

    values: FloatArray
    clusters: IntArray | None = None
    limits: tuple[float, float] = UNIT_RANGE
    is_negated: bool = False

    def bounds(self, confidence: float) -> Bounds:
        """The true mean, negated if so, is above the one and below the other."""
        interval = mean_interval(
            self.values,
            confidence=2 * confidence - 1,
            limits=_finite_limits(self.values, self.limits),
            clusters=self.clusters,
        )
        if not self.is_negated or interval.low is None or interval.high is None:
            return interval.low, interval.high
        return -interval.high, -interval.low


def _finite_limits(values: FloatArray, limits: tuple[float, float]) -> tuple[float, float]:
    """The limits; one that equal scores lack is at most twice as far from 0 as they are."""
    low, high = limits
    values = values[~np.isnan(values)]
    if not len(values) or np.ptp(values) > NOISE:
        return limits
    reach = max(2 * float(np.abs(values).max()), 1.0)
    if low == -math.inf:
        low = -reach
    if high == math.inf:
        high = reach
    return low, high


Evidence: TypeAlias = "PairedEvidence | MeanEvidence"


@dataclass(frozen=True)
class Measured:
    """The numbers that a rule is decided by.

    Attributes:
        scores: query id to its score now, and before where there is a baseline.
        expected: how many queries should have a value.
        evidence: what bounds follow from; None where what was observed decides.
        identical: whether every query has the ranking that it had before.
        coverage_of_runs: the share of the runs with a value, of questions asked several times.
    """

    metric: str
    value: float | int
    n: int
    expected: int
    scores: Mapping[str, tuple[float, float | None]]
    baseline: float | None = None
    difference: float | None = None
    evidence: Evidence | None = None
    identical: bool = False
    notes: Sequence[str] = ()
    coverage_of_runs: float = 1.0

    @property
    def is_covered(self) -> bool:
        """Whether enough of the queries, and of their runs, have a value."""
        if not self.expected:
            return False
        coverage = min(self.n / self.expected, self.coverage_of_runs)
        return coverage >= MIN_COVERAGE - NOISE


def measure_against(rule: Rule, now: Scores, before: Scores, clusters: str | None) -> Measured:
    """Measure a rule on the difference from the baseline, of queries that are the same in both."""
    metric = _metric_of_both(rule, now, before)
    paired = pair({_BEFORE: before, _NOW: now}, _BEFORE, metrics=[metric], clusters=clusters)
    key = (_NOW, metric, _BEFORE)
    differences = paired.values(*key)
    is_known = ~np.isnan(differences)
    values_now, values_before = paired.values(_NOW, metric), paired.values(_BEFORE, metric)
    rows = zip(values_now[is_known].tolist(), values_before[is_known].tolist(), strict=True)
    query_ids = [paired.query_ids[position] for position in np.flatnonzero(is_known)]
    scores = dict(zip(query_ids, rows, strict=True))
    evidence = None
    if rule.confidence is not None:
        sign = rule.improvement(1.0)
        possible = sorted((sign * paired.possible([key], rule.confidence)[0]).tolist())
        evidence = PairedEvidence(
            sign * differences, paired.clusters, paired.widest(*key), (possible[0], possible[1])
        )
    is_unchanged = bool(query_ids) and not differences[is_known].any()
    is_scored_alike = not scored_otherwise({_BEFORE: before, _NOW: now})
    return Measured(
        metric,
        exact_mean(values_now[is_known]),
        len(scores),
        min(_expected(before, metric), _expected(now, metric)),
        scores,
        exact_mean(values_before[is_known]),
        exact_mean(differences[is_known]),
        evidence,
        is_unchanged and is_scored_alike and _same_rankings(query_ids, now, before),
        paired.notes,
        _coverage_of_runs(now, metric),
    )


def _same_rankings(query_ids: Sequence[str], now: Scores, before: Scores) -> bool:
    digests = [(now.rankings.get(each), before.rankings.get(each)) for each in query_ids]
    return all(digest and digest == digest_before for digest, digest_before in digests)


def _metric_of_both(rule: Rule, now: Scores, before: Scores) -> str:
    metric = name_in(now, rule.metric)
    if lower_is_better(metric) and not rule.lower_is_better:
        remedy = f"Write '{metric} <= baseline + 0.01', for example."
        raise InvalidInput("rule", str(rule), "<=, since less is better", remedy)
    if metric not in before:
        remedy = f"Store a new one from scores by {metric}."
        raise InvalidInput("baseline", list(before), f"scores by {metric}", remedy)
    check_finite(now, [metric])
    return metric


def measure_alone(rule: Rule, scores: Scores, clusters: str | None) -> Measured:
    """Measure a rule without a baseline."""
    counts = asdict(scores.counts)
    if rule.metric not in scores and rule.metric in counts:
        if rule.confidence is not None:
            sentence = f"rule {str(rule)!r} has a confidence, but a count is certain."
            raise InvalidInput("rule", str(rule), sentence=sentence)
        n = scores.counts.queries
        return Measured(rule.metric, counts[rule.metric], n, n, {})
    metric = name_in(scores, rule.metric)
    check_finite(scores, [metric])
    by_query = {}
    if scores.is_measured:
        by_query = scores.by_query(metric)
    measured = Measured(
        metric,
        scores.means[metric],
        len(by_query),
        _expected(scores, metric),
        {query_id: (score, None) for query_id, score in by_query.items()},
        coverage_of_runs=_coverage_of_runs(scores, metric),
    )
    if not by_query or rule.confidence is None:
        return measured
    paired = pair({_NOW: scores}, _NOW, metrics=[metric], clusters=clusters)
    values = paired.values(_NOW, metric)
    evidence = MeanEvidence(
        values, paired.clusters, limits_of(metric), is_negated=rule.lower_is_better
    )
    return replace(measured, evidence=evidence)


def name_in(scores: Scores, name: str) -> str:
    """The name under which the scores have a metric that may be spelt as other tools do."""
    try:
        return name_among(name, scores.metric_names)
    except NotScored as error:
        usual = metric_of(name).metric_name
        expected = f"a metric that was scored: {join_first(error.nearest, 10)}"
        raise InvalidInput("rule", name, expected, f"Score by {usual}, too.") from None


def _expected(scores: Scores, metric: str) -> int:
    """How many queries should have a value, the failed ones included."""
    if is_of_unanswerable(metric):
        return len(scores.unanswerable)
    needless = {query_id for query_id, reason in scores.excluded.items() if reason != "failed"}
    n = len({*scores.query_ids, *scores.excluded})
    if needless.isdisjoint(scores.by_query(metric)):
        return n - len(needless)
    return n  # a metric that needs no labels


def _coverage_of_runs(scores: Scores, metric: str) -> float:
    """The share of the runs with a value, of those of questions that should have one."""
    runs = [run for run in scores.repeats if metric in run]
    expected = sum(_expected(run, metric) for run in runs)
    if not expected:
        return 1.0
    return sum(run.n(metric) for run in runs) / expected
