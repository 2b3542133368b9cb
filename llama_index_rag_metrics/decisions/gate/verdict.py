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
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.statistics.resampling import NOISE

from .rules import Rule

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

MOST_ITEMS = 3
"""How many retrieved passages of a worst question are shown."""

_FINDINGS = {
    "nothing": "{metric} can't be judged: {none}.",
    "count": "{metric} is {value}, must be {wanted}.",
    "limit": "{metric} is {value}{bound}, must be {wanted} ({questions}).",
    "identical": (
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
_BOUND = " ({kind} {bound} with {confidence} confidence)"
_ENDS = ("at least", "at most")
_OPEN = {
    **dict.fromkeys(_ENDS, "{questions} can't tell."),
    "loss is clear": "The {loss} is clear; whether it is more than {size}, {questions} can't tell.",
    "gain": "A {gain} of at least {size} isn't shown with {questions}.",
    "no loss": "A {loss} can't be ruled out with {questions}.",
    "some loss": "A {loss} of more than {size} can't be ruled out with {questions}.",
}
_WAYS_OUT = {
    "": "",
    "questions": "Use about {needed}.",
    "questions or tolerance": "Use about {needed}, or allow {decidable}.",
    "tolerance": "No number of questions rules out every {loss}: allow {decidable}.",
}
_MISSING = {
    "": "",
    "few": "Only {n} of {expected} have {a_value}.",
    "too few": (
        "Only {n} of {expected} have {a_value}: too few to judge by, whatever the numbers say."
    ),
    "runs": "Too few of their runs have a value, whatever the numbers say.",
}


class WorstQuestion(NamedTuple):
    """A question that counts against a rule, with its score now and in the baseline."""

    query_id: str
    score: float
    baseline: float | None
    story: QueryAnswers

    def record(self) -> dict[str, Any]:
        """Return the question for JSON: what was asked and wanted, and what came."""
        retrieved: list[str] = []
        for answer in self.story.answers:
            retrieved += map(str, (answer.retrieved or ())[:MOST_ITEMS])
        errors = [answer.error for answer in self.story.answers if answer.error]
        return {
            "query_id": self.query_id,
            "question": self.story.text,
            "score": self.score,
            "baseline": self.baseline,
            "wanted": list(map(str, self.story.wanted)),
            "retrieved": retrieved,
            "error": "; ".join(errors),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Sentence):
    """The verdict on one rule.

    Attributes:
        value: the mean now, over the queries compared, or the count.
        baseline, difference: the mean of before over the same queries, and now minus before.
        lower, upper: one-sided bounds of the difference, or without a baseline of the mean; None
            where they aren't used. The one that lets a rule pass has the rule's confidence, the one
            that lets it fail that of `together` rules.
        n: how many queries have a value, on both sides, of the `expected` ones; whether these are
            enough is `covered`.
        identical: whether all rankings are those of the baseline, so that no bound is needed.
        needed, decidable: how many queries like these would pass an unchanged system 80 % of the
            time, and the smallest tolerance with which these queries would.
        worst: the questions that count most against a rule that isn't kept.
    """

    rule: Rule
    metric: str
    value: float | int
    baseline: float | None = None
    difference: float | None = None
    outcome: Outcome = "inconclusive"
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
    def confidence(self) -> float:
        """The confidence of the deciding bound: corrected for `together` rules where it fails."""
        return corrected_confidence(self.rule, self.together if self.outcome == "fail" else 1)

    @property
    def sentence(self) -> str:
        """What was found, what the rule wants, and where it is undecided, what would decide."""
        rule, a_value = self.rule, "a value"
        gain, loss = self._nouns
        if rule.baseline:
            a_value = "a value both now and in the baseline"
        fields = {
            "metric": self.metric,
            "value": self._number(self.value),
            "before": self._number(self.baseline or 0.0),
            "change": self._change(self.difference or 0.0),
            "bound": self._bound,
            "questions": questions(self.n),
            "limit": given(rule.value),
            "size": given(abs(rule.tolerance)),
            "gain": gain,
            "loss": loss,
            "needed": two_digits_up(self.needed or 0),
            "decidable": rounded_up(self.decidable or 0.0, 2),
            "n": f"{self.n:,}",
            "expected": questions(self.expected),
            "a_value": a_value,
            "none": f"none of {questions(self.expected)} has {a_value}",
        }
        if not self.expected:
            fields["none"] = "there are no questions"
        fields["wanted"] = _WANTED[self._wanted].format(**fields)
        parts = [_FINDINGS[self._finding]]
        if self.outcome == "inconclusive":
            parts += [_OPEN[self._open], _WAYS_OUT[self._way_out]]
        if self.n:
            parts.append(_MISSING[self._missing])
        return " ".join(filter(None, parts)).format(**fields)

    @property
    def _finding(self) -> str:
        if not self.n:
            return "nothing"
        if isinstance(self.value, int):
            return "count"
        if not self.rule.baseline:
            return "limit"
        if self.identical and self.rule.confidence is not None:
            return "identical"
        return "baseline"

    @property
    def _wanted(self) -> str:
        rule = self.rule
        if not rule.baseline:
            return _ENDS[rule.lower_is_better]
        if rule.tolerance < 0:
            return "gain"
        if rule.tolerance:
            return "some loss"
        return "no loss"

    @property
    def _open(self) -> str:
        best = self.lower if self.rule.lower_is_better else self.upper
        if self._wanted == "some loss" and self.rule.improvement(best or 0.0) < 0:
            return "loss is clear"
        return self._wanted

    @property
    def _way_out(self) -> str:
        if self.needed is not None:
            return "questions" if self.decidable is None else "questions or tolerance"
        if self.decidable is not None and not self.rule.tolerance:
            return "tolerance"
        return ""

    @property
    def _missing(self) -> str:
        if self.n < self.expected:
            return "few" if self.covered else "too few"
        return "" if self.covered else "runs"

    def _number(self, value: float | int) -> str:
        """Return a count in full, or a score in the digits that n carries, told from a limit."""
        if isinstance(value, int):
            return count(value)
        return score(value, None if self.rule.baseline else self.rule.value, digits_of(self.n))

    def _size(self, difference: float) -> str:
        """Return how large a change is, told apart from none and from what is tolerated."""
        limits = (0.0, abs(self.rule.tolerance))
        texts = [score(abs(difference), limit, digits_of(self.n)) for limit in limits]
        return max(texts, key=len)

    @property
    def _nouns(self) -> tuple[str, str]:
        return ("fall", "rise") if self.rule.lower_is_better else ("gain", "loss")

    def _noun(self, difference: float) -> str:
        if abs(difference) <= NOISE:
            return ""
        return self._nouns[self.rule.improvement(difference) < 0]

    def _change(self, difference: float) -> str:
        noun = self._noun(difference)
        return f"a {noun} of {self._size(difference)}" if noun else "no change"

    @property
    def _bound(self) -> str:
        """Return how bad it may be; of a rule that fails, how good."""
        rule, is_fail = self.rule, self.outcome == "fail"
        is_upper = is_fail != rule.lower_is_better
        bound = self.upper if is_upper else self.lower
        if rule.confidence is None or not self.covered or bound is None:
            return ""
        noun = self._noun(bound)
        kind, text = ("at worst", "at best")[is_fail], self._change(bound)
        if not rule.baseline:
            kind, text = _ENDS[is_upper], self._number(bound)
        elif noun and noun == self._noun(self.difference or 0.0):
            is_loss = rule.improvement(bound) < 0
            kind, text = _ENDS[is_loss != is_fail], self._size(bound)
        return _BOUND.format(kind=kind, bound=text, confidence=percent(self.confidence))


def corrected_confidence(rule: Rule, together: int) -> float:
    """Return the confidence at which one of this many rules fails."""
    return 1 - (1 - (rule.confidence or 0.0)) / together
