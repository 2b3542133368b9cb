"""The numbers that a rule is decided by, the bounds that follow from them, and what they decide.

Whether it is safe to pass is decided by the interval with two pseudo-queries that `compare` has, R
counted twice: where few queries changed, those that change next may lose as much. Whether it is
safe to fail, by t, which errs towards no verdict where few queries lose; where all changed
alike it has no spread, and the pseudo-queries decide both. A gate fails where any of m rules fails,
so each fails with confidence 1 - (1 - c) / m, step by step (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import pair
from llama_index_rag_metrics.metrics.metric_names import (
    is_of_unanswerable,
    limits_of,
    lower_is_better,
)
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
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
from .verdict import Verdict, corrected_confidence

Bounds: TypeAlias = "tuple[float | None, float | None]"

_TOLERABLE = 0.25  # a larger loss, as a share of R, isn't proposed as a tolerance
_MIN_COVERAGE = 0.95  # with fewer values than this share of the queries, a rule fails
_NOW, _BEFORE = "now", "baseline"


@dataclass(frozen=True)
class PairedEvidence:
    """Differences, now minus before, negated where less is better; NaN where there is none."""

    values: FloatArray
    clusters: IntArray | None = None
    widest: float = 1.0
    possible: tuple[float, float] = (-math.inf, math.inf)

    @cached_property
    def _units(self) -> Units:
        return Units.of(self.values.reshape(-1, 1), self.clusters)

    def bounds(self, confidence: float) -> Bounds:
        """Return what the true mean is above and below, each with this confidence."""
        if self._units.n_units[0] < 2:
            return None, None
        assumed = pseudo_queries(self._units, self.widest, math.inf, counted=CAUTIOUS)
        failing = assumed if unvaried(self._units)[0] else student(self._units)
        ends = assumed.bounds(confidence)[0][0], failing.bounds(confidence)[1][0]
        low, high = np.clip(ends, *self.possible).tolist()
        return low, high

    def way_out(self, rule: Rule) -> tuple[int | None, float | None]:
        """Return how many questions, or which tolerance, would pass an unchanged system.

        None where no larger number would, or the tolerance is more than anybody would allow.
        """
        if self._units.n_units[0] < 2:
            return None, None
        aim, n = to_be_kept(rule.confidence or 0.0), float(self._units.n[0])
        (changes,) = Changes.seen(self._units, np.array([self.widest]))
        needed, decidable = changes.questions(aim, rule.tolerance), changes.distance(aim, n)
        is_more = needed is not None and needed > n
        is_tolerable = decidable is not None and decidable <= _TOLERABLE * self.widest
        return needed if is_more else None, decidable if is_tolerable else None


@dataclass(frozen=True)
class MeanEvidence:
    """Scores of a metric; `is_negated` where less is better."""

    values: FloatArray
    clusters: IntArray | None = None
    limits: tuple[float, float] = UNIT_RANGE
    is_negated: bool = False

    def bounds(self, confidence: float) -> Bounds:
        """Return what the true mean, negated if so, is above and below."""
        interval = mean_interval(
            self.values, confidence=2 * confidence - 1, limits=self.limits, clusters=self.clusters
        )
        if not self.is_negated or interval.low is None or interval.high is None:
            return interval.low, interval.high
        return -interval.high, -interval.low


Evidence: TypeAlias = "PairedEvidence | MeanEvidence"


class Measured(NamedTuple):
    """The verdict of a rule as far as it needs no bounds, and what bounds follow from, if it does.

    `scores` is query id to its score now, after that of the baseline where there is one.
    """

    verdict: Verdict
    scores: Mapping[str, Sequence[float]]
    evidence: Evidence | None = None


def decide(measured: Sequence[Measured]) -> list[Verdict]:
    """Return the verdict of each rule; those that failed no longer count for the others."""
    verdicts = [numbers.verdict for numbers in measured]
    tests = {n: numbers.evidence for n, numbers in enumerate(measured) if numbers.evidence}
    while tests:
        limits = {n: replace(verdicts[n].rule, metric="") for n in tests}
        together = len({(evidence.values.tobytes(), limits[n]) for n, evidence in tests.items()})
        decided = {n: _decided(verdicts[n], tests[n], together) for n in tests}
        failed = [n for n in tests if decided[n].outcome == "fail"]
        for position in failed or list(tests):
            verdicts[position] = decided[position]
            del tests[position]
    return verdicts


def _decided(verdict: Verdict, evidence: Evidence, together: int) -> Verdict:
    """Return the verdict by its bounds: it passes by the worse one, and fails by the better one."""
    rule = verdict.rule
    lowest = evidence.bounds(rule.confidence or 0.0)[0]
    highest = evidence.bounds(corrected_confidence(rule, together))[1]
    lower, upper = (None if end is None else rule.improvement(end) for end in (lowest, highest))
    if rule.lower_is_better:
        lower, upper = upper, lower
    verdict = replace(verdict, lower=lower, upper=upper, together=together)
    if lowest is not None and rule.is_kept_by(rule.improvement(lowest)):
        return replace(verdict, outcome="pass")
    if highest is not None and not rule.is_kept_by(rule.improvement(highest)):
        return replace(verdict, outcome="fail")
    is_loss = highest is not None and highest < -NOISE
    if is_loss or isinstance(evidence, MeanEvidence):
        return verdict
    needed, decidable = evidence.way_out(rule)
    return replace(verdict, needed=needed, decidable=decidable)


def measure(rule: Rule, now: Scores, previous: Scores | None, clusters: str | None) -> Measured:
    """Measure a rule; against the baseline, on the queries that have a value in both."""
    counts = asdict(now.counts)
    if rule.metric in counts and rule.metric not in now:
        if rule.confidence is not None:
            sentence = f"rule {str(rule)!r} has a confidence, but a count is certain."
            raise InvalidInput("rule", str(rule), sentence=sentence)
        n, value = now.counts.queries, counts[rule.metric]
        return _settled(Verdict(rule, rule.metric, value, n=n, expected=n, covered=n > 0), value)
    metric = name_among(rule.metric, now.metric_names)
    sides = {_NOW: now}
    if rule.baseline and previous is not None:
        _check_baseline(rule, metric, previous)
        sides = {_BEFORE: previous, _NOW: now}
    paired = pair(sides, next(iter(sides)), metrics=[metric], clusters=clusters)
    is_known = ~np.isnan(paired.columns[metric]).any(axis=1)
    values = paired.columns[metric][is_known]
    query_ids = [paired.query_ids[position] for position in np.flatnonzero(is_known)]
    scores = dict(zip(query_ids, values.tolist(), strict=True))
    expected = min(_expected(side, metric) for side in sides.values())
    verdict = Verdict(
        rule,
        metric,
        exact_mean(values[:, -1]),
        n=len(scores),
        expected=expected,
        covered=_is_covered(now, metric, len(scores), expected),
    )
    if previous is None or len(sides) == 1:
        column = paired.values(_NOW, metric)
        evidence = MeanEvidence(column, paired.clusters, limits_of(metric), rule.lower_is_better)
        return _settled(verdict, verdict.value, scores, evidence)
    key = (_NOW, metric, _BEFORE)
    differences, sign = paired.values(*key), rule.improvement(1.0)
    difference = exact_mean(differences[is_known])
    verdict = replace(
        verdict,
        baseline=exact_mean(values[:, 0]),
        difference=difference,
        identical=not differences[is_known].any() and _is_same_run(query_ids, now, previous),
    )
    low, high = sorted((sign * paired.possible([key], rule.confidence or 0.95)[0]).tolist())
    changes = PairedEvidence(sign * differences, paired.clusters, paired.widest(*key), (low, high))
    return _settled(verdict, difference, scores, changes)


def _check_baseline(rule: Rule, metric: str, previous: Scores) -> None:
    if lower_is_better(metric) and not rule.lower_is_better:
        remedy = f"Write '{metric} <= baseline + 0.01', for example."
        raise InvalidInput("rule", str(rule), "<=, since less is better", remedy)
    if metric not in previous:
        remedy = f"Store a new one from scores by {metric}."
        raise InvalidInput("baseline", list(previous), f"scores by {metric}", remedy)


def _is_same_run(query_ids: Sequence[str], now: Scores, previous: Scores) -> bool:
    """Return whether the rankings of these queries are known to be identical, and read alike."""
    digests = [(now.rankings.get(name), previous.rankings.get(name)) for name in query_ids]
    return all(digest and digest == digest_before for digest, digest_before in digests)


def _settled(
    verdict: Verdict,
    observed: float,
    scores: Mapping[str, Sequence[float]] = MappingProxyType({}),
    evidence: Evidence | None = None,
) -> Measured:
    """Return the verdict with the outcome that needs no bounds, or with the evidence."""
    rule = verdict.rule
    is_measured = verdict.n > 0 and verdict.covered
    if is_measured and rule.confidence is not None and not verdict.identical:
        return Measured(verdict, scores, evidence)
    is_kept = is_measured and rule.is_kept_by(0.0 if verdict.identical else observed)
    if verdict.identical and rule.confidence is not None:
        verdict = replace(verdict, lower=0.0, upper=0.0)
    return Measured(replace(verdict, outcome="pass" if is_kept else "fail"), scores)


def _expected(scores: Scores, metric: str) -> int:
    """Return how many queries should have a value, the failed ones included."""
    if is_of_unanswerable(metric):
        return len(scores.unanswerable)
    needless = {query_id for query_id, reason in scores.excluded.items() if reason != "failed"}
    n = len({*scores.query_ids, *scores.excluded})
    if needless.isdisjoint(scores.by_query(metric)):
        return n - len(needless)
    return n  # a metric that needs no labels


def _is_covered(scores: Scores, metric: str, n: int, expected: int) -> bool:
    runs = [run for run in scores.repeats if metric in run]
    expected_runs = sum(_expected(run, metric) for run in runs)
    if not expected or n / expected < _MIN_COVERAGE - NOISE:
        return False
    n_runs = sum(run.n(metric) for run in runs)
    return n_runs >= (_MIN_COVERAGE - NOISE) * expected_runs
