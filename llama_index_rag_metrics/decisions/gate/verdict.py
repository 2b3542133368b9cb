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
    return ("fall", "rise") if lower_is_better else ("gain", "loss")


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
            errors += [answer.error] if answer.error else []
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
        parts = [self._finding, self._way_out, self._missing]
        return " ".join(part for part in parts if part)

    @property
    def confidence(self) -> float:
        """The confidence of the deciding bound: corrected for `together` rules where it fails."""
        together = self.together if self.outcome == "fail" else 1
        return corrected_confidence(self.rule, together)

    @property
    def _finding(self) -> str:
        if not self.n:
            why = f"none of {questions(self.expected)} has {self._value_in_words}"
            if not self.expected:
                why = "there are no questions"
            return _FINDINGS["nothing"].format(metric=self.metric, why=why)
        kind = "baseline" if self.rule.baseline else "limit"
        if isinstance(self.value, int):
            kind = "count"
        elif self.identical and self.rule.confidence is not None:
            kind = "identical" if self.outcome == "pass" else "identical, required more"
        return _FINDINGS[kind].format(
            metric=self.metric,
            value=self._number(self.value),
            before=self._number(self.baseline or 0.0),
            change=self._change(self.difference or 0.0),
            bound=self._bound,
            wanted=self._wanted,
            questions=questions(self.n),
        )

    @property
    def _value_in_words(self) -> str:
        return "a value both now and in the baseline" if self.rule.baseline else "a value"

    def _number(self, value: float | int) -> str:
        """A count in full, or a score in the digits that n carries, told apart from a limit."""
        if isinstance(value, int):
            return count(value)
        return score(value, None if self.rule.baseline else self.rule.value, digits_of(self.n))

    def _size(self, difference: float) -> str:
        """How large a change is, told apart from none and from what is tolerated."""
        limits = (0.0, abs(self.rule.tolerance))
        texts = [score(abs(difference), limit, digits_of(self.n)) for limit in limits]
        return max(texts, key=len)

    def _kind(self, difference: float) -> str:
        """Whether a change is a gain or a loss; "" for none."""
        if abs(difference) <= NOISE:
            return ""
        gain, loss = change_nouns(lower_is_better=self.rule.lower_is_better)
        return gain if self.rule.improvement(difference) > 0 else loss

    def _change(self, difference: float) -> str:
        kind = self._kind(difference)
        return f"a {kind} of {self._size(difference)}" if kind else "no change"

    @property
    def _wanted(self) -> str:
        """What a rule asks for, after "must be" where it has no baseline."""
        rule = self.rule
        gain, loss = change_nouns(lower_is_better=rule.lower_is_better)
        if not rule.baseline:
            kind = "at most" if rule.lower_is_better else "at least"
        elif rule.tolerance < 0:
            kind = "gain"
        else:
            kind = "some loss" if rule.tolerance else "no loss"
        size = given(abs(rule.tolerance))
        return _WANTED[kind].format(limit=rule.limit, gain=gain, loss=loss, size=size)

    @property
    def _bound(self) -> str:
        """How bad it may be; of a rule that fails, how good."""
        rule, is_fail = self.rule, self.outcome == "fail"
        is_upper = is_fail != rule.lower_is_better
        bound = self.upper if is_upper else self.lower
        if rule.confidence is None or not self.covered or bound is None:
            return ""
        confidence = percent(self.confidence)
        if not rule.baseline:
            kind = "at most" if is_upper else "at least"
            return _BOUNDS[kind].format(bound=self._number(bound), confidence=confidence)
        change = self._kind(bound)
        if change and change == self._kind(self.difference or 0.0):
            is_loss = rule.improvement(bound) < 0
            kind = "at most" if is_loss != is_fail else "at least"
            return _BOUNDS[kind].format(bound=self._size(bound), confidence=confidence)
        kind = "at best" if is_fail else "at worst"
        return _BOUNDS[kind].format(bound=self._change(bound), confidence=confidence)

    @property
    def _way_out(self) -> str:
        """What can't be told, and what would tell it."""
        rule = self.rule
        if self.outcome != "inconclusive":
            return ""
        gain, loss = change_nouns(lower_is_better=rule.lower_is_better)
        best = self.lower if rule.lower_is_better else self.upper
        is_lost = rule.improvement(best or 0.0) < 0
        if not rule.baseline:
            kind = "limit"
        elif rule.tolerance < 0:
            kind = "gain"
        elif not rule.tolerance:
            kind = "any loss"
        else:
            kind = "loss is clear" if is_lost else "loss"
        size = given(abs(rule.tolerance))
        n = questions(self.n)
        unsure = _OPEN[kind].format(gain=gain, loss=loss, size=size, questions=n)
        way_out = self._what_would_decide(loss) if kind in ("loss", "any loss", "gain") else ""
        return f"{unsure} {way_out}".rstrip()

    def _what_would_decide(self, loss: str) -> str:
        if self.needed is None and (self.decidable is None or self.rule.tolerance):
            return ""
        kind = "questions" if self.decidable is None else "questions or tolerance"
        if self.needed is None:
            kind = "tolerance"
        return _WAYS_OUT[kind].format(
            needed=_about(self.needed or 0),
            decidable=rounded_up(self.decidable or 0.0, 2),
            loss=loss,
        )

    @property
    def _missing(self) -> str:
        """How many questions have no value."""
        if not self.n or (self.n >= self.expected and self.covered):
            return ""
        kind = "few" if self.covered else "too few"
        if self.n >= self.expected:
            kind = "runs"
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
