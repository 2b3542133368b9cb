"""Verdict: a rule measured and decided, and a sentence that says so.

Whether it is safe to pass is decided by the interval with two pseudo-queries that `compare` has, R
counted twice: where few questions changed, those that change next may lose as much. Whether it is
safe to fail, by t, which errs towards no verdict where few questions lose; where all changed alike
it has no spread, and the pseudo-queries decide both. A gate fails where any of m rules fails, so
each fails with confidence 1 - (1 - c) / m, step by step (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.metrics.metric_names import limits_of
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.model import QueryAnswers
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.containers import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.statistics.differences import (
    CAUTIOUS,
    Changes,
    pseudo_queries,
    student,
    to_be_kept,
    unvaried,
)
from llama_index_rag_metrics.statistics.intervals import exact_mean, mean_interval
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

from .rules import EXAMPLES, Rule

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

_MIN_COVERAGE = 0.95  # with fewer values than this share of the questions, a rule fails
_TOLERABLE = 0.25  # a larger loss, as a share of R, isn't proposed as a tolerance
_NOW, _BEFORE = "now", "baseline"

_FINDINGS = {
    "uncovered": "{metric} can't be judged: {n} of {expected} with a value.",
    "limit": "{metric} is {value}{bound}, and must be {wanted} ({questions}).",
    "baseline": (
        "{metric} is {value} against {before} in the baseline, a difference of {difference}"
        "{bound}, and must be {wanted} ({questions})."
    ),
    "identical": (
        "{metric} is {value} as in the baseline, and must be {wanted}: the rankings of all "
        "{questions} are identical."
    ),
}
_BOUND = " (at {kind} {bound} with {confidence} confidence)"
_WANTED = {">=": "at least {limit}", "<=": "at most {limit}"}
# whether more questions would decide, and whether a larger tolerance would
_OPEN = {
    (False, False): " Too few to tell: use more questions.",
    (True, False): " Too few to tell: use about {needed}.",
    (False, True): " Too few to tell: allow a loss of {decidable}.",
    (True, True): " Too few to tell: use about {needed}, or allow a loss of {decidable}.",
}
_WORSE = " It is worse than the baseline, but more questions would tell whether by too much."


@dataclass(frozen=True, repr=False)
class Verdict(Sentence):
    """The verdict on one rule.

    Attributes:
        value: the mean now, over the questions compared, or the count.
        n: how many questions have a value, on both sides, of the `expected` ones.
        identical: whether all rankings are those of the baseline, so that no bound is needed.
        lower, upper: one-sided bounds of the difference, or without a baseline of the mean; None
            where they aren't used. The one that lets a rule pass has the rule's confidence, the one
            that lets it fail that of `together` rules.
        needed, decidable: how many questions like these would pass an unchanged system 80 % of the
            time, and the smallest tolerance with which these questions would.
    """

    rule: Rule
    metric: str
    value: float | int
    n: int = 0
    expected: int = 0
    baseline: float | None = None
    difference: float | None = None
    identical: bool = False
    outcome: Outcome = "inconclusive"
    lower: float | None = None
    upper: float | None = None
    together: int = 1
    needed: int | None = None
    decidable: float | None = None
    worst: tuple[QueryAnswers, ...] = field(default=(), compare=False)
    paired: Paired = field(default=Paired((), (), {}), compare=False)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"

    @property
    def is_covered(self) -> bool:
        """Whether enough questions have a value."""
        return self.n > 0 and self.n / self.expected >= _MIN_COVERAGE - NOISE

    @property
    def digits(self) -> int:
        digits = numbers.digits_of(self.n)
        if self.baseline is None:
            return digits
        return numbers.digits_agreeing(self.value, self.baseline, digits)

    @property
    def leeway(self) -> float:
        """How far within the limit it is, by the bound that lets it pass, or as observed."""
        rule, observed = self.rule, self.value if self.difference is None else self.difference
        bound = self.upper if rule.lower_is_better else self.lower
        return rule.improvement((observed if bound is None else bound) - rule.value)

    @property
    def sentence(self) -> str:
        """What was found, what the rule wants, and where it is undecided, what would decide."""
        rule, finding = self.rule, "limit"
        if not self.is_covered:
            finding = "uncovered"
        elif self.identical:
            finding = "identical"
        elif rule.baseline:
            finding = "baseline"
        template, decidable = _FINDINGS[finding], self.decidable or 0.0
        if self.outcome == "inconclusive":
            better = self.lower if rule.lower_is_better else self.upper
            advice = _OPEN[self.needed is not None, 0 <= rule.tolerance < decidable]
            if rule.baseline and better is not None and rule.improvement(better) < -NOISE:
                advice = _WORSE
            template += advice
        return template.format(
            metric=self.metric,
            value=self._number(self.value),
            before=self._number(self.baseline or 0.0),
            difference=self._number(self.difference or 0.0, is_signed=True),
            bound=self._bound,
            wanted=_WANTED[rule.sign].format(limit=rule.limit),
            questions=numbers.questions(self.n),
            n=f"{self.n:,}",
            expected=numbers.questions(self.expected),
            needed=numbers.two_digits_up(self.needed or 0),
            decidable=numbers.rounded_up(decidable, 2),
        )

    def _number(self, value: float | int, *, is_signed: bool = False) -> str:
        limit = self.rule.value
        if isinstance(value, int):
            return numbers.count(value)
        if is_signed:
            return numbers.signed(value, limit, self.digits)
        return numbers.score(value, None if self.rule.baseline else limit, self.digits)

    @property
    def _bound(self) -> str:
        rule, kind, together, is_upper = self.rule, "worst", 1, self.rule.lower_is_better
        if self.outcome == "fail":
            kind, together, is_upper = "best", self.together, not is_upper
        bound = self.upper if is_upper else self.lower
        if rule.confidence is None or bound is None:
            return ""
        text = self._number(bound, is_signed=rule.baseline)
        confidence = numbers.percent(rule.failing_confidence(together))
        return _BOUND.format(kind=kind, bound=text, confidence=confidence)

    @property
    def values(self) -> FloatArray:
        """(questions,) the scores, or now minus before; NaN where there is none."""
        return self.paired.values(_NOW, self.metric, _BEFORE if self.rule.baseline else None)


def measure(rule: Rule, now: Scores, previous: Scores | None) -> Verdict:
    """Measure a rule on questions with a value in both; it fails where too few have one."""
    metric = rule.metric
    if metric not in now:
        return _counted(rule, now)
    sides = {_NOW: now}
    if rule.baseline and previous is not None:
        if metric not in previous:
            names = join_first(list(previous.metric_names), 10)
            raise InvalidInput("rule", str(rule), f"a metric that the baseline has: {names}")
        sides = {_BEFORE: previous, _NOW: now}
    paired = pair(sides, [metric])
    if rule.tolerance >= paired.span(metric):
        expected = f"a limit that can be broken: scores are {paired.span(metric):g} apart at most"
        raise InvalidInput("rule", str(rule), expected, EXAMPLES)
    query_ids, scores = paired.scored(metric)
    n_due = min(len(side.due(metric)) for side in sides.values())
    verdict = Verdict(rule, metric, exact_mean(scores[:, -1]), len(scores), n_due, paired=paired)
    if _BEFORE in sides:
        differences = verdict.values[~np.isnan(verdict.values)]
        verdict = replace(
            verdict,
            baseline=exact_mean(scores[:, 0]),
            difference=exact_mean(differences),
            identical=bool(query_ids) and not differences.any() and _is_same_run(query_ids, sides),
        )
    if rule.confidence is None or verdict.identical or not verdict.is_covered:
        return _observed(verdict)
    return verdict


def _counted(rule: Rule, now: Scores) -> Verdict:
    counts, n = asdict(now.counts), now.counts.queries
    if rule.metric not in counts:
        names = join_first(list(now.metric_names), 10)
        accepted = f"a metric that was scored: {names}, or a count: {', '.join(counts)}"
        raise InvalidInput("metric", rule.metric, accepted)
    if rule.baseline:
        raise InvalidInput("rule", str(rule), f"a number for {rule.metric}, which is a count")
    return _observed(Verdict(rule, rule.metric, counts[rule.metric], n, n))


def _observed(verdict: Verdict) -> Verdict:
    if verdict.identical and verdict.rule.confidence is not None:
        verdict = replace(verdict, lower=0.0, upper=0.0)
    observed = verdict.value if verdict.difference is None else verdict.difference
    if verdict.is_covered and verdict.rule.is_kept_by(observed):
        return replace(verdict, outcome="pass")
    return replace(verdict, outcome="fail")


def _is_same_run(query_ids: Sequence[str], sides: Mapping[str, Scores]) -> bool:
    previous, now = sides.values()
    pairs = ((now.rankings(query_id), previous.rankings(query_id)) for query_id in query_ids)
    return all(rankings and rankings == rankings_before for rankings, rankings_before in pairs)


def decide(measured: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts, decided by bounds; those that failed no longer count for the others."""
    verdicts = list(measured)
    tests = {n: verdict for n, verdict in enumerate(verdicts) if verdict.outcome == "inconclusive"}
    while tests:
        # the same numbers of two metrics are one test
        keys = {(test.values.tobytes(), replace(test.rule, metric="")) for test in tests.values()}
        decided = {n: _decided(test, len(keys)) for n, test in tests.items()}
        failed = [n for n, verdict in decided.items() if verdict.outcome == "fail"]
        for position in failed or list(tests):
            verdicts[position] = decided[position]
            del tests[position]
    return verdicts


def _decided(verdict: Verdict, together: int) -> Verdict:
    rule, units = verdict.rule, Units.of(verdict.values.reshape(-1, 1), verdict.paired.clusters)
    confidences = rule.confidence or 0.0, rule.failing_confidence(together)
    low, high, low_to_fail, high_to_fail = _bounds(verdict, units, *confidences)
    lower, upper = low, high_to_fail
    worse, better = lower, upper
    if rule.lower_is_better:
        lower, upper = low_to_fail, high
        worse, better = upper, lower
    verdict = replace(verdict, lower=lower, upper=upper, together=together)
    if worse is not None and rule.is_kept_by(worse):
        return replace(verdict, outcome="pass")
    if better is not None and not rule.is_kept_by(better):
        return replace(verdict, outcome="fail")
    if not rule.baseline or better is None or rule.improvement(better) < -NOISE:
        return verdict
    return _with_outlook(verdict, units)


def _with_outlook(verdict: Verdict, units: Units) -> Verdict:
    rule, n = verdict.rule, float(units.n[0])
    aim = to_be_kept(rule.confidence or 0.0)
    widest = verdict.paired.widest([(_NOW, verdict.metric, _BEFORE)])
    (changes,) = Changes.seen(units, widest)
    needed, decidable = changes.questions(aim, rule.tolerance), changes.distance(aim, n)
    if needed is not None and needed <= n:
        needed = None
    if decidable is not None and decidable > _TOLERABLE * widest[0]:
        decidable = None
    return replace(verdict, needed=needed, decidable=decidable)


def _bounds(verdict: Verdict, units: Units, passing: float, failing: float) -> list[float | None]:
    """Return what the true mean is above and below, to pass and to fail with these confidences."""
    metric, paired = verdict.metric, verdict.paired
    if not verdict.rule.baseline:
        scores, clusters, ends = verdict.values, paired.clusters, list[float | None]()
        # the ends of a two-sided interval of 90 % are one-sided bounds of 95 %
        for two_sided in (2 * passing - 1, 2 * failing - 1):
            limits = limits_of(metric)
            mean = mean_interval(scores, confidence=two_sided, limits=limits, clusters=clusters)
            ends += mean.low, mean.high
        return ends
    if units.n_units[0] < 2:
        return [None] * 4
    keys = [(_NOW, metric, _BEFORE)]
    assumed = pseudo_queries(units, paired.widest(keys), counted=CAUTIOUS)
    plain = assumed
    if not unvaried(units)[0]:
        plain = student(units)
    possible = paired.possible(keys, passing)[0]
    bounds = np.concatenate([*assumed.bounds(passing), *plain.bounds(failing)])
    return list(np.clip(bounds, *possible).tolist())
