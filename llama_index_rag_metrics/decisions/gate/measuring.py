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
from itertools import compress
from typing import TypeAlias, TypeVar

import numpy as np

from llama_index_rag_metrics.decisions.clusters import Clusters
from llama_index_rag_metrics.decisions.comparison.pairing import (
    check_finite,
    pair,
    scored_otherwise,
)
from llama_index_rag_metrics.decisions.gate.baseline import Baseline, Fingerprint
from llama_index_rag_metrics.decisions.gate.rules import CONFIDENCE, Rule
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
    method_of,
    pseudo_queries,
    student,
    unvaried,
)
from llama_index_rag_metrics.statistics.intervals import (
    UNIT_RANGE,
    MeanInterval,
    exact_mean,
    mean_interval,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.sample_size import Aim, Changes, to_be_kept

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
        if self._says_nothing:
            return None, None
        assumed = pseudo_queries(self._units, self.widest, math.inf, counted=CAUTIOUS)
        failing = assumed if unvaried(self._units)[0] else student(self._units)
        lowest, highest = assumed.bounds(confidence)[0], failing.bounds(confidence)[1]
        low, high = np.clip([lowest[0], highest[0]], *self.possible).tolist()
        return low, high

    @property
    def method(self) -> str:
        return method_of(self._units)

    def needed(self, tolerance: float, confidence: float) -> int | None:
        """How many questions would show that nothing changed; None where no larger number would."""
        if self._says_nothing:
            return None
        needed = self.seen.questions(self._aim(confidence), tolerance)
        return needed if needed is not None and needed > self._units.n[0] else None

    def decidable(self, confidence: float) -> float | None:
        """The smallest tolerable loss that these queries rule out with `POWER`, if unchanged."""
        if self._says_nothing:
            return None
        loss = self.seen.distance(self._aim(confidence), float(self._units.n[0]))
        return None if loss is None or loss > TOLERABLE * self.widest else loss

    @cached_property
    def seen(self) -> Changes:
        """How questions changed."""
        return Changes.seen(self._units, np.array([self.widest]))[0]

    def _aim(self, confidence: float) -> Aim:
        return to_be_kept(confidence)

    @cached_property
    def _units(self) -> Units:
        return Units.of(self.values.reshape(-1, 1), self.clusters)

    @property
    def _says_nothing(self) -> bool:
        return int(self._units.n_units[0]) < 2


@dataclass(frozen=True)
class MeanEvidence:
    """Scores; `negated` where less is better."""

    values: FloatArray
    clusters: IntArray | None = None
    limits: tuple[float, float] = UNIT_RANGE
    negated: bool = False

    def bounds(self, confidence: float) -> Bounds:
        interval = self._interval(confidence)
        if not self.negated or interval.low is None or interval.high is None:
            return interval.low, interval.high
        return -interval.high, -interval.low

    @property
    def method(self) -> str:
        return self._interval(0.95).method

    def _interval(self, confidence: float) -> MeanInterval:
        two_sided = 2 * confidence - 1
        limits = _reckoned(self.values, self.limits)
        return mean_interval(
            self.values, confidence=two_sided, limits=limits, clusters=self.clusters
        )


def _reckoned(values: FloatArray, limits: tuple[float, float]) -> tuple[float, float]:
    """The limits; one that equal scores lack is at most twice as far from 0 as they are."""
    low, high = limits
    values = values[~np.isnan(values)]
    if not len(values) or np.ptp(values) > NOISE:
        return limits
    reach = max(2 * float(np.abs(values).max()), 1.0)
    return -reach if low == -math.inf else low, reach if high == math.inf else high


Evidence: TypeAlias = "PairedEvidence | MeanEvidence"

_SomeEvidence = TypeVar("_SomeEvidence", PairedEvidence, MeanEvidence)


@dataclass(frozen=True)
class Measured:
    """The numbers that a rule is decided by; `columns` are query id to (score now, before)."""

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
    of_runs: float = 1.0

    @property
    def is_covered(self) -> bool:
        """Whether enough of the queries, or of their runs, have a value."""
        coverage = min(self.n / self.expected, self.of_runs) if self.expected else 0.0
        return coverage >= MIN_COVERAGE - NOISE


def measure_against(
    rule: Rule, now: Scores, stored: Baseline, same: Sequence[str], clusters: Clusters | None
) -> Measured:
    """Measure a rule on the queries that are the same on both sides."""
    metric = _metric_of_both(rule, now, stored)
    sides = {_BEFORE: stored.scores.select(same), _NOW: now.select(same)}
    paired = pair(sides, _BEFORE, metrics=[metric], clusters=clusters)
    widest = paired.widest(_NOW, metric, _BEFORE)
    key = (_NOW, metric, _BEFORE)
    differences = paired.values(*key)
    is_same = not np.nan_to_num(differences).any()
    both = ~np.isnan(differences)
    values = {name: paired.values(name, metric) for name in sides}
    rows = zip(paired.query_ids, values[_NOW].tolist(), values[_BEFORE].tolist(), strict=True)
    columns = {query_id: (score, before) for query_id, score, before in compress(rows, both)}
    means = {name: exact_mean(column[both]) for name, column in values.items()}
    ordered, numbers = paired.in_order([differences])
    rankings = sides[_NOW].rankings
    sign = -1.0 if rule.lower_is_better else 1.0
    possible = paired.possible([key], rule.confidence or CONFIDENCE)[0]
    low, high = sorted((sign * possible).tolist())
    evidence = PairedEvidence(sign * ordered[:, 0], numbers, widest, (low, high))
    return Measured(
        metric,
        means[_NOW],
        len(columns),
        min(_expected(scores, metric) for scores in sides.values()),
        columns,
        means[_BEFORE],
        exact_mean(differences[both]),
        None if rule.observed else evidence,
        is_same
        and bool(columns)
        and not scored_otherwise(sides)
        and all(
            stored.fingerprints.get(query_id, Fingerprint()).ranking == rankings.get(query_id) != ""
            for query_id in columns
        ),
        paired.notes,
        of_runs=_of_runs(sides[_NOW], metric),
    )


def _metric_of_both(rule: Rule, now: Scores, stored: Baseline) -> str:
    metric = name_in(now, rule.metric)
    if lower_is_better(metric) and not rule.lower_is_better:
        remedy = f"Write '{metric} <= baseline + 0.01', for example."
        raise InvalidInput("rule", str(rule), "<=, since less is better", remedy)
    if metric not in stored.scores:
        remedy = f"Store a new one from scores by {metric}."
        raise InvalidInput("baseline", list(stored.scores), f"scores by {metric}", remedy)
    check_finite(now, [metric])
    return metric


def measure_alone(rule: Rule, scores: Scores, clusters: Clusters | None) -> Measured:
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
    by_query = scores.by_query(metric) if scores.is_measured else {}
    columns = {query_id: (score, None) for query_id, score in by_query.items()}
    expected = _expected(scores, metric)
    of_runs = _of_runs(scores, metric)
    value = scores.means[metric]
    measured = Measured(metric, value, len(columns), expected, columns, of_runs=of_runs)
    if not columns or rule.confidence is None:
        return measured
    paired = pair({_NOW: scores}, _NOW, metrics=[metric], clusters=clusters)
    values, numbers = paired.in_order([paired.values(_NOW, metric)])
    evidence = MeanEvidence(
        values[:, 0], numbers, limits=limits_of(metric), negated=rule.lower_is_better
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
    return n if needless & scores.by_query(metric).keys() else n - len(needless)


def _of_runs(scores: Scores, metric: str) -> float:
    """The share of the runs with a value, of those of questions that should have one."""
    runs = [run for run in scores.repeats if metric in run]
    expected = sum(_expected(run, metric) for run in runs)
    return sum(run.n(metric) for run in runs) / expected if expected else 1.0
