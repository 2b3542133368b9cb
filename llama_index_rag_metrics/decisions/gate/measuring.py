"""The numbers that a rule is decided by, the bounds that follow from them, and what they decide.

A rule asks two questions, and each is answered by the method that errs on its safe side.

* Is it safe to pass? By the interval of differences with two pseudo-queries that `compare` has, R
  counted twice: where few queries changed, those that change next may lose as much.
* Is it safe to fail? By Student's t. Where few queries lose, t errs towards no verdict.

Where all changed alike there is no spread for t; the pseudo-queries decide both then.

A gate passes where every rule passes, so each bound for passing holds on its own. It fails where
any rule fails, so with m rules each fails with confidence 1 - (1 - c) / m, step by step as Holm's
(1979) method does. Rules that test the same numbers against the same limit count once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import pair, scored_otherwise
from llama_index_rag_metrics.metrics.metric_names import (
    is_of_unanswerable,
    limits_of,
    lower_is_better,
)
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
        changes = Changes.seen(self._units, np.array([self.widest]))[0]
        needed, decidable = changes.questions(aim, rule.tolerance), changes.distance(aim, n)
        if needed is not None and needed <= n:
            needed = None
        if decidable is not None and decidable > _TOLERABLE * self.widest:
            decidable = None
        return needed, decidable


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

    `scores` is query id to its score now, and before where there is a baseline.
    """

    verdict: Verdict
    scores: Mapping[str, tuple[float, float | None]]
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
    ends = [lowest, highest]
    if rule.lower_is_better:
        ends.reverse()
    lower, upper = (None if end is None else rule.improvement(end) for end in ends)
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


def measure(rule: Rule, now: Scores, before: Scores | None, clusters: str | None) -> Measured:
    """Measure a rule; against the baseline, on the queries that have a value in both."""
    counts = asdict(now.counts)
    if rule.metric in counts and rule.metric not in now:
        if rule.confidence is not None:
            sentence = f"rule {str(rule)!r} has a confidence, but a count is certain."
            raise InvalidInput("rule", str(rule), sentence=sentence)
        n, value = now.counts.queries, counts[rule.metric]
        return _settled(Verdict(rule, rule.metric, value, n=n, expected=n, covered=n > 0), value)
    try:
        metric = name_among(rule.metric, now.metric_names)
    except NotScored as error:
        expected = f"a metric that was scored: {join_first(error.nearest, 10)}"
        raise InvalidInput("rule", rule.metric, expected, "Score by it, too.") from None
    if rule.baseline and before is not None:
        return _measure_against(rule, metric, now, before, clusters)
    paired = pair({_NOW: now}, _NOW, metrics=[metric], clusters=clusters)
    values = paired.values(_NOW, metric)
    known = now.by_query(metric) if now.is_measured else {}
    verdict = Verdict(
        rule,
        metric,
        now.means[metric],
        n=len(known),
        expected=_expected(now, metric),
        covered=_is_covered(now, metric, len(known), _expected(now, metric)),
    )
    scores = {query_id: (score, None) for query_id, score in known.items()}
    evidence = MeanEvidence(values, paired.clusters, limits_of(metric), rule.lower_is_better)
    return _settled(verdict, verdict.value, scores, evidence)


def _measure_against(
    rule: Rule, metric: str, now: Scores, before: Scores, clusters: str | None
) -> Measured:
    if lower_is_better(metric) and not rule.lower_is_better:
        remedy = f"Write '{metric} <= baseline + 0.01', for example."
        raise InvalidInput("rule", str(rule), "<=, since less is better", remedy)
    if metric not in before:
        remedy = f"Store a new one from scores by {metric}."
        raise InvalidInput("baseline", list(before), f"scores by {metric}", remedy)
    sides = {_BEFORE: before, _NOW: now}
    paired = pair(sides, _BEFORE, metrics=[metric], clusters=clusters)
    key = (_NOW, metric, _BEFORE)
    differences = paired.values(*key)
    is_known = ~np.isnan(differences)
    scores_now = paired.values(_NOW, metric)[is_known]
    scores_before = paired.values(_BEFORE, metric)[is_known]
    query_ids = [paired.query_ids[position] for position in np.flatnonzero(is_known)]
    is_changed = differences[is_known].any() or scored_otherwise(sides)
    digests = [(now.rankings.get(each), before.rankings.get(each)) for each in query_ids]
    is_identical = not is_changed and all(digest and digest == other for digest, other in digests)
    n, expected = len(query_ids), min(_expected(before, metric), _expected(now, metric))
    verdict = Verdict(
        rule,
        metric,
        exact_mean(scores_now),
        exact_mean(scores_before),
        exact_mean(differences[is_known]),
        n=n,
        expected=expected,
        covered=_is_covered(now, metric, n, expected),
        identical=is_identical,
    )
    rows = zip(scores_now.tolist(), scores_before.tolist(), strict=True)
    sign = rule.improvement(1.0)
    possible = sorted((sign * paired.possible([key], rule.confidence or 0.95)[0]).tolist())
    evidence = PairedEvidence(
        sign * differences, paired.clusters, paired.widest(*key), (possible[0], possible[1])
    )
    scores = dict(zip(query_ids, rows, strict=True))
    return _settled(verdict, verdict.difference or 0.0, scores, evidence)


def _settled(
    verdict: Verdict,
    observed: float,
    scores: Mapping[str, tuple[float, float | None]] = {},
    evidence: Evidence | None = None,
) -> Measured:
    """Return the verdict with the outcome that needs no bounds, or with the evidence."""
    rule = verdict.rule
    if not verdict.n or not verdict.covered:
        is_kept = False
    elif verdict.identical:
        is_kept = rule.is_kept_by(0.0)
    elif rule.confidence is not None:
        return Measured(verdict, scores, evidence)
    else:
        is_kept = rule.is_kept_by(observed)
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
    """Return whether enough of the queries, and of their runs, have a value."""
    runs = [run for run in scores.repeats if metric in run]
    expected_runs = sum(_expected(run, metric) for run in runs)
    if not expected or n / expected < _MIN_COVERAGE - NOISE:
        return False
    n_runs = sum(run.n(metric) for run in runs)
    return n_runs >= (_MIN_COVERAGE - NOISE) * expected_runs
