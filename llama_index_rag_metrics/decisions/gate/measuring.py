"""What a rule is about, measured; the bounds that follow from it, and what they decide.

Whether it is safe to pass is decided by the interval with two pseudo-queries that `compare` has, R
counted twice: where few queries changed, those that change next may lose as much. Whether it is
safe to fail, by t, which errs towards no verdict where few queries lose; where all changed
alike it has no spread, and the pseudo-queries decide both. A gate fails where any of m rules fails,
so each fails with confidence 1 - (1 - c) / m, step by step (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.metrics.metric_names import is_of_unanswerable, limits_of
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.differences import (
    CAUTIOUS,
    pseudo_queries,
    student,
    unvaried,
)
from llama_index_rag_metrics.statistics.intervals import exact_mean, mean_interval
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.sample_size import Changes, to_be_kept

from .rules import Rule
from .verdict import Verdict

_TOLERABLE = 0.25  # a larger loss, as a share of R, isn't proposed as a tolerance
_NOW, _BEFORE = "now", "baseline"


@dataclass(frozen=True)
class Measured:
    """The verdict of a rule, inconclusive where bounds decide it, and the scores that it is about.

    `paired` has the scores now, after those of the baseline where there is one; of a count, none.
    """

    verdict: Verdict
    paired: Paired

    @cached_property
    def values(self) -> FloatArray:
        """(questions,) the scores, or now minus before; NaN where there is none."""
        baseline = _BEFORE if self.verdict.rule.baseline else None
        return self.paired.values(_NOW, self.verdict.metric, baseline)

    @property
    def test(self) -> tuple[bytes, Rule]:
        """What is decided: the same of two metrics is one test."""
        return self.values.tobytes(), replace(self.verdict.rule, metric="")

    @cached_property
    def _units(self) -> Units:
        return Units.of(self.values.reshape(-1, 1), self.paired.clusters)

    @property
    def _widest(self) -> float:
        return self.paired.widest(_NOW, self.verdict.metric, _BEFORE)

    def _bounds(self, confidence: float, *, is_passing: bool) -> Sequence[float | None]:
        """Return what the true mean is above and below, each with this confidence."""
        rule, metric, clusters = self.verdict.rule, self.verdict.metric, self.paired.clusters
        if not rule.baseline:
            level, limits = 2 * confidence - 1, limits_of(metric)
            interval = mean_interval(
                self.values, confidence=level, limits=limits, clusters=clusters
            )
            return interval.low, interval.high
        if self._units.n_units[0] < 2:
            return None, None
        bounded = pseudo_queries(self._units, self._widest, counted=CAUTIOUS)
        if not is_passing and not unvaried(self._units)[0]:
            bounded = student(self._units)
        low, high = bounded.bounds(confidence)
        possible = self.paired.possible([(_NOW, metric, _BEFORE)], rule.confidence or 0.0)[0]
        ends: list[float] = np.clip([low[0], high[0]], *possible).tolist()
        return ends

    def decided(self, together: int) -> Verdict:
        """Return the verdict by its bounds: it passes by the worse, and fails by the better one."""
        rule = self.verdict.rule
        worse_end, better_end = (1, 0) if rule.lower_is_better else (0, 1)
        worse = self._bounds(rule.confidence or 0.0, is_passing=True)[worse_end]
        better = self._bounds(rule.failing_confidence(together), is_passing=False)[better_end]
        lower, upper = (better, worse) if rule.lower_is_better else (worse, better)
        verdict = replace(self.verdict, lower=lower, upper=upper, together=together)
        if worse is not None and rule.is_kept_by(worse):
            return replace(verdict, outcome="pass")
        if better is not None and not rule.is_kept_by(better):
            return replace(verdict, outcome="fail")
        is_loss = better is not None and rule.improvement(better) < -NOISE
        if is_loss or not rule.baseline or self._units.n_units[0] < 2:
            return verdict
        needed, decidable = self._way_out(rule)
        return replace(verdict, needed=needed, decidable=decidable)

    def _way_out(self, rule: Rule) -> tuple[int | None, float | None]:
        """Return how many questions, or which tolerance, would pass an unchanged system.

        None where no larger number would, or the tolerance is more than anybody would allow.
        """
        aim, n = to_be_kept(rule.confidence or 0.0), float(self._units.n[0])
        (changes,) = Changes.seen(self._units, np.array([self._widest]))
        needed, decidable = changes.questions(aim, rule.tolerance), changes.distance(aim, n)
        is_more = needed is not None and needed > n
        is_tolerable = decidable is not None and decidable <= _TOLERABLE * self._widest
        return needed if is_more else None, decidable if is_tolerable else None


def decide(measured: Sequence[Measured]) -> list[Verdict]:
    """Return the verdict of each rule; those that failed no longer count for the others."""
    verdicts = [numbers.verdict for numbers in measured]
    tests = {
        n: measured[n] for n, verdict in enumerate(verdicts) if verdict.outcome == "inconclusive"
    }
    while tests:
        together = len({numbers.test for numbers in tests.values()})
        decided = {n: numbers.decided(together) for n, numbers in tests.items()}
        failed = [n for n, verdict in decided.items() if verdict.outcome == "fail"]
        for position in failed or list(tests):
            verdicts[position] = decided[position]
            del tests[position]
    return verdicts


def measure(rule: Rule, now: Scores, previous: Scores | None, clusters: str | None) -> Measured:
    """Measure a rule; against the baseline, on the questions that have a value in both."""
    counts = asdict(now.counts)
    if rule.metric in counts and rule.metric not in now:
        n, nothing = now.counts.queries, Paired((), (), {rule.metric: np.empty((0, 1))})
        verdict = Verdict(rule, rule.metric, counts[rule.metric], n, n)
        return Measured(_observed(verdict), nothing)
    metric = name_among(rule.metric, now.metric_names)
    sides = {_NOW: now}
    if rule.baseline and previous is not None:
        sides = {_BEFORE: previous, _NOW: now}
    paired = pair(sides, next(iter(sides)), metrics=[metric], clusters=clusters)
    query_ids, scores = paired.scored(metric)
    expected = min(_expected(side, metric) for side in sides.values())
    verdict = Verdict(rule, metric, exact_mean(scores[:, -1]), len(scores), expected)
    if _BEFORE in sides:
        differences = paired.values(_NOW, metric, _BEFORE)
        differences = differences[~np.isnan(differences)]
        verdict = replace(
            verdict,
            baseline=exact_mean(scores[:, 0]),
            difference=exact_mean(differences),
            identical=not differences.any() and _is_same_run(query_ids, sides),
        )
    is_certain = rule.confidence is None or verdict.identical or not verdict.is_covered
    return Measured(_observed(verdict) if is_certain else verdict, paired)


def _observed(verdict: Verdict) -> Verdict:
    """Return the verdict by what was observed; a rule fails where too few have a value."""
    rule = verdict.rule
    if verdict.identical and rule.confidence is not None:
        verdict = replace(verdict, lower=0.0, upper=0.0)
    observed = verdict.value if verdict.difference is None else verdict.difference
    is_kept = verdict.is_covered and rule.is_kept_by(observed)
    return replace(verdict, outcome="pass" if is_kept else "fail")


def _is_same_run(query_ids: Sequence[str], sides: dict[str, Scores]) -> bool:
    """Return whether the rankings of these questions are known to be identical."""
    previous, current = (scores.rankings for scores in sides.values())
    return all(current.get(name) and current[name] == previous.get(name) for name in query_ids)


def _expected(scores: Scores, metric: str) -> int:
    """Return how many questions should have a value, the failed ones included."""
    if is_of_unanswerable(metric):
        return len(scores.unanswerable)
    needless = {query_id for query_id, reason in scores.excluded.items() if reason != "failed"}
    if not needless.isdisjoint(scores.by_query(metric)):
        needless = set()  # a metric that needs no labels
    return len({*scores.query_ids, *scores.excluded} - needless)
