"""Verdict: whether a rule is kept, the numbers that decide it, and a sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.report.model import QueryAnswers
from llama_index_rag_metrics.report.numbers import (
    count,
    digits_of,
    given,
    percent,
    questions,
    rounded_up,
    score,
    two_digits_up,
)
from llama_index_rag_metrics.report.query_lines import retrieved_lines, wanted_lines
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.statistics.resampling import NOISE

from .rules import Rule

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

MOST_ITEMS = 3
"""How many retrieved passages of a worst question are shown."""

_MOST_QUESTIONS = 100_000
"""No larger number is named."""

_FINDINGS = {
    "nothing": "{metric} can't be judged: {why}.",
    "count": "{metric} is {value}, must be {wanted}.",
    "limit": "{metric} is {value}{bound}, must be {wanted} ({questions}).",
    "identical": (
        "{metric} is {value} as in the baseline: the rankings of all {questions} are identical."
    ),
    "identical, required more": (
        "{metric} is {value} as in the baseline: the rankings of all {questions} are identical; "
        "{wanted}."
    ),
    "baseline": (
        "{metric} is {value} against {before} in the baseline, {change}{bound}; {wanted} "
        "({questions})."
    ),
}
_WANTED = {
    "at least": "at least {limit}",
    "at most": "at most {limit}",
    "gain": "a {gain} of at least {size} is required",
    "no loss": "no {loss} is allowed",
    "some loss": "a {loss} of up to {size} is allowed",
}
_BOUNDS = {
    "at least": " (at least {bound} with {confidence} confidence)",
    "at most": " (at most {bound} with {confidence} confidence)",
    "at best": " (at best {bound} with {confidence} confidence)",
    "at worst": " (at worst {bound} with {confidence} confidence)",
}
_ENDS = {False: "at least", True: "at most"}
_OPEN = {
    "limit": "{questions} can't tell.",
    "loss is clear": (
        "The {loss} is clear; whether it is more than {size}, {questions} can't tell."
    ),
    "gain": "A {gain} of at least {size} isn't shown with {questions}.",
    "any loss": "A {loss} can't be ruled out with {questions}.",
    "loss": "A {loss} of more than {size} can't be ruled out with {questions}.",
}
_WAYS_OUT = {
    "questions": "Use {needed}.",
    "questions or tolerance": "Use {needed}, or allow {decidable}.",
    "tolerance": "No number of questions rules out every {loss}: allow {decidable}.",
}
_MISSING = {
    "runs": "Too few of their runs have a value, whatever the numbers say.",
    "few": "Only {n} of {expected} have {value}.",
    "too few": (
        "Only {n} of {expected} have {value}: too few to judge by, whatever the numbers say."
    ),
}


def change_nouns(*, lower_is_better: bool) -> tuple[str, str]:
    """What a change for the better is called, and one for the worse."""
    if lower_is_better:
        return "fall", "rise"
    return "gain", "loss"


class WorstQuestion(NamedTuple):
    """A question that counts against a rule, with its score now and in the baseline."""

    query_id: str
    score: float
    baseline: float | None
    story: QueryAnswers

    def record(self) -> dict[str, Any]:
        """The question for JSON: what was asked and wanted, and what came."""
        wanted = [str(line) for line in wanted_lines(self.story, names={})]
        retrieved: list[str] = []
        errors: list[str] = []
        for answer in self.story.answers:
            retrieved += retrieved_lines(self.story, answer, MOST_ITEMS, {})
            if answer.error:
                errors.append(answer.error)
        return {
            "query_id": self.query_id,
            "question": self.story.text,
            "score": self.score,
            "baseline": self.baseline,
            "wanted": wanted,
            "retrieved": retrieved,
            "error": "; ".join(errors),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Sentence):
    """The verdict on one rule.

    Attributes:
        value: the mean now, over the queries compared, or the count.
        baseline: the mean of the baseline over the same queries; None without one.
        difference: the mean paired difference, now minus baseline; None without a baseline.
        lower: one-sided lower bound of the difference, or of the mean if there is no baseline; None
            where it isn't used or can't be given.
        upper: the other one-sided bound. The one that lets a rule pass has the rule's confidence,
            the one that lets it fail that of `together` rules.
        n: how many queries have a value, on both sides, of the `expected` ones.
        covered: whether enough queries have a value.
        together: how many rules, each counted once, it is corrected for.
        identical: whether all rankings are those of the baseline, so that no bound is needed.
        needed: how many queries like these would show with power 0.8 that nothing is lost, if
            nothing truly changed; None where the verdict is clear, or no number would.
        decidable: the smallest loss that this many queries rule out with power 0.8, if nothing
            truly changed; None where the verdict is clear, or that loss intolerable.
        worst: the questions that count most against a rule that isn't kept.
    """

    rule: Rule
    metric: str
    outcome: Outcome
    value: float | int
    baseline: float | None = None
    difference: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int = 0
    expected: int = 0
    covered: bool = True
    together: int = 1
    identical: bool = False
    needed: int | None = None
    decidable: float | None = None
    worst: tuple[WorstQuestion, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """What was found, what the rule wants, and where it is undecided, what would decide."""
        parts = [self._finding]
        if self.outcome == "inconclusive":
            parts += self._way_out()
        if self.n and (self.n < self.expected or not self.covered):
            parts.append(self._missing)
        return " ".join(parts)

    @property
    def confidence(self) -> float:
        """The confidence of the deciding bound: corrected for `together` rules where it fails."""
        if self.outcome == "fail":
            return corrected_confidence(self.rule, self.together)
        return corrected_confidence(self.rule, 1)

    @property
    def _kind(self) -> str:
        """Which of the findings it is."""
        if not self.n:
            return "nothing"
        if isinstance(self.value, int):
            return "count"
        if not self.rule.baseline:
            return "limit"
        if not self.identical or self.rule.confidence is None:
            return "baseline"
        if self.outcome == "pass":
            return "identical"
        return "identical, required more"

    @property
    def _finding(self) -> str:
        return _FINDINGS[self._kind].format(
            metric=self.metric,
            value=self._number(self.value),
            before=self._number(self.baseline or 0.0),
            change=self._change(self.difference or 0.0),
            bound=self._bound,
            wanted=self._wanted,
            questions=questions(self.n),
            why=self._why_nothing,
        )

    @property
    def _why_nothing(self) -> str:
        if not self.expected:
            return "there are no questions"
        return f"none of {questions(self.expected)} has {self._value_in_words}"

    @property
    def _value_in_words(self) -> str:
        if self.rule.baseline:
            return "a value both now and in the baseline"
        return "a value"

    def _number(self, value: float | int) -> str:
        """A count in full, or a score in the digits that n carries, told apart from a limit."""
        if isinstance(value, int):
            return count(value)
        if self.rule.baseline:
            return score(value, digits=digits_of(self.n))
        return score(value, self.rule.value, digits_of(self.n))

    def _size(self, difference: float) -> str:
        """How large a change is, told apart from none and from what is tolerated."""
        limits = (0.0, abs(self.rule.tolerance))
        texts = [score(abs(difference), limit, digits_of(self.n)) for limit in limits]
        return max(texts, key=len)

    def _noun(self, difference: float) -> str:
        """Whether a change is a gain or a loss; "" for none."""
        gain, loss = change_nouns(lower_is_better=self.rule.lower_is_better)
        if abs(difference) <= NOISE:
            return ""
        if self.rule.improvement(difference) > 0:
            return gain
        return loss

    def _change(self, difference: float) -> str:
        noun = self._noun(difference)
        if not noun:
            return "no change"
        return f"a {noun} of {self._size(difference)}"

    @property
    def _wanted(self) -> str:
        """What a rule asks for, after "must be" where it has no baseline."""
        rule = self.rule
        gain, loss = change_nouns(lower_is_better=rule.lower_is_better)
        kind = "at least"
        if rule.baseline and rule.tolerance < 0:
            kind = "gain"
        elif rule.baseline and rule.tolerance:
            kind = "some loss"
        elif rule.baseline:
            kind = "no loss"
        elif rule.lower_is_better:
            kind = "at most"
        size = given(abs(rule.tolerance))
        return _WANTED[kind].format(limit=rule.limit, gain=gain, loss=loss, size=size)

    @property
    def _bound(self) -> str:
        """How bad it may be; of a rule that fails, how good."""
        rule, is_fail = self.rule, self.outcome == "fail"
        is_upper = is_fail != rule.lower_is_better
        bound = self.lower
        if is_upper:
            bound = self.upper
        if rule.confidence is None or not self.covered or bound is None:
            return ""
        kind, text = self._bound_of_difference(bound)
        if not rule.baseline:
            text = self._number(bound)
            kind = _ENDS[is_upper]
        return _BOUNDS[kind].format(bound=text, confidence=percent(self.confidence))

    def _bound_of_difference(self, bound: float) -> tuple[str, str]:
        """Which of the bounds it is, and its size; with a noun unless it is that of the change."""
        is_fail = self.outcome == "fail"
        noun = self._noun(bound)
        if noun and noun == self._noun(self.difference or 0.0):
            is_loss = self.rule.improvement(bound) < 0
            return _ENDS[is_loss != is_fail], self._size(bound)
        if is_fail:
            return "at best", self._change(bound)
        return "at worst", self._change(bound)

    def _way_out(self) -> list[str]:
        """What can't be told, and what would tell it."""
        rule = self.rule
        gain, loss = change_nouns(lower_is_better=rule.lower_is_better)
        best = self.upper
        if rule.lower_is_better:
            best = self.lower
        kind = "loss"
        if not rule.baseline:
            kind = "limit"
        elif rule.tolerance < 0:
            kind = "gain"
        elif not rule.tolerance:
            kind = "any loss"
        elif rule.improvement(best or 0.0) < 0:
            kind = "loss is clear"
        text = _OPEN[kind].format(
            gain=gain, loss=loss, size=given(abs(rule.tolerance)), questions=questions(self.n)
        )
        if kind in ("limit", "loss is clear"):
            return [text]
        return [text, *self._what_would_decide(loss)]

    def _what_would_decide(self, loss: str) -> list[str]:
        needed, decidable = _about(self.needed or 0), rounded_up(self.decidable or 0.0, 2)
        if self.needed is not None and self.decidable is not None:
            kind = "questions or tolerance"
        elif self.needed is not None:
            kind = "questions"
        elif self.decidable is not None and not self.rule.tolerance:
            kind = "tolerance"
        else:
            return []
        return [_WAYS_OUT[kind].format(needed=needed, decidable=decidable, loss=loss)]

    @property
    def _missing(self) -> str:
        """How many questions have no value."""
        kind = "too few"
        if self.n >= self.expected:
            kind = "runs"
        elif self.covered:
            kind = "few"
        return _MISSING[kind].format(
            n=f"{self.n:,}", expected=questions(self.expected), value=self._value_in_words
        )


def corrected_confidence(rule: Rule, together: int) -> float:
    """The confidence at which one of this many rules fails."""
    return 1 - (1 - (rule.confidence or 0.0)) / together


def _about(needed: int) -> str:
    """A number of questions, such as "about 410"."""
    if needed > _MOST_QUESTIONS:
        return f"more than {_MOST_QUESTIONS:,}"
    return f"about {two_digits_up(needed)}"
