"""Verdict: whether a rule is kept, the numbers that decide it, and a sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from llama_index_rag_metrics.report.model import QueryAnswers
from llama_index_rag_metrics.report.numbers import (
    count,
    digits_of,
    percent,
    questions,
    rounded_up,
    score,
    signed,
    two_digits_up,
)
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.statistics.resampling import NOISE

from .rules import Rule

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

_MIN_COVERAGE = 0.95  # with fewer values than this share of the questions, a rule fails

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
_OPEN = {
    "nothing": " Too few to tell.",
    "questions": " Too few to tell: use about {needed}.",
    "loss": " Too few to tell: allow a loss of {decidable}.",
    "either": " Too few to tell: use about {needed}, or allow a loss of {decidable}.",
}


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Sentence):
    """The verdict on one rule.

    Attributes:
        value: the mean now, over the questions compared, or the count.
        n: how many questions have a value, on both sides, of the `expected` ones.
        baseline, difference: the mean of before over the same questions, and now minus before.
        identical: whether all rankings are those of the baseline, so that no bound is needed.
        lower, upper: one-sided bounds of the difference, or without a baseline of the mean; None
            where they aren't used. The one that lets a rule pass has the rule's confidence, the one
            that lets it fail that of `together` rules.
        needed, decidable: how many questions like these would pass an unchanged system 80 % of the
            time, and the smallest tolerance with which these questions would.
        worst: the questions that count most against a rule that isn't kept.
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

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"

    @property
    def is_covered(self) -> bool:
        """Whether enough questions have a value."""
        return self.n > 0 and self.n / self.expected >= _MIN_COVERAGE - NOISE

    @property
    def sentence(self) -> str:
        """What was found, what the rule wants, and where it is undecided, what would decide."""
        rule = self.rule
        fields = {
            "metric": self.metric,
            "value": self._score(self.value),
            "before": self._score(self.baseline or 0.0),
            "difference": signed(self.difference or 0.0, rule.value, digits_of(self.n)),
            "bound": self._bound,
            "wanted": f"at {'most' if rule.lower_is_better else 'least'} {rule.limit}",
            "questions": questions(self.n),
            "n": f"{self.n:,}",
            "expected": questions(self.expected),
            "needed": two_digits_up(self.needed or 0),
            "decidable": rounded_up(self.decidable or 0.0, 2),
        }
        template = _FINDINGS[self._finding]
        if self.outcome == "inconclusive":
            template += _OPEN[self._way_out]
        return template.format(**fields)

    @property
    def _finding(self) -> str:
        if not self.is_covered:
            return "uncovered"
        if self.difference is None:
            return "limit"
        return "identical" if self.identical else "baseline"

    @property
    def _way_out(self) -> str:
        is_larger = self.decidable is not None and self.decidable > self.rule.tolerance >= 0
        if self.needed is not None:
            return "either" if is_larger else "questions"
        return "loss" if is_larger else "nothing"

    def _score(self, value: float | int) -> str:
        """Return a count in full, or a score in the digits that n carries, told from a limit."""
        if isinstance(value, int):
            return count(value)
        return score(value, None if self.rule.baseline else self.rule.value, digits_of(self.n))

    @property
    def _bound(self) -> str:
        """Return how bad it may be; of a rule that fails, how good."""
        rule, is_fail = self.rule, self.outcome == "fail"
        bound = self.upper if is_fail != rule.lower_is_better else self.lower
        if rule.confidence is None or bound is None:
            return ""
        text = self._score(bound)
        if rule.baseline:
            text = signed(bound, rule.value, digits_of(self.n))
        confidence = rule.failing_confidence(self.together if is_fail else 1)
        kind = "best" if is_fail else "worst"
        return _BOUND.format(kind=kind, bound=text, confidence=percent(confidence))
